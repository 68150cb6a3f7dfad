//! What one worker records.

use std::sync::mpsc::Receiver;

use super::errors::Fault;
use crate::clock::Nanos;

/// The `Content-Encoding` of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// None, or `identity`.
    #[default]
    Identity,
    /// `gzip` or `x-gzip`.
    Gzip,
    /// `br`
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
    /// Connections that have ended or were open at the end, for the mean.
    pub connections_counted: u64,
    /// Requests on those.
    pub connection_requests: u64,
    /// The most requests on one connection.
    pub connection_requests_max: u64,
}

/// One second of one worker, for progress and the series.
pub struct Second {
    /// Seconds since the start of recorded time.
    pub index: u32,
}

/// Records what one worker does.
pub struct Recorder {
    /// The counters.
    pub tally: Tally,
}

/// What a worker leaves behind.
pub struct WorkerStats {
    /// The counters.
    pub tally: Tally,
}

impl Recorder {
    /// A recorder, and where its seconds arrive.
    #[must_use]
    pub fn new(_settings: Settings) -> (Self, Receiver<Second>) {
        let (_, receiver) = std::sync::mpsc::sync_channel(8);
        (Self { tally: Tally::default() }, receiver)
    }

    /// An arrival was started: what it waited for a place, and what the generator was late by.
    pub fn arrival(&mut self, _wait_ns: Nanos, _lag_ns: Nanos) {}

    /// A TCP connection was made.
    pub fn connected(&mut self, _connect_ns: Nanos) {}

    /// A response is complete.
    pub fn completed(&mut self, _exchange: &Exchange) {}

    /// A request failed.
    pub fn failed(&mut self, _page: u32, _fault: Fault) {}

    /// A request was given up at its deadline: a failure that is in the latencies.
    /// `sent_ns` is `None` where it was never sent.
    pub fn timed_out(
        &mut self,
        _page: u32,
        _intended_ns: Nanos,
        _sent_ns: Option<Nanos>,
        _fault: Fault,
    ) {
    }

    /// Called once a pass: hands a second over when it is past.
    pub fn tick(&mut self, _now: Nanos) {}

    /// Ends the recording.
    #[must_use]
    pub fn finish(self, _end_ns: Nanos) -> WorkerStats {
        WorkerStats { tally: self.tally }
    }
}
