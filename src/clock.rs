//! Time, as nanoseconds on one monotonic axis.
//!
//! The worker is generic over [`Clock`]: the kernel's clock in production,
//! virtual time in the simulation.

use std::time::{Duration, Instant};

/// Nanoseconds since the clock's own zero.
pub type Nanos = u64;

/// Nanoseconds in a second.
pub const SECOND: Nanos = 1_000_000_000;
/// Nanoseconds in a millisecond.
pub const MILLISECOND: Nanos = 1_000_000;
/// Nanoseconds in a microsecond.
pub const MICROSECOND: Nanos = 1_000;

/// A monotonic clock.
pub trait Clock {
    /// Nanoseconds since the clock's zero; never goes back.
    fn now(&self) -> Nanos;
}

/// The kernel's monotonic clock, read through the vDSO, from a common zero.
#[derive(Clone, Copy, Debug)]
pub struct Monotonic {
    zero: Instant,
}

impl Monotonic {
    /// A clock whose zero is now. Copies of it share the zero.
    #[must_use]
    pub fn start() -> Self {
        Self { zero: Instant::now() }
    }

    /// A moment on this clock as the standard library has it.
    #[must_use]
    pub fn instant(&self, at_ns: Nanos) -> Instant {
        self.zero + Duration::from_nanos(at_ns)
    }
}

impl Clock for Monotonic {
    fn now(&self) -> Nanos {
        self.zero.elapsed().as_nanos() as Nanos
    }
}
