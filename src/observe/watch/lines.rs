//! Logs of samples, line by line: those of `ringload watch` as JSON, and those of `vmstat`.

use serde::{Deserialize, Serialize};

use super::vmstat::{Row, Vmstat};
use crate::stats::result::Sample;

/// One line of `ringload watch`, as it is written.
#[derive(Clone, Debug, Serialize)]
pub struct Line<'s> {
    /// When: seconds since 1970, UTC, by the clock of the machine that is watched.
    pub unix_s: f64,
    /// Its name; in the first line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<&'s str>,
    /// What was seen.
    #[serde(flatten)]
    pub sample: &'s Sample,
    /// What went and came since the line before; left out where there is nothing to tell.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub notes: &'s [String],
}

/// The same line, read.
#[derive(Debug, Deserialize)]
struct ReadLine {
    unix_s: f64,
    #[serde(flatten)]
    sample: Sample,
    #[serde(default)]
    notes: Vec<String>,
}

/// When a sample was taken, by the clock of the machine that it is of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stamp {
    /// Seconds since 1970.
    pub(super) unix_s: f64,
    /// What it is rounded down to: 1 s in `vmstat`'s lines.
    pub(super) step_s: f64,
    /// Whether the zone of a local time is known.
    pub(super) is_zone_known: bool,
}

/// What a line of a log says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reading {
    /// `None` where the log has no time stamps.
    pub(super) stamp: Option<Stamp>,
    pub(super) sample: Sample,
    pub(super) notes: Vec<String>,
}

/// Reads a log; which of the two it is, each line shows.
#[derive(Debug, Default)]
pub(super) struct LogReader {
    vmstat: Vmstat,
    /// Lines that are neither.
    unknown_lines: u64,
    /// The first of them, cut.
    example: String,
}

/// Characters of a line that are shown to people.
const SHOWN_CHARS: usize = 120;

impl LogReader {
    /// What the line says, if it is a sample.
    pub(super) fn read(&mut self, line: &str) -> Option<Reading> {
        let line = line.trim();
        if line.is_empty() {
            return None;
        }
        let row = if line.starts_with('{') { read_json(line) } else { self.vmstat.read(line) };
        match row {
            Row::Reading(reading) => Some(*reading),
            Row::Passed => None,
            Row::Unknown => {
                if self.unknown_lines == 0 {
                    self.example = shown(line);
                }
                self.unknown_lines += 1;
                None
            }
        }
    }

    /// A remark about lines that were not understood, if there were any.
    pub(super) fn remark(&self) -> Option<String> {
        let lines = match self.unknown_lines {
            0 => return None,
            1 => "1 line is".to_owned(),
            n => format!("{n} lines are"),
        };
        Some(format!(
            "{lines} neither of `ringload watch` nor of `vmstat -n -t 1`; the first: {}",
            self.example
        ))
    }
}

/// A text of others, cut and without what would disturb a terminal.
pub(super) fn shown(line: &str) -> String {
    line.trim().chars().filter(|c| !c.is_control()).take(SHOWN_CHARS).collect()
}

fn read_json(line: &str) -> Row {
    match serde_json::from_str::<ReadLine>(line) {
        Ok(ReadLine { unix_s, sample, notes }) => {
            let stamp = Some(Stamp { unix_s, step_s: 0.0, is_zone_known: true });
            Row::Reading(Box::new(Reading { stamp, sample, notes }))
        }
        Err(_) => Row::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stats::result::ProcessSample;

    fn sample() -> Sample {
        let nginx = ProcessSample {
            pid: 12,
            name: "nginx".into(),
            rss: Some(1 << 20),
            cpu: Some(0.25),
            ..ProcessSample::default()
        };
        Sample {
            t_s: 3.0,
            cpus: Some(2),
            cpu_user: Some(1.5),
            mem_available: Some(u64::MAX),
            processes: vec![nginx],
            ..Sample::default()
        }
    }

    #[test]
    fn what_was_written_is_read() {
        let (sample, notes) = (sample(), vec!["nginx (pid 12) went".to_owned()]);
        let line = Line { unix_s: 1.796e9, host: Some("web"), sample: &sample, notes: &notes };
        let text = serde_json::to_string(&line).unwrap();
        let reading = LogReader::default().read(&text).unwrap();
        assert_eq!(reading.stamp.unwrap().unix_s, 1.796e9);
        assert_eq!((reading.sample, reading.notes), (sample, notes));
    }

    #[test]
    fn line_has_all_keys_and_no_empty_remarks() {
        let line = Line { unix_s: 1.0, host: None, sample: &Sample::default(), notes: &[] };
        let value = serde_json::to_value(&line).unwrap();
        for key in ["t_s", "cpu_steal", "tcp_mem_bytes", "oom_kills", "processes"] {
            assert!(value.get(key).is_some(), "{key}");
        }
        assert!(value.get("host").is_none() && value.get("notes").is_none());
    }

    #[test]
    fn keys_of_other_versions_do_no_harm() {
        let text = r#"{"unix_s": 5, "mem_available": 7, "temperature": {"cpu": 60}}"#;
        let reading = LogReader::default().read(text).unwrap();
        assert_eq!(reading.sample.mem_available, Some(7));
        assert_eq!(reading.sample.cpu_user, None);
    }

    #[test]
    fn other_lines_are_counted_and_the_first_is_shown() {
        let mut log = LogReader::default();
        assert_eq!(log.remark(), None);
        for line in ["", "Welcome to \u{1b}[1mweb", "{\"unix_s\": \"now\"}", "{"] {
            assert_eq!(log.read(line), None);
        }
        let remark = log.remark().unwrap();
        assert!(remark.starts_with("3 lines are neither"), "{remark}");
        assert!(remark.ends_with("the first: Welcome to [1mweb"), "{remark}");
    }

    proptest! {
        #[test]
        fn any_line_is_survived(line in ".{0,60}", json in "\\{\"unix_s\":[0-9.e-]{0,8}[\"a-z:,0-9]{0,20}\\}") {
            let mut log = LogReader::default();
            let _ = log.read(&line);
            let _ = log.read(&json);
            let _ = log.remark();
        }
    }
}
