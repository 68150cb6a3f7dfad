//! The last seconds of a hold, as `--abort-if` asks about them.

use std::collections::VecDeque;

use super::objective::{Metric, Objective};
use crate::clock::{Nanos, SECOND};

/// How far back shares look.
const SPAN_NS: Nanos = 5 * SECOND;
/// The fewest probes that make a share.
const MIN_PROBES: usize = 3;
/// The fewest connections that make a share.
const MIN_CONNECTIONS: u64 = 20;

/// What was seen in the last seconds.
#[derive(Clone, Debug, Default)]
pub struct Recent {
    /// When, and how many connections had been opened and had failed by then.
    counts: VecDeque<(Nanos, u64, u64)>,
    /// When a probe was sent, and whether it failed.
    probes: VecDeque<(Nanos, bool)>,
    mem_available: Option<u64>,
}

impl Recent {
    /// Notes how many connections came to be open and how many did not, since the start.
    pub fn connections(&mut self, now: Nanos, opened: u64, failed: u64) {
        self.counts.push_back((now, opened, failed));
        // One from before the span stays: what came since is the difference to it.
        while self.counts.get(1).is_some_and(|(at, ..)| *at + SPAN_NS <= now) {
            self.counts.pop_front();
        }
    }

    /// Notes a probe that was sent at `at`.
    pub fn probe(&mut self, at: Nanos, failed: bool) {
        self.probes.push_back((at, failed));
    }

    /// Notes what the server's machine has to spare, as far as that is known.
    pub fn mem_available(&mut self, bytes: Option<u64>) {
        self.mem_available = bytes.or(self.mem_available);
    }

    /// The first of these that holds, and the figure it holds of. A figure that is not known holds
    /// nothing.
    #[must_use]
    pub fn first_held<'a>(
        &mut self,
        objectives: &'a [Objective],
        now: Nanos,
    ) -> Option<(&'a Objective, f64)> {
        while self.probes.front().is_some_and(|(at, _)| *at + SPAN_NS < now) {
            self.probes.pop_front();
        }
        objectives.iter().find_map(|objective| {
            let value = self.value(objective.metric)?;
            objective.holds(value).then_some((objective, value))
        })
    }

    fn value(&self, metric: Metric) -> Option<f64> {
        match metric {
            Metric::TargetMemAvailable => self.mem_available.map(|bytes| bytes as f64),
            Metric::ProbeFailed => {
                let failed = self.probes.iter().filter(|(_, failed)| *failed).count();
                let known = self.probes.len() >= MIN_PROBES;
                known.then(|| failed as f64 / self.probes.len() as f64)
            }
            Metric::Failed => {
                let (first, last) = (self.counts.front()?, self.counts.back()?);
                let (opened, failed) = (last.1 - first.1, last.2 - first.2);
                let known = opened + failed >= MIN_CONNECTIONS;
                known.then(|| failed as f64 / (opened + failed) as f64)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(recent: &mut Recent, text: &str, now_s: u64) -> Option<f64> {
        let objectives = [text.parse().unwrap()];
        let held = recent.first_held(&objectives, now_s * SECOND);
        held.map(|(_, value)| value)
    }

    #[test]
    fn probes_of_the_last_seconds_make_the_share() {
        let mut recent = Recent::default();
        recent.probe(SECOND, true);
        recent.probe(2 * SECOND, true);
        assert_eq!(held(&mut recent, "probe_failed>50%", 2), None, "two are too few");
        recent.probe(3 * SECOND, false);
        assert_eq!(held(&mut recent, "probe_failed>50%", 3), Some(2.0 / 3.0));
        for second in 4..9 {
            recent.probe(second * SECOND, false);
        }
        assert_eq!(held(&mut recent, "probe_failed>0%", 8), None);
        assert_eq!(held(&mut recent, "probe_failed<=0%", 8), Some(0.0));
        assert_eq!(held(&mut recent, "probe_failed<=0%", 30), None, "none is left");
    }

    #[test]
    fn connections_of_the_last_seconds_make_the_share() {
        let mut recent = Recent::default();
        for (second, opened, failed) in [(0, 0, 0), (1, 100, 0), (2, 110, 9)] {
            recent.connections(second * SECOND, opened, failed);
        }
        assert_eq!(held(&mut recent, "failed>5%", 2), Some(9.0 / 119.0));
        recent.connections(6 * SECOND, 110, 9);
        assert_eq!(held(&mut recent, "failed>40%", 6), None, "19 are too few");
        recent.connections(7 * SECOND, 110, 20);
        assert_eq!(held(&mut recent, "failed>40%", 7), None, "of 11 since the second second");
        recent.connections(8 * SECOND, 110, 40);
        assert_eq!(held(&mut recent, "failed>40%", 8), Some(1.0));
    }

    #[test]
    fn memory_is_the_last_that_was_seen() {
        let mut recent = Recent::default();
        assert_eq!(held(&mut recent, "target_mem_available<200MiB", 1), None);
        recent.mem_available(Some(100));
        recent.mem_available(None);
        assert_eq!(held(&mut recent, "target_mem_available<200MiB", 1), Some(100.0));
        recent.mem_available(Some(1 << 30));
        assert_eq!(held(&mut recent, "target_mem_available<200MiB", 1), None);
    }

    #[test]
    fn the_first_that_holds_is_told() {
        let mut recent = Recent::default();
        recent.mem_available(Some(100));
        let objectives = ["failed>1%", "target_mem_available>1GiB", "target_mem_available<1GiB"]
            .map(|text| text.parse().unwrap());
        let (objective, value) = recent.first_held(&objectives, 0).unwrap();
        assert_eq!((objective, value), (&objectives[2], 100.0));
    }
}
