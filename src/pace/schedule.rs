//! The integral of a rate profile, exactly, and its inverse.
//!
//! Let `L` be the common denominator of all rates of the profile, per second. Within a segment of
//! `D` nanoseconds from rate `A/L` to `B/L`, what has arrived after `t` nanoseconds is
//!
//! ```text
//! N(t) = (2At + (B - A)t²/D) / (2L · 10⁹)
//! ```
//!
//! and what a whole segment adds, `(A + B)D / (2L · 10⁹)`, is a whole number of *units* of
//! `1 / (2L · 10⁹)` arrival. So fractions of an arrival cross from one segment into the next
//! without loss, and an arrival is [`Schedule::unit`] units.

use crate::clock::{Nanos, SECOND};
use crate::plan::Profile;

/// When arrival `k` (from 0) of a rate profile is due: the least whole nanosecond at which the
/// integral of the rate has reached `k`; `None` if it does not before the profile's end.
///
/// # Panics
///
/// As [`Schedule::new`].
#[must_use]
pub fn due(profile: &Profile, k: u64) -> Option<Nanos> {
    let schedule = Schedule::new(profile);
    schedule.reach(u128::from(k) * schedule.unit())
}

/// A rate profile, ready to be asked.
#[derive(Clone, Debug)]
pub struct Schedule {
    pieces: Vec<Piece>,
    unit: u128,
}

/// A segment, and where it stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// When it begins.
    pub start_ns: Nanos,
    /// When it ends; `Nanos::MAX`: never.
    pub end_ns: Nanos,
    /// Rate at its start, in `1/L` per second.
    from: u128,
    /// Rate at its end.
    to: u128,
    /// Units before it.
    pub before: u128,
    /// Units before it and in it.
    pub until: u128,
}

impl Schedule {
    /// Integrates a rate profile.
    ///
    /// # Panics
    ///
    /// If the profile is not one that [`Profile::parse_rate`] would give: its bounds keep all that
    /// is computed here within 128 bits.
    #[must_use]
    pub fn new(profile: &Profile) -> Self {
        let denominator = profile.denominator().expect("a profile has a bounded denominator");
        let (mut start_ns, mut before) = (0, 0_u128);
        let mut pieces = Vec::with_capacity(profile.segments.len());
        for segment in &profile.segments {
            let [from, to] = [segment.from, segment.to]
                .map(|rate| u128::from(rate.num) * u128::from(denominator / rate.den));
            let end_ns = segment.duration_ns.map_or(Nanos::MAX, |duration| start_ns + duration);
            let until = before + (from + to) * u128::from(end_ns - start_ns);
            pieces.push(Piece { start_ns, end_ns, from, to, before, until });
            (start_ns, before) = (end_ns, until);
        }
        Self { pieces, unit: 2 * u128::from(denominator) * u128::from(SECOND) }
    }

    /// How many units one arrival is.
    #[must_use]
    pub fn unit(&self) -> u128 {
        self.unit
    }

    /// When the profile ends; `Nanos::MAX`: never.
    #[must_use]
    pub fn end_ns(&self) -> Nanos {
        self.pieces.last().map_or(0, |piece| piece.end_ns)
    }

    /// The least nanosecond at which so many units have been reached; `None` if not before the end
    /// of the profile.
    #[must_use]
    pub fn reach(&self, units: u128) -> Option<Nanos> {
        let piece = self.piece_from(0, units)?;
        self.reach_in(piece, units)
    }

    /// How many arrivals are due before `end_ns` and before the profile's end.
    #[must_use]
    pub fn count_before(&self, end_ns: Nanos) -> u64 {
        // Due before a time is due at the latest a nanosecond earlier.
        let Some(last_ns) = end_ns.min(self.end_ns()).checked_sub(1) else { return 0 };
        let index = self.pieces.partition_point(|piece| piece.end_ns <= last_ns);
        let piece = &self.pieces[index];
        let units = piece.before + piece.units_after(last_ns - piece.start_ns);
        // The arrival at time 0 is number 0.
        u64::try_from(units / self.unit + 1).unwrap_or(u64::MAX)
    }

    /// The first piece, from one on, at whose end so many units are reached.
    pub(super) fn piece_from(&self, index: usize, units: u128) -> Option<usize> {
        let rest = &self.pieces[index..];
        let skip = rest.iter().position(|piece| units <= piece.until)?;
        Some(index + skip)
    }

    /// See [`Schedule::reach`], in the piece that [`Schedule::piece_from`] gave.
    pub(super) fn reach_in(&self, index: usize, units: u128) -> Option<Nanos> {
        let piece = &self.pieces[index];
        let at_ns = piece.start_ns + piece.reach(units.saturating_sub(piece.before));
        // Only the very end of a profile is not before it.
        (at_ns < self.end_ns()).then_some(at_ns)
    }

    /// The piece of this index.
    pub(super) fn piece(&self, index: usize) -> &Piece {
        &self.pieces[index]
    }
}

impl Piece {
    /// Units per nanosecond, where that does not change.
    pub(super) fn constant(&self) -> Option<u64> {
        // At most 2 * MAX_RATE * MAX_DENOMINATOR, which is below 2^63.
        (self.from == self.to).then_some((2 * self.from) as u64)
    }

    fn duration_ns(&self) -> u128 {
        u128::from(self.end_ns - self.start_ns)
    }

    /// Whole units after `t` nanoseconds of this piece.
    fn units_after(&self, t: Nanos) -> u128 {
        if self.from == self.to {
            return 2 * self.from * u128::from(t);
        }
        self.scaled_units_after(t) / self.duration_ns()
    }

    /// Units after `t` nanoseconds, times the piece's duration: `2ADt + (B - A)t²`.
    ///
    /// It is below `2^127`, since a ramp's `4·max(A, B)·D²` is.
    fn scaled_units_after(&self, t: Nanos) -> u128 {
        let t = u128::from(t);
        let linear = 2 * self.from * self.duration_ns() * t;
        if self.to > self.from {
            linear + (self.to - self.from) * t * t
        } else {
            linear - (self.from - self.to) * t * t
        }
    }

    /// The least number of nanoseconds into this piece at which it has given so many units, at most
    /// those that it gives.
    fn reach(&self, units: u128) -> Nanos {
        if units == 0 {
            return 0;
        }
        match self.constant() {
            Some(rate) => units.div_ceil(rate.into()) as Nanos,
            None => self.reach_on_ramp(units),
        }
    }

    /// The root of the quadratic: estimated in floats, then made exact in integers.
    fn reach_on_ramp(&self, units: u128) -> Nanos {
        let duration_ns = self.end_ns - self.start_ns;
        let wanted = units * u128::from(duration_ns);
        let enough = |t: Nanos| self.scaled_units_after(t) >= wanted;

        // From 2At + st² = m with s = (B - A)/D: t = m / (A + √(A² + sm)), without cancellation.
        let (from, to, m) = (self.from as f64, self.to as f64, units as f64);
        let slope = (to - from) / duration_ns as f64;
        let root = (from * from + slope * m).max(0.0).sqrt();
        let estimate = ((m / (from + root)) as Nanos).min(duration_ns);

        // The estimate is off by rounding only, mostly a nanosecond or none (more at the foot of
        // a ramp down, where the rate is nearly 0). Widen until the answer is in (low, high].
        let (mut low, mut high, mut width) = (estimate, estimate, 1);
        while !enough(high) {
            low = high;
            high = high.saturating_add(width).min(duration_ns);
            width *= 2;
        }
        if low == high {
            width = 1;
            loop {
                low = high.saturating_sub(width);
                if !enough(low) {
                    break;
                }
                high = low;
                width *= 2;
            }
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if enough(middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        high
    }
}
