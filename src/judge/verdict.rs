//! Who was the limit: read off the run's own figures and, where it was watched, the server's.
//!
//! Every threshold here is the contract's, or says where it comes from.

use super::link;
use super::server::{CpuState, CpuUse, Stretch, cpu_use};
use super::warnings::warnings;
use super::words::{percent, time};
use crate::stats::assemble::Circumstances;
use crate::stats::result::{LimitedBy, RunResult, SeriesRow, Sure, Verdict, WorkerRow};
use crate::stats::{FaultKind, Phase};
use crate::units::{format_count, format_counted, format_rate};

/// A worker that is at work or waits for its CPU for a larger share is the limit.
const BUSY_LIMIT: f64 = 0.9;
/// Recorded time, seconds, below which a full CPU says nothing of the load.
const LEAST_RECORDED_S: f64 = 0.1;
/// A lag p99 above this, and above [`LAG_SHARE`] of the median response time, is the generator's.
const LAG_LIMIT_US: f64 = 1_000.0;
const LAG_SHARE: f64 = 0.1;
/// Answers fell behind where a larger share of the arrivals had none in time. What a healthy run
/// has in flight at its end is allowed on top.
const BEHIND_SHARE: f64 = 0.03;
/// So few missing answers are what any short run has in flight.
const BEHIND_LEAST: u64 = 5;
/// The p95 tipped where that of the last quarter is so many times that of the first: the factor of
/// the contract's knee.
const TIPPED_FACTOR: f64 = 4.0;
/// A p95 below this has not tipped, whatever it was before: noise of a fast server.
const TIPPED_LEAST_US: f64 = 2_000.0;
/// Rows that a series needs for its quarters to mean something.
const ROWS_FOR_QUARTERS: usize = 8;
/// A service time that rose by this factor while all places were taken is the server's. While a
/// queue fills from nothing its mean is half of the full one's, so a rise shows as 2 or more.
const ROSE_FACTOR: f64 = 1.4;
/// One that rose by less than this stayed flat.
const FLAT_FACTOR: f64 = 1.15;
/// A smaller share of failures is no limit but an accident.
const FAILED_SHARE: f64 = 0.01;
/// A share of failures to connect or of refusing statuses that makes them the subject.
const NOTABLE_SHARE: f64 = 0.1;
/// What shedding servers and the layers before them answer.
const BLOCKING: [&str; 3] = ["403", "429", "503"];

/// Who, how sure, and why.
type Finding = (LimitedBy, Sure, Vec<String>);

/// What of the offer was answered in time (open model).
struct Offer {
    /// Arrivals, or clients.
    wanted: u64,
    /// Of these, answered in time.
    answered: u64,
    /// Whether more are missing than are in flight at a healthy run's end.
    behind: bool,
}

/// Judges a result.
#[must_use]
pub fn judge(result: &RunResult, circumstances: &Circumstances) -> Verdict {
    let (limited_by, sure, reasons) = generator(result, circumstances)
        .or_else(|| ports(result, circumstances))
        .or_else(|| descriptors(result))
        .or_else(|| nothing_answered(result))
        .or_else(|| blocked(result))
        .unwrap_or_else(|| {
            if circumstances.open_model {
                open_model(result, circumstances)
            } else {
                closed_model(result, circumstances)
            }
        });
    let mut warnings = warnings(result, circumstances);
    if limited_by == LimitedBy::Generator {
        warnings.insert(
            0,
            "the generator was the limit, so that the figures are its own and not the server's: \
             give it more CPUs (-t, --cpus), end what else runs on them, or offer less"
                .into(),
        );
    }
    Verdict { limited_by, sure, reasons, warnings }
}

fn generator(result: &RunResult, circumstances: &Circumstances) -> Option<Finding> {
    let (number, worker) = busiest(result)?;
    let mut reasons = Vec::new();
    // Of a run shorter than that, most is the making of connections.
    let long_enough = circumstances.recorded_s >= LEAST_RECORDED_S;
    let full = worker.busy + worker.waited > BUSY_LIMIT && long_enough;
    if full {
        let mut reason = format!(
            "worker {number} was at work for {} of the time and waited for its CPU for {}",
            percent(worker.busy),
            percent(worker.waited),
        );
        if circumstances.server_on_our_cpus {
            reason += ", which it shares with the server";
        } else if worker.waited > worker.busy {
            reason += ": something else runs there";
        }
        reasons.push(reason);
    }
    if let (Some(lag_us), Some(median_us)) =
        (result.latency.lag.p99_us, result.latency.response.p50_us)
        && lag_us > LAG_LIMIT_US
        && lag_us > LAG_SHARE * median_us
    {
        reasons.push(format!(
            "the generator was late by {} at p99, against a median response time of {}",
            time(lag_us),
            time(median_us),
        ));
    }
    let sure = if full { Sure::High } else { Sure::Medium };
    (!reasons.is_empty()).then_some((LimitedBy::Generator, sure, reasons))
}

/// No port was free, and that cost arrivals, time or (closed model) places.
fn ports(result: &RunResult, circumstances: &Circumstances) -> Option<Finding> {
    let held_back = result.connections.no_ports;
    let failed = failures(result, |_, kind| kind == FaultKind::NoPorts);
    let hurt = matters(result, failed)
        || !circumstances.open_model
        || Offer::of(result, circumstances).behind
        || tipped(&result.series).is_some();
    (held_back + failed > 0 && hurt).then(|| {
        let reason = format!(
            "no local port was free: connects were held back {}, and {} failed",
            format_counted(held_back, "time"),
            format_counted(failed, "request"),
        );
        (LimitedBy::Ports, Sure::High, vec![reason])
    })
}

fn descriptors(result: &RunResult) -> Option<Finding> {
    let failed = failures(result, |_, kind| kind == FaultKind::NoDescriptors);
    matters(result, failed).then(|| {
        let reason =
            format!("{} failed: no file descriptor was free", format_counted(failed, "request"));
        (LimitedBy::Connections, Sure::High, vec![reason])
    })
}

fn nothing_answered(result: &RunResult) -> Option<Finding> {
    (result.counts.completed == 0).then(|| {
        let reason = match result.errors.first() {
            Some(error) => format!(
                "not one request was answered, mostly: {} {}",
                error.phase.name(),
                error.kind.name()
            ),
            None => "not one request was answered".to_owned(),
        };
        (LimitedBy::Unknown, Sure::Low, vec![reason])
    })
}

/// Statuses by which a server sheds load, or a layer before it blocks.
fn blocked(result: &RunResult) -> Option<Finding> {
    let (status, count) = BLOCKING
        .iter()
        .filter_map(|status| result.status.get(*status).map(|count| (*status, *count)))
        .max_by_key(|(_, count)| *count)?;
    let share = count as f64 / result.counts.completed as f64;
    if share < NOTABLE_SHARE {
        return None;
    }
    let answers = format!("{} of the answers were {status}", percent(share));
    Some(match set_in(&result.series) {
        Some(at_s) => {
            let reason = format!(
                "{answers}: they set in at {at_s:.0} s and stayed, which looks like a blocking \
                 layer before the server"
            );
            (LimitedBy::Server, Sure::Medium, vec![reason])
        }
        None => {
            let reason = format!("{answers}: the server sheds load, or refuses this client");
            (LimitedBy::Server, Sure::Low, vec![reason])
        }
    })
}

/// When error statuses set in and stayed: few before, most of all answers from then on.
fn set_in(series: &[SeriesRow]) -> Option<f64> {
    let share = |row: &SeriesRow| row.http_errors as f64 / row.completed as f64;
    let rows: Vec<_> = series.iter().filter(|row| row.completed > 0).collect();
    let at = rows.iter().position(|row| share(row) > 0.5)?;
    let clean_before = at > 0 && rows[..at].iter().any(|row| share(row) < NOTABLE_SHARE);
    let stayed = rows.len() - at >= 2 && rows[at..].iter().all(|row| share(row) > 0.5);
    (clean_before && stayed).then(|| rows[at - 1].t_s)
}

fn open_model(result: &RunResult, circumstances: &Circumstances) -> Finding {
    let offer = Offer::of(result, circumstances);
    let tipped = tipped(&result.series);
    let what = if circumstances.clients { "client" } else { "arrival" };
    let mut reasons = Vec::new();
    if offer.behind {
        reasons.push(format!(
            "{} of {} were answered in time ({} offered, {} answered)",
            percent(offer.answered as f64 / offer.wanted as f64),
            format_counted(offer.wanted, what),
            format_rate(result.rate.offered.unwrap_or_default()),
            format_rate(result.rate.answered),
        ));
    }
    if let Some((first_us, last_us)) = tipped {
        reasons.push(format!(
            "the p95 tipped: {} in the run's first quarter, {} in its last",
            time(first_us),
            time(last_us),
        ));
    }
    if reasons.is_empty() {
        let sure = if offer.wanted >= 100 { Sure::High } else { Sure::Medium };
        let answered = format!(
            "{} of {} {} answered in time",
            percent(offer.answered as f64 / offer.wanted.max(1) as f64),
            format_counted(offer.wanted, what),
            if offer.wanted == 1 { "was" } else { "were" },
        );
        return (LimitedBy::None, sure, vec![answered]);
    }
    let (limited_by, sure, more) = full_link(result, circumstances, Stretch::Quarter)
        .or_else(|| full_server(result, circumstances, Stretch::Quarter))
        .unwrap_or_else(|| who_held_up(result, circumstances));
    reasons.extend(more);
    (limited_by, sure, reasons)
}

/// The line is full; less sure where the server's CPU is full as well.
fn full_link(
    result: &RunResult,
    circumstances: &Circumstances,
    stretch: Stretch,
) -> Option<Finding> {
    let reason = link::full(result, circumstances)?;
    let server = cpu_use(result, circumstances.recorded_s, stretch);
    let server = server.filter(|server| server.state == CpuState::Full);
    let sure = if server.is_some() { Sure::Medium } else { Sure::High };
    let reasons = [reason].into_iter().chain(server.as_ref().map(CpuUse::reason));
    Some((LimitedBy::Link, sure, reasons.collect()))
}

/// The watched server's CPU is full.
fn full_server(
    result: &RunResult,
    circumstances: &Circumstances,
    stretch: Stretch,
) -> Option<Finding> {
    let server = cpu_use(result, circumstances.recorded_s, stretch)?;
    let is_full = server.state == CpuState::Full;
    is_full.then(|| (LimitedBy::Server, Sure::High, vec![server.reason()]))
}

/// Answers fell behind or tipped, and the generator is in order: server or connections.
fn who_held_up(result: &RunResult, circumstances: &Circumstances) -> Finding {
    let server = cpu_use(result, circumstances.recorded_s, Stretch::Quarter);
    let ended = (result.counts.completed + result.counts.failed).max(1);
    let not_connected = failures(result, |phase, kind| {
        phase == Phase::Connect && kind != FaultKind::NoPorts && kind != FaultKind::NoDescriptors
    });
    if not_connected as f64 / ended as f64 >= NOTABLE_SHARE {
        let share = percent(not_connected as f64 / ended as f64);
        let mut reason = format!("{share} of the requests could not connect");
        if server.is_some_and(|server| server.state == CpuState::Idle) {
            reason += ", while the server idles: a layer before it may block";
        }
        return (LimitedBy::Server, Sure::Medium, vec![reason]);
    }
    let in_order = busiest(result).map(|(_, worker)| {
        format!(
            "the generator is in order: busy {}{}",
            percent(worker.busy),
            result.latency.lag.p99_us.map_or(String::new(), |us| format!(", lag p99 {}", time(us))),
        )
    });
    let Some(cap) = full_cap(result, circumstances) else {
        let reasons = in_order.into_iter().chain(server.as_ref().map(CpuUse::reason));
        return (LimitedBy::Server, Sure::Medium, reasons.collect());
    };
    let all_taken = match cap {
        1 => "the one connection was taken".to_owned(),
        _ => format!("all {} connections were taken", format_count(cap)),
    };
    let Some((free_us, full_us)) = circumstances.service_free_us.zip(circumstances.service_full_us)
    else {
        return (LimitedBy::Connections, Sure::Low, vec![all_taken]);
    };
    let rise = full_us / free_us.max(0.001);
    let change = if rise < FLAT_FACTOR { "stayed flat" } else { "rose" };
    let reason = format!(
        "{all_taken}, and the service time {change}: {} while places were free, {} while none was",
        time(free_us),
        time(full_us),
    );
    let (limited_by, sure) = match rise {
        r if r >= ROSE_FACTOR => (LimitedBy::Server, Sure::Medium),
        r if r >= FLAT_FACTOR => (LimitedBy::Server, Sure::Low),
        _ => (LimitedBy::Connections, Sure::Medium),
    };
    (limited_by, sure, in_order.into_iter().chain([reason]).collect())
}

fn closed_model(result: &RunResult, circumstances: &Circumstances) -> Finding {
    let full = full_link(result, circumstances, Stretch::Half)
        .or_else(|| full_server(result, circumstances, Stretch::Half));
    if let Some(finding) = full {
        return finding;
    }
    let service = result.latency.service.mean_us.unwrap_or_default();
    let open = result.connections.peak_open;
    let mut reasons = vec![format!(
        "{} {} ({} on average); more might get more",
        format_counted(open, "connection"),
        if open == 1 { "waits for its answers" } else { "wait for their answers" },
        time(service),
    )];
    if let Some((_, worker)) = busiest(result) {
        reasons.push(format!("the generator is in order: busy {}", percent(worker.busy)));
    }
    let server = cpu_use(result, circumstances.recorded_s, Stretch::Half);
    reasons.extend(server.as_ref().map(CpuUse::reason));
    let sure = match server.map(|server| server.state) {
        Some(CpuState::Idle | CpuState::Free) => Sure::Medium,
        _ => Sure::Low,
    };
    (LimitedBy::Connections, sure, reasons)
}

impl Offer {
    fn of(result: &RunResult, circumstances: &Circumstances) -> Self {
        let (wanted, answered, requests) = if circumstances.clients {
            let clients = &result.counts.clients;
            let requests = result.connections.requests_per_connection.mean.unwrap_or(1.0);
            (clients.scheduled, clients.finished, requests)
        } else {
            (result.counts.scheduled, circumstances.answered, 1.0)
        };
        // What arrives so shortly before the end that even the fastest answer comes after it. The
        // usual answer's time would not do: it grows with the very overload that is looked for.
        let fastest_us = result.latency.response.min_us.unwrap_or_default() * requests;
        let in_flight = fastest_us / (circumstances.recorded_s * 1e6).max(1.0);
        let allowed = (BEHIND_SHARE + in_flight).min(0.5) * wanted as f64;
        let missing = wanted.saturating_sub(answered);
        Self { wanted, answered, behind: missing > BEHIND_LEAST && missing as f64 > allowed }
    }
}

/// The median p95 of the first and of the last quarter, where the last one tipped.
fn tipped(series: &[SeriesRow]) -> Option<(f64, f64)> {
    if series.len() < ROWS_FOR_QUARTERS {
        return None;
    }
    let quarter = series.len() / 4;
    let first = median_p95(&series[..quarter])?;
    let last = median_p95(&series[series.len() - quarter..])?;
    (last > TIPPED_LEAST_US && last > TIPPED_FACTOR * first).then_some((first, last))
}

fn median_p95(rows: &[SeriesRow]) -> Option<f64> {
    let mut values: Vec<_> = rows.iter().filter_map(|row| row.p95_us).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// The cap, where it was reached and arrivals waited for a place.
fn full_cap(result: &RunResult, circumstances: &Circumstances) -> Option<u64> {
    let waited = result.latency.wait.max_us.is_some_and(|us| us > 0.0)
        || result.counts.unstarted + result.counts.dropped > 0;
    circumstances.cap.filter(|cap| waited && result.connections.peak_open >= *cap)
}

fn busiest(result: &RunResult) -> Option<(usize, &WorkerRow)> {
    let load = |worker: &WorkerRow| worker.busy + worker.waited;
    let workers = result.generator.workers.iter().enumerate();
    workers.max_by(|a, b| load(a.1).total_cmp(&load(b.1)))
}

fn matters(result: &RunResult, failed: u64) -> bool {
    failed > 0 && failed as f64 >= FAILED_SHARE * result.counts.started as f64
}

fn failures(result: &RunResult, is_meant: impl Fn(Phase, FaultKind) -> bool) -> u64 {
    let rows = result.errors.iter().filter(|row| is_meant(row.phase, row.kind));
    rows.map(|row| row.count).sum()
}

#[cfg(test)]
mod tests;
