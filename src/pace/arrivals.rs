//! One thread's part of the arrivals.

use rand::{Rng, RngExt};

use super::{Schedule, share};
use crate::clock::Nanos;
use crate::plan::Profile;
use crate::plan::random::{Purpose, Random, stream};

/// The arrivals of one thread of several, in order.
///
/// Evenly spaced arrivals are those of one schedule, dealt out in turn: thread `i` of `n` takes
/// number `i`, `i + n`, and so on. Poisson arrivals are a stream of each thread's own at its share
/// of the rate, which together are again Poisson arrivals at the rate.
#[derive(Clone, Debug)]
pub struct Arrivals {
    schedule: Schedule,
    gaps: Gaps,
    /// Arrivals left to this thread by a limit on their number, the next one among them.
    left: u64,
    /// No arrival is due at this time or later: the plan's end or the profile's.
    end_ns: Nanos,
    /// When the next one is due.
    next: Option<Nanos>,
    /// What the schedule must have reached for it, in its units.
    target: u128,
    /// The schedule's piece in which it is.
    piece: usize,
    /// For constant pieces: the way from one arrival to the next without a division.
    run: Option<Run>,
}

/// What lies between two arrivals of a thread, in the schedule's units.
#[derive(Clone, Debug)]
enum Gaps {
    /// Always the same.
    Even {
        /// The thread, from 0.
        thread: u64,
        /// How many there are.
        threads: u64,
        /// The gap.
        units: u128,
    },
    /// Exponentially distributed.
    Poisson {
        /// The mean gap.
        mean: f64,
        /// The thread's stream.
        random: Random,
    },
}

/// Within a piece of constant rate: the due time, as an exact quotient and remainder.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Units per nanosecond.
    rate: u64,
    /// The piece's last unit.
    until: u128,
    /// Whole nanoseconds until the target.
    whole_ns: Nanos,
    /// Units beyond them, below `rate`.
    rest: u64,
    /// An even gap, in the same form.
    step_ns: Nanos,
    step_rest: u64,
}

impl Arrivals {
    /// Evenly spaced arrivals of `thread` (from 0) of `threads`; of `limit` in all, due before
    /// `end_ns` and before the profile's end.
    ///
    /// # Panics
    ///
    /// If there is no such thread, or as [`Schedule::new`].
    #[must_use]
    pub fn even(
        profile: &Profile,
        thread: usize,
        threads: usize,
        limit: Option<u64>,
        end_ns: Option<Nanos>,
    ) -> Self {
        assert!(thread < threads, "thread {thread} of {threads}");
        let schedule = Schedule::new(profile);
        let (number, threads_u64) = (thread as u64, threads as u64);
        let units = schedule.unit() * u128::from(threads_u64);
        let target = schedule.unit() * u128::from(number);
        let gaps = Gaps::Even { thread: number, threads: threads_u64, units };
        Self::start(schedule, gaps, target, limit.map(|n| share(n, thread, threads)), end_ns)
    }

    /// Poisson arrivals of `thread` (from 0) of `threads`, by rescaling time with the integral of
    /// the rate; of `limit` in all, of which each thread has its share, due before `end_ns` and
    /// before the profile's end. The same seed gives the same arrivals.
    ///
    /// # Panics
    ///
    /// If there is no such thread, or as [`Schedule::new`].
    #[must_use]
    pub fn poisson(
        profile: &Profile,
        thread: usize,
        threads: usize,
        limit: Option<u64>,
        end_ns: Option<Nanos>,
        seed: u64,
    ) -> Self {
        assert!(thread < threads, "thread {thread} of {threads}");
        let schedule = Schedule::new(profile);
        let mean = schedule.unit() as f64 * threads as f64;
        let random = stream(seed, Purpose::Arrivals, thread);
        let mut gaps = Gaps::Poisson { mean, random };
        let target = gaps.draw();
        Self::start(schedule, gaps, target, limit.map(|n| share(n, thread, threads)), end_ns)
    }

    /// When the next arrival is due; `None` after the last.
    #[must_use]
    #[inline]
    pub fn peek(&self) -> Option<Nanos> {
        self.next
    }

    /// Takes the next arrival. After the last, nothing changes.
    #[inline]
    pub fn advance(&mut self) {
        if self.next.is_none() {
            return;
        }
        self.left -= 1;
        let gap = self.gaps.draw();
        self.target += gap;
        let at_ns = match &mut self.run {
            Some(run) if self.target <= run.until => {
                match self.gaps {
                    Gaps::Even { .. } => run.step(),
                    Gaps::Poisson { .. } => run.leap(gap),
                }
                Some(run.due_ns())
            }
            _ => self.seek(),
        };
        self.next = self.admit(at_ns);
    }

    /// How many arrivals are due before `before_ns` and not taken yet.
    ///
    /// Even arrivals are counted in closed form; Poisson arrivals are walked through, which costs
    /// some ten nanoseconds for each that is counted.
    #[must_use]
    pub fn remaining_before(&self, before_ns: Nanos) -> u64 {
        if self.next.is_none_or(|next| next >= before_ns) {
            return 0;
        }
        match self.gaps {
            Gaps::Even { thread, threads, .. } => {
                // Numbers below `due` that are this thread's, less those already taken.
                let due = self.schedule.count_before(before_ns.min(self.end_ns));
                let own = due.saturating_sub(thread).div_ceil(threads);
                let number = (self.target / self.schedule.unit()) as u64;
                (own - number / threads).min(self.left)
            }
            Gaps::Poisson { .. } => {
                let mut walker = self.clone();
                let mut count = 0;
                while walker.next.is_some_and(|next| next < before_ns) {
                    walker.advance();
                    count += 1;
                }
                count
            }
        }
    }

    fn start(
        schedule: Schedule,
        gaps: Gaps,
        target: u128,
        limit: Option<u64>,
        end_ns: Option<Nanos>,
    ) -> Self {
        let end_ns = end_ns.unwrap_or(Nanos::MAX).min(schedule.end_ns());
        let mut arrivals = Self {
            schedule,
            gaps,
            left: limit.unwrap_or(u64::MAX),
            end_ns,
            next: None,
            target,
            piece: 0,
            run: None,
        };
        let at_ns = arrivals.seek();
        arrivals.next = arrivals.admit(at_ns);
        arrivals
    }

    /// Finds the target in the schedule, from the current piece on.
    #[cold]
    fn seek(&mut self) -> Option<Nanos> {
        self.piece = self.schedule.piece_from(self.piece, self.target)?;
        let piece = self.schedule.piece(self.piece);
        self.run = piece.constant().filter(|&rate| rate > 0).map(|rate| {
            let into = self.target.saturating_sub(piece.before);
            let step = match self.gaps {
                Gaps::Even { units, .. } => units,
                Gaps::Poisson { .. } => 0,
            };
            let divisor = u128::from(rate);
            Run {
                rate,
                until: piece.until,
                whole_ns: piece.start_ns + (into / divisor) as Nanos,
                rest: (into % divisor) as u64,
                // A step that is longer than time itself is never taken: it ends beyond the piece.
                step_ns: Nanos::try_from(step / divisor).unwrap_or(Nanos::MAX),
                step_rest: (step % divisor) as u64,
            }
        });
        self.schedule.reach_in(self.piece, self.target)
    }

    /// The due time, if the plan still wants an arrival then.
    fn admit(&self, at_ns: Option<Nanos>) -> Option<Nanos> {
        at_ns.filter(|&at_ns| self.left > 0 && at_ns < self.end_ns)
    }
}

impl Gaps {
    /// The next gap, in units.
    fn draw(&mut self) -> u128 {
        match self {
            Self::Even { units, .. } => *units,
            Self::Poisson { mean, random } => exponential(random, *mean),
        }
    }
}

impl Run {
    /// On by an even gap.
    fn step(&mut self) {
        self.whole_ns += self.step_ns;
        // Both are below 2^63.
        self.rest += self.step_rest;
        if self.rest >= self.rate {
            self.rest -= self.rate;
            self.whole_ns += 1;
        }
    }

    /// On by any gap.
    fn leap(&mut self, gap: u128) {
        let units = gap + u128::from(self.rest);
        // Divisions of 64 bits cost a fraction of those of 128.
        if let Ok(units) = u64::try_from(units) {
            self.whole_ns += units / self.rate;
            self.rest = units % self.rate;
        } else {
            let rate = u128::from(self.rate);
            self.whole_ns += (units / rate) as Nanos;
            self.rest = (units % rate) as u64;
        }
    }

    /// The least whole nanosecond at which the target is reached.
    fn due_ns(self) -> Nanos {
        self.whole_ns + u64::from(self.rest > 0)
    }
}

/// An exponentially distributed number with this mean, rounded.
fn exponential(random: &mut impl Rng, mean: f64) -> u128 {
    // In [0, 1), so that the logarithm's argument is never 0.
    let uniform: f64 = random.random();
    (-(1.0 - uniform).ln() * mean).round() as u128
}
