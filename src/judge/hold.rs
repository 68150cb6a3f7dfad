//! What the levels of a hold come to: the server's memory at each, what a connection costs, how
//! many would fit, and what was odd.

use super::levels::Stay;
use super::memory::{self, Point, Whose};
use super::settled::{self, Span};
use super::words::time;
use crate::clock::{Nanos, SECOND};
use crate::stats::Summary;
use crate::stats::result::{
    Capacity, LevelResult, LimitedBy, OwnMemory, PerConnection, ProbeResult, RunResult, Sure,
    Verdict, WatchRow,
};
use crate::units::{format_bytes, format_count};

/// What is closed sooner than this after it was opened, in seconds, is closed by no keep-alive timeout.
const AT_ONCE_S: f64 = 0.5;

/// One level, out of what was seen at it.
#[derive(Clone, Debug, Default)]
pub struct Level {
    /// What happened.
    pub stay: Stay,
    /// What was read when it was left.
    pub reading: Reading,
    /// The probe meanwhile.
    pub probe: Option<ProbeResult>,
    /// TCP's handshakes.
    pub connect: Summary,
    /// Full TLS handshakes.
    pub tls: Summary,
    /// Resumed TLS handshakes.
    pub tls_resumed: Summary,
}

/// What is read once, when a level is left. Bytes; `None` where it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Of the server's processes: resident, shared pages divided by their users.
    pub pss: Option<u64>,
    /// Of this machine's kernel, for sockets.
    pub kernel: Option<u64>,
    /// Of this process, resident.
    pub own_rss: Option<u64>,
}

/// What matters beside the levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Circumstances {
    /// Where the samples' seconds begin.
    pub zero_ns: Nanos,
    /// Whether nothing is sent over connections that are held.
    pub idle: bool,
    /// Whether each connection makes a request at first.
    pub first_request: bool,
}

/// What the levels come to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conclusion {
    /// The levels.
    pub levels: Vec<LevelResult>,
    /// What a connection costs.
    pub per_connection: PerConnection,
    /// How many would fit.
    pub capacity: Option<Capacity>,
    /// What to know of it.
    pub notes: Vec<String>,
}

/// Concludes. `rows` is all that was watched.
#[must_use]
pub fn conclude(levels: Vec<Level>, rows: &[WatchRow], around: Circumstances) -> Conclusion {
    let first_open_ns =
        levels.iter().find(|level| level.stay.opened() > 0).map(|level| level.stay.began_ns);
    let first_closing = levels.iter().position(|level| level.stay.first_closed_ns.is_some());
    let mut points = Vec::new();
    let mut results = Vec::new();
    for (number, level) in levels.into_iter().enumerate() {
        let after_s = first_open_ns
            .filter(|_| first_closing == Some(number))
            .and_then(|open_ns| Some(seconds(level.stay.first_closed_ns?.saturating_sub(open_ns))));
        let mean_open = level.stay.mean_open;
        let result = conclude_level(level, rows, around, after_s);
        if result.fitted {
            let server = &result.server;
            points.push(Point {
                open: mean_open,
                user_bytes: server.rss.map(|rss| rss + server.swap.unwrap_or(0)),
                kernel_bytes: server.kernel,
            });
        }
        results.push(result);
    }
    let per_connection = memory::per_connection(&points);
    let spare = results.first().and_then(|level| level.server.mem_available);
    let capacity = spare.and_then(|spare| memory::capacity(spare, &per_connection));
    let notes = notes(&results, rows);
    Conclusion { levels: results, per_connection, capacity, notes }
}

fn conclude_level(
    level: Level,
    rows: &[WatchRow],
    around: Circumstances,
    after_s: Option<f64>,
) -> LevelResult {
    let Level { stay, reading, probe, connect, tls, tls_resumed } = level;
    let at_s = |ns: Nanos| seconds(ns.saturating_sub(around.zero_ns));
    let mut server = settled::read(
        rows,
        Span {
            began_s: at_s(stay.began_ns),
            dwelled_s: at_s(stay.dwelled_ns.unwrap_or(stay.left_ns)),
            settled_s: at_s(stay.settled_from_ns()),
            left_s: at_s(stay.left_ns),
        },
    );
    server.pss = reading.pss;
    if settled::machine(rows).is_some_and(settled::is_of_this_machine) {
        // The caches of sockets alone, where they may be read, are nearer to the truth than all
        // that cannot be reclaimed.
        server.kernel = reading.kernel.or(server.kernel);
    }
    let fitted = stay.is_steady() && server.rss.is_some();
    LevelResult {
        connections: stay.wanted,
        open: stay.mean_open.round() as u64,
        probe,
        connect,
        tls,
        tls_resumed,
        opened: stay.opened(),
        failed: stay.failed(),
        closed_by_server: stay.closed_by_server(),
        began_s: at_s(stay.began_ns),
        settled_s: stay.dwelled_ns.map(at_s),
        ended_s: at_s(stay.left_ns),
        fitted,
        generator: OwnMemory { rss: reading.own_rss },
        notes: level_notes(&stay, server.rss.is_some(), around, after_s),
        server,
    }
}

fn level_notes(
    stay: &Stay,
    is_watched: bool,
    around: Circumstances,
    after_s: Option<f64>,
) -> Vec<String> {
    let mut notes = Vec::new();
    if stay.closed_by_server() > 0 {
        let which = match (around.idle, around.first_request) {
            (true, true) => " (its keep-alive timeout?)",
            (true, false) => " (its timeout for a request?)",
            (false, _) => "",
        };
        let after = match after_s {
            Some(after_s) if after_s < AT_ONCE_S => " at once".to_owned(),
            Some(after_s) => {
                format!(" after about {}{which}", time(after_s.round().max(1.0) * 1e6))
            }
            None => String::new(),
        };
        notes.push(format!(
            "server closed {} of them{after}",
            format_count(stay.closed_by_server())
        ));
    }
    if stay.failed() > 0 {
        notes.push(format!("{} could not be opened", format_count(stay.failed())));
    }
    if stay.overdue > 0 {
        let overdue = format_count(stay.overdue);
        notes.push(format!("{overdue} were still being opened when they had had their time"));
    }
    if stay.dwelled_ns.is_none() {
        notes.push("left before its connections were there: no point of the line".into());
    } else if !stay.is_steady() {
        let (fewest, most) = stay.extremes;
        notes.push(format!(
            "from {} to {} were open while its memory was read: no point of the line",
            format_count(fewest),
            format_count(most)
        ));
    } else if !is_watched {
        notes.push("nobody saw the server's memory".into());
    }
    notes
}

/// What to know of all levels together.
fn notes(levels: &[LevelResult], rows: &[WatchRow]) -> Vec<String> {
    let mut notes = Vec::new();
    if levels.iter().all(|level| level.server.rss.is_none()) {
        notes.push(
            "the server's memory was not seen; say which process it is (--watch name:nginx, or on \
             its own machine --watch cmd:'ssh host ringload watch --name nginx')"
                .into(),
        );
    } else if levels.iter().filter(|level| level.fitted).count() < 2 {
        notes.push(
            "fewer than two levels can be compared, so there is no line; hold more levels, or \
             longer ones"
                .into(),
        );
    }
    let has_kernel = levels.iter().any(|level| level.server.kernel.is_some());
    if has_kernel && settled::machine(rows).is_some_and(settled::is_of_this_machine) {
        notes.push(
            "server and generator share this machine: the kernel's memory is of both ends of each \
             connection, and which end has how much cannot be told"
                .into(),
        );
    }
    notes.extend(settled::changed(rows));
    for row in rows {
        notes.extend(row.gaps.iter().map(|gap| format!("{}: {gap}", row.source)));
    }
    notes
}

/// Whose memory the rows show.
#[must_use]
pub fn whose(rows: &[WatchRow]) -> Whose {
    match settled::machine(rows) {
        Some(row) if !settled::is_of_this_machine(row) => Whose::Theirs,
        _ => Whose::Ours,
    }
}

/// What a second target has to be told, if the server kept memory of the first one: an allocator
/// gives back late, and connections that use it again seem to cost nothing.
#[must_use]
pub fn kept_memory(first: &[LevelResult], second: &[LevelResult]) -> Option<String> {
    let (before, after) = (first.first()?.server.rss?, second.first()?.server.rss?);
    let peak = first.iter().filter_map(|level| level.server.rss).max()?;
    // A tenth of what the first levels took is more than noise.
    let kept = after.saturating_sub(before);
    (peak > before && kept > (peak - before) / 10).then(|| {
        format!(
            "the server kept {} of the first run's memory, which connections of the second may use \
             again: its line may come out too flat; restart the server between two holds of one \
             URL each, or give the URL first that costs less",
            format_bytes(kept)
        )
    })
}

/// Who kept a hold from its levels.
#[must_use]
pub fn verdict(result: &RunResult, levels: &[LevelResult]) -> Verdict {
    let short = levels.iter().find(|level| level.open < level.connections);
    let Some(short) = short else {
        return Verdict {
            limited_by: LimitedBy::None,
            sure: Sure::High,
            reasons: vec!["every level was reached".into()],
            warnings: Vec::new(),
        };
    };
    let connections = &result.connections;
    let of =
        format!("{} of {} were open", format_count(short.open), format_count(short.connections));
    let failed: u64 = levels.iter().map(|level| level.failed).sum();
    let closed: u64 = levels.iter().map(|level| level.closed_by_server).sum();
    let (limited_by, sure, why) = if connections.no_ports > 0 {
        let held_back = format_count(connections.no_ports);
        (LimitedBy::Ports, Sure::High, format!("{held_back} tries found no port"))
    } else if closed > 0 {
        let closed = format_count(closed);
        (LimitedBy::Server, Sure::High, format!("it closed {closed} connections"))
    } else if failed > 0 {
        let failed = format_count(failed);
        (LimitedBy::Server, Sure::Medium, format!("{failed} connections could not be opened"))
    } else {
        (LimitedBy::Unknown, Sure::Low, "the hold ended before the rest was open".into())
    };
    Verdict { limited_by, sure, reasons: vec![of, why], warnings: Vec::new() }
}

/// The level at which a probe first failed, and when.
#[must_use]
pub fn first_failed(levels: &[LevelResult]) -> Option<(&LevelResult, f64)> {
    levels.iter().find_map(|level| Some((level, level.probe.as_ref()?.first_failed_s?)))
}

fn seconds(ns: Nanos) -> f64 {
    ns as f64 / SECOND as f64
}

#[cfg(test)]
mod tests;
