//! The result of a load, as `--json` writes it: keys and units of the schema `ringload/1`.
//!
//! Times are microseconds (`_us`) or seconds (`_s`) with their fraction, rates per second, sizes
//! bytes, shares and CPUs 1.0 for one whole.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::distribution::Summary;
use super::errors::{FaultKind, Phase};
use super::recorder::Encoding;

mod hold;
mod watch;

pub use hold::{
    Aborted, Capacity, HoldResult, LevelResult, OwnMemory, PerConnection, ServerMemory,
    TargetResult,
};
pub use watch::{ProcessSample, Sample, WatchRow};

/// The schema that this is.
pub const SCHEMA: &str = "ringload/1";

/// The result of one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// [`SCHEMA`].
    pub schema: String,
    /// The subcommand.
    pub command: String,
    /// A name for this result.
    pub label: Option<String>,
    /// The version of ringload.
    pub version: String,
    /// When the load began, RFC 3339.
    pub started_at: String,
    /// From the load's start to its end, warm-up and grace included.
    pub elapsed_s: f64,
    /// Whether a signal ended it.
    pub interrupted: bool,
    /// What was asked, resolved.
    pub plan: serde_json::Value,
    /// The machine.
    pub environment: serde_json::Value,
    /// What became of every arrival.
    pub counts: Counts,
    /// What was wanted and what was answered.
    pub rate: Rate,
    /// What was moved.
    pub bytes: Bytes,
    /// Responses by status.
    pub status: BTreeMap<String, u64>,
    /// Failures, the most frequent first.
    pub errors: Vec<ErrorRow>,
    /// Times.
    pub latency: LatencyResult,
    /// Figures per page: those with failures first, then the slowest; at most [`MAX_PAGES`].
    pub pages: Vec<PageRow>,
    /// Connections.
    pub connections: Connections,
    /// The generator's own figures.
    pub generator: Generator,
    /// Who was the limit.
    pub verdict: Verdict,
    /// The probe beside the load; null where there was none.
    pub probe: Option<ProbeResult>,
    /// One row a second.
    pub series: Vec<SeriesRow>,
    /// What was watched, one row a source.
    pub watch: Vec<WatchRow>,
    /// What `hold` adds; of other commands nothing.
    #[serde(flatten)]
    pub hold: Option<HoldResult>,
}

/// The most rows in [`RunResult::pages`].
pub const MAX_PAGES: usize = 20;

/// What became of every arrival: `scheduled = started + dropped + unstarted` and `started =
/// completed + failed + unfinished`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Arrivals; closed model: requests wanted.
    pub scheduled: u64,
    /// Requests started.
    pub started: u64,
    /// Requests with a complete response.
    pub completed: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Arrivals that found no place for longer than `--drop-after`.
    pub dropped: u64,
    /// Arrivals that still waited for a place at the end.
    pub unstarted: u64,
    /// Requests in flight at the end of the grace.
    pub unfinished: u64,
    /// Complete responses of status 4xx and 5xx.
    pub http_errors: u64,
    /// With `--arrive clients`; else zeros.
    pub clients: Clients,
}

/// Clients, with `--arrive clients`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clients {
    /// That arrived.
    pub scheduled: u64,
    /// That began.
    pub started: u64,
    /// That made all their requests.
    pub finished: u64,
}

/// Rates over the recorded time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// Arrivals (clients) per second; null in the closed model.
    pub offered: Option<f64>,
    /// Complete responses inside the recorded time, per second.
    pub answered: f64,
}

/// Bytes as TCP carried them, and of bodies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bytes {
    /// Handed to the kernel.
    pub sent: u64,
    /// Taken from the kernel.
    pub received: u64,
    /// Of bodies after de-chunking.
    pub body: u64,
}

/// Failures of one phase and kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorRow {
    /// Where.
    pub phase: Phase,
    /// What.
    pub kind: FaultKind,
    /// A finer name, or empty.
    pub detail: String,
    /// How many.
    pub count: u64,
    /// When the first was, since the start of recorded time.
    pub first_s: f64,
    /// When the last was.
    pub last_s: f64,
    /// A short text for people, of printable characters.
    pub example: String,
}

/// The distributions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyResult {
    /// From when it was wanted to the last byte.
    pub response: Summary,
    /// From the real send to the last byte.
    pub service: Summary,
    /// `response` of status under 400.
    pub ok: Summary,
    /// What an arrival waited for a place.
    pub wait: Summary,
    /// TCP alone.
    pub connect: Summary,
    /// The full TLS handshake alone.
    pub tls: Summary,
    /// The resumed TLS handshake alone.
    pub tls_resumed: Summary,
    /// From the real send to the first byte.
    pub first_byte: Summary,
    /// What the generator was late by.
    pub lag: Summary,
}

/// Figures of one page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PageRow {
    /// Its URL.
    pub url: String,
    /// Complete responses.
    pub count: u64,
    /// Failures.
    pub failed: u64,
    /// Responses of status 4xx and 5xx.
    pub http_errors: u64,
    /// Bytes of body after de-chunking.
    pub bytes: u64,
    /// How its last response was encoded.
    pub encoding: Encoding,
    /// Median of response time.
    pub p50_us: Option<f64>,
    /// 95 % of response times are at most this.
    pub p95_us: Option<f64>,
}

/// Connections.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Connections {
    /// Tried.
    pub attempted: u64,
    /// Made.
    pub opened: u64,
    /// Requests sent on a connection that had carried one before.
    pub reused: u64,
    /// Requests sent once more on a fresh connection.
    pub resent: u64,
    /// That the server closed.
    pub closed_by_server: u64,
    /// That we closed first.
    pub closed_by_us: u64,
    /// The most open at once.
    pub peak_open: u64,
    /// That sent bytes after a complete response.
    pub unexpected_bytes: u64,
    /// Connects held back because no port was free.
    pub no_ports: u64,
    /// SYNs that were sent again.
    pub syn_retransmits: u64,
    /// How many requests a connection carried.
    pub requests_per_connection: RequestsPerConnection,
    /// What TLS agreed on; null on plain HTTP.
    pub tls: Option<TlsFigures>,
}

/// What the TLS handshakes came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsFigures {
    /// The version, such as "TLSv1.3"; null where no handshake was complete.
    pub version: Option<String>,
    /// The cipher suite, as IANA names it.
    pub suite: Option<String>,
    /// The group of the key exchange, as `--tls-groups` takes it.
    pub group: Option<String>,
    /// Whether the server's certificate was verified.
    pub verified: bool,
    /// Full handshakes.
    pub full: u64,
    /// Handshakes that resumed an earlier session.
    pub resumed: u64,
}

/// How many requests a connection carried.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RequestsPerConnection {
    /// The mean; null without connections.
    pub mean: Option<f64>,
    /// The most.
    pub max: u64,
}

/// The generator's own figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// Per worker thread.
    pub workers: Vec<WorkerRow>,
    /// CPU time of all workers over their requests, warm-up included, polling for nothing not;
    /// null without.
    pub cpu_us_per_request: Option<f64>,
    /// The rings' counters.
    pub ring: RingCounters,
    /// What batching may add in the closed model.
    pub batching: Batching,
}

/// One worker thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerRow {
    /// The CPU it was pinned to; null where it was not.
    pub pinned_to: Option<usize>,
    /// CPU time over elapsed time, polling included.
    pub cpu: f64,
    /// Share of the elapsed time at work, polling not counted.
    pub busy: f64,
    /// Share of the elapsed time ready but not run.
    pub waited: f64,
    /// 99 % of arrivals were late by at most this; null in the closed model.
    pub lag_p99_us: Option<f64>,
    /// Passes of its loop.
    pub passes: u64,
    /// Requests over passes; null without passes.
    pub requests_per_pass: Option<f64>,
}

/// The rings' counters, which should be 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingCounters {
    /// Completions that found no room in the queue.
    pub cq_overflows: u64,
    /// Receives that found no buffer.
    pub no_buffers: u64,
}

/// What batching may add to a time in the closed model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Batching {
    /// The most completions that a pass waits for.
    pub want: u32,
    /// What that may have added to a response.
    pub min_wait_us: f64,
}

/// Who was the limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Who.
    pub limited_by: LimitedBy,
    /// How sure.
    pub sure: Sure,
    /// Why, in words with figures.
    pub reasons: Vec<String>,
    /// What is wrong with the measurement, each with a remedy.
    pub warnings: Vec<String>,
}

/// What limited the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LimitedBy {
    /// Nothing: all that was offered was answered in time.
    None,
    /// The server.
    Server,
    /// The generator.
    Generator,
    /// Local ports.
    Ports,
    /// The number of connections, or descriptors.
    Connections,
    /// The line.
    Link,
    /// It cannot be told.
    Unknown,
}

/// How sure a verdict is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sure {
    /// Measured.
    High,
    /// What is measured fits nothing else well.
    Medium,
    /// A guess.
    Low,
}

/// What came of the probe: a fresh connection and one request to it each second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProbeResult {
    /// Probes sent.
    pub sent: u64,
    /// Of these, without a good answer in time.
    pub failed: u64,
    /// Median from the start of connecting to the last byte; one that ran out of time is in it with
    /// that time, other failures are not.
    pub p50_us: Option<f64>,
    /// The longest of them.
    pub max_us: Option<f64>,
    /// When the first that failed was sent, since the start of recorded time.
    pub first_failed_s: Option<f64>,
    /// How often each failure was, named by its phase and kind.
    pub failures: BTreeMap<String, u64>,
}

/// One second of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeriesRow {
    /// Its end, since the start of recorded time; whole but for the last.
    pub t_s: f64,
    /// Arrivals.
    pub scheduled: u64,
    /// Requests started.
    pub started: u64,
    /// Complete responses.
    pub completed: u64,
    /// Failures.
    pub failed: u64,
    /// Responses of status 4xx and 5xx.
    pub http_errors: u64,
    /// Connections open at its end.
    pub open: u64,
    /// Median of response time.
    pub p50_us: Option<f64>,
    /// 95 % are at most this.
    pub p95_us: Option<f64>,
    /// 99 % are at most this.
    pub p99_us: Option<f64>,
    /// The largest.
    pub max_us: Option<f64>,
    /// Bytes taken from the kernel.
    pub received_bytes: u64,
}

impl LimitedBy {
    /// Its name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Server => "server",
            Self::Generator => "generator",
            Self::Ports => "ports",
            Self::Connections => "connections",
            Self::Link => "link",
            Self::Unknown => "unknown",
        }
    }
}

impl Sure {
    /// Its name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
        }
    }
}

impl Default for Verdict {
    /// Nothing judged yet.
    fn default() -> Self {
        Self {
            limited_by: LimitedBy::Unknown,
            sure: Sure::Low,
            reasons: Vec::new(),
            warnings: Vec::new(),
        }
    }
}
