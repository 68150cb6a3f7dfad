//! What is wrong with a measurement, each with its remedy.

mod watched;

use super::remedy::PORTS;
use super::words::{percent, time};
use crate::stats::Summary;
use crate::stats::assemble::Circumstances;
use crate::stats::result::RunResult;
use crate::units::{format_count, format_counted};

/// More 4xx and 5xx than this are warned about.
const HTTP_ERRORS_SHARE: f64 = 0.01;
/// A p99 with fewer samples rests on less than ten of them.
const SAMPLES_FOR_P99: u64 = 1_000;
/// The kernel sends a SYN again after 1 s, and 2 s after that (`TCP_TIMEOUT_INIT`, tcp(7)); a connect
/// that took so long, up to so much longer, waited for that.
const SYN_WAITS_NS: [std::ops::RangeInclusive<u64>; 2] =
    [950_000_000..=1_400_000_000, 2_950_000_000..=3_500_000_000];
/// In the closed model, a longest response this many times the median is a stall that most
/// requests were spared because they were not sent.
const STALL_FACTOR: f64 = 20.0;
/// A shorter one is no stall.
const STALL_LEAST_US: f64 = 100_000.0;
/// A worker that waited for its CPU for more than this share of the time was disturbed.
const WAITED_SHARE: f64 = 0.1;
/// Recorded time, seconds, below which shares of it say little.
const LEAST_RECORDED_S: f64 = 0.1;
/// So much of the connections asked for counts as all.
const FULL_SHARE: f64 = 0.99;
/// Requests sent again for more than this share make the reuse of connections the subject.
const RESENT_SHARE: f64 = 0.01;

/// All warnings of a result.
pub(super) fn warnings(result: &RunResult, circumstances: &Circumstances) -> Vec<String> {
    let parts = [
        interrupted(result),
        redirects(result),
        http_errors(result),
        dropped(result),
        unstarted(result),
        unfinished(result),
        shared_cpus(circumstances),
        crowded_cpus(result),
        waited_for_cpu(result, circumstances),
        fewer_places(result, circumstances),
        ring(result),
        ports(result),
        syn_sent_again(result),
        unexpected_bytes(result),
        resent(result),
        few_samples(&result.latency.response),
        coordinated_omission(result, circumstances),
    ];
    let watched = watched::warnings(result, circumstances);
    parts.into_iter().flatten().chain(watched).collect()
}

fn interrupted(result: &RunResult) -> Option<String> {
    result
        .interrupted
        .then(|| "the run was interrupted: its figures cover less than was asked".into())
}

fn redirects(result: &RunResult) -> Option<String> {
    let all =
        !result.status.is_empty() && result.status.keys().all(|status| status.starts_with('3'));
    all.then(|| {
        "every answer was a redirect (3xx), and redirects are not followed: give the URL that they \
         lead to"
            .into()
    })
}

fn http_errors(result: &RunResult) -> Option<String> {
    let share = result.counts.http_errors as f64 / result.counts.completed.max(1) as f64;
    (share > HTTP_ERRORS_SHARE).then(|| {
        let worst = result
            .status
            .iter()
            .filter(|(status, _)| status.starts_with(['4', '5']))
            .max_by_key(|(_, count)| **count)
            .map_or("", |(status, _)| status);
        format!(
            "{} of the answers were errors (4xx, 5xx; most often {worst}), which are often faster \
             than real ones: check the URL and the server's log, and read the `ok` latency",
            percent(share),
        )
    })
}

fn dropped(result: &RunResult) -> Option<String> {
    let dropped = result.counts.dropped;
    (dropped > 0).then(|| {
        format!(
            "{} ({}) found no place in time and {} dropped: allow more connections (-c) or offer \
             less (-r)",
            format_counted(dropped, "arrival"),
            percent(dropped as f64 / result.counts.scheduled as f64),
            if dropped == 1 { "was" } else { "were" },
        )
    })
}

fn unstarted(result: &RunResult) -> Option<String> {
    let unstarted = result.counts.unstarted;
    (unstarted > 0).then(|| {
        format!(
            "{} ({}) still waited for a place at the end, which is in no latency: allow more \
             connections (-c) or offer less (-r)",
            format_counted(unstarted, "arrival"),
            percent(unstarted as f64 / result.counts.scheduled as f64),
        )
    })
}

/// More workers than CPUs, which take turns.
fn crowded_cpus(result: &RunResult) -> Option<String> {
    let mut cpus: Vec<usize> =
        result.generator.workers.iter().filter_map(|w| w.pinned_to).collect();
    let threads = cpus.len();
    cpus.sort_unstable();
    cpus.dedup();
    (cpus.len() < threads).then(|| {
        let (count, noun) = (cpus.len(), if cpus.len() == 1 { "CPU" } else { "CPUs" });
        format!(
            "{threads} worker threads take turns on {count} {noun}, and wait for each other: one \
             for each CPU is enough (-t {count})"
        )
    })
}

fn waited_for_cpu(result: &RunResult, circumstances: &Circumstances) -> Option<String> {
    let waited = result.generator.workers.iter().map(|w| w.waited).fold(0.0, f64::max);
    (waited > WAITED_SHARE && circumstances.recorded_s >= LEAST_RECORDED_S).then(|| {
        let who = match watched::server_here(result) {
            true => "the server or something else on this machine",
            false => "something else",
        };
        format!(
            "a worker was ready and did not run for {} of the time, which is in the latencies: \
             {who} uses its CPU; end it, or choose other CPUs (--cpus)",
            percent(waited),
        )
    })
}

/// The closed model keeps as many connections busy as were asked for, or says so.
fn fewer_places(result: &RunResult, circumstances: &Circumstances) -> Option<String> {
    let cap = circumstances.cap.filter(|_| !circumstances.open_model)?;
    let open = result.connections.peak_open;
    let could = result.counts.started >= cap && !result.interrupted;
    (could && (open as f64) < FULL_SHARE * cap as f64).then(|| {
        format!(
            "at most {} of {} were open at once: give it more time (-d), or see the \
             errors and the ports (`ringload doctor`)",
            format_count(open),
            format_counted(cap, "connection"),
        )
    })
}

fn unfinished(result: &RunResult) -> Option<String> {
    let unfinished = result.counts.unfinished;
    (unfinished > 0).then(|| {
        format!(
            "{} had no answer when the grace was over, which is in no latency: wait longer (--grace)",
            format_counted(unfinished, "request"),
        )
    })
}

fn shared_cpus(circumstances: &Circumstances) -> Option<String> {
    circumstances.server_on_our_cpus.then(|| {
        "server and generator share CPUs and slow each other: give them CPUs of their own (--cpus) \
         or two machines"
            .into()
    })
}

fn ring(result: &RunResult) -> Option<String> {
    let overflows = result.generator.ring.cq_overflows;
    (overflows > 0).then(|| {
        format!(
            "{} found no room in the ring's queue and came late: use more threads (-t) \
             or fewer connections, and report it, since it should not happen",
            format_counted(overflows, "completion"),
        )
    })
}

fn ports(result: &RunResult) -> Option<String> {
    let held_back = result.connections.no_ports;
    (held_back > 0).then(|| {
        format!(
            "connects were held back {} for want of a local port: {PORTS}",
            format_counted(held_back, "time")
        )
    })
}

fn syn_sent_again(result: &RunResult) -> Option<String> {
    let slow = long_connects(&result.latency.connect);
    let retransmits = result.connections.syn_retransmits;
    (slow + retransmits > 0).then(|| {
        format!(
            "{} took about 1 s or 3 s: the SYN was lost and sent again. The server's \
             listen queue overflows, or packets are lost: raise its backlog and \
             net.core.somaxconn, or open connections more slowly (--open-rate)",
            format_counted(slow.max(retransmits), "connect"),
        )
    })
}

/// Connects that took as long as the kernel waits for the answer to a SYN.
fn long_connects(connect: &Summary) -> u64 {
    if connect.max_us.is_none_or(|us| us * 1e3 < *SYN_WAITS_NS[0].start() as f64) {
        return 0;
    }
    let Some(histogram) = connect.decode() else { return 0 };
    SYN_WAITS_NS.iter().map(|wait| histogram.count_between(*wait.start(), *wait.end())).sum()
}

fn unexpected_bytes(result: &RunResult) -> Option<String> {
    let connections = result.connections.unexpected_bytes;
    (connections > 0).then(|| {
        format!(
            "{} sent bytes after a complete answer and had to be closed: the server's \
             Content-Length may be too small",
            format_counted(connections, "connection"),
        )
    })
}

fn resent(result: &RunResult) -> Option<String> {
    let share = result.connections.resent as f64 / result.counts.started.max(1) as f64;
    (share > RESENT_SHARE).then(|| {
        format!(
            "{} of the requests met a connection that the server had closed and were sent again: \
             raise its keep-alive limits, or let a connection carry fewer \
             (--requests-per-connection)",
            percent(share),
        )
    })
}

fn few_samples(response: &Summary) -> Option<String> {
    (1..SAMPLES_FOR_P99).contains(&response.count).then(|| {
        format!(
            "{} {} few for a p99, which rests on less than ten of them: run longer (-d, -n)",
            format_counted(response.count, "sample"),
            if response.count == 1 { "is" } else { "are" },
        )
    })
}

fn coordinated_omission(result: &RunResult, circumstances: &Circumstances) -> Option<String> {
    let response = &result.latency.response;
    let (max_us, median_us) = response.max_us.zip(response.p50_us)?;
    let stalled = max_us > STALL_LEAST_US && max_us > STALL_FACTOR * median_us;
    (!circumstances.open_model && stalled).then(|| {
        format!(
            "a closed model asks less while the server stalls (up to {} here), so its percentiles \
             look better than what users at a constant rate would see: use a rate (-r)",
            time(max_us),
        )
    })
}

#[cfg(test)]
mod tests;
