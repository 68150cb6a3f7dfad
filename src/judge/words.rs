//! How figures stand in sentences.

use crate::units::format_duration;

/// Microseconds as a duration in the unit that suits it.
#[must_use]
pub fn time(us: f64) -> String {
    format_duration((us * 1e3).round() as u64)
}

/// A share in percent, two significant digits: `45 %`, `0.31 %`; what is not all is not `100 %`.
#[must_use]
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        p if p <= 0.0 => "0 %".to_owned(),
        p if p < 0.01 => "under 0.01 %".to_owned(),
        p if p < 1.0 => format!("{p:.2} %"),
        p if p < 9.95 => format!("{p:.1} %"),
        p if (99.0..100.0).contains(&p) => format!("{:.2} %", (p * 100.0).floor() / 100.0),
        p => format!("{p:.0} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_keep_their_meaning_when_rounded() {
        for (share, text) in [
            (0.0, "0 %"),
            (0.000_01, "under 0.01 %"),
            (0.0031, "0.31 %"),
            (0.023, "2.3 %"),
            (0.45, "45 %"),
            (0.999_99, "99.99 %"),
            (1.0, "100 %"),
        ] {
            assert_eq!(percent(share), text);
        }
    }

    #[test]
    fn times_come_in_the_unit_that_suits_them() {
        assert_eq!(time(84.2), "84.2µs");
        assert_eq!(time(1_080.0), "1.08ms");
    }
}
