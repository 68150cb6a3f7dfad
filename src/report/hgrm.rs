//! The percentile table of the response time in HdrHistogram's standard text form, in milliseconds
//! as wrk2 writes it, for the plotters that read it (<https://hdrhistogram.github.io/HdrHistogram>).

use std::fmt::Write as _;

use hdrhistogram::Histogram;

use crate::clock::MILLISECOND;
use crate::stats::Summary;
use crate::stats::result::RunResult;

/// Rows until the distance to 100 % is halved: the usual number.
const TICKS_PER_HALF_DISTANCE: u32 = 5;

/// The table; without samples it has a header and a footer.
#[must_use]
pub fn render(result: &RunResult) -> String {
    let response = &result.latency.response;
    let histogram = response.decode().unwrap_or_else(|| {
        Histogram::new(crate::stats::distribution::TOTAL_DIGITS).expect("the digits are valid")
    });
    let mut text = String::new();
    write_table(&mut text, response, &histogram).expect("writing to memory does not fail");
    text
}

fn write_table(
    text: &mut String,
    response: &Summary,
    histogram: &Histogram<u64>,
) -> std::fmt::Result {
    let max_ms = response.max_us.unwrap_or_default() / 1e3;
    writeln!(
        text,
        "{:>12} {:>14} {:>10} {:>14}\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    )?;
    let mut total = 0;
    let rows = histogram.iter_quantiles(TICKS_PER_HALF_DISTANCE);
    for row in rows.take_while(|_| !histogram.is_empty()) {
        total += row.count_since_last_iteration();
        let value_ms = (row.value_iterated_to() as f64 / MILLISECOND as f64).min(max_ms);
        let quantile = row.quantile_iterated_to();
        write!(text, "{value_ms:12.3} {quantile:2.12} {total:10}")?;
        if quantile < 1.0 {
            write!(text, " {:14.2}", 1.0 / (1.0 - quantile))?;
        }
        text.push('\n');
    }
    writeln!(
        text,
        "#[Mean    = {:12.3}, StdDeviation   = {:12.3}]",
        response.mean_us.unwrap_or_default() / 1e3,
        response.stddev_us.unwrap_or_default() / 1e3,
    )?;
    writeln!(text, "#[Max     = {max_ms:12.3}, Total count    = {:12}]", histogram.len())?;
    // Java's count of sub-buckets: the least power of two that tells the digits apart, twice.
    let sub_buckets = (2 * 10_u32.pow(histogram.sigfig().into())).next_power_of_two();
    writeln!(text, "#[Buckets = {:12}, SubBuckets     = {sub_buckets:12}]", histogram.buckets())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::samples::{around, open_run};

    /// The fields of the rows between header and footer.
    fn rows(text: &str) -> Vec<Vec<f64>> {
        let rows = text.lines().skip(2).take_while(|line| !line.starts_with('#'));
        rows.map(|line| line.split_whitespace().map(|f| f.parse().unwrap()).collect()).collect()
    }

    #[test]
    fn header_and_footer_are_the_formats() {
        let (mut result, _) = open_run();
        result.latency.response = around(1_000, 10_000);
        let text = render(&result);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "       Value     Percentile TotalCount 1/(1-Percentile)");
        assert_eq!(lines[1], "");
        let footer = &lines[lines.len() - 3..];
        assert!(footer[0].starts_with("#[Mean    =        9.994, StdDeviation   =        1.15"));
        assert_eq!(footer[1], "#[Max     =       11.990, Total count    =         1000]");
        assert_eq!(footer[2], "#[Buckets =           32, SubBuckets     =         2048]");
    }

    #[test]
    fn rows_rise_to_the_maximum_at_one() {
        let (mut result, _) = open_run();
        result.latency.response = around(1_000, 10_000);
        let rows = rows(&render(&result));
        assert!(rows.len() > 20);
        for pair in rows.windows(2) {
            assert!(
                pair[0][0] <= pair[1][0] && pair[0][1] < pair[1][1] && pair[0][2] <= pair[1][2]
            );
        }
        let median = rows.iter().find(|row| row[1] == 0.5).unwrap();
        assert!((median[0] - 10.0).abs() < 0.02, "{median:?}");
        assert_eq!((median[2], median[3]), (500.0, 2.0));
        assert_eq!(rows.last().unwrap(), &[11.99, 1.0, 1000.0]);
        assert!(rows[..rows.len() - 1].iter().all(|row| row.len() == 4));
    }

    #[test]
    fn without_samples_there_are_no_rows() {
        let (mut result, _) = open_run();
        result.latency.response = Summary::default();
        let text = render(&result);
        assert!(rows(&text).is_empty());
        assert!(text.contains("Total count    =            0"));
    }
}
