use super::*;
use crate::stats::result::LimitedBy as By;
use crate::stats::samples::{around, closed_run, constant, error, open_run, row, watched};

type Run = (RunResult, Circumstances);

/// A case: its name, a healthy run, how it is spoilt, and who is to be named, how surely, with what
/// among the reasons.
struct Case {
    name: &'static str,
    run: fn() -> Run,
    spoil: fn(&mut RunResult, &mut Circumstances),
    limited_by: By,
    sure: Sure,
    reason: &'static str,
}

fn check(cases: &[Case]) {
    for case in cases {
        let (mut result, mut circumstances) = (case.run)();
        (case.spoil)(&mut result, &mut circumstances);
        let verdict = judge(&result, &circumstances);
        let name = case.name;
        assert_eq!(verdict.limited_by, case.limited_by, "{name}: {:?}", verdict.reasons);
        assert_eq!(verdict.sure, case.sure, "{name}: {:?}", verdict.reasons);
        let reasons = verdict.reasons.join("; ");
        assert!(reasons.contains(case.reason), "{name}: {reasons}");
    }
}

/// Half of the arrivals have no answer in time; the places were all taken.
fn overload(result: &mut RunResult, circumstances: &mut Circumstances, free_us: f64, full_us: f64) {
    circumstances.answered = 5_000;
    circumstances.cap = Some(20);
    circumstances.service_free_us = Some(free_us);
    circumstances.service_full_us = Some(full_us);
    result.rate.answered = 500.0;
    result.counts.unstarted = 4_900;
    result.counts.started = 5_100;
    result.latency.wait = around(5_000, 2_000_000);
}

#[test]
fn the_generator_is_named_before_all_others() {
    check(&[
        Case {
            name: "busy",
            run: open_run,
            spoil: |result, _| result.generator.workers[0].busy = 0.93,
            limited_by: By::Generator,
            sure: Sure::High,
            reason: "worker 0 was at work for 93 %",
        },
        Case {
            name: "starved of its CPU",
            run: open_run,
            spoil: |result, circumstances| {
                overload(result, circumstances, 1_000.0, 40_000.0);
                (result.generator.workers[0].busy, result.generator.workers[0].waited) =
                    (0.3, 0.65);
            },
            limited_by: By::Generator,
            sure: Sure::High,
            reason: "something else runs there",
        },
        Case {
            name: "starved by the server",
            run: closed_run,
            spoil: |result, circumstances| {
                circumstances.server_on_our_cpus = true;
                (result.generator.workers[0].busy, result.generator.workers[0].waited) =
                    (0.4, 0.55);
            },
            limited_by: By::Generator,
            sure: Sure::High,
            reason: "shares with the server",
        },
        Case {
            name: "the second of two workers",
            run: closed_run,
            spoil: |result, _| {
                let idle = result.generator.workers[0].clone();
                result.generator.workers.push(WorkerRow { busy: 0.97, ..idle });
            },
            limited_by: By::Generator,
            sure: Sure::High,
            reason: "worker 1",
        },
        Case {
            name: "late",
            run: open_run,
            spoil: |result, _| result.latency.lag = around(10_000, 1_500),
            limited_by: By::Generator,
            sure: Sure::Medium,
            reason: "the generator was late by",
        },
        Case {
            name: "late by less than a tenth of the median",
            run: open_run,
            spoil: |result, _| {
                result.latency.lag = around(10_000, 1_500);
                result.latency.response = around(10_000, 30_000);
            },
            limited_by: By::None,
            sure: Sure::High,
            reason: "answered in time",
        },
        Case {
            name: "late by a tenth of a very fast median, but under 1 ms",
            run: open_run,
            spoil: |result, _| result.latency.lag = around(10_000, 700),
            limited_by: By::None,
            sure: Sure::High,
            reason: "answered in time",
        },
    ]);
}

#[test]
fn ports_and_descriptors_are_named_where_they_cost_something() {
    check(&[
        Case {
            name: "no port, open model, behind",
            run: open_run,
            spoil: |result, circumstances| {
                overload(result, circumstances, 1_000.0, 1_000.0);
                result.connections.no_ports = 300;
            },
            limited_by: By::Ports,
            sure: Sure::High,
            reason: "held back 300 times",
        },
        Case {
            name: "no port, open model, failures",
            run: open_run,
            spoil: |result, _| result.errors = vec![error(Phase::Connect, FaultKind::NoPorts, 200)],
            limited_by: By::Ports,
            sure: Sure::High,
            reason: "200 requests failed",
        },
        Case {
            name: "no port for a moment, and all in time",
            run: open_run,
            spoil: |result, _| result.connections.no_ports = 3,
            limited_by: By::None,
            sure: Sure::High,
            reason: "answered in time",
        },
        Case {
            name: "no port, closed model",
            run: closed_run,
            spoil: |result, _| result.connections.no_ports = 3,
            limited_by: By::Ports,
            sure: Sure::High,
            reason: "no local port was free",
        },
        Case {
            name: "no descriptor",
            run: closed_run,
            spoil: |result, _| {
                result.errors = vec![error(Phase::Connect, FaultKind::NoDescriptors, 5_000)];
            },
            limited_by: By::Connections,
            sure: Sure::High,
            reason: "no file descriptor",
        },
    ]);
}

#[test]
fn behind_the_offer_it_is_the_server_or_the_connections() {
    check(&[
        Case {
            name: "all in time",
            run: open_run,
            spoil: |_, _| {},
            limited_by: By::None,
            sure: Sure::High,
            reason: "99.99 % of 10,000 arrivals were answered in time",
        },
        Case {
            name: "a few arrivals, one in flight at the end",
            run: open_run,
            spoil: |result, circumstances| {
                (result.counts.scheduled, circumstances.answered) = (10, 7)
            },
            limited_by: By::None,
            sure: Sure::Medium,
            reason: "70 % of 10 arrivals",
        },
        Case {
            name: "a server that takes 2 s of a run of 10 s is not behind",
            run: open_run,
            spoil: |result, circumstances| {
                result.latency.response = constant(8_000, 2_000_000_000);
                circumstances.answered = 8_000;
            },
            limited_by: By::None,
            sure: Sure::High,
            reason: "80 % of 10,000",
        },
        Case {
            name: "behind, places left",
            run: open_run,
            spoil: |result, circumstances| {
                circumstances.answered = 8_000;
                result.rate.answered = 800.0;
            },
            limited_by: By::Server,
            sure: Sure::Medium,
            reason: "80 % of 10,000 arrivals were answered in time (1,000/s offered, 800/s answered)",
        },
        Case {
            name: "behind, all places taken, service time rose",
            run: open_run,
            spoil: |result, circumstances| overload(result, circumstances, 20_000.0, 41_000.0),
            limited_by: By::Server,
            sure: Sure::Medium,
            reason: "the service time rose: 20ms while places were free, 41ms while none was",
        },
        Case {
            name: "behind, all places taken, service time between",
            run: open_run,
            spoil: |result, circumstances| overload(result, circumstances, 20_000.0, 25_000.0),
            limited_by: By::Server,
            sure: Sure::Low,
            reason: "rose",
        },
        Case {
            name: "behind, all places taken, service time flat",
            run: open_run,
            spoil: |result, circumstances| overload(result, circumstances, 20_000.0, 20_200.0),
            limited_by: By::Connections,
            sure: Sure::Medium,
            reason: "all 20 connections were taken, and the service time stayed flat",
        },
        Case {
            name: "behind, all places taken from the first moment",
            run: open_run,
            spoil: |result, circumstances| {
                overload(result, circumstances, 0.0, 20_000.0);
                circumstances.service_free_us = None;
            },
            limited_by: By::Connections,
            sure: Sure::Low,
            reason: "all 20 connections",
        },
        Case {
            name: "requests that cannot connect",
            run: open_run,
            spoil: |result, circumstances| {
                circumstances.answered = 6_000;
                (result.counts.completed, result.counts.failed) = (6_000, 4_000);
                result.errors = vec![error(Phase::Connect, FaultKind::Refused, 4_000)];
            },
            limited_by: By::Server,
            sure: Sure::Medium,
            reason: "40 % of the requests could not connect",
        },
        Case {
            name: "clients that do not finish",
            run: open_run,
            spoil: |result, circumstances| {
                circumstances.clients = true;
                (result.counts.clients.scheduled, result.counts.clients.finished) = (1_000, 500);
                result.connections.requests_per_connection.mean = Some(10.0);
            },
            limited_by: By::Server,
            sure: Sure::Medium,
            reason: "50 % of 1,000 clients",
        },
    ]);
}

#[test]
fn a_p95_that_tipped_is_the_servers() {
    let tipping = |result: &mut RunResult, _: &mut Circumstances| {
        let p95 = |second: u32| if second > 6 { 900_000.0 } else { 1_000.0 };
        result.series = (1..=12).map(|s| row(f64::from(s), 1_000, p95(s))).collect();
    };
    check(&[
        Case {
            name: "tipped",
            run: open_run,
            spoil: tipping,
            limited_by: By::Server,
            sure: Sure::Medium,
            reason: "the p95 tipped: 1ms in the run's first quarter, 900ms in its last",
        },
        Case {
            name: "noise of a fast server",
            run: open_run,
            spoil: |result, _| {
                let p95 = |second: u32| if second > 6 { 500.0 } else { 100.0 };
                result.series = (1..=12).map(|s| row(f64::from(s), 1_000, p95(s))).collect();
            },
            limited_by: By::None,
            sure: Sure::High,
            reason: "answered in time",
        },
        Case {
            name: "too short to have quarters",
            run: open_run,
            spoil: |result, _| {
                result.series = vec![row(1.0, 1_000, 1_000.0), row(2.0, 1_000, 900_000.0)];
            },
            limited_by: By::None,
            sure: Sure::High,
            reason: "answered in time",
        },
    ]);
}

#[test]
fn refusing_statuses_are_a_layer_that_blocks_or_sheds() {
    check(&[
        Case {
            name: "403 set in after 5 s",
            run: open_run,
            spoil: |result, _| {
                result.status = [("200".to_owned(), 5_000), ("403".to_owned(), 5_000)].into();
                for row in &mut result.series[5..] {
                    row.http_errors = row.completed;
                }
            },
            limited_by: By::Server,
            sure: Sure::Medium,
            reason: "50 % of the answers were 403: they set in at 5 s and stayed",
        },
        Case {
            name: "503 now and then",
            run: closed_run,
            spoil: |result, _| {
                result.status = [("200".to_owned(), 7_000), ("503".to_owned(), 3_000)].into();
                result.series.iter_mut().for_each(|row| row.http_errors = 300);
            },
            limited_by: By::Server,
            sure: Sure::Low,
            reason: "30 % of the answers were 503: the server sheds load",
        },
        Case {
            name: "404 is not refusing",
            run: open_run,
            spoil: |result, _| result.status = [("404".to_owned(), 10_000)].into(),
            limited_by: By::None,
            sure: Sure::High,
            reason: "answered in time",
        },
    ]);
}

#[test]
fn a_closed_model_in_order_is_limited_by_its_connections() {
    check(&[
        Case {
            name: "closed",
            run: closed_run,
            spoil: |_, _| {},
            limited_by: By::Connections,
            sure: Sure::Low,
            reason: "50 connections wait for their answers (1.00ms on average)",
        },
        Case {
            name: "nothing answered",
            run: closed_run,
            spoil: |result, _| {
                (result.counts.completed, result.counts.failed) = (0, 10_000);
                result.errors = vec![error(Phase::Connect, FaultKind::Refused, 10_000)];
            },
            limited_by: By::Unknown,
            sure: Sure::Low,
            reason: "not one request was answered, mostly: connect refused",
        },
        Case {
            name: "nothing at all",
            run: open_run,
            spoil: |result, circumstances| {
                result.counts = Default::default();
                result.status.clear();
                circumstances.answered = 0;
            },
            limited_by: By::Unknown,
            sure: Sure::Low,
            reason: "not one request was answered",
        },
    ]);
}

#[test]
fn a_watched_server_whose_cpu_is_full_is_named_for_sure() {
    check(&[
        Case {
            name: "behind, places left",
            run: open_run,
            spoil: |result, circumstances| {
                circumstances.answered = 8_000;
                result.watch = vec![watched(&[0.97])];
            },
            limited_by: By::Server,
            sure: Sure::High,
            reason: "the server's CPU is full: nginx used 0.97 of 1 CPUs",
        },
        Case {
            name: "behind, places left, and not full",
            run: open_run,
            spoil: |result, circumstances| {
                circumstances.answered = 8_000;
                result.watch = vec![watched(&[0.3])];
            },
            limited_by: By::Server,
            sure: Sure::Medium,
            reason: "the server's CPU is not full: nginx used 0.30",
        },
        Case {
            name: "behind, all places taken, service time flat",
            run: open_run,
            spoil: |result, circumstances| {
                overload(result, circumstances, 20_000.0, 20_200.0);
                result.watch = vec![watched(&[0.97])];
            },
            limited_by: By::Server,
            sure: Sure::High,
            reason: "is full",
        },
        Case {
            name: "full, and all in time",
            run: open_run,
            spoil: |result, _| result.watch = vec![watched(&[0.97])],
            limited_by: By::None,
            sure: Sure::High,
            reason: "answered in time",
        },
        Case {
            name: "closed",
            run: closed_run,
            spoil: |result, _| result.watch = vec![watched(&[0.97])],
            limited_by: By::Server,
            sure: Sure::High,
            reason: "is full",
        },
        Case {
            name: "closed, and not full",
            run: closed_run,
            spoil: |result, _| result.watch = vec![watched(&[0.6])],
            limited_by: By::Connections,
            sure: Sure::Medium,
            reason: "is not full: nginx used 0.60",
        },
        Case {
            name: "closed, one thread of many",
            run: closed_run,
            spoil: |result, _| {
                result.watch = vec![watched(&[1.02])];
                let samples = &mut result.watch[0].samples;
                samples.iter_mut().for_each(|sample| sample.processes[0].threads = Some(9));
            },
            limited_by: By::Connections,
            sure: Sure::Low,
            reason: "one thread of the server may be full",
        },
        Case {
            name: "the generator before the server",
            run: closed_run,
            spoil: |result, _| {
                result.watch = vec![watched(&[0.97])];
                result.generator.workers[0].busy = 0.95;
            },
            limited_by: By::Generator,
            sure: Sure::High,
            reason: "worker 0",
        },
        Case {
            name: "connects fail while the server idles",
            run: open_run,
            spoil: |result, circumstances| {
                circumstances.answered = 6_000;
                (result.counts.completed, result.counts.failed) = (6_000, 4_000);
                result.errors = vec![error(Phase::Connect, FaultKind::Refused, 4_000)];
                result.watch = vec![watched(&[0.02])];
            },
            limited_by: By::Server,
            sure: Sure::Medium,
            reason: "while the server idles: a layer before it may block",
        },
    ]);
}

#[test]
fn a_full_line_is_the_limit() {
    // 9,000,000 bytes in 10 s are 7.2 Mbit/s.
    check(&[
        Case {
            name: "closed",
            run: closed_run,
            spoil: |_, circumstances| circumstances.link_bits = Some(7_500_000),
            limited_by: By::Link,
            sure: Sure::High,
            reason: "the line brought 7.2Mbit/s of the 7.5Mbit/s",
        },
        Case {
            name: "closed, and the server is full too",
            run: closed_run,
            spoil: |result, circumstances| {
                circumstances.link_bits = Some(7_500_000);
                result.watch = vec![watched(&[0.97])];
            },
            limited_by: By::Link,
            sure: Sure::Medium,
            reason: "the server's CPU is full",
        },
        Case {
            name: "open, behind",
            run: open_run,
            spoil: |_, circumstances| {
                (circumstances.link_bits, circumstances.answered) = (Some(7_500_000), 8_000);
            },
            limited_by: By::Link,
            sure: Sure::High,
            reason: "the line brought",
        },
        Case {
            name: "open, all in time",
            run: open_run,
            spoil: |_, circumstances| circumstances.link_bits = Some(7_500_000),
            limited_by: By::None,
            sure: Sure::High,
            reason: "answered in time",
        },
        Case {
            name: "half full",
            run: closed_run,
            spoil: |_, circumstances| circumstances.link_bits = Some(15_000_000),
            limited_by: By::Connections,
            sure: Sure::Low,
            reason: "wait for their answers",
        },
    ]);
}
