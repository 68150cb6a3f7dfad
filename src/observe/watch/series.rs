//! The samples of one source as they come, and at the end as a row of the result.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::lines::{Reading, Stamp};
use super::round;
use super::skew::Skew;
use crate::stats::result::{Sample, WatchRow};

/// The most remarks that are kept: a server that starts a process a request would fill the result.
const MAX_REMARKS: usize = 100;

/// The moment from which the seconds of a result are counted, by both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Zero {
    /// On the monotonic clock.
    pub instant: Instant,
    /// On the wall clock.
    pub wall: SystemTime,
}

impl Zero {
    /// Now.
    #[must_use]
    pub fn now() -> Self {
        Self { instant: Instant::now(), wall: SystemTime::now() }
    }

    /// The same moment by the wall clock, where only the other is known.
    #[must_use]
    pub fn at(instant: Instant) -> Self {
        let now = Self::now();
        let wall = match instant.checked_duration_since(now.instant) {
            Some(ahead) => now.wall.checked_add(ahead),
            None => now.wall.checked_sub(now.instant.duration_since(instant)),
        };
        Self { instant, wall: wall.unwrap_or(UNIX_EPOCH) }
    }

    /// Seconds since 1970.
    pub(super) fn unix_s(self) -> f64 {
        self.wall.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
    }

    /// Seconds from here to there, negative where it was before.
    pub(super) fn seconds_to(self, instant: Instant) -> f64 {
        match instant.checked_duration_since(self.instant) {
            Some(after) => after.as_secs_f64(),
            None => -self.instant.duration_since(instant).as_secs_f64(),
        }
    }
}

/// When something was seen.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Moment {
    /// When it was taken here, or received here from elsewhere.
    at: Instant,
    /// When it was taken, by the other machine's clock.
    stamp: Option<Stamp>,
}

/// What one source gave so far.
#[derive(Debug, Default)]
pub(super) struct Series {
    samples: Vec<(Moment, Sample)>,
    remarks: Vec<(Moment, String)>,
    unkept_remarks: u64,
}

impl Series {
    /// A sample of this machine, and what is to be told with it.
    pub(super) fn push(&mut self, at: Instant, sample: Sample, notes: Vec<String>) {
        self.push_reading(at, Reading { stamp: None, sample, notes });
    }

    /// A sample of another one, received at `at`.
    pub(super) fn push_reading(&mut self, at: Instant, reading: Reading) {
        let moment = Moment { at, stamp: reading.stamp };
        self.samples.push((moment, reading.sample));
        for note in reading.notes {
            self.push_remark(moment, note);
        }
    }

    /// Something to tell without a sample.
    pub(super) fn remark(&mut self, at: Instant, text: String) {
        self.push_remark(Moment { at, stamp: None }, text);
    }

    fn push_remark(&mut self, moment: Moment, text: String) {
        if self.remarks.len() < MAX_REMARKS {
            self.remarks.push((moment, text));
        } else {
            self.unkept_remarks += 1;
        }
    }

    /// The newest sample, and when it was taken or received here.
    pub(super) fn latest(&self) -> Option<(Instant, &Sample)> {
        self.samples.last().map(|(moment, sample)| (moment.at, sample))
    }

    /// All of it as a row, in seconds since `zero` and in the order of time. Another machine's clock
    /// is corrected.
    pub(super) fn into_row(self, source: String, zero: Zero) -> WatchRow {
        let stamped = self.samples.iter().filter_map(|(moment, _)| {
            Some((zero.unix_s() + zero.seconds_to(moment.at), moment.stamp?))
        });
        let skew = Skew::measure(stamped);
        let correction_s = skew.map_or(0.0, |skew| skew.correction_s);
        let seconds = |moment: Moment| {
            let since_zero = match moment.stamp {
                Some(stamp) => stamp.unix_s + correction_s - zero.unix_s(),
                None => zero.seconds_to(moment.at),
            };
            round(since_zero, 3)
        };
        let mut samples: Vec<Sample> = self
            .samples
            .into_iter()
            .map(|(moment, sample)| Sample { t_s: seconds(moment), ..sample })
            .collect();
        samples.sort_by(|a, b| a.t_s.total_cmp(&b.t_s));
        let mut gaps: Vec<String> = skew.and_then(Skew::remark).into_iter().collect();
        gaps.extend(
            self.remarks
                .into_iter()
                .map(|(moment, text)| format!("{text} at {}", tenths(seconds(moment)))),
        );
        if self.unkept_remarks > 0 {
            gaps.push(format!("and {} more changes", self.unkept_remarks));
        }
        let clock_offset_s = skew.map(|skew| round(skew.offset_s, 3));
        WatchRow { source, samples, clock_offset_s, gaps }
    }
}

/// Seconds for people. What was a moment before the start was at it, and not at -0.0.
fn tenths(seconds: f64) -> String {
    format!("{:.1} s", round(seconds, 1) + 0.0)
}

/// The row of a log that is read at the end: of it what falls between `zero` and `end`, with
/// `margin` on both sides.
pub(super) fn row_of_log(
    source: String,
    readings: Vec<Reading>,
    mut gaps: Vec<String>,
    (zero, end): (Zero, Instant),
    margin: Duration,
) -> WatchRow {
    let found = readings.len();
    let span = -margin.as_secs_f64()..=zero.seconds_to(end) + margin.as_secs_f64();
    let mut has_unknown_zone = false;
    let mut samples = Vec::new();
    for Reading { stamp, sample, notes } in readings {
        let Some(stamp) = stamp else { continue };
        has_unknown_zone |= !stamp.is_zone_known;
        let t_s = round(stamp.unix_s - zero.unix_s(), 3);
        if span.contains(&t_s) {
            gaps.extend(notes.into_iter().map(|note| format!("{note} at {}", tenths(t_s))));
            samples.push(Sample { t_s, ..sample });
        }
    }
    samples.sort_by(|a, b| a.t_s.total_cmp(&b.t_s));
    if has_unknown_zone {
        gaps.push(
            "the zone of its time stamps is not known and was taken for this machine's; write the \
             log with `TZ=UTC vmstat -n -t 1`"
                .into(),
        );
    }
    if samples.is_empty() && found > 0 {
        gaps.push(format!(
            "none of its {found} samples has a time stamp from within the run: are its clock and \
             its zone right, and was it written with `vmstat -n -t 1`?"
        ));
    } else if !samples.is_empty() {
        gaps.push("its clock cannot be compared with ours and is taken to be right".into());
    }
    WatchRow { source, samples, clock_offset_s: None, gaps }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(unix_s: f64, is_zone_known: bool) -> Reading {
        Reading {
            stamp: Some(Stamp { unix_s, step_s: 1.0, is_zone_known }),
            sample: Sample::default(),
            notes: vec!["nginx (pid 1) went".into()],
        }
    }

    fn times(row: &WatchRow) -> Vec<f64> {
        row.samples.iter().map(|sample| sample.t_s).collect()
    }

    #[test]
    fn own_samples_are_placed_by_the_monotonic_clock() {
        let zero = Zero::now();
        let mut series = Series::default();
        let at = |s: f64| zero.instant + Duration::from_secs_f64(s);
        series.push(at(1.0), Sample::default(), Vec::new());
        series.push(at(2.0), Sample::default(), vec!["nginx (pid 1) went".into()]);
        series.remark(at(2.5), "it ended".into());
        assert_eq!(series.latest().unwrap().0, at(2.0));
        let later = Zero { instant: at(1.5), wall: zero.wall };
        let row = series.into_row("name:nginx".into(), later);
        assert_eq!(times(&row), [-0.5, 0.5]);
        assert_eq!(row.gaps, ["nginx (pid 1) went at 0.5 s", "it ended at 1.0 s"]);
        assert_eq!(row.clock_offset_s, None);
    }

    #[test]
    fn wrong_clock_is_corrected() {
        let zero = Zero::now();
        let mut series = Series::default();
        for s in [1.25, 2.0, 3.5] {
            let stamp = zero.unix_s() + f64::floor(s) + 100.0;
            series.push_reading(zero.instant + Duration::from_secs_f64(s), reading(stamp, true));
        }
        let row = series.into_row("cmd:x".into(), zero);
        assert_eq!(row.clock_offset_s, Some(-100.0));
        assert_eq!(times(&row), [1.0, 2.0, 3.0]);
        assert!(row.gaps[0].contains("100.0 s ahead of ours"), "{:?}", row.gaps);
        assert_eq!(row.gaps[3], "nginx (pid 1) went at 3.0 s");
    }

    #[test]
    fn remarks_are_limited() {
        let mut series = Series::default();
        for _ in 0..MAX_REMARKS + 7 {
            series.remark(Instant::now(), "x".into());
        }
        let row = series.into_row("system".into(), Zero::now());
        assert_eq!(row.gaps.len(), MAX_REMARKS + 1);
        assert_eq!(row.gaps.last().unwrap(), "and 7 more changes");
    }

    #[test]
    fn of_a_log_only_the_run_is_taken() {
        let zero = Zero::now();
        let readings = |is_zone_known| {
            let at = |s: f64| reading((zero.unix_s() + s).floor(), is_zone_known);
            [-3_600.0, 3.0, 1.0, 2.0, 3_600.0].map(at).to_vec()
        };
        let run = (zero, zero.instant + Duration::from_secs(4));
        let margin = Duration::from_secs(1);
        let row = row_of_log("file:x".into(), readings(true), Vec::new(), run, margin);
        assert_eq!((row.samples.len(), row.clock_offset_s), (3, None));
        assert!(row.samples.is_sorted_by(|a, b| a.t_s <= b.t_s));
        assert!(row.gaps.last().unwrap().contains("cannot be compared"), "{:?}", row.gaps);

        let row = row_of_log("file:x".into(), readings(false), Vec::new(), run, margin);
        assert!(row.gaps.iter().any(|gap| gap.contains("TZ=UTC")), "{:?}", row.gaps);
        let old = readings(true)[..1].to_vec();
        let row = row_of_log("file:x".into(), old, Vec::new(), run, margin);
        assert!(row.gaps[0].starts_with("none of its 1 samples"), "{:?}", row.gaps);
    }

    #[test]
    fn zero_may_lie_ahead_or_behind() {
        let now = Instant::now();
        let hour = Duration::from_secs(3_600);
        let (ahead, here) = (Zero::at(now + hour), Zero::at(now));
        let apart = ahead.wall.duration_since(here.wall).unwrap();
        assert!(apart.abs_diff(hour) < Duration::from_secs(60), "{apart:?}");
        assert_eq!(ahead.seconds_to(now), -3_600.0);
    }
}
