use super::*;
use crate::judge::judge;
use crate::stats::result::{ProbeResult, TlsFigures};
use crate::stats::samples::{closed_run, error, open_run, page, watched};
use crate::stats::{FaultKind, Phase};

fn rendered(mut run: (RunResult, crate::stats::assemble::Circumstances)) -> String {
    run.0.verdict = judge(&run.0, &run.1);
    render(&run.0, false)
}

#[test]
fn a_healthy_run_fits_a_page_and_ends_with_its_measurement() {
    for run in [open_run(), closed_run()] {
        let text = rendered(run);
        assert!(text.lines().count() <= 40, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.ends_with("Measurement  nothing wrong with it was noticed\n"), "{text}");
        assert!(text.contains("10,000 scheduled = 10,000 started + 0 dropped + 0 unstarted"));
        assert!(text.contains("10,000 started = 10,000 completed + 0 failed + 0 unfinished"));
        assert!(!text.contains('\x1b'));
    }
}

#[test]
fn the_open_model_says_what_was_offered_and_how_late_it_was() {
    let text = rendered(open_run());
    assert!(text.contains("open model, 1k arrivals per second, for 10s"), "{text}");
    assert!(text.contains("Rate         1,000/s offered, 999.9/s answered"), "{text}");
    assert!(text.contains("late by"), "{text}");
    assert!(text.contains("Limited by   nothing (sure)"), "{text}");
}

#[test]
fn the_closed_model_says_that_it_waits() {
    let text = rendered(closed_run());
    assert!(text.contains("closed model, 50 connections that wait for their answers"), "{text}");
    assert!(!text.contains("offered"), "{text}");
}

#[test]
fn what_tls_agreed_on_and_took_is_shown() {
    let (mut result, circumstances) = open_run();
    result.connections.tls = Some(TlsFigures {
        version: Some("TLSv1.3".into()),
        suite: Some("TLS_AES_128_GCM_SHA256".into()),
        group: Some("x25519".into()),
        verified: true,
        full: 1,
        resumed: 1_200,
    });
    let took = Summary {
        p50_us: Some(310.0),
        p99_us: Some(420.0),
        max_us: Some(1_500.0),
        ..Summary::default()
    };
    result.latency.tls_resumed = took;
    let text = rendered((result.clone(), circumstances));
    let agreed = "TLS          TLSv1.3, TLS_AES_128_GCM_SHA256, x25519, certificate verified\n";
    let took = "             1,200 resumed handshakes: p50 310µs, p99 420µs, max 1.50ms\n";
    assert!(text.contains(&[agreed, took].concat()), "{text}");
    assert!(!text.contains("full handshake"), "{text}");
    result.connections.tls = Some(TlsFigures::default());
    result.latency.tls_resumed = Summary::default();
    let text = rendered((result, circumstances));
    assert!(text.contains("TLS          no handshake was completed\n"), "{text}");
}

#[test]
fn failures_are_shown_with_a_remedy_and_without_control_characters() {
    let (mut result, circumstances) = open_run();
    let mut malformed = error(Phase::Head, FaultKind::Malformed, 9);
    malformed.example = "\x1b[2Jevil".to_owned();
    malformed.detail = "status-line".to_owned();
    result.errors = vec![malformed];
    result.errors.extend((0..9).map(|n| error(Phase::Connect, FaultKind::Reset, 8 - n.min(7))));
    result.label = Some("a\rb".to_owned());
    let text = rendered((result, circumstances));
    assert!(text.contains("head malformed (status-line): 9 times, from 0.5 s to 9.5 s:"), "{text}");
    assert!(text.contains(r"\u{1b}[2Jevil"), "{text}");
    assert!(text.contains("is this an HTTP/1.1 port"), "{text}");
    assert!(text.contains("of 5 more kinds"), "{text}");
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text}");
}

#[test]
fn pages_are_shown_where_there_are_several() {
    let (mut result, circumstances) = open_run();
    let long = format!("http://127.0.0.1:8080/{}/the-end", "x".repeat(80));
    result.pages = vec![page(&long, 3_000), page("http://127.0.0.1:8080/b", 7_000)];
    result.pages[0].http_errors = 12;
    let text = rendered((result, circumstances));
    assert!(text.contains("/the-end"), "{text}");
    assert!(text.contains("http://127.0.0.1:8080/b"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(!rendered(open_run()).contains("4/5xx"));
}

#[test]
fn warnings_are_the_last_that_is_read() {
    let (mut result, circumstances) = open_run();
    result.counts.dropped = 500;
    let text = rendered((result, circumstances));
    let last = &text[text.rfind("Measurement").unwrap()..];
    assert!(last.starts_with("Measurement  500 arrivals (5.0 %) found no place"), "{last}");
}

#[test]
fn colour_changes_nothing_but_colour() {
    let (result, _) = open_run();
    let colored = render(&result, true);
    assert!(colored.contains("\x1b[1m"));
    let mut plain = String::new();
    let mut rest = colored.as_str();
    while let Some(at) = rest.find('\x1b') {
        plain += &rest[..at];
        rest = &rest[at + rest[at..].find('m').unwrap() + 1..];
    }
    plain += rest;
    let trimmed: Vec<_> = plain.lines().map(str::trim_end).collect();
    assert_eq!(trimmed.join("\n") + "\n", render(&result, false));
}

#[test]
fn a_result_without_answers_reads_too() {
    let (mut result, circumstances) = closed_run();
    result.latency = Default::default();
    result.status.clear();
    result.series.clear();
    result.counts.completed = 0;
    result.connections.requests_per_connection.mean = None;
    result.plan = serde_json::Value::Null;
    let text = rendered((result, circumstances));
    assert!(text.contains("Status       no answer"), "{text}");
    assert!(text.contains("not one request was answered"), "{text}");
}

#[test]
fn a_watched_server_takes_a_few_lines() {
    let (mut result, circumstances) = closed_run();
    let mut row = watched(&[0.9, 0.7]);
    row.samples[8].mem_available = Some(28 << 20);
    row.samples[9].listen_drops = Some(17);
    row.samples[9].tcp_pressure_ms = Some(62_000);
    row.samples[10] = row.samples[9].clone();
    row.gaps = vec!["nginx (100) went".to_owned()];
    result.watch = vec![row.clone(), row];
    let text = rendered((result, circumstances));
    // The text as one line, as it was before it was wrapped.
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "Watched name:nginx: 2 × nginx, CPU 1.60 on average, 1.60 at most; RSS 68MiB at first,",
        "machine: 48 % of 4 CPUs on average, 48 % at most; run queue up to 2; 28MiB of memory free",
        "12 connects dropped by listeners; TCP under memory pressure for 1s",
        "nginx (100) went",
    ] {
        assert!(flat.contains(part), "no {part} in {text}");
    }
    assert_eq!(text.matches("machine:").count(), 1, "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn a_probe_takes_a_line() {
    let (mut result, circumstances) = open_run();
    result.probe = Some(ProbeResult {
        sent: 12,
        failed: 3,
        p50_us: Some(1_200.0),
        max_us: Some(1_000_000.0),
        first_failed_s: Some(5.25),
        failures: [("connect refused".to_owned(), 1), ("head timeout".to_owned(), 2)].into(),
    });
    let text = rendered((result.clone(), circumstances));
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let told = "Probe 12 sent, 3 failed (connect refused: 1, head timeout: 2), the first at 5.2 s; \
                p50 1.20ms, max 1s";
    assert!(flat.contains(told), "{text}");
    result.probe = Some(ProbeResult { sent: 1, ..ProbeResult::default() });
    assert!(render(&result, false).contains("Probe        1 sent, none failed\n"));
}

#[test]
fn nothing_is_said_of_what_was_not_watched() {
    let text = rendered(open_run());
    assert!(!text.contains("Watched") && !text.contains("Probe"), "{text}");
}

#[test]
fn one_is_no_plural_and_a_seed_no_count() {
    let (mut result, _) = open_run();
    (result.plan["rate"], result.plan["requests"]) = (1.into(), 1.into());
    result.plan["seed"] = 4_294_967_295_u64.into();
    let text = render(&result, false);
    assert!(text.contains("open model, 1 arrival per second, 1 request, for 10s"), "{text}");
    assert!(text.contains("seed 4294967295"), "{text}");
    result.rate.offered = None;
    result.plan["connections"] = 1.into();
    assert!(render(&result, false).contains("1 connection that waits for its answer"));
}
