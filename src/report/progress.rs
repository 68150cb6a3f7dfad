//! What is seen on stderr while a load runs: a bar on a terminal, else one line a second.

use std::fmt;
use std::io::{IsTerminal, Write, stderr};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::clock::{MILLISECOND, Nanos};
use crate::judge::words::time;
use crate::stats::MergedSecond;
use crate::stats::distribution::micros;
use crate::units::{format_count, format_rate};

/// How progress is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// A bar where stderr is a terminal, else one line a second.
    #[default]
    Auto,
    /// A bar; nothing where stderr is no terminal.
    Bar,
    /// One line a second.
    Line,
    /// Nothing.
    None,
}

/// What the load is to come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Planned {
    /// Its recorded time, if it ends by the clock.
    pub duration_ns: Option<Nanos>,
    /// Requests (or clients) started, if it ends by their number.
    pub requests: Option<u64>,
    /// Whether a rate is offered.
    pub open_model: bool,
}

/// Where a hold is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Climbing {
    /// Which level, from 1, of how many.
    pub level: (usize, usize),
    /// Connections that it has.
    pub wanted: u64,
    /// Connections open.
    pub open: u64,
    /// Connections on their way.
    pub opening: u64,
    /// Connections that could not be opened, since the start.
    pub failed: u64,
    /// Connections that the server closed, since the start.
    pub closed_by_server: u64,
    /// Whether the level is reached, and held.
    pub is_held: bool,
}

impl fmt::Display for Climbing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (level, of) = self.level;
        let [open, wanted] = [self.open, self.wanted].map(format_count);
        write!(f, "level {level} of {of}  {open} of {wanted} open")?;
        if self.is_held {
            f.write_str(", held")?;
        } else {
            write!(f, ", {} to come", format_count(self.opening))?;
        }
        write!(f, "  failed {}", format_count(self.failed))?;
        match self.closed_by_server {
            0 => Ok(()),
            closed => write!(f, "  closed by the server {}", format_count(closed)),
        }
    }
}

/// Shows progress.
pub struct Progress {
    view: View,
    planned: Planned,
    started: u64,
}

enum View {
    Bar(ProgressBar),
    Line,
    None,
}

impl Progress {
    /// Begins to show it.
    #[must_use]
    pub fn new(mode: Mode, planned: Planned) -> Self {
        let view = match mode {
            Mode::Auto if stderr().is_terminal() => View::Bar(bar(planned)),
            Mode::Bar => View::Bar(bar(planned)),
            Mode::Auto | Mode::Line => View::Line,
            Mode::None => View::None,
        };
        Self { view, planned, started: 0 }
    }

    /// Shows a second.
    pub fn second(&mut self, second: &MergedSecond) {
        self.started += second.counts.started;
        match &self.view {
            View::Bar(bar) => {
                bar.set_position(self.position(second));
                bar.set_message(message(second, self.planned.open_model));
            }
            View::Line => {
                // A closed stderr leaves nobody to tell it to.
                let _ = writeln!(stderr(), "{}", line(second, self.planned.open_model));
            }
            View::None => {}
        }
    }

    /// Shows where a hold is, `now_ns` after its start.
    pub fn held(&self, now_ns: Nanos, climbing: &Climbing) {
        match &self.view {
            View::Bar(bar) => {
                bar.set_position(now_ns / MILLISECOND);
                bar.set_message(climbing.to_string());
            }
            View::Line => {
                // As for a second of a run.
                let _ = writeln!(stderr(), "t {:>4.0}s  {climbing}", now_ns as f64 / 1e9);
            }
            View::None => {}
        }
    }

    /// Takes the bar away.
    pub fn finish(self) {
        if let View::Bar(bar) = self.view {
            bar.finish_and_clear();
        }
    }

    /// In the units of the bar's length.
    fn position(&self, second: &MergedSecond) -> u64 {
        if self.planned.duration_ns.is_some() {
            second.until_ns / MILLISECOND
        } else {
            self.started
        }
    }
}

/// A bar of milliseconds or of requests; without an end a spinner.
fn bar(planned: Planned) -> ProgressBar {
    let length = planned.duration_ns.map(|ns| ns / MILLISECOND).or(planned.requests);
    let template = match length {
        Some(_) => "{elapsed:>4} [{bar:20}] {percent:>3} %  {msg}",
        None => "{elapsed:>4} {spinner}  {msg}",
    };
    let style = ProgressStyle::with_template(template).expect("the template is a constant");
    ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr())
        .with_style(style.progress_chars("=> "))
}

/// One line of progress: when, and what happened in that second.
fn line(second: &MergedSecond, open_model: bool) -> String {
    let t_s = second.until_ns as f64 / 1e9;
    format!("t {t_s:>4.0}s  {}", message(second, open_model))
}

fn message(second: &MergedSecond, open_model: bool) -> String {
    let counts = &second.counts;
    let length_s = second.length_s();
    let per_second =
        |count: u64| format_rate(if length_s > 0.0 { count as f64 / length_s } else { 0.0 });
    let quantile = |q| second.response.quantile_ns(q).map_or("-".to_owned(), |ns| time(micros(ns)));
    let offered = if open_model {
        format!("offered {}  ", per_second(counts.scheduled))
    } else {
        String::new()
    };
    let http_errors = match counts.http_errors {
        0 => String::new(),
        count => format!("  4xx/5xx {}", format_count(count)),
    };
    format!(
        "{offered}answered {}  p50 {}  p99 {}  errors {}{http_errors}  open {}",
        per_second(counts.completed),
        quantile(0.5),
        quantile(0.99),
        format_count(counts.failed),
        format_count(counts.open),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SECOND;
    use crate::stats::Distribution;
    use crate::stats::second::{SECOND_DIGITS, SecondCounts};

    fn second(index: u32, until_ns: Nanos) -> MergedSecond {
        let mut response = Distribution::new(SECOND_DIGITS);
        response.record_n(MILLISECOND, 500);
        MergedSecond {
            index,
            span: 1,
            until_ns,
            counts: SecondCounts {
                scheduled: 1_000,
                started: 900,
                completed: 500,
                failed: 2,
                open: 64,
                ..SecondCounts::default()
            },
            response,
        }
    }

    #[test]
    fn a_line_says_when_and_what_happened() {
        assert_eq!(
            line(&second(2, 3 * SECOND), true),
            "t    3s  offered 1,000/s  answered 500/s  p50 1ms  p99 1ms  errors 2  open 64"
        );
        assert_eq!(
            line(&second(2, 3 * SECOND), false),
            "t    3s  answered 500/s  p50 1ms  p99 1ms  errors 2  open 64"
        );
    }

    #[test]
    fn a_cut_off_second_has_the_rate_of_its_length() {
        assert!(line(&second(2, 2 * SECOND + SECOND / 2), true).contains("answered 1,000/s"));
    }

    #[test]
    fn a_second_without_answers_has_no_percentiles() {
        let mut quiet = second(0, SECOND);
        quiet.response = Distribution::new(SECOND_DIGITS);
        (quiet.counts.completed, quiet.counts.http_errors) = (0, 7);
        let line = line(&quiet, false);
        assert!(line.contains("answered 0/s  p50 -  p99 -  errors 2  4xx/5xx 7"), "{line}");
    }

    #[test]
    fn a_hold_says_where_it_is() {
        let mut climbing = Climbing {
            level: (2, 4),
            wanted: 5_000,
            open: 1_200,
            opening: 3_800,
            failed: 0,
            closed_by_server: 0,
            is_held: false,
        };
        let text = "level 2 of 4  1,200 of 5,000 open, 3,800 to come  failed 0";
        assert_eq!(climbing.to_string(), text);
        (climbing.is_held, climbing.closed_by_server) = (true, 7);
        let text = "level 2 of 4  1,200 of 5,000 open, held  failed 0  closed by the server 7";
        assert_eq!(climbing.to_string(), text);
    }

    #[test]
    fn the_bar_moves_by_time_or_by_what_was_started() {
        let by_time = Planned { duration_ns: Some(10 * SECOND), ..Planned::default() };
        let by_number = Planned { requests: Some(5_000), ..Planned::default() };
        for (planned, length, position) in [(by_time, 10_000, 2_000), (by_number, 5_000, 1_800)] {
            let mut progress = Progress::new(Mode::Bar, planned);
            progress.second(&second(0, SECOND));
            progress.second(&second(1, 2 * SECOND));
            let View::Bar(bar) = &progress.view else { panic!("a bar was asked for") };
            assert_eq!((bar.length(), bar.position()), (Some(length), position));
            progress.finish();
        }
    }
}
