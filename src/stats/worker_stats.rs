//! What a worker leaves behind, and how several become one.

use super::distribution::{Distribution, TOTAL_DIGITS};
use super::errors::FaultTable;
use super::pages::PageStats;
use super::recorder::Tally;
use super::second::Second;
use crate::clock::Nanos;

/// Statuses that are told apart: three digits.
pub const STATUSES: usize = 1000;

/// What a worker leaves behind.
pub struct WorkerStats {
    /// The counters.
    pub tally: Tally,
    /// Complete responses.
    pub completed: u64,
    /// Of these, the ones inside the recorded time.
    pub answered: u64,
    /// Failures.
    pub failed: u64,
    /// Responses of status 4xx and 5xx.
    pub http_errors: u64,
    /// Bytes of bodies after de-chunking.
    pub body_bytes: u64,
    /// When the last response was complete, on the run's clock.
    pub last_answer_ns: Option<Nanos>,
    /// When the recording ended, on the run's clock.
    pub ended_ns: Nanos,
    /// Responses by status; what is beyond three digits is in the last.
    pub statuses: Box<[u64; STATUSES]>,
    /// Failures by phase and kind.
    pub faults: FaultTable,
    /// Times.
    pub latency: Latencies,
    /// Figures per page, in the plan's order.
    pub pages: Vec<PageStats>,
    /// Service time of what ended while no arrival waited for a place.
    pub service_free: MeanOf,
    /// Service time of what ended while arrivals waited for a place.
    pub service_full: MeanOf,
    /// The second that was in progress at the end.
    pub last_second: Option<Second>,
}

/// The distributions of a run, in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Latencies {
    /// From when it was wanted to the last byte.
    pub response: Distribution,
    /// From the real send to the last byte.
    pub service: Distribution,
    /// `response` of status under 400.
    pub ok: Distribution,
    /// What an arrival waited for a place.
    pub wait: Distribution,
    /// TCP alone.
    pub connect: Distribution,
    /// A full TLS handshake alone.
    pub tls: Distribution,
    /// A resumed one alone.
    pub tls_resumed: Distribution,
    /// From the real send to the first byte.
    pub first_byte: Distribution,
    /// What the generator was late by.
    pub lag: Distribution,
}

/// A mean in the making.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeanOf {
    /// Samples.
    pub count: u64,
    /// Their sum, nanoseconds.
    pub sum_ns: u128,
}

impl WorkerStats {
    /// All workers as one; `None` of none.
    #[must_use]
    pub fn merge_all(workers: impl IntoIterator<Item = Self>) -> Option<Self> {
        workers.into_iter().reduce(|mut all, one| {
            all.merge(one);
            all
        })
    }

    /// Adds another worker's figures. Its last second is dropped: it belongs to
    /// [`Live`](super::Live).
    ///
    /// # Panics
    /// If the two did not have the same number of pages.
    pub fn merge(&mut self, other: Self) {
        assert_eq!(self.pages.len(), other.pages.len(), "workers of one plan have the same pages");
        self.tally.merge(&other.tally);
        self.completed += other.completed;
        self.answered += other.answered;
        self.failed += other.failed;
        self.http_errors += other.http_errors;
        self.body_bytes += other.body_bytes;
        self.last_answer_ns = self.last_answer_ns.max(other.last_answer_ns);
        self.ended_ns = self.ended_ns.max(other.ended_ns);
        for (mine, others) in self.statuses.iter_mut().zip(other.statuses.iter()) {
            *mine += others;
        }
        self.faults.merge(other.faults);
        self.latency.merge(&other.latency);
        for (mine, others) in self.pages.iter_mut().zip(other.pages) {
            mine.merge(others);
        }
        self.service_free.merge(other.service_free);
        self.service_full.merge(other.service_full);
    }

    /// Checks the identities that every run keeps, whatever happened in it.
    ///
    /// # Panics
    /// With the numbers, where one does not hold: then requests were lost or counted twice, and no
    /// figure of the run is to be believed.
    pub fn check_identities(&self) {
        let Tally { scheduled, started, dropped, unstarted, unfinished, .. } = self.tally;
        let (completed, failed) = (self.completed, self.failed);
        assert!(
            scheduled == started + dropped + unstarted,
            "scheduled {scheduled} = started {started} + dropped {dropped} + unstarted {unstarted}"
        );
        assert!(
            started == completed + failed + unfinished,
            "started {started} = completed {completed} + failed {failed} + unfinished {unfinished}"
        );
        let errors = self.faults.total();
        assert!(failed == errors, "failed {failed} = sum of the errors {errors}");
        let statuses: u64 = self.statuses.iter().sum();
        assert!(statuses >= completed, "statuses {statuses} >= completed {completed}");
        let (response, ok) = (self.latency.response.count(), self.latency.ok.count());
        assert!(
            statuses <= response && response <= statuses + failed,
            "statuses {statuses} <= response times {response} <= statuses + failed {failed}"
        );
        let http_errors = self.http_errors;
        assert!(
            ok + http_errors == statuses,
            "ok times {ok} + http_errors {http_errors} = statuses {statuses}"
        );
    }
}

impl Latencies {
    /// Adds another worker's times.
    pub fn merge(&mut self, other: &Self) {
        self.response.merge(&other.response);
        self.service.merge(&other.service);
        self.ok.merge(&other.ok);
        self.wait.merge(&other.wait);
        self.connect.merge(&other.connect);
        self.tls.merge(&other.tls);
        self.tls_resumed.merge(&other.tls_resumed);
        self.first_byte.merge(&other.first_byte);
        self.lag.merge(&other.lag);
    }
}

impl Default for Latencies {
    fn default() -> Self {
        let empty = || Distribution::new(TOTAL_DIGITS);
        Self {
            response: empty(),
            service: empty(),
            ok: empty(),
            wait: empty(),
            connect: empty(),
            tls: empty(),
            tls_resumed: empty(),
            first_byte: empty(),
            lag: empty(),
        }
    }
}

impl MeanOf {
    /// Adds a sample.
    #[inline]
    pub fn add(&mut self, value_ns: Nanos) {
        self.count += 1;
        self.sum_ns += u128::from(value_ns);
    }

    /// Adds another one's samples.
    pub fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.sum_ns += other.sum_ns;
    }

    /// The mean, nanoseconds; `None` without samples.
    #[must_use]
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }
}

impl Tally {
    /// Adds another worker's counters. The sum of the workers' peaks stands for the peak of all; they
    /// follow one plan and peak together.
    pub fn merge(&mut self, other: &Self) {
        self.scheduled += other.scheduled;
        self.started += other.started;
        self.dropped += other.dropped;
        self.unstarted += other.unstarted;
        self.unfinished += other.unfinished;
        self.clients_scheduled += other.clients_scheduled;
        self.clients_started += other.clients_started;
        self.clients_finished += other.clients_finished;
        self.sent_bytes += other.sent_bytes;
        self.received_bytes += other.received_bytes;
        self.attempted += other.attempted;
        self.opened += other.opened;
        self.reused += other.reused;
        self.resent += other.resent;
        self.closed_by_server += other.closed_by_server;
        self.closed_by_us += other.closed_by_us;
        self.open += other.open;
        self.peak_open += other.peak_open;
        self.unexpected_bytes += other.unexpected_bytes;
        self.no_ports += other.no_ports;
        self.syn_retransmits += other.syn_retransmits;
        self.tls_full += other.tls_full;
        self.tls_resumed += other.tls_resumed;
        self.connections_counted += other.connections_counted;
        self.connection_requests += other.connection_requests;
        self.connection_requests_max =
            self.connection_requests_max.max(other.connection_requests_max);
    }
}
