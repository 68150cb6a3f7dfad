//! The way through the levels of a hold, as a state machine: what to do next, out of what is seen.
//!
//! It has no clock and no connections. Whoever drives it tells it the time and what is open; it
//! tells when to leave a level, and remembers what happened there.

use crate::clock::{MILLISECOND, Nanos, SECOND};

/// A level is taken as reached where nothing is being opened for so long, although fewer were tried
/// than were missing: connections that came and went while it was asked for.
const NOTHING_OPENING_NS: Nanos = SECOND;

/// Of the dwell, the part at its end in which figures count as settled: one of so many.
const SETTLED_PART: u64 = 3;

/// The levels, and how long each takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Course {
    /// Connections at each, at least one level.
    pub levels: Vec<u64>,
    /// How long each is held once its connections are there.
    pub dwell_ns: Nanos,
    /// How long one connection takes at the most, from its turn to the end of its first request.
    pub patience_ns: Nanos,
    /// From one opening to the next.
    pub open_interval_ns: Nanos,
}

/// What is seen at one moment; counts since the start of the first level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Connections open and ready.
    pub open: u64,
    /// Connections on their way: waiting for their turn, connecting, in a handshake or in their
    /// first request.
    pub opening: u64,
    /// Connections tried.
    pub attempted: u64,
    /// Connections that came to be open.
    pub opened: u64,
    /// Connections that could not be opened.
    pub failed: u64,
    /// Connections that the server closed.
    pub closed_by_server: u64,
}

/// What happened at one level.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stay {
    /// Connections that were wanted.
    pub wanted: u64,
    /// When it was asked for.
    pub began_ns: Nanos,
    /// When the dwell began; `None` where the end came before.
    pub dwelled_ns: Option<Nanos>,
    /// When it was left.
    pub left_ns: Nanos,
    /// What was seen when it was asked for.
    pub before: Seen,
    /// What was seen when it was left.
    pub after: Seen,
    /// Connections that were still on their way when there was no more waiting for them.
    pub overdue: u64,
    /// Connections open while figures settled, on average; at the end where it was left early.
    pub mean_open: f64,
    /// The fewest and the most of them.
    pub extremes: (u64, u64),
    /// When the server was first seen to close one at this level.
    pub first_closed_ns: Option<Nanos>,
}

/// Goes from level to level.
#[derive(Debug)]
pub struct Ascent {
    course: Course,
    stays: Vec<Stay>,
    /// The stay at this level, as far as it is known.
    stay: Stay,
    /// How many had come to be open when that was last seen to change, and when.
    last_opened: (u64, Nanos),
    open: OpenSum,
}

/// Connections over time, while figures settle.
#[derive(Clone, Copy, Debug, Default)]
struct OpenSum {
    /// When the last look was.
    last_ns: Option<Nanos>,
    /// Connections times nanoseconds.
    sum: u128,
    span_ns: Nanos,
}

impl Course {
    /// How long to wait for `missing` connections at the most.
    fn wait_ns(&self, missing: u64) -> Nanos {
        missing.saturating_mul(self.open_interval_ns).saturating_add(self.patience_ns)
    }

    /// About how long all of it takes where nothing goes wrong.
    #[must_use]
    pub fn length_ns(&self) -> Nanos {
        let most = self.levels.iter().copied().max().unwrap_or(0);
        let opening_ns = self.wait_ns(most).saturating_sub(self.patience_ns);
        opening_ns.saturating_add(self.dwell_ns.saturating_mul(self.levels.len() as u64))
    }
}

impl Ascent {
    /// Begins at the first level, which the caller asks for at the same moment.
    ///
    /// # Panics
    /// Where there is no level.
    #[must_use]
    pub fn begin(course: Course, now: Nanos) -> Self {
        let stay = Stay { wanted: course.levels[0], began_ns: now, ..Stay::default() };
        let (stays, open) = (Vec::new(), OpenSum::default());
        Self { course, stays, stay, last_opened: (0, now), open }
    }

    /// The number of the level that is being reached or held.
    #[must_use]
    pub fn level(&self) -> usize {
        self.stays.len()
    }

    /// How many connections it has.
    #[must_use]
    pub fn wanted(&self) -> u64 {
        self.stay.wanted
    }

    /// Whether its connections are there, and it is held.
    #[must_use]
    pub fn is_dwelling(&self) -> bool {
        self.stay.dwelled_ns.is_some()
    }

    /// Looks at what is there, often. Whether the level has been held long enough; then
    /// [`leave`](Self::leave) it.
    pub fn look(&mut self, now: Nanos, seen: &Seen) -> bool {
        let stay = &mut self.stay;
        if seen.closed_by_server > stay.before.closed_by_server {
            stay.first_closed_ns.get_or_insert(now);
        }
        let Some(dwelled_ns) = stay.dwelled_ns else {
            let missing = stay.missing();
            let waited_ns = now.saturating_sub(stay.began_ns);
            let tried = seen.attempted - stay.before.attempted;
            let done = seen.opening == 0 && (tried >= missing || waited_ns >= NOTHING_OPENING_NS);
            if self.last_opened.0 != seen.opened {
                self.last_opened = (seen.opened, now);
            }
            // A machine that opens them more slowly than was asked for is waited for. One where
            // none comes to be open is not: what is refused is tried ever more slowly, and could go
            // on for hours.
            let stuck_ns = now.saturating_sub(self.last_opened.1);
            let is_stuck = stuck_ns >= self.course.wait_ns(1);
            if done || (is_stuck && waited_ns >= self.course.wait_ns(missing)) {
                stay.overdue = seen.opening;
                stay.dwelled_ns = Some(now);
            }
            return false;
        };
        let held_ns = now.saturating_sub(dwelled_ns);
        let settled_ns = self.course.dwell_ns - self.course.dwell_ns / SETTLED_PART;
        if held_ns >= settled_ns {
            self.open.add(now, seen.open, &mut stay.extremes);
        }
        held_ns >= self.course.dwell_ns
    }

    /// Leaves the level for the next, if there is one, and gives the number of that. The caller asks
    /// for it at the same moment.
    pub fn leave(&mut self, now: Nanos, seen: &Seen) -> Option<usize> {
        let open = std::mem::take(&mut self.open);
        let mut stay = std::mem::take(&mut self.stay);
        stay.left_ns = now;
        stay.after = *seen;
        match open.mean() {
            Some(mean) => stay.mean_open = mean,
            None => {
                stay.mean_open = seen.open as f64;
                stay.extremes = (seen.open, seen.open);
            }
        }
        self.stays.push(stay);
        let wanted = *self.course.levels.get(self.stays.len())?;
        self.stay = Stay { wanted, began_ns: now, before: *seen, ..Stay::default() };
        Some(self.stays.len())
    }

    /// What happened at each level that was left.
    #[must_use]
    pub fn into_stays(self) -> Vec<Stay> {
        self.stays
    }
}

impl Stay {
    /// Connections that were missing when the level was asked for.
    fn missing(&self) -> u64 {
        self.wanted.saturating_sub(self.before.open + self.before.opening)
    }

    /// Connections that came to be open at this level.
    #[must_use]
    pub fn opened(&self) -> u64 {
        self.after.opened - self.before.opened
    }

    /// Connections that could not be opened at this level.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.after.failed - self.before.failed
    }

    /// Connections that the server closed at this level.
    #[must_use]
    pub fn closed_by_server(&self) -> u64 {
        self.after.closed_by_server - self.before.closed_by_server
    }

    /// When figures count as settled: the last third of the time for which it was held.
    #[must_use]
    pub fn settled_from_ns(&self) -> Nanos {
        let dwelled_ns = self.dwelled_ns.unwrap_or(self.left_ns);
        let held_ns = self.left_ns.saturating_sub(dwelled_ns);
        self.left_ns - held_ns / SETTLED_PART
    }

    /// Whether its number of connections stood still while figures settled, to a twentieth: else
    /// memory that was read then belongs to no number.
    #[must_use]
    pub fn is_steady(&self) -> bool {
        let (fewest, most) = self.extremes;
        self.dwelled_ns.is_some() && (most - fewest) * 20 <= most
    }
}

impl OpenSum {
    fn add(&mut self, now: Nanos, open: u64, extremes: &mut (u64, u64)) {
        let span_ns = match self.last_ns.replace(now) {
            Some(last_ns) => now.saturating_sub(last_ns),
            None => {
                *extremes = (open, open);
                // It has no time before it, and still counts where it stays the only one.
                1
            }
        };
        self.sum += u128::from(open) * u128::from(span_ns);
        self.span_ns += span_ns;
        *extremes = (extremes.0.min(open), extremes.1.max(open));
    }

    fn mean(self) -> Option<f64> {
        (self.span_ns > 0).then(|| self.sum as f64 / self.span_ns as f64)
    }
}

/// How often a course should be looked at.
pub const LOOK_INTERVAL_NS: Nanos = 20 * MILLISECOND;

#[cfg(test)]
mod tests;
