use std::sync::mpsc::Receiver;

use serde_json::{Value, json};

use super::*;
use crate::clock::{MICROSECOND, MILLISECOND};
use crate::stats::errors::{Fault, FaultKind, Phase};
use crate::stats::recorder::{Encoding, Exchange, Recorder, Settings};
use crate::stats::second::Second;

const START: Nanos = 50 * SECOND;

fn recorder(pages: usize, end_ns: Option<Nanos>) -> (Recorder, Receiver<Second>) {
    Recorder::new(Settings { pages, start_ns: START, end_ns, open_model: true })
}

/// One arrival and its answer, `at_ns` after the start.
fn answer(recorder: &mut Recorder, page: u32, status: u16, at_ns: Nanos, service_ns: Nanos) {
    recorder.tally.scheduled += 1;
    recorder.tally.started += 1;
    recorder.arrival(0, 24 * MICROSECOND);
    let sent_ns = START + at_ns;
    recorder.completed(&Exchange {
        page,
        status,
        intended_ns: sent_ns,
        sent_ns,
        first_byte_ns: sent_ns + service_ns,
        done_ns: sent_ns + service_ns,
        body: 10,
        encoding: Encoding::Brotli,
    });
}

fn facts(pages: usize) -> RunFacts {
    RunFacts {
        command: "run".to_owned(),
        started_at: "2026-01-02T03:04:05Z".to_owned(),
        elapsed_ns: 2 * SECOND + SECOND / 2,
        start_ns: START,
        recorded_until_ns: Some(START + 2 * SECOND),
        open_model: true,
        page_urls: (0..pages).map(|n| format!("http://h/{n}")).collect(),
        plan: json!({"model": "open"}),
        ..RunFacts::default()
    }
}

fn outcome(recorder: Recorder, figures: WorkerFigures) -> WorkerOutcome {
    WorkerOutcome { stats: recorder.finish(START + 2 * SECOND), figures }
}

fn two_workers() -> (RunResult, Circumstances) {
    let (mut one, seconds_one) = recorder(1, Some(START + 2 * SECOND));
    let (mut two, seconds_two) = recorder(1, Some(START + 2 * SECOND));
    for n in 0..10 {
        answer(&mut one, 0, 200, n * 200 * MILLISECOND, MILLISECOND);
        answer(&mut two, 0, 200, n * 200 * MILLISECOND, 3 * MILLISECOND);
    }
    answer(&mut two, 0, 404, 1_999 * MILLISECOND, 2 * MILLISECOND);
    one.tally.scheduled += 3;
    (one.tally.started, one.tally.unstarted) = (one.tally.started + 1, 2);
    one.failed(
        0,
        Fault {
            phase: Phase::Head,
            kind: FaultKind::Malformed,
            errno: 0,
            detail: "status-line",
            bytes: b"SSH-2.0\x1b[2J\r\n".to_vec(),
            at_ns: START + 1_500 * MILLISECOND,
        },
    );
    one.tally.connections_counted = 2;
    (one.tally.connection_requests, one.tally.connection_requests_max) = (11, 7);
    let figures = WorkerFigures {
        pinned_to: Some(3),
        elapsed_ns: 2 * SECOND,
        cpu_ns: SECOND,
        polled_ns: SECOND / 2,
        waited_ns: SECOND / 10,
        passes: 4,
        requests: 11,
        cq_overflows: 0,
        no_buffers: 1,
        batch_want: 8,
        batch_wait_ns: 50_000,
    };
    let mut live = Live::new(2);
    let outcomes = vec![outcome(one, figures), outcome(two, figures)];
    seconds_one.try_iter().for_each(|second| live.push(0, second));
    seconds_two.try_iter().for_each(|second| live.push(1, second));
    assemble(facts(1), outcomes, live)
}

#[test]
fn figures_of_two_workers_come_together() {
    let (result, circumstances) = two_workers();
    let counts = &result.counts;
    assert_eq!((counts.scheduled, counts.started, counts.completed), (24, 22, 21));
    assert_eq!((counts.failed, counts.unstarted, counts.http_errors), (1, 2, 1));
    // The answer to the request at 1,999 ms came 1 ms past the end.
    assert_eq!(circumstances.answered, 20);
    assert_eq!(result.rate, Rate { offered: Some(12.0), answered: 10.0 });
    assert_eq!(result.status, [("200".to_owned(), 20), ("404".to_owned(), 1)].into());
    assert_eq!(result.latency.response.max_us, Some(3000.0));
    let median_us = result.latency.response.p50_us.unwrap();
    assert!((2000.0..=2002.0).contains(&median_us), "{median_us}");
    assert_eq!(result.connections.requests_per_connection.mean, Some(5.5));
    assert_eq!(result.series.iter().map(|row| row.completed).sum::<u64>(), 21);
    assert_eq!(result.series.iter().map(|row| row.scheduled).sum::<u64>(), 24);
    let worker = &result.generator.workers[1];
    assert_eq!((worker.cpu, worker.busy, worker.waited), (0.5, 0.25, 0.05));
    assert_eq!(worker.lag_p99_us, Some(24.0));
    assert_eq!(result.generator.cpu_us_per_request, Some(1e9 / 22.0 / 1e3));
    assert_eq!(result.generator.batching, Batching { want: 8, min_wait_us: 50.0 });
    assert_eq!(result.generator.ring.no_buffers, 2);
}

#[test]
fn an_error_has_its_times_and_a_printable_example() {
    let (result, _) = two_workers();
    let error = &result.errors[0];
    assert_eq!((error.count, error.first_s, error.last_s), (1, 1.5, 1.5));
    assert_eq!(error.detail, "status-line");
    assert_eq!(error.example, r"SSH-2.0\x1b[2J\r\n");
}

#[test]
fn the_json_reads_back_as_it_was_written() {
    let (result, _) = two_workers();
    let text = serde_json::to_string(&result).unwrap();
    assert_eq!(serde_json::from_str::<RunResult>(&text).unwrap(), result);
}

#[test]
fn the_keys_are_the_contracts() {
    let value = serde_json::to_value(two_workers().0).unwrap();
    let keys = |value: &Value| {
        let mut keys: Vec<_> = value.as_object().unwrap().keys().cloned().collect();
        keys.sort();
        keys.join(" ")
    };
    let sorted = |text: &str| {
        let mut words: Vec<_> = text.split(' ').collect();
        words.sort_unstable();
        words.join(" ")
    };
    let summary = "count min_us mean_us stddev_us p50_us p75_us p90_us p95_us p99_us p99_9_us \
                   p99_99_us max_us histogram";
    for (path, wanted) in [
        (
            "",
            "schema command label version started_at elapsed_s interrupted plan environment \
             counts rate bytes status errors latency pages connections generator verdict probe \
             series watch",
        ),
        (
            "/counts",
            "scheduled started completed failed dropped unstarted unfinished http_errors clients",
        ),
        ("/counts/clients", "scheduled started finished"),
        ("/rate", "offered answered"),
        ("/bytes", "sent received body"),
        ("/errors/0", "phase kind detail count first_s last_s example"),
        ("/latency", "response service ok wait connect tls tls_resumed first_byte lag"),
        ("/latency/response", summary),
        ("/latency/tls", summary),
        ("/pages/0", "url count failed http_errors bytes encoding p50_us p95_us"),
        (
            "/connections",
            "attempted opened reused resent closed_by_server closed_by_us peak_open \
             unexpected_bytes no_ports syn_retransmits requests_per_connection tls",
        ),
        ("/connections/requests_per_connection", "mean max"),
        ("/generator", "workers cpu_us_per_request ring batching"),
        ("/generator/ring", "cq_overflows no_buffers"),
        ("/generator/workers/0", "pinned_to cpu busy waited lag_p99_us passes requests_per_pass"),
        ("/verdict", "limited_by sure reasons warnings"),
        (
            "/series/0",
            "t_s scheduled started completed failed http_errors open p50_us p95_us p99_us max_us \
             received_bytes",
        ),
    ] {
        let wanted = wanted.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(keys(value.pointer(path).unwrap()), sorted(&wanted), "{path}");
    }
    assert_eq!(value["latency"]["tls"]["count"], 0);
    assert_eq!(value["pages"][0]["encoding"], "br");
    assert_eq!(value["schema"], "ringload/1");
}

#[test]
fn a_run_that_nothing_answered_has_no_infinities() {
    let (recorder, _seconds) = recorder(1, None);
    let facts = RunFacts { recorded_until_ns: Some(START), ..facts(1) };
    let outcomes = vec![outcome(recorder, WorkerFigures::default())];
    let (result, _) = assemble(facts, outcomes, Live::new(1));
    assert_eq!(result.rate, Rate { offered: Some(0.0), answered: 0.0 });
    assert_eq!(result.generator.cpu_us_per_request, None);
    let text = serde_json::to_string(&result).unwrap();
    assert_eq!(serde_json::from_str::<RunResult>(&text).unwrap(), result);
}

#[test]
fn without_a_clock_recorded_time_runs_to_the_last_answer() {
    let (mut recorder, _seconds) = recorder(1, None);
    answer(&mut recorder, 0, 200, 0, 500 * MILLISECOND);
    let facts = RunFacts { recorded_until_ns: None, open_model: false, ..facts(1) };
    let outcomes = vec![outcome(recorder, WorkerFigures::default())];
    let (result, circumstances) = assemble(facts, outcomes, Live::new(1));
    assert_eq!(circumstances.recorded_s, 0.5);
    assert_eq!(result.rate, Rate { offered: None, answered: 2.0 });
}

#[test]
fn failing_pages_come_first_then_the_slowest() {
    let (mut recorder, _seconds) = recorder(30, None);
    for page in 0..30 {
        let status = if page == 7 { 500 } else { 200 };
        let service_ns = (Nanos::from(page) + 1) * MILLISECOND;
        answer(&mut recorder, page, status, Nanos::from(page) * 50 * MILLISECOND, service_ns);
    }
    let outcomes = vec![outcome(recorder, WorkerFigures::default())];
    let (result, _) = assemble(facts(30), outcomes, Live::new(1));
    let urls: Vec<_> = result.pages.iter().map(|page| page.url.as_str()).collect();
    assert_eq!(urls.len(), MAX_PAGES);
    assert_eq!(urls[..4], ["http://h/7", "http://h/29", "http://h/28", "http://h/27"]);
    let slowest = result.pages[1].p95_us.unwrap();
    assert!((slowest - 30_000.0).abs() / 30_000.0 < 0.01, "{slowest}");
}
