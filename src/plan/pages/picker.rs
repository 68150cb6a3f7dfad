//! Which page comes next.

use rand::RngExt;

use super::Pick;
use crate::plan::random::{Purpose, Random, stream};

/// One thread's choice of pages, by their index. It never allocates.
#[derive(Clone, Debug)]
pub struct Picker {
    way: Way,
}

#[derive(Clone, Debug)]
enum Way {
    /// There is only one.
    Single,
    /// By weight.
    Random { table: AliasTable, random: Random },
    /// Each as often as it weighs, then the next.
    InOrder(Turn),
}

impl Picker {
    /// Chooses among pages with these weights for `thread` (from 0) of `threads`.
    ///
    /// In order, each page comes `weight` times running, and thread `i` of `n` has every `n`th turn
    /// from the `i`th on: threads that are equally fast go through the pages together. At random,
    /// each thread has its own choices, which the same seed repeats.
    ///
    /// # Panics
    ///
    /// If there is no page, a weight is 0, or there is no such thread.
    #[must_use]
    pub fn new(weights: &[u32], pick: Pick, seed: u64, thread: usize, threads: usize) -> Self {
        assert!(!weights.is_empty() && !weights.contains(&0), "pages have a weight");
        assert!(thread < threads, "thread {thread} of {threads}");
        let way = match pick {
            _ if weights.len() == 1 => Way::Single,
            Pick::Random => {
                let random = stream(seed, Purpose::Pages, thread);
                Way::Random { table: AliasTable::new(weights), random }
            }
            Pick::InOrder => Way::InOrder(Turn::new(weights, thread, threads)),
        };
        Self { way }
    }

    /// The next page's index.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "it never ends, and is no chain of adapters")]
    pub fn next(&mut self) -> u32 {
        match &mut self.way {
            Way::Single => 0,
            Way::Random { table, random } => table.draw(random),
            Way::InOrder(turn) => turn.next(),
        }
    }
}

/// Walker's alias method with Vose's construction ("A linear algorithm for generating random
/// numbers with a given distribution", 1991), in integers, so that the shares are exact: a column
/// for each page, all as high as the sum of the weights, each shared by at most two pages.
#[derive(Clone, Debug)]
struct AliasTable {
    columns: Box<[Column]>,
    height: u64,
}

/// A column of the table.
#[derive(Clone, Copy, Debug)]
struct Column {
    /// Below this height it is the column's own page.
    own: u64,
    /// Above it, this one.
    alias: u32,
}

impl AliasTable {
    fn new(weights: &[u32]) -> Self {
        let height: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
        let count = weights.len() as u128;
        // What each page still has to fill, of columns as high as the sum of all.
        let mut rest: Vec<u128> =
            weights.iter().map(|&weight| u128::from(weight) * count).collect();
        let mut columns = vec![Column { own: height, alias: 0 }; weights.len()];
        let (mut short, mut tall): (Vec<usize>, Vec<usize>) =
            (0..weights.len()).partition(|&page| rest[page] < u128::from(height));
        while let (Some(page), Some(&filler)) = (short.pop(), tall.last()) {
            columns[page] = Column { own: rest[page] as u64, alias: filler as u32 };
            rest[filler] -= u128::from(height) - rest[page];
            if rest[filler] < u128::from(height) {
                tall.pop();
                short.push(filler);
            }
        }
        // Those that are left fill their columns exactly, since nothing is rounded.
        Self { columns: columns.into(), height }
    }

    fn draw(&self, random: &mut Random) -> u32 {
        let page = random.random_range(0..self.columns.len() as u32);
        let column = self.columns[page as usize];
        // The draw of the height is saved where all weights are equal.
        if column.own == self.height || random.random_range(0..self.height) < column.own {
            page
        } else {
            column.alias
        }
    }
}

/// A place in the order.
#[derive(Clone, Debug)]
struct Turn {
    /// The turn after each page's last one.
    ends: Box<[u64]>,
    /// The next turn, below the number of turns in a round.
    turn: u64,
    /// From one of this thread's turns to the next, within a round.
    step: u64,
}

impl Turn {
    fn new(weights: &[u32], thread: usize, threads: usize) -> Self {
        let mut round = 0;
        let ends = weights.iter().map(|&weight| {
            round += u64::from(weight);
            round
        });
        let ends: Box<[u64]> = ends.collect();
        Self { ends, turn: thread as u64 % round, step: threads as u64 % round }
    }

    fn next(&mut self) -> u32 {
        let page = self.ends.partition_point(|&end| end <= self.turn);
        let round = self.ends[self.ends.len() - 1];
        self.turn = (self.turn + self.step) % round;
        page as u32
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn picks(weights: &[u32], pick: Pick, thread: usize, threads: usize, count: usize) -> Vec<u32> {
        let mut picker = Picker::new(weights, pick, 5, thread, threads);
        (0..count).map(|_| picker.next()).collect()
    }

    #[test]
    fn a_single_page_is_always_it() {
        for pick in [Pick::Random, Pick::InOrder] {
            assert_eq!(picks(&[7], pick, 1, 2, 5), [0; 5]);
        }
    }

    #[test]
    fn in_order_each_as_often_as_it_weighs() {
        let order = picks(&[1, 3, 2], Pick::InOrder, 0, 1, 13);
        assert_eq!(order, [0, 1, 1, 1, 2, 2, 0, 1, 1, 1, 2, 2, 0]);
    }

    #[test]
    fn threads_go_through_the_order_together() {
        for threads in [2, 3, 6, 7, 20] {
            let alone = picks(&[1, 3, 2], Pick::InOrder, 0, 1, threads * 10);
            let each: Vec<_> =
                (0..threads).map(|i| picks(&[1, 3, 2], Pick::InOrder, i, threads, 10)).collect();
            let together: Vec<u32> =
                (0..threads * 10).map(|n| each[n % threads][n / threads]).collect();
            assert_eq!(together, alone, "{threads}");
        }
    }

    #[test]
    fn at_random_by_weight() {
        let weights = [1, 10, 5, 4, 30];
        let count = 100_000;
        let picked = picks(&weights, Pick::Random, 0, 1, count);
        // Pearson's chi-squared with 4 degrees of freedom: over 18.5 in one of a thousand cases.
        let chi_squared: f64 = weights
            .iter()
            .enumerate()
            .map(|(page, &weight)| {
                let expected = count as f64 * f64::from(weight) / 50.0;
                let seen = picked.iter().filter(|&&p| p == page as u32).count() as f64;
                (seen - expected).powi(2) / expected
            })
            .sum();
        assert!(chi_squared < 18.5, "{chi_squared}");
        assert_eq!(picked, picks(&weights, Pick::Random, 0, 1, count));
        assert_ne!(picked, picks(&weights, Pick::Random, 1, 2, count));
    }

    proptest! {
        #[test]
        fn the_tables_shares_are_exact(
            weights in proptest::collection::vec(prop_oneof![1..10_u32, 1..=u32::MAX], 1..60),
        ) {
            let table = AliasTable::new(&weights);
            let mut area = vec![0_u128; weights.len()];
            for (page, column) in table.columns.iter().enumerate() {
                prop_assert!(column.own <= table.height);
                area[page] += u128::from(column.own);
                area[column.alias as usize] += u128::from(table.height - column.own);
            }
            for (area, weight) in area.into_iter().zip(&weights) {
                prop_assert_eq!(area, u128::from(*weight) * weights.len() as u128);
            }
        }
    }
}
