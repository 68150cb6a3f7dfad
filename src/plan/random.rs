//! Random choices that a seed repeats: one stream for each purpose and thread, so that none
//! depends on how often another was asked.

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

/// The generator of every random choice.
pub type Random = Pcg64Mcg;

/// What a stream of random numbers is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Gaps of Poisson arrivals.
    Arrivals = 1,
    /// The next page.
    Pages = 2,
    /// Requests per connection.
    Lifetimes = 3,
    /// Think times.
    Thinking = 4,
}

/// The stream of a thread for a purpose.
#[must_use]
pub fn stream(seed: u64, purpose: Purpose, thread: usize) -> Random {
    let mixed = [purpose as u64, thread as u64].iter().fold(mix(seed), |state, n| mix(state ^ n));
    Random::seed_from_u64(mixed)
}

/// One step of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators",
/// 2014): inputs that differ in one bit give outputs that differ in half of theirs.
const fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use rand::Rng;

    use super::*;

    #[test]
    fn streams_repeat_and_differ() {
        let mut seen = std::collections::HashSet::new();
        for seed in [0, 1, u64::MAX] {
            for purpose in [Purpose::Arrivals, Purpose::Pages] {
                for thread in 0..64 {
                    let first = stream(seed, purpose, thread).next_u64();
                    assert_eq!(first, stream(seed, purpose, thread).next_u64());
                    assert!(seen.insert(first), "{seed} {purpose:?} {thread}");
                }
            }
        }
    }
}
