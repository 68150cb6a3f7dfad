//! The workers' seconds laid over each other while the load runs.

use super::distribution::{Distribution, micros};
use super::result::SeriesRow;
use super::second::{SECOND_DIGITS, Second, SecondCounts};
use crate::clock::{Nanos, SECOND};

/// One second of all workers.
#[derive(Clone, Debug)]
pub struct MergedSecond {
    /// Seconds since the start of recorded time.
    pub index: u32,
    /// How many seconds it covers, mostly 1.
    pub span: u32,
    /// Its end, nanoseconds since the start of recorded time.
    pub until_ns: Nanos,
    /// Its counters.
    pub counts: SecondCounts,
    /// Its response times.
    pub response: Distribution<u32>,
}

/// Collects seconds; belongs to the control thread. A second is merged and given back at once, so
/// memory does not grow with the length of the run but for one row a second.
pub struct Live {
    /// Up to which second each worker has reported.
    reported: Vec<u32>,
    /// Seconds that some workers have yet to report, in order, never overlapping.
    pending: Vec<MergedSecond>,
    /// The second after the last that was given out, and what was open then.
    next_index: u32,
    open: u64,
    rows: Vec<SeriesRow>,
}

impl MergedSecond {
    /// Its length in seconds.
    #[must_use]
    pub fn length_s(&self) -> f64 {
        self.until_ns.saturating_sub(Nanos::from(self.index) * SECOND) as f64 / SECOND as f64
    }

    fn end(&self) -> u32 {
        self.index + self.span
    }

    fn quiet(index: u32, span: u32, open: u64) -> Self {
        Self {
            index,
            span,
            until_ns: Nanos::from(index + span) * SECOND,
            counts: SecondCounts { open, ..SecondCounts::default() },
            response: Distribution::new(SECOND_DIGITS),
        }
    }

    /// Takes in another one that shares seconds with it.
    fn absorb(&mut self, other: &Self) {
        let end = self.end().max(other.end());
        self.index = self.index.min(other.index);
        self.span = end - self.index;
        self.until_ns = self.until_ns.max(other.until_ns);
        self.counts.merge(&other.counts);
        self.response.merge(&other.response);
    }

    fn row(&self) -> SeriesRow {
        let quantile = |q| self.response.quantile_ns(q).map(micros);
        SeriesRow {
            t_s: self.until_ns as f64 / SECOND as f64,
            scheduled: self.counts.scheduled,
            started: self.counts.started,
            completed: self.counts.completed,
            failed: self.counts.failed,
            http_errors: self.counts.http_errors,
            open: self.counts.open,
            p50_us: quantile(0.5),
            p95_us: quantile(0.95),
            p99_us: quantile(0.99),
            max_us: self.response.max_ns().map(micros),
            received_bytes: self.counts.received_bytes,
        }
    }
}

impl Live {
    /// For so many workers.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        Self {
            reported: vec![0; workers],
            pending: Vec::new(),
            next_index: 0,
            open: 0,
            rows: Vec::new(),
        }
    }

    /// Takes a second of one worker.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn push(&mut self, worker: usize, second: Second) {
        let mut merged = MergedSecond {
            index: second.index,
            span: second.span,
            until_ns: second.until_ns,
            counts: second.counts,
            response: second.response().clone(),
        };
        drop(second);
        self.reported[worker] = self.reported[worker].max(merged.end());
        let (from, to) = (merged.index, merged.end());
        let first = self.pending.partition_point(|p| p.end() <= from);
        let count = self.pending[first..].iter().take_while(|p| p.index < to).count();
        for shared in self.pending.drain(first..first + count) {
            merged.absorb(&shared);
        }
        self.pending.insert(first, merged);
    }

    /// The next second that every worker has reported. A stretch in which no worker did anything
    /// comes as one quiet second after the other.
    pub fn next_ready(&mut self) -> Option<MergedSecond> {
        let reported = self.reported.iter().copied().min().unwrap_or(0);
        (self.pending.first()?.end() <= reported).then(|| self.take())
    }

    /// The series of the whole run: also what not every worker has reported.
    #[must_use]
    pub fn into_series(mut self) -> Vec<SeriesRow> {
        while !self.pending.is_empty() {
            self.take();
        }
        self.rows
    }

    fn take(&mut self) -> MergedSecond {
        let next = if self.next_index < self.pending[0].index {
            MergedSecond::quiet(self.next_index, 1, self.open)
        } else {
            self.pending.remove(0)
        };
        self.next_index = next.end();
        self.open = next.counts.open;
        self.rows.push(next.row());
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::recorder::{Encoding, Exchange, Recorder, Settings};

    const START: Nanos = 7 * SECOND;

    fn recorder() -> (Recorder, std::sync::mpsc::Receiver<Second>) {
        Recorder::new(Settings { pages: 1, start_ns: START, end_ns: None, open_model: true })
    }

    fn exchange(done_ns: Nanos, service_ns: Nanos) -> Exchange {
        let sent_ns = done_ns - service_ns;
        Exchange {
            page: 0,
            status: 200,
            intended_ns: sent_ns,
            sent_ns,
            first_byte_ns: done_ns,
            done_ns,
            body: 2,
            encoding: Encoding::Identity,
        }
    }

    /// A worker that answers one request in the middle of each of the given seconds.
    fn worker(live: &mut Live, worker: usize, seconds: &[u64], end_ns: Nanos) {
        let (mut recorder, receiver) = recorder();
        recorder.tally.open = 3;
        for second in seconds {
            recorder.completed(&exchange(START + second * SECOND + SECOND / 2, 1_000_000));
            receiver.try_iter().for_each(|s| live.push(worker, s));
        }
        let stats = recorder.finish(START + end_ns);
        receiver.try_iter().chain(stats.last_second).for_each(|s| live.push(worker, s));
    }

    #[test]
    fn seconds_of_two_workers_are_laid_over_each_other() {
        let mut live = Live::new(2);
        worker(&mut live, 0, &[0, 1, 2], 3 * SECOND);
        assert!(live.next_ready().is_none(), "the second worker has reported nothing");
        worker(&mut live, 1, &[0, 0, 2], 3 * SECOND);
        let first = live.next_ready().unwrap();
        assert_eq!((first.index, first.span, first.counts.completed), (0, 1, 3));
        assert_eq!(first.counts.open, 6);
        let rows = live.into_series();
        assert_eq!(rows.iter().map(|r| r.t_s).collect::<Vec<_>>(), [1.0, 2.0, 3.0]);
        assert_eq!(rows.iter().map(|r| r.completed).collect::<Vec<_>>(), [3, 1, 2]);
        assert_eq!(rows[1].max_us, Some(1000.0));
        assert_eq!(rows[1].p50_us, Some(1000.0));
    }

    #[test]
    fn a_stretch_without_anything_has_rows_of_its_own() {
        let mut live = Live::new(1);
        worker(&mut live, 0, &[0, 4], 4 * SECOND + SECOND * 3 / 4);
        let rows = live.into_series();
        assert_eq!(rows.iter().map(|r| r.t_s).collect::<Vec<_>>(), [1.0, 2.0, 3.0, 4.0, 4.75]);
        assert_eq!(rows.iter().map(|r| r.completed).collect::<Vec<_>>(), [1, 0, 0, 0, 1]);
        assert_eq!(rows[2].open, 3);
        assert_eq!(rows[2].p50_us, None);
    }

    #[test]
    fn seconds_that_nobody_fetches_are_merged_and_nothing_is_lost() {
        let (mut recorder, receiver) = recorder();
        for second in 0..30 {
            recorder.completed(&exchange(START + second * SECOND + 5, 5));
        }
        let stats = recorder.finish(START + 30 * SECOND);
        let mut live = Live::new(1);
        receiver.try_iter().chain(stats.last_second).for_each(|s| live.push(0, s));
        let rows = live.into_series();
        assert_eq!(rows.iter().map(|r| r.completed).sum::<u64>(), 30);
        assert!(rows.len() < 30);
        assert_eq!(rows.last().unwrap().t_s, 30.0);
    }

    #[test]
    fn a_second_that_spans_several_takes_the_others_in() {
        let mut live = Live::new(2);
        worker(&mut live, 0, &[0, 1, 2, 3], 4 * SECOND);
        let (mut late, receiver) = recorder();
        late.tick(START);
        let kept: Vec<_> = (0..10)
            .filter_map(|second| {
                late.completed(&exchange(START + second * SECOND + 9, 9));
                receiver.try_recv().ok()
            })
            .collect();
        drop(receiver);
        let wide = kept.into_iter().map(|mut second| {
            (second.index, second.span) = (1, 2);
            second
        });
        live.push(1, wide.into_iter().next().unwrap());
        let rows = live.into_series();
        assert_eq!(rows.iter().map(|r| r.completed).collect::<Vec<_>>(), [1, 3, 1]);
    }
}
