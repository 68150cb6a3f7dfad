//! When the next arrival is due, and how many places there are: pure functions of the plan, in
//! integers, without a clock inside. Nothing is ever added up in floats, so nothing drifts.
//!
//! Times are nanoseconds from the start of the profile.

mod arrivals;
mod level;
mod schedule;

pub use arrivals::Arrivals;
pub use level::Level;
pub use schedule::{Schedule, due};

/// What one of `threads` gets of a total that is split evenly; the first ones get the remainder.
#[must_use]
pub const fn share(total: u64, thread: usize, threads: usize) -> u64 {
    let (thread, threads) = (thread as u64, threads as u64);
    total / threads + (thread < total % threads) as u64
}

#[cfg(test)]
mod tests;
