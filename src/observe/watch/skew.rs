//! How far another machine's clock is from ours, by when its samples reach us.

use super::lines::Stamp;

/// A difference up to this may be the way that a sample takes over ssh, and is left alone. What a
/// stamp is rounded down to comes on top.
const TOLERATED_S: f64 = 0.5;

/// Zones differ by multiples of this.
const ZONE_STEP_S: f64 = 900.0;

/// Another machine's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Skew {
    /// Our clock less the other; zones that are not known do not count.
    pub(super) offset_s: f64,
    /// What is to be added to its stamps.
    pub(super) correction_s: f64,
    /// Whether the clock itself is corrected, and not only its zone.
    is_wrong: bool,
}

impl Skew {
    /// Measures it: `pairs` are when a sample was received, by our clock in seconds since 1970, and
    /// its stamp. `None` without any.
    ///
    /// A sample is received later than it was taken, so the smallest difference is nearest to the
    /// clocks'. A mean or median would take a line that is slow under load for a clock that is
    /// wrong.
    pub(super) fn measure(pairs: impl Iterator<Item = (f64, Stamp)>) -> Option<Self> {
        let (difference_s, stamp) = pairs
            .map(|(received_s, stamp)| (received_s - stamp.unix_s, stamp))
            .min_by(|(a, _), (b, _)| a.total_cmp(b))?;
        let zone_s = match stamp.is_zone_known {
            true => 0.0,
            false => (difference_s / ZONE_STEP_S).round() * ZONE_STEP_S,
        };
        let offset_s = difference_s - zone_s;
        let is_wrong = offset_s.abs() > TOLERATED_S + stamp.step_s;
        let correction_s = if is_wrong { difference_s } else { zone_s };
        Some(Self { offset_s, correction_s, is_wrong })
    }

    /// What is to be told, where the clock is corrected.
    pub(super) fn remark(self) -> Option<String> {
        let direction = if self.offset_s > 0.0 { "behind" } else { "ahead of" };
        self.is_wrong.then(|| {
            let offset_s = self.offset_s.abs();
            format!(
                "its clock is {offset_s:.1} s {direction} ours, and its samples are shifted by that"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(unix_s: f64, step_s: f64, is_zone_known: bool) -> Stamp {
        Stamp { unix_s, step_s, is_zone_known }
    }

    #[test]
    fn quickest_sample_counts() {
        let pairs = [(1.9, 100.0), (2.2, 101.0), (7.0, 102.0)];
        let skew =
            Skew::measure(pairs.into_iter().map(|(at, unix_s)| (at, stamp(unix_s, 0.0, true))));
        let skew = skew.unwrap();
        assert!((skew.offset_s + 98.8).abs() < 1e-9, "{skew:?}");
        assert_eq!(skew.correction_s, skew.offset_s);
        assert!(skew.remark().unwrap().starts_with("its clock is 98.8 s ahead of ours"));
        assert_eq!(Skew::measure(std::iter::empty()), None);
    }

    #[test]
    fn what_the_way_takes_is_left_alone() {
        for (stamp, received_s) in [(stamp(10.0, 0.0, true), 10.4), (stamp(10.0, 1.0, true), 11.4)]
        {
            let skew = Skew::measure([(received_s, stamp)].into_iter()).unwrap();
            assert_eq!((skew.correction_s, skew.remark()), (0.0, None));
            assert!((skew.offset_s - (received_s - 10.0)).abs() < 1e-9);
        }
    }

    #[test]
    fn unknown_zone_is_no_wrong_clock() {
        // Two hours of a zone, and 0.3 s of the way.
        let skew = Skew::measure([(17_200.3, stamp(10_000.0, 1.0, false))].into_iter()).unwrap();
        assert!((skew.offset_s - 0.3).abs() < 1e-6 && skew.correction_s == 7_200.0, "{skew:?}");
        assert_eq!(skew.remark(), None);
        // The same, and a clock that is 100 s behind.
        let skew = Skew::measure([(17_300.0, stamp(10_000.0, 1.0, false))].into_iter()).unwrap();
        assert!((skew.offset_s - 100.0).abs() < 1e-6 && skew.correction_s == 7_300.0, "{skew:?}");
        assert!(skew.remark().unwrap().contains("100.0 s behind"));
    }
}
