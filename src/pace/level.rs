//! How many places there are, over time.

use super::share;
use crate::clock::Nanos;
use crate::plan::Profile;

/// A number of places that changes with time.
///
/// Between whole numbers the nearest one holds, the higher one in the middle: a ramp up to 1,200
/// has its last place before it ends, and one down to 0 gives its last one up before.
#[derive(Clone, Debug)]
pub struct Level {
    pieces: Vec<Piece>,
    /// Common denominator of the values.
    denominator: i128,
}

/// A segment, and where it stands.
#[derive(Clone, Copy, Debug)]
struct Piece {
    start_ns: Nanos,
    /// `Nanos::MAX`: never.
    end_ns: Nanos,
    /// Values times the denominator.
    from: i128,
    to: i128,
}

impl Level {
    /// The levels of a profile of connections.
    ///
    /// # Panics
    ///
    /// If the profile is not one that [`Profile::parse_count`] would give.
    #[must_use]
    pub fn new(profile: &Profile) -> Self {
        let denominator = profile.denominator().expect("a profile has a bounded denominator");
        let mut start_ns = 0;
        let mut pieces = Vec::with_capacity(profile.segments.len());
        for segment in &profile.segments {
            let [from, to] = [segment.from, segment.to]
                .map(|value| i128::from(value.num) * i128::from(denominator / value.den));
            let end_ns = segment.duration_ns.map_or(Nanos::MAX, |duration| start_ns + duration);
            pieces.push(Piece { start_ns, end_ns, from, to });
            start_ns = end_ns;
        }
        Self { pieces, denominator: denominator.into() }
    }

    /// The number of places at a time. After the profile's end it stays at its last value.
    #[must_use]
    pub fn at(&self, t: Nanos) -> u64 {
        match self.pieces.get(self.piece_at(t)) {
            Some(piece) => piece.at(t - piece.start_ns, self.denominator),
            None => self.pieces.last().map_or(0, |piece| nearest(piece.to, self.denominator)),
        }
    }

    /// How many of them are those of `thread` (from 0) of `threads`.
    #[must_use]
    pub fn share(&self, t: Nanos, thread: usize, threads: usize) -> u32 {
        u32::try_from(share(self.at(t), thread, threads)).unwrap_or(u32::MAX)
    }

    /// The next time after `t` at which the number of places is another one.
    #[must_use]
    pub fn next_change(&self, t: Nanos) -> Option<Nanos> {
        let now = self.at(t);
        let first = self.piece_at(t);
        for (index, piece) in self.pieces.iter().enumerate().skip(first) {
            // A jump between segments.
            if index > first && piece.at(0, self.denominator) != now {
                return Some(piece.start_ns);
            }
            let change_ns = piece.leave(now, self.denominator).map(|into| piece.start_ns + into);
            let last = index + 1 == self.pieces.len();
            // At its end the next segment's value holds, if there is one.
            if let Some(change_ns) = change_ns
                && (change_ns < piece.end_ns || (last && change_ns == piece.end_ns))
            {
                return Some(change_ns);
            }
        }
        None
    }

    /// The index of the piece that holds at a time; their number after the end.
    fn piece_at(&self, t: Nanos) -> usize {
        self.pieces.partition_point(|piece| piece.end_ns <= t)
    }
}

impl Piece {
    fn duration_ns(&self) -> i128 {
        i128::from(self.end_ns - self.start_ns)
    }

    /// The number of places `into` nanoseconds into it.
    fn at(&self, into: Nanos, denominator: i128) -> u64 {
        if self.from == self.to {
            return nearest(self.from, denominator);
        }
        let duration_ns = self.duration_ns();
        let scaled = self.from * duration_ns + (self.to - self.from) * i128::from(into);
        nearest(scaled, denominator * duration_ns)
    }

    /// How far into it the number of places leaves `places`, which it has before.
    fn leave(&self, places: u64, denominator: i128) -> Option<Nanos> {
        // `places` holds from half below it on to just before half above it; twice of that, in the
        // unit of twice the value times duration.
        let unit = denominator * self.duration_ns();
        let start = 2 * self.from * self.duration_ns();
        let rise = 2 * (self.to - self.from);
        let places = i128::from(places);
        let into = match rise {
            0 => return None,
            // The first moment at or above the upper edge.
            1.. => ((2 * places + 1) * unit - start + rise - 1).div_euclid(rise),
            // The first moment below the lower edge.
            _ => (start - (2 * places - 1) * unit).div_euclid(-rise) + 1,
        };
        Nanos::try_from(into).ok()
    }
}

/// The whole number nearest to `num / den`, the higher one in the middle.
fn nearest(num: i128, den: i128) -> u64 {
    u64::try_from((2 * num + den) / (2 * den)).unwrap_or(0)
}
