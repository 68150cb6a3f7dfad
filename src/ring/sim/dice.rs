//! Everything random of the simulation, out of one seed.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::clock::Nanos;

/// A duration that is drawn anew each time, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// Always the same, so that virtual time can be checked exactly.
    Constant(Nanos),
    /// Evenly from the first to the second, both included.
    Uniform(Nanos, Nanos),
    /// Up to this, every order of magnitude below it equally likely.
    Wide(Nanos),
}

impl Default for Delay {
    fn default() -> Self {
        Self::Constant(0)
    }
}

/// The random generator of one run.
pub(super) struct Dice(Pcg64Mcg);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    /// True with this probability. Draws nothing where that is 0.
    pub(super) fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.0.random_range(0.0..1.0) < probability
    }

    /// From `low` to `high`, both included.
    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        if low >= high { low } else { self.0.random_range(low..=high) }
    }

    /// An index below `len`, which is not 0.
    pub(super) fn index(&mut self, len: usize) -> usize {
        self.between(0, len as u64 - 1) as usize
    }

    pub(super) fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        among[self.index(among.len())]
    }

    /// One of `among`, each as likely as its weight says.
    pub(super) fn weighted<T: Copy>(&mut self, among: &[(T, u32)]) -> T {
        let total: u64 = among.iter().map(|&(_, weight)| u64::from(weight)).sum();
        assert!(total > 0, "nothing to choose from: all weights are 0");
        let mut left = self.between(0, total - 1);
        for &(choice, weight) in among {
            if left < u64::from(weight) {
                return choice;
            }
            left -= u64::from(weight);
        }
        unreachable!("the weights add up to more than what was drawn")
    }

    pub(super) fn delay(&mut self, delay: Delay) -> Nanos {
        match delay {
            Delay::Constant(ns) => ns,
            Delay::Uniform(low, high) => self.between(low, high),
            Delay::Wide(most) => {
                let magnitudes = u64::from(u64::BITS - most.leading_zeros());
                let shift = self.between(0, magnitudes);
                self.between(0, most.checked_shr(shift as u32).unwrap_or(0))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_keep_their_bounds() {
        let mut dice = Dice::new(1);
        for _ in 0..1_000 {
            assert_eq!(dice.delay(Delay::Constant(7)), 7);
            assert!((3..=5).contains(&dice.delay(Delay::Uniform(3, 5))));
            assert!(dice.delay(Delay::Wide(1_000)) <= 1_000);
        }
        assert_eq!(dice.delay(Delay::Wide(0)), 0);
    }

    #[test]
    fn weights_of_zero_are_never_chosen() {
        let mut dice = Dice::new(2);
        let drawn: Vec<char> =
            (0..200).map(|_| dice.weighted(&[('a', 0), ('b', 3), ('c', 1)])).collect();
        assert!(drawn.contains(&'b') && drawn.contains(&'c') && !drawn.contains(&'a'));
    }
}
