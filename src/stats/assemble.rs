//! One result out of what the workers left behind.

use std::cmp::Reverse;

use super::distribution::{Summary, micros};
use super::errors::FaultTable;
use super::live::Live;
use super::pages::PageStats;
use super::recorder::Tally;
use super::result::{
    Batching, Bytes, Clients, Connections, Counts, ErrorRow, Generator, LatencyResult, MAX_PAGES,
    PageRow, Rate, RequestsPerConnection, RingCounters, RunResult, SCHEMA, TlsFigures, Verdict,
    WorkerRow,
};
use super::worker_stats::{Latencies, WorkerStats};
use crate::clock::{Nanos, SECOND};

/// What the engine knows of the run as a whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunFacts {
    /// The subcommand.
    pub command: String,
    /// A name for the result.
    pub label: Option<String>,
    /// When the load began, RFC 3339.
    pub started_at: String,
    /// From the load's start to its end, warm-up and grace included.
    pub elapsed_ns: Nanos,
    /// Whether a signal ended it.
    pub interrupted: bool,
    /// What was asked, resolved.
    pub plan: serde_json::Value,
    /// The machine.
    pub environment: serde_json::Value,
    /// Where recorded time started, on the run's clock.
    pub start_ns: Nanos,
    /// Where the clock or a signal ended recorded time; `None`: with the last answer (`-n`).
    pub recorded_until_ns: Option<Nanos>,
    /// Over which arrivals were due, where that is not the recorded time (open model with `-n`).
    pub arrivals_span_ns: Option<Nanos>,
    /// Whether arrivals came at a rate.
    pub open_model: bool,
    /// Whether an arrival was a client.
    pub clients: bool,
    /// The pages' URLs as shown, in the plan's order.
    pub page_urls: Vec<String>,
    /// The most connections that might be open at once, over all workers.
    pub cap: Option<u64>,
    /// Over TLS: what was agreed on, without the counts.
    pub tls: Option<TlsFigures>,
    /// Whether the server runs on CPUs of the generator.
    pub server_on_our_cpus: bool,
    /// What the line carries each way, bits per second.
    pub link_bits: Option<u64>,
}

/// What the engine knows of one worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerFigures {
    /// The CPU it was pinned to.
    pub pinned_to: Option<usize>,
    /// For how long it ran.
    pub elapsed_ns: Nanos,
    /// CPU time of its thread.
    pub cpu_ns: Nanos,
    /// Of that, spent polling for nothing.
    pub polled_ns: Nanos,
    /// For how long it was ready and did not run.
    pub waited_ns: Nanos,
    /// Passes of its loop.
    pub passes: u64,
    /// Requests that it started, warm-up included.
    pub requests: u64,
    /// Completions that found no room in the queue.
    pub cq_overflows: u64,
    /// Receives that found no buffer.
    pub no_buffers: u64,
    /// The most completions that a pass waited for.
    pub batch_want: u32,
    /// What that may have added to a response.
    pub batch_wait_ns: Nanos,
}

/// One worker at the end.
pub struct WorkerOutcome {
    /// What it recorded.
    pub stats: WorkerStats,
    /// What the engine knows of it.
    pub figures: WorkerFigures,
}

/// What a verdict needs beside the result.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Circumstances {
    /// Whether arrivals came at a rate.
    pub open_model: bool,
    /// Whether an arrival was a client.
    pub clients: bool,
    /// The most connections that might be open at once.
    pub cap: Option<u64>,
    /// Whether the server runs on CPUs of the generator.
    pub server_on_our_cpus: bool,
    /// Recorded time, seconds.
    pub recorded_s: f64,
    /// Complete responses inside the recorded time.
    pub answered: u64,
    /// Mean service time while no arrival waited for a place.
    pub service_free_us: Option<f64>,
    /// Mean service time while arrivals waited for a place.
    pub service_full_us: Option<f64>,
    /// What the line carries each way, bits per second: as told, else the interface's own speed.
    pub link_bits: Option<u64>,
}

/// Makes the result, its verdict not yet judged, and what judging it needs.
///
/// # Panics
/// If an identity does not hold (see [`WorkerStats::check_identities`]), or if there is no worker.
#[must_use]
pub fn assemble(
    facts: RunFacts,
    mut workers: Vec<WorkerOutcome>,
    mut live: Live,
) -> (RunResult, Circumstances) {
    for (number, worker) in workers.iter_mut().enumerate() {
        if let Some(second) = worker.stats.last_second.take() {
            live.push(number, second);
        }
    }
    let generator = generator(&workers);
    let all = WorkerStats::merge_all(workers.into_iter().map(|worker| worker.stats))
        .expect("a run has a worker");
    all.check_identities();

    let circumstances = circumstances(&facts, &all);
    let latency = latency(&all.latency);
    let result = RunResult {
        schema: SCHEMA.to_owned(),
        command: facts.command,
        label: facts.label,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: facts.started_at,
        elapsed_s: seconds(facts.elapsed_ns),
        interrupted: facts.interrupted,
        plan: facts.plan,
        environment: facts.environment,
        counts: counts(&all),
        rate: Rate {
            offered: facts.open_model.then(|| {
                let arrivals =
                    if facts.clients { all.tally.clients_scheduled } else { all.tally.scheduled };
                let span_s = facts.arrivals_span_ns.map_or(circumstances.recorded_s, seconds);
                per_second(arrivals, span_s)
            }),
            answered: per_second(all.answered, circumstances.recorded_s),
        },
        bytes: Bytes {
            sent: all.tally.sent_bytes,
            received: all.tally.received_bytes,
            body: all.body_bytes,
        },
        status: (0..)
            .zip(all.statuses.iter())
            .filter(|(_, count)| **count > 0)
            .map(|(status, count): (u16, _)| (status.to_string(), *count))
            .collect(),
        errors: errors(&all.faults, facts.start_ns),
        pages: pages(&facts.page_urls, all.pages, &latency.response),
        connections: connections(&all.tally, &facts.tls),
        latency,
        generator,
        verdict: Verdict::default(),
        probe: None,
        series: live.into_series(),
        watch: Vec::new(),
        hold: None,
    };
    (result, circumstances)
}

fn circumstances(facts: &RunFacts, all: &WorkerStats) -> Circumstances {
    let end_ns = facts.recorded_until_ns.or(all.last_answer_ns).unwrap_or(all.ended_ns);
    let mean_us = |mean: super::worker_stats::MeanOf| mean.mean_ns().map(|ns| ns / 1e3);
    Circumstances {
        open_model: facts.open_model,
        clients: facts.clients,
        cap: facts.cap,
        server_on_our_cpus: facts.server_on_our_cpus,
        recorded_s: seconds(end_ns.saturating_sub(facts.start_ns)),
        answered: all.answered,
        service_free_us: mean_us(all.service_free),
        service_full_us: mean_us(all.service_full),
        link_bits: facts.link_bits,
    }
}

fn counts(all: &WorkerStats) -> Counts {
    Counts {
        scheduled: all.tally.scheduled,
        started: all.tally.started,
        completed: all.completed,
        failed: all.failed,
        dropped: all.tally.dropped,
        unstarted: all.tally.unstarted,
        unfinished: all.tally.unfinished,
        http_errors: all.http_errors,
        clients: Clients {
            scheduled: all.tally.clients_scheduled,
            started: all.tally.clients_started,
            finished: all.tally.clients_finished,
        },
    }
}

fn errors(faults: &FaultTable, start_ns: Nanos) -> Vec<ErrorRow> {
    let since_start = |at_ns: Nanos| seconds(at_ns.saturating_sub(start_ns));
    let row = |(key, count): (&super::errors::FaultKey, &super::errors::FaultCount)| ErrorRow {
        phase: key.phase,
        kind: key.kind,
        detail: key.detail_text(),
        count: count.count,
        first_s: since_start(count.first_ns),
        last_s: since_start(count.last_ns),
        example: key.example(&count.bytes),
    };
    faults.sorted().into_iter().map(row).collect()
}

fn latency(all: &Latencies) -> LatencyResult {
    LatencyResult {
        response: all.response.summary(),
        service: all.service.summary(),
        ok: all.ok.summary(),
        wait: all.wait.summary(),
        connect: all.connect.summary(),
        tls: all.tls.summary(),
        tls_resumed: all.tls_resumed.summary(),
        first_byte: all.first_byte.summary(),
        lag: all.lag.summary(),
    }
}

/// The pages with failures first, then the slowest; a page without times of its own has the run's.
fn pages(urls: &[String], pages: Vec<PageStats>, response: &Summary) -> Vec<PageRow> {
    let single = pages.len() == 1;
    let mut rows: Vec<PageRow> = pages
        .into_iter()
        .enumerate()
        .map(|(number, page)| {
            let quantile = |q, total| match &page.response {
                Some(own) => own.quantile_ns(q).map(micros),
                None if single => total,
                None => None,
            };
            PageRow {
                url: urls.get(number).cloned().unwrap_or_default(),
                count: page.count,
                failed: page.failed,
                http_errors: page.http_errors,
                bytes: page.bytes,
                encoding: page.encoding,
                p50_us: quantile(0.5, response.p50_us),
                p95_us: quantile(0.95, response.p95_us),
            }
        })
        .collect();
    // Microseconds as whole nanoseconds: an order without floats.
    let slowness = |row: &PageRow| row.p95_us.map(|us| (us * 1e3) as u64);
    rows.sort_by_key(|row| Reverse((row.failed + row.http_errors > 0, slowness(row))));
    rows.truncate(MAX_PAGES);
    rows
}

fn connections(tally: &Tally, tls: &Option<TlsFigures>) -> Connections {
    Connections {
        attempted: tally.attempted,
        opened: tally.opened,
        reused: tally.reused,
        resent: tally.resent,
        closed_by_server: tally.closed_by_server,
        closed_by_us: tally.closed_by_us,
        peak_open: tally.peak_open,
        unexpected_bytes: tally.unexpected_bytes,
        no_ports: tally.no_ports,
        syn_retransmits: tally.syn_retransmits,
        requests_per_connection: RequestsPerConnection {
            mean: ratio(tally.connection_requests, tally.connections_counted),
            max: tally.connection_requests_max,
        },
        tls: tls.as_ref().map(|agreed| TlsFigures {
            full: tally.tls_full,
            resumed: tally.tls_resumed,
            ..agreed.clone()
        }),
    }
}

fn generator(workers: &[WorkerOutcome]) -> Generator {
    let figures = || workers.iter().map(|worker| &worker.figures);
    let row = |worker: &WorkerOutcome| {
        let figures = &worker.figures;
        let share = |ns: Nanos| ratio(ns, figures.elapsed_ns).unwrap_or(0.0);
        WorkerRow {
            pinned_to: figures.pinned_to,
            cpu: share(figures.cpu_ns),
            busy: share(figures.cpu_ns.saturating_sub(figures.polled_ns)),
            waited: share(figures.waited_ns),
            lag_p99_us: worker.stats.latency.lag.quantile_ns(0.99).map(micros),
            passes: figures.passes,
            requests_per_pass: ratio(figures.requests, figures.passes),
        }
    };
    // Polling for nothing is a choice (--spin), no request's work.
    let cpu_ns: Nanos = figures().map(|f| f.cpu_ns.saturating_sub(f.polled_ns)).sum();
    let requests: u64 = figures().map(|f| f.requests).sum();
    Generator {
        workers: workers.iter().map(row).collect(),
        cpu_us_per_request: ratio(cpu_ns, requests).map(|ns| ns / 1e3),
        ring: RingCounters {
            cq_overflows: figures().map(|f| f.cq_overflows).sum(),
            no_buffers: figures().map(|f| f.no_buffers).sum(),
        },
        batching: Batching {
            want: figures().map(|f| f.batch_want).max().unwrap_or(0),
            min_wait_us: micros(figures().map(|f| f.batch_wait_ns).max().unwrap_or(0)),
        },
    }
}

fn seconds(ns: Nanos) -> f64 {
    ns as f64 / SECOND as f64
}

/// 0 where no time passed: JSON has no infinity.
fn per_second(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

fn ratio(a: u64, b: u64) -> Option<f64> {
    (b > 0).then(|| a as f64 / b as f64)
}

#[cfg(test)]
mod tests;
