//! What one worker records, on its hot path: no allocation, no lock, no system call.
//!
//! Only recorded time is recorded: what happens in the warm-up is not given to the recorder, but
//! for the counters of connections and bytes in [`Tally`].

use std::sync::mpsc::Receiver;

use serde::{Deserialize, Serialize};

use super::distribution::{Distribution, TOTAL_DIGITS};
use super::errors::{Fault, FaultTable};
use super::pages::{PageStats, Pages};
use super::second::{Second, SecondCounts, Seconds};
use super::worker_stats::{Latencies, MeanOf, STATUSES, WorkerStats};
use crate::clock::Nanos;

/// The `Content-Encoding` of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// None, or `identity`.
    #[default]
    Identity,
    /// `gzip` or `x-gzip`.
    Gzip,
    /// `br`
    #[serde(rename = "br")]
    Brotli,
    /// `zstd`
    Zstd,
    /// `deflate`
    Deflate,
    /// Any other, or several.
    Other,
}

/// A request with a complete response; times on the run's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Index of the page.
    pub page: u32,
    /// Final status.
    pub status: u16,
    /// When the plan wanted it, or its place was free.
    pub intended_ns: Nanos,
    /// When it was really sent.
    pub sent_ns: Nanos,
    /// When its first byte was there.
    pub first_byte_ns: Nanos,
    /// When its last byte was there.
    pub done_ns: Nanos,
    /// Bytes of body after de-chunking.
    pub body: u64,
    /// How the body was encoded.
    pub encoding: Encoding,
}

/// What a recorder must know from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How many pages there are, at least 1.
    pub pages: usize,
    /// Where recorded time starts.
    pub start_ns: Nanos,
    /// Where recorded time ends, if by the clock; else nothing is left out of `answered`.
    pub end_ns: Option<Nanos>,
    /// Open model: `wait` and `lag` are of arrivals.
    pub open_model: bool,
}

/// Counters that a worker raises itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Arrivals (closed model: requests wanted) so far.
    pub scheduled: u64,
    /// Requests started.
    pub started: u64,
    /// Arrivals given up before they were started (`--drop-after`).
    pub dropped: u64,
    /// Arrivals that were due and not started at the end.
    pub unstarted: u64,
    /// Requests in flight at the end.
    pub unfinished: u64,
    /// With `--arrive clients`: clients that arrived.
    pub clients_scheduled: u64,
    /// Clients that began.
    pub clients_started: u64,
    /// Clients that made all their requests.
    pub clients_finished: u64,
    /// Bytes handed to the kernel.
    pub sent_bytes: u64,
    /// Bytes taken from the kernel.
    pub received_bytes: u64,
    /// Connections tried.
    pub attempted: u64,
    /// Connections made.
    pub opened: u64,
    /// Requests sent on a connection that had carried one before.
    pub reused: u64,
    /// Requests sent once more on a fresh connection.
    pub resent: u64,
    /// Connections that the server closed.
    pub closed_by_server: u64,
    /// Connections that we closed first.
    pub closed_by_us: u64,
    /// Connections open now.
    pub open: u64,
    /// The most open at once.
    pub peak_open: u64,
    /// Connections that sent bytes after a complete response.
    pub unexpected_bytes: u64,
    /// Connects held back because no port was free.
    pub no_ports: u64,
    /// SYNs that were sent again.
    pub syn_retransmits: u64,
    /// Full TLS handshakes.
    pub tls_full: u64,
    /// TLS handshakes that resumed an earlier session.
    pub tls_resumed: u64,
    /// Connections that have ended or were open at the end, for the mean.
    pub connections_counted: u64,
    /// Requests on those.
    pub connection_requests: u64,
    /// The most requests on one connection.
    pub connection_requests_max: u64,
}

/// Records what one worker does.
pub struct Recorder {
    /// The counters.
    pub tally: Tally,
    end_ns: Option<Nanos>,
    completed: u64,
    answered: u64,
    failed: u64,
    http_errors: u64,
    body: u64,
    last_answer_ns: Option<Nanos>,
    /// When the last request ended, well or not.
    last_end_ns: Nanos,
    last_encoding: Encoding,
    /// Service times of what was complete while no arrival waited for a place, and while one did.
    service: [MeanOf; 2],
    waiting: bool,
    /// Waits of nothing, which are most; added at the end.
    zero_waits: u64,
    statuses: Box<[u64; STATUSES]>,
    /// Exchanges whose response, service, first byte and ok are all the same time: the usual small
    /// answer of the closed model. Added to all four at the end.
    same: Distribution,
    latency: Latencies,
    pages: Pages,
    seconds: Seconds,
    faults: FaultTable,
}

impl Recorder {
    /// A recorder, and where its seconds arrive.
    #[must_use]
    pub fn new(settings: Settings) -> (Self, Receiver<Second>) {
        let (seconds, receiver) = Seconds::new(settings.start_ns);
        let recorder = Self {
            tally: Tally::default(),
            end_ns: settings.end_ns,
            completed: 0,
            answered: 0,
            failed: 0,
            http_errors: 0,
            body: 0,
            last_answer_ns: None,
            last_end_ns: 0,
            last_encoding: Encoding::Identity,
            service: [MeanOf::default(); 2],
            waiting: false,
            zero_waits: 0,
            statuses: Box::new([0; STATUSES]),
            same: Distribution::new(TOTAL_DIGITS),
            latency: Latencies::default(),
            pages: Pages::new(settings.pages),
            seconds,
            faults: FaultTable::default(),
        };
        (recorder, receiver)
    }

    /// Says when recorded time starts and ends, where that was not known when the recorder was made.
    /// To be called before anything is recorded but connections.
    pub fn start(&mut self, start_ns: Nanos, end_ns: Option<Nanos>) {
        self.seconds.start(start_ns);
        self.end_ns = end_ns;
    }

    /// Ends recorded time early: what completes after `now` is not `answered`.
    pub fn stop(&mut self, now: Nanos) {
        self.end_ns = Some(self.end_ns.map_or(now, |end_ns| end_ns.min(now)));
    }

    /// Where the second in progress ends: [`Self::tick`] should be called soon after, so that a
    /// worker without work does not hold the others' seconds up.
    #[must_use]
    pub fn second_ends_ns(&self) -> Nanos {
        self.seconds.ends_ns
    }

    /// An arrival was started: what it waited for a place, and what the generator was late by.
    #[inline]
    pub fn arrival(&mut self, wait_ns: Nanos, lag_ns: Nanos) {
        self.waiting = wait_ns > 0;
        if wait_ns == 0 {
            self.zero_waits += 1;
        } else {
            self.latency.wait.record(wait_ns);
        }
        self.latency.lag.record(lag_ns);
        self.seconds.lag_max_ns = self.seconds.lag_max_ns.max(lag_ns);
    }

    /// A TCP connection was made.
    #[inline]
    pub fn connected(&mut self, connect_ns: Nanos) {
        self.latency.connect.record(connect_ns);
    }

    /// A TLS handshake is complete; it took so long beyond TCP.
    #[inline]
    pub fn secured(&mut self, handshake_ns: Nanos, resumed: bool) {
        if resumed {
            self.tally.tls_resumed += 1;
            self.latency.tls_resumed.record(handshake_ns);
        } else {
            self.tally.tls_full += 1;
            self.latency.tls.record(handshake_ns);
        }
    }

    /// A response is complete. Its time of completion decides to which second it belongs.
    #[inline]
    pub fn completed(&mut self, exchange: &Exchange) {
        self.tick(exchange.done_ns);
        let response_ns = exchange.done_ns.saturating_sub(exchange.intended_ns);
        let service_ns = exchange.done_ns.saturating_sub(exchange.sent_ns);
        let first_byte_ns = exchange.first_byte_ns.saturating_sub(exchange.sent_ns);
        let is_error = exchange.status >= 400;

        self.completed += 1;
        self.answered += u64::from(self.end_ns.is_none_or(|end| exchange.done_ns <= end));
        self.http_errors += u64::from(is_error);
        self.body += exchange.body;
        self.last_answer_ns = self.last_answer_ns.max(Some(exchange.done_ns));
        self.last_end_ns = self.last_end_ns.max(exchange.done_ns);
        self.last_encoding = exchange.encoding;
        self.statuses[usize::from(exchange.status).min(STATUSES - 1)] += 1;
        self.service[usize::from(self.waiting)].add(service_ns);

        if response_ns == service_ns && first_byte_ns == service_ns && !is_error {
            self.same.record(response_ns);
        } else {
            self.latency.response.record(response_ns);
            self.latency.service.record(service_ns);
            self.latency.first_byte.record(first_byte_ns);
            if !is_error {
                self.latency.ok.record(response_ns);
            }
        }
        self.seconds.response.record(response_ns);
        self.pages.completed(exchange, response_ns);
    }

    /// A request failed.
    pub fn failed(&mut self, page: u32, fault: Fault) {
        self.tick(fault.at_ns);
        self.failed += 1;
        self.last_end_ns = self.last_end_ns.max(fault.at_ns);
        self.pages.failed(page, None);
        self.faults.add(fault);
    }

    /// A request was given up at its deadline: a failure that is in the latencies.
    /// `sent_ns` is `None` where it was never sent.
    pub fn timed_out(
        &mut self,
        page: u32,
        intended_ns: Nanos,
        sent_ns: Option<Nanos>,
        fault: Fault,
    ) {
        self.tick(fault.at_ns);
        let response_ns = fault.at_ns.saturating_sub(intended_ns);
        self.failed += 1;
        self.last_end_ns = self.last_end_ns.max(fault.at_ns);
        self.latency.response.record(response_ns);
        if let Some(sent_ns) = sent_ns {
            let service_ns = fault.at_ns.saturating_sub(sent_ns);
            self.latency.service.record(service_ns);
            self.service[usize::from(self.waiting)].add(service_ns);
        }
        self.seconds.response.record(response_ns);
        self.pages.failed(page, Some(response_ns));
        self.faults.add(fault);
    }

    /// Requests so far with a complete response, and those that failed.
    #[must_use]
    pub fn ended(&self) -> (u64, u64) {
        (self.completed, self.failed)
    }

    /// Called once a pass: hands a second over when it is past.
    #[inline]
    pub fn tick(&mut self, now: Nanos) {
        if now >= self.seconds.ends_ns {
            let totals = self.totals();
            self.seconds.roll(now, totals);
        }
    }

    /// Ends the recording: at `end_ns`, or with the last answer where that came later, in the grace.
    /// The second in progress is in the result, not in the channel.
    #[must_use]
    pub fn finish(mut self, end_ns: Nanos) -> WorkerStats {
        let ended_ns = end_ns.max(self.last_end_ns);
        self.tick(ended_ns);
        let totals = self.totals();
        let latency = &mut self.latency;
        for part in
            [&mut latency.response, &mut latency.service, &mut latency.ok, &mut latency.first_byte]
        {
            part.merge(&self.same);
        }
        latency.wait.record_n(0, self.zero_waits);
        let single = PageStats {
            count: self.completed,
            failed: self.failed,
            http_errors: self.http_errors,
            bytes: self.body,
            encoding: self.last_encoding,
            response: None,
        };
        let [service_free, service_full] = self.service;
        WorkerStats {
            tally: self.tally,
            completed: self.completed,
            answered: self.answered,
            failed: self.failed,
            http_errors: self.http_errors,
            body_bytes: self.body,
            last_answer_ns: self.last_answer_ns,
            ended_ns,
            statuses: self.statuses,
            faults: self.faults,
            latency: self.latency,
            pages: self.pages.finish(single),
            service_free,
            service_full,
            last_second: self.seconds.last(ended_ns, self.end_ns, totals),
        }
    }

    fn totals(&self) -> SecondCounts {
        SecondCounts {
            scheduled: self.tally.scheduled,
            started: self.tally.started,
            completed: self.completed,
            failed: self.failed,
            http_errors: self.http_errors,
            open: self.tally.open,
            received_bytes: self.tally.received_bytes,
            lag_max_ns: 0,
        }
    }
}

#[cfg(test)]
mod tests;
