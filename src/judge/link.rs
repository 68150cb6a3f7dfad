//! The line: whether it carried all that it can.

use crate::stats::assemble::Circumstances;
use crate::stats::result::RunResult;
use crate::units::format_bits;

/// A line that carries a larger share of its speed as TCP's payload is full: the headers of TCP, IP
/// and Ethernet take 6 % of a full frame, and more of smaller ones.
const FULL_SHARE: f64 = 0.9;
/// Rows that a series needs for its busiest quarter to mean something.
const ROWS_FOR_QUARTERS: usize = 4;

/// The reason why the line is full, if it is and its speed is known.
pub(super) fn full(result: &RunResult, circumstances: &Circumstances) -> Option<String> {
    let speed = circumstances.link_bits?;
    let (carried, direction) = busiest(result, circumstances.recorded_s)?;
    (carried >= FULL_SHARE * speed as f64).then(|| {
        format!(
            "the line {direction} {} of the {} that it can carry",
            format_bits(rounded(carried)),
            format_bits(speed),
        )
    })
}

/// Bits per second in the direction that carried more, on average or, where that is more, in the
/// busiest quarter of the run: a load that grows fills the line at its end alone.
fn busiest(result: &RunResult, recorded_s: f64) -> Option<(f64, &'static str)> {
    if recorded_s <= 0.0 {
        return None;
    }
    let per_second = |bytes: u64| bytes as f64 * 8.0 / recorded_s;
    let (sent, received) = (per_second(result.bytes.sent), per_second(result.bytes.received));
    let mut seconds: Vec<u64> = result.series.iter().map(|row| row.received_bytes).collect();
    seconds.sort_unstable_by(|a, b| b.cmp(a));
    let quarter = (seconds.len() >= ROWS_FOR_QUARTERS).then(|| seconds[seconds.len() / 4]);
    let received = received.max(quarter.map_or(0.0, |bytes| bytes as f64 * 8.0));
    Some(if sent > received { (sent, "took") } else { (received, "brought") })
}

/// Three digits.
fn rounded(bits: f64) -> u64 {
    let digits = bits.max(1.0).log10().floor() as i32;
    let unit = 10_f64.powi((digits - 2).max(0));
    ((bits / unit).round() * unit) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::samples::closed_run;

    #[test]
    fn a_line_is_full_from_nine_tenths_on() {
        // 9,000,000 bytes in 10 s are 7.2 Mbit/s.
        let full_at = |speed| {
            let (result, mut circumstances) = closed_run();
            circumstances.link_bits = speed;
            full(&result, &circumstances)
        };
        let reason = "the line brought 7.2Mbit/s of the 8Mbit/s that it can carry";
        assert_eq!(full_at(Some(8_000_000)).as_deref(), Some(reason));
        assert_eq!(full_at(Some(8_100_000)), None);
        assert_eq!(full_at(None), None);
    }

    #[test]
    fn the_direction_that_carries_more_counts() {
        let (mut result, mut circumstances) = closed_run();
        circumstances.link_bits = Some(100_000_000);
        result.bytes.sent = 120_000_000;
        let reason = full(&result, &circumstances).unwrap();
        assert!(reason.starts_with("the line took 96Mbit/s"), "{reason}");
    }

    #[test]
    fn a_quarter_of_the_run_is_enough() {
        let (mut result, mut circumstances) = closed_run();
        circumstances.link_bits = Some(100_000_000);
        for row in &mut result.series[7..] {
            row.received_bytes = 11_765_432;
        }
        let reason = full(&result, &circumstances).unwrap();
        assert!(reason.contains("94.1Mbit/s of the 100Mbit/s"), "{reason}");
        result.series[7].received_bytes = 0;
        assert_eq!(full(&result, &circumstances), None, "two seconds of ten are not");
    }

    #[test]
    fn a_run_of_no_time_fills_nothing() {
        let (result, mut circumstances) = closed_run();
        (circumstances.link_bits, circumstances.recorded_s) = (Some(1), 0.0);
        assert_eq!(full(&result, &circumstances), None);
    }
}
