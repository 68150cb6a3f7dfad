use super::*;
use crate::clock::MILLISECOND;
use crate::stats::distribution::{Distribution, TOTAL_DIGITS};
use crate::stats::samples::{around, closed_run, constant, open_run};

/// What of `wanted` the only warning of a spoilt run has to say.
fn check(
    run: fn() -> (RunResult, Circumstances),
    spoil: impl FnOnce(&mut RunResult, &mut Circumstances),
    wanted: &str,
) {
    let (mut result, mut circumstances) = run();
    spoil(&mut result, &mut circumstances);
    let got = warnings(&result, &circumstances);
    assert_eq!(got.len(), 1, "{wanted}: {got:?}");
    assert!(got[0].contains(wanted), "{wanted}: {got:?}");
}

#[test]
fn a_healthy_run_is_not_warned_about() {
    for (result, circumstances) in [open_run(), closed_run()] {
        assert_eq!(warnings(&result, &circumstances), Vec::<String>::new());
    }
}

#[test]
fn each_fault_has_its_warning() {
    check(open_run, |r, _| r.interrupted = true, "interrupted");
    check(open_run, |r, _| r.status = [("301".to_owned(), 10_000)].into(), "redirect (3xx)");
    check(open_run, |r, _| r.counts.dropped = 100, "100 arrivals (1.0 %)");
    check(open_run, |r, _| r.counts.unstarted = 4_500, "4,500 arrivals (45 %)");
    check(open_run, |r, _| r.counts.unfinished = 7, "7 requests had no answer");
    check(closed_run, |_, c| c.server_on_our_cpus = true, "share CPUs");
    check(closed_run, |r, _| r.generator.workers[0].waited = 0.2, "for 20 % of the time");
    check(closed_run, |_, c| c.cap = Some(9_000), "of 9,000 connections");
    check(closed_run, |r, _| r.generator.ring.cq_overflows = 2, "2 completions");
    check(closed_run, |r, _| r.connections.no_ports = 9, "--source");
    check(closed_run, |r, _| r.connections.syn_retransmits = 4, "4 connects");
    check(closed_run, |r, _| r.connections.unexpected_bytes = 1, "Content-Length");
    check(closed_run, |r, _| r.connections.resent = 200, "2.0 % of the requests");
    check(open_run, |r, _| r.latency.response = around(999, 500), "999 samples are few");
}

#[test]
fn error_statuses_count_from_one_percent() {
    check(
        open_run,
        |result, _| {
            result.status = [("200", 9_800), ("404", 150), ("500", 50)]
                .map(|(status, count)| (status.to_owned(), count))
                .into();
            result.counts.http_errors = 200;
        },
        "2.0 % of the answers were errors (4xx, 5xx; most often 404)",
    );
    let (mut result, circumstances) = open_run();
    result.counts.http_errors = 100;
    assert!(warnings(&result, &circumstances).is_empty());
}

#[test]
fn redirects_among_real_answers_are_no_fault() {
    let (mut result, circumstances) = open_run();
    result.status = [("200".to_owned(), 1), ("301".to_owned(), 9_999)].into();
    assert!(warnings(&result, &circumstances).is_empty());
}

#[test]
fn connects_of_one_and_three_seconds_are_syns_sent_again() {
    let mut connects = Distribution::<u64>::new(TOTAL_DIGITS);
    for ms in [1, 2, 500, 1_030, 1_100, 2_000, 3_040] {
        connects.record(ms * MILLISECOND);
    }
    check(closed_run, |r, _| r.latency.connect = connects.summary(), "3 connects took");
    let (mut result, circumstances) = closed_run();
    result.latency.connect = constant(5, 2_000 * MILLISECOND);
    assert!(warnings(&result, &circumstances).is_empty(), "2 s is a slow server, not a lost SYN");
}

#[test]
fn a_stall_matters_to_the_closed_model_only() {
    let stalled = {
        let mut times = Distribution::<u64>::new(TOTAL_DIGITS);
        times.record_n(MILLISECOND, 9_990);
        times.record_n(1_000 * MILLISECOND, 10);
        times.summary()
    };
    check(closed_run, |r, _| r.latency.response = stalled.clone(), "(up to 1s here)");
    let (mut result, circumstances) = open_run();
    result.latency.response = stalled;
    assert!(warnings(&result, &circumstances).is_empty());
}

#[test]
fn more_threads_than_cpus_take_turns() {
    check(
        closed_run,
        |result, _| {
            let worker = result.generator.workers[0].clone();
            result.generator.workers = vec![worker; 8];
        },
        "8 worker threads take turns on 1 CPU, and wait for each other: one for each CPU is enough \
         (-t 1)",
    );
}

#[test]
fn one_is_no_plural() {
    check(
        open_run,
        |r, _| r.counts.dropped = 1,
        "1 arrival (0.01 %) found no place in time and was",
    );
    check(open_run, |r, _| r.counts.unfinished = 1, "1 request had no answer");
    check(open_run, |r, _| r.latency.response = around(1, 500), "1 sample is few");
}
