//! What changes with time: a rate or a number of connections.

use crate::clock::Nanos;

/// A rational number, at least zero, kept exact: `num / den`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    /// Numerator.
    pub num: u64,
    /// Denominator, at least 1.
    pub den: u64,
}

impl Ratio {
    /// A whole number.
    #[must_use]
    pub const fn whole(n: u64) -> Self {
        Self { num: n, den: 1 }
    }

    /// The nearest float.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        self.num as f64 / self.den as f64
    }
}

/// A stretch of a profile: from one value to another, linear in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Value at its start.
    pub from: Ratio,
    /// Value at its end.
    pub to: Ratio,
    /// How long, nanoseconds; `None`: for ever, in a profile of one constant segment.
    pub duration_ns: Option<Nanos>,
}

/// Segments, one after the other; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The segments.
    pub segments: Vec<Segment>,
}

impl Profile {
    /// One value for ever.
    #[must_use]
    pub fn constant(value: Ratio) -> Self {
        Self { segments: vec![Segment { from: value, to: value, duration_ns: None }] }
    }

    /// Its length in nanoseconds; `None` where it has none.
    #[must_use]
    pub fn duration_ns(&self) -> Option<Nanos> {
        self.segments.iter().map(|s| s.duration_ns).sum()
    }

    /// The largest value it reaches.
    #[must_use]
    pub fn max(&self) -> f64 {
        self.segments.iter().map(|s| s.from.as_f64().max(s.to.as_f64())).fold(0.0, f64::max)
    }
}
