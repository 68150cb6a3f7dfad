//! Results for the tests of what reads them: healthy runs, to be spoilt by each test.

use serde_json::json;

use super::assemble::Circumstances;
use super::distribution::{Distribution, TOTAL_DIGITS};
use super::result::{
    Batching, Bytes, Clients, Connections, Counts, ErrorRow, Generator, LatencyResult, PageRow,
    ProcessSample, Rate, RequestsPerConnection, RingCounters, RunResult, SCHEMA, Sample, SeriesRow,
    Verdict, WatchRow, WorkerRow,
};
use super::{FaultKind, Phase, Summary};
use crate::clock::{MICROSECOND, Nanos};
use crate::stats::recorder::Encoding;

/// 1,000 arrivals per second for 10 s, all answered in about 1 ms.
pub fn open_run() -> (RunResult, Circumstances) {
    let response = around(10_000, 1_000);
    let result = RunResult {
        schema: SCHEMA.to_owned(),
        command: "run".to_owned(),
        label: None,
        version: "0.1.0".to_owned(),
        started_at: "2026-01-02T03:04:05Z".to_owned(),
        elapsed_s: 10.01,
        interrupted: false,
        plan: json!({
            "model": "open", "rate": "1k", "urls": ["http://127.0.0.1:8080/"], "threads": 1,
            "cpus": [1], "seed": 42, "duration_s": 10.0,
        }),
        environment: json!({"kernel": "6.18.1", "cores": 2}),
        counts: Counts {
            scheduled: 10_000,
            started: 10_000,
            completed: 10_000,
            clients: Clients::default(),
            ..Counts::default()
        },
        rate: Rate { offered: Some(1_000.0), answered: 999.9 },
        bytes: Bytes { sent: 900_000, received: 9_000_000, body: 7_000_000 },
        status: [("200".to_owned(), 10_000)].into(),
        errors: Vec::new(),
        latency: LatencyResult {
            response: response.clone(),
            service: response.clone(),
            ok: response.clone(),
            first_byte: response,
            wait: constant(10_000, 0),
            connect: around(20, 50),
            lag: around(10_000, 24),
            ..LatencyResult::default()
        },
        pages: vec![page("http://127.0.0.1:8080/", 10_000)],
        connections: Connections {
            attempted: 20,
            opened: 20,
            reused: 9_980,
            peak_open: 20,
            closed_by_us: 20,
            requests_per_connection: RequestsPerConnection { mean: Some(500.0), max: 812 },
            ..Connections::default()
        },
        generator: Generator {
            workers: vec![WorkerRow {
                pinned_to: Some(1),
                cpu: 0.1,
                busy: 0.08,
                waited: 0.001,
                lag_p99_us: Some(24.0),
                passes: 12_000,
                requests_per_pass: Some(0.8),
            }],
            cpu_us_per_request: Some(8.1),
            ring: RingCounters::default(),
            batching: Batching { want: 1, min_wait_us: 0.0 },
        },
        verdict: Verdict::default(),
        probe: None,
        series: (1..=10).map(|second| row(f64::from(second), 1_000, 1_000.0)).collect(),
        watch: Vec::new(),
        hold: None,
    };
    let circumstances = Circumstances {
        open_model: true,
        clients: false,
        cap: Some(1_000),
        server_on_our_cpus: false,
        recorded_s: 10.0,
        answered: 9_999,
        service_free_us: Some(1_000.0),
        service_full_us: None,
        link_bits: None,
    };
    (result, circumstances)
}

/// 50 connections kept busy for 10 s.
pub fn closed_run() -> (RunResult, Circumstances) {
    let (mut result, circumstances) = open_run();
    result.plan = json!({
        "model": "closed", "connections": "50", "urls": ["http://127.0.0.1:8080/"], "threads": 1,
    });
    result.rate.offered = None;
    result.connections.peak_open = 50;
    result.latency.wait = Summary::default();
    result.latency.lag = Summary::default();
    result.generator.workers[0].lag_p99_us = None;
    (result, Circumstances { open_model: false, cap: Some(50), ..circumstances })
}

/// So many times around a value, from four fifths of it to six fifths.
pub fn around(count: u64, us: u64) -> Summary {
    let mut distribution = Distribution::<u64>::new(TOTAL_DIGITS);
    for n in 0..count {
        distribution.record(us * MICROSECOND * (800 + n * 400 / count) / 1_000);
    }
    distribution.summary()
}

/// So many times the same.
pub fn constant(count: u64, ns: Nanos) -> Summary {
    let mut distribution = Distribution::<u64>::new(TOTAL_DIGITS);
    distribution.record_n(ns, count);
    distribution.summary()
}

/// A page with so many answers.
pub fn page(url: &str, count: u64) -> PageRow {
    PageRow {
        url: url.to_owned(),
        count,
        failed: 0,
        http_errors: 0,
        bytes: count * 700,
        encoding: Encoding::Identity,
        p50_us: Some(1_000.0),
        p95_us: Some(1_150.0),
    }
}

/// A second with so many answers and this p95.
pub fn row(t_s: f64, completed: u64, p95_us: f64) -> SeriesRow {
    SeriesRow {
        t_s,
        scheduled: completed,
        started: completed,
        completed,
        failed: 0,
        http_errors: 0,
        open: 20,
        p50_us: Some(p95_us * 0.8),
        p95_us: Some(p95_us),
        p99_us: Some(p95_us * 1.1),
        max_us: Some(p95_us * 1.2),
        received_bytes: completed * 900,
    }
}

/// So many failures.
pub fn error(phase: Phase, kind: FaultKind, count: u64) -> ErrorRow {
    ErrorRow {
        phase,
        kind,
        detail: String::new(),
        count,
        first_s: 0.5,
        last_s: 9.5,
        example: "an example".to_owned(),
    }
}

/// What `name:nginx` shows in 10 s: its workers, each with so many CPUs, on a machine of 4.
pub fn watched(workers: &[f64]) -> WatchRow {
    let sample = |second: u32| Sample {
        t_s: f64::from(second),
        cpus: Some(4),
        cpu_user: Some(0.2 + workers.iter().sum::<f64>() * 0.6),
        cpu_system: Some(0.1 + workers.iter().sum::<f64>() * 0.4),
        cpu_iowait: Some(0.0),
        cpu_steal: Some(0.0),
        run_queue: Some(2),
        mem_available: Some(500 << 20),
        swap_used: Some(0),
        slab_bytes: Some(40 << 20),
        tcp_mem_bytes: Some(1 << 20),
        tcp_pressures: Some(7),
        tcp_pressure_ms: Some(61_000),
        passive_opens: Some(1_000 + u64::from(second)),
        listen_overflows: Some(3),
        listen_drops: Some(5),
        syn_retransmits: Some(11),
        net_received_bytes: Some(1 << 20),
        net_sent_bytes: Some(9 << 20),
        net_drops: Some(0),
        oom_kills: Some(2),
        processes: (100..)
            .zip(workers)
            .map(|(pid, cpu)| ProcessSample {
                pid,
                name: "nginx".to_owned(),
                rss: Some((34 + u64::from(second)) << 20),
                pss: None,
                swap: Some(0),
                threads: Some(1),
                fds: Some(60),
                cpu: Some(*cpu),
            })
            .collect(),
    };
    let samples = (0..=10).map(sample).collect();
    WatchRow { source: "name:nginx".to_owned(), samples, ..WatchRow::default() }
}
