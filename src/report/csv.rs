//! The series as CSV (RFC 4180, but for the line ends): a row a second.

use std::fmt::Write as _;

use crate::stats::result::{RunResult, SeriesRow};

const HEADER: &str = "t_s,scheduled,started,completed,failed,http_errors,open,p50_us,p95_us,\
                      p99_us,max_us,received_bytes\n";

/// The series with a header row of its keys; null is an empty field.
#[must_use]
pub fn render(result: &RunResult) -> String {
    let mut text = HEADER.to_owned();
    result.series.iter().for_each(|row| write_row(&mut text, row));
    text
}

fn write_row(text: &mut String, row: &SeriesRow) {
    let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    let written = writeln!(
        text,
        "{},{},{},{},{},{},{},{},{},{},{},{}",
        row.t_s,
        row.scheduled,
        row.started,
        row.completed,
        row.failed,
        row.http_errors,
        row.open,
        number(row.p50_us),
        number(row.p95_us),
        number(row.p99_us),
        number(row.max_us),
        row.received_bytes,
    );
    written.expect("writing to memory does not fail");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::samples::open_run;

    #[test]
    fn the_header_has_the_keys_of_the_series_and_each_row_its_values() {
        let (mut result, _) = open_run();
        result.series.truncate(2);
        result.series[1].p50_us = None;
        result.series[1].t_s = 1.25;
        let text = render(&result);
        let lines: Vec<Vec<_>> = text.lines().map(|line| line.split(',').collect()).collect();
        assert_eq!(lines.len(), 3);
        let json = serde_json::to_value(&result.series).unwrap();
        for (line, row) in lines[1..].iter().zip(json.as_array().unwrap()) {
            let row = row.as_object().unwrap();
            assert_eq!(line.len(), row.len());
            for (key, field) in lines[0].iter().zip(line) {
                match row[*key].as_f64() {
                    Some(value) => assert_eq!(field.parse::<f64>().unwrap(), value, "{key}"),
                    None => assert_eq!(*field, "", "{key}"),
                }
            }
        }
    }
}
