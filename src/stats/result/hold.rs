//! What `hold` adds to a result: the levels, and what a connection costs.

use serde::{Deserialize, Serialize};

use super::{Connections, Counts, ErrorRow, ProbeResult, WatchRow};
use crate::stats::Summary;

/// What `hold` adds to a result; its fields are keys of the result itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HoldResult {
    /// The levels that were reached or tried, in their order; of two targets the first one's.
    pub levels: Vec<LevelResult>,
    /// What a connection costs; of two targets the first one.
    pub per_connection: PerConnection,
    /// How many connections the server's memory would hold; of two targets the first one's. Null
    /// where that cannot be told.
    pub capacity: Option<Capacity>,
    /// Each target, where there are two.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub targets: Option<Vec<TargetResult>>,
    /// What `--abort-if` ended it, if one did.
    pub aborted: Option<Aborted>,
    /// What an operator wants to know, in words: how many connections would fit. Null where that
    /// cannot be told.
    pub sentence: Option<String>,
    /// What to know of these figures, for people.
    pub notes: Vec<String>,
}

/// One target of two.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TargetResult {
    /// Its URL as shown.
    pub url: String,
    /// Its levels.
    pub levels: Vec<LevelResult>,
    /// What a connection to it costs.
    pub per_connection: PerConnection,
    /// How many connections the server's memory would hold.
    pub capacity: Option<Capacity>,
    /// What became of its requests.
    pub counts: Counts,
    /// What became of its connections.
    pub connections: Connections,
    /// Its failures, the most frequent first.
    pub errors: Vec<ErrorRow>,
    /// The probe beside it.
    pub probe: Option<ProbeResult>,
    /// What was watched.
    pub watch: Vec<WatchRow>,
    /// What to know of its figures, for people.
    pub notes: Vec<String>,
}

/// One level: so many connections, held.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LevelResult {
    /// How many were wanted.
    pub connections: u64,
    /// How many were open while it settled, on average.
    pub open: u64,
    /// The server's memory at this level; nulls where nothing was watched.
    pub server: ServerMemory,
    /// The probe while this level was opened and held; null without one.
    pub probe: Option<ProbeResult>,
    /// TCP's handshakes of this level.
    pub connect: Summary,
    /// Full TLS handshakes of this level.
    pub tls: Summary,
    /// Resumed TLS handshakes of this level.
    pub tls_resumed: Summary,
    /// Connections that were opened for it.
    pub opened: u64,
    /// Connections that could not be opened.
    pub failed: u64,
    /// Connections that the server closed while it was opened and held.
    pub closed_by_server: u64,
    /// When it began, since the start of the first.
    pub began_s: f64,
    /// When all of its connections were there (or given up) and the dwell began; null where it
    /// ended before.
    pub settled_s: Option<f64>,
    /// When it ended.
    pub ended_s: f64,
    /// Whether it is a point of the line whose slope is `per_connection`.
    pub fitted: bool,
    /// The generator's own memory at its end.
    pub generator: OwnMemory,
    /// What was odd about it, for people.
    pub notes: Vec<String>,
}

/// The server's memory at one level, bytes, over all processes watched; null where it is not known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerMemory {
    /// Resident: the median of the last third of the dwell.
    pub rss: Option<u64>,
    /// Resident, shared pages divided by their users: read once, at the end of the dwell.
    pub pss: Option<u64>,
    /// In swap: the median of the last third of the dwell.
    pub swap: Option<u64>,
    /// Of the machine's kernel: TCP's buffers, and the memory of its caches that cannot be
    /// reclaimed, where sockets are. On loopback both ends of a connection are in it.
    pub kernel: Option<u64>,
    /// The most that was resident at once since the level began.
    pub rss_peak: Option<u64>,
    /// CPUs that it used in the dwell, 1.0 being one whole: a mean.
    pub cpu: Option<f64>,
    /// Of the machine: what can be had without swapping, the median of the last third of the dwell.
    pub mem_available: Option<u64>,
}

/// The generator's own memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnMemory {
    /// Bytes resident.
    pub rss: Option<u64>,
}

/// What a connection costs the server: slopes of least-squares lines through the levels. Null where
/// fewer than two levels are known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PerConnection {
    /// Bytes of the server's processes, resident or in swap.
    pub user_bytes: Option<f64>,
    /// Bytes of the kernel.
    pub kernel_bytes: Option<f64>,
    /// Standard error of `user_bytes`; null with two levels, whose line goes through both.
    pub stderr: Option<f64>,
    /// Standard error of `kernel_bytes`.
    pub kernel_stderr: Option<f64>,
    /// Where the line of the processes begins: bytes without a connection.
    pub base_bytes: Option<f64>,
    /// Levels that the lines go through.
    pub levels: u64,
}

/// How many connections a memory would hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capacity {
    /// Bytes that the server's machine had to spare at the lowest level.
    pub mem_available: u64,
    /// Of these, left alone.
    pub reserve: u64,
    /// Connections that the rest would hold beyond those of the lowest level.
    pub connections: u64,
}

/// What `--abort-if` ended a hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Aborted {
    /// The expression.
    pub expression: String,
    /// What was measured, in the unit that the expression has: bytes, or a share.
    pub value: f64,
    /// When, since the start of the first level.
    pub at_s: f64,
}
