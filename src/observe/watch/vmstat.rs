//! The text of `vmstat -n -t 1`, of procps from 3.2 (CentOS 6) on.

use jiff::civil::DateTime;

use super::lines::{Reading, Stamp};
use super::{round, zones};
use crate::stats::result::Sample;

/// Reads such a text line by line. Without a heading nothing is understood.
#[derive(Debug, Default)]
pub(super) struct Vmstat {
    columns: Option<Columns>,
    /// Whether the next row is the first behind a heading: means since boot.
    is_first: bool,
}

/// What a line was.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Row {
    /// A sample.
    Reading(Box<Reading>),
    /// A heading, or the row behind it.
    Passed,
    /// None of vmstat's.
    Unknown,
}

/// The places of the columns, and the zone that the heading names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Columns {
    names: Vec<String>,
    zone: Option<String>,
}

impl Vmstat {
    pub(super) fn read(&mut self, line: &str) -> Row {
        if is_banner(line) {
            return Row::Passed;
        }
        if let Some(columns) = Columns::parse(line) {
            self.columns = Some(columns);
            self.is_first = true;
            return Row::Passed;
        }
        let Some(reading) = self.columns.as_ref().and_then(|columns| columns.read(line)) else {
            return Row::Unknown;
        };
        if std::mem::replace(&mut self.is_first, false) {
            return Row::Passed;
        }
        Row::Reading(Box::new(reading))
    }
}

/// The line above the heading: `procs -----------memory---------- ...`.
fn is_banner(line: &str) -> bool {
    line.trim_start().starts_with("procs ") && line.contains("memory") && line.contains("--")
}

impl Columns {
    /// Reads ` r  b   swpd   free ... wa st                 UTC`. The zone is the last word, where
    /// there are time stamps and the heading names it.
    fn parse(line: &str) -> Option<Self> {
        let mut names: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        if names.first()? != "r" || !["b", "free", "us", "id"].iter().all(|name| has(&names, name))
        {
            return None;
        }
        let is_column =
            |name: &String| name.len() <= 5 && name.chars().all(|c| c.is_ascii_lowercase());
        let zone = names.pop_if(|last| !is_column(last)).filter(|zone| zone != "timestamp");
        Some(Self { names, zone })
    }

    fn read(&self, line: &str) -> Option<Reading> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (figures, stamp) = words.split_at_checked(self.names.len())?;
        let mut values = Vec::with_capacity(figures.len());
        for figure in figures {
            values.push(figure.parse::<u64>().ok()?);
        }
        let value = |name: &str| Some(values[self.names.iter().position(|known| known == name)?]);
        // Percent of all CPUs, however many there are.
        let share = |name| value(name).map(|percent| percent as f64 / 100.0);
        let bytes = |name| value(name).and_then(|kib| kib.checked_mul(1024));
        let available = bytes("free")?.saturating_add(bytes("buff").unwrap_or(0));
        let sample = Sample {
            cpu_user: share("us").map(|user| round(user + share("gu").unwrap_or(0.0), 4)),
            cpu_system: share("sy"),
            cpu_iowait: share("wa"),
            cpu_steal: share("st"),
            run_queue: value("r"),
            mem_available: Some(available.saturating_add(bytes("cache").unwrap_or(0))),
            swap_used: bytes("swpd"),
            ..Sample::default()
        };
        Some(Reading { stamp: self.stamp(stamp), sample, notes: Vec::new() })
    }

    /// Reads `2026-12-01 03:24:29`, behind which procps 3.2 writes the zone.
    fn stamp(&self, words: &[&str]) -> Option<Stamp> {
        let [date, time, rest @ ..] = words else { return None };
        let zone = rest.first().copied().or(self.zone.as_deref());
        let civil: DateTime = format!("{date}T{time}").parse().ok()?;
        let (unix_s, is_zone_known) = zones::unix_seconds(civil, zone)?;
        Some(Stamp { unix_s, step_s: 1.0, is_zone_known })
    }
}

fn has(names: &[String], name: &str) -> bool {
    names.iter().any(|known| known == name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Of procps-ng 4.0, which has a column for guests.
    const TEXT: &str = "\
procs -----------memory---------- ---swap-- -----io---- -system-- -------cpu------- -----timestamp-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st gu                 UTC
 1  0      0 2436536   5940 1940500    0    0   362  1299 1569 1791 26 11 61  1  0  0 2026-12-01 03:24:29
33  1   1024  24365   5940 194050    0    0     0     0   78   78 60 30  5  2  2  1 2026-12-01 03:24:30
 0  0      0 100 10 1    0    0     0     0   61   60  0  0 100  0  0  0 2026-12-01 03:24:31
";

    fn readings(text: &str) -> Vec<Reading> {
        let mut vmstat = Vmstat::default();
        let read = |line| match vmstat.read(line) {
            Row::Reading(reading) => Some(*reading),
            Row::Passed => None,
            Row::Unknown => panic!("not understood: {line}"),
        };
        text.lines().filter_map(read).collect()
    }

    #[test]
    fn rows_are_read_but_for_the_first() {
        let readings = readings(TEXT);
        assert_eq!(readings.len(), 2);
        let sample = &readings[0].sample;
        assert_eq!((sample.cpu_user, sample.cpu_system), (Some(0.61), Some(0.3)));
        assert_eq!((sample.cpu_iowait, sample.cpu_steal), (Some(0.02), Some(0.02)));
        assert_eq!((sample.cpus, sample.run_queue), (None, Some(33)));
        assert_eq!(sample.mem_available, Some((24_365 + 5_940 + 194_050) * 1024));
        assert_eq!(sample.swap_used, Some(1024 * 1024));
        let stamp = readings[0].stamp.unwrap();
        assert_eq!((stamp.unix_s, stamp.is_zone_known), (1_796_095_470.0, true));
        assert_eq!(readings[1].stamp.unwrap().unix_s, 1_796_095_471.0);
    }

    #[test]
    fn older_texts_are_read() {
        // procps 3.2.8 has the zone in the row, 3.3.10 no column for guests.
        let old = "\
procs -----------memory---------- ---swap-- -----io---- --system-- -----cpu----- ---timestamp---
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st
 1  0      0 2436536   5940 1940500    0    0   362  1299 1569 1791 26 11 61  1  0\t2013-11-30 12:00:00 CET
 2  0      0 2436536   5940 1940500    0    0   362  1299 1569 1791 90 10  0  0  0\t2013-11-30 12:00:01 CET
";
        let readings = readings(old);
        assert_eq!(readings.len(), 1);
        assert_eq!(readings[0].sample.cpu_user, Some(0.9));
        assert_eq!(readings[0].stamp.unwrap().unix_s, 1_385_809_201.0);
    }

    #[test]
    fn without_time_stamps_there_are_samples_still() {
        let plain: String = TEXT
            .lines()
            .map(|line| line.split(" 2026").next().unwrap().replace(" UTC", "") + "\n")
            .collect();
        let readings = readings(&plain);
        assert_eq!(readings.len(), 2);
        assert_eq!(readings[0].stamp, None);
    }

    #[test]
    fn heading_again_means_a_new_start() {
        assert_eq!(readings(&[TEXT, TEXT].concat()).len(), 4);
    }

    #[test]
    fn other_texts_are_not_vmstats() {
        let mut vmstat = Vmstat::default();
        for line in ["", "1 2 3", "ssh: connect to host x port 22: refused", " r  b", "r b free"] {
            assert_eq!(vmstat.read(line), Row::Unknown, "{line}");
        }
        vmstat.read(TEXT.lines().nth(1).unwrap());
        for line in ["", "1 2 3", "Connection to x closed.", " 1 0 x"] {
            assert_eq!(vmstat.read(line), Row::Unknown, "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_survived(
            lines in proptest::collection::vec("( ?(r|b|free|us|id|st|UTC|[0-9]{1,20}|[0-9-]{10}|[0-9:]{8}|.))*", 0..5)
        ) {
            let mut vmstat = Vmstat::default();
            vmstat.read(TEXT.lines().nth(1).unwrap());
            for line in lines {
                let _ = vmstat.read(&line);
            }
        }
    }
}
