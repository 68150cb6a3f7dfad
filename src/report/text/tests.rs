use super::*;
use crate::judge::judge;
use crate::stats::samples::{closed_run, error, open_run, page};
use crate::stats::result::TlsFigures;
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
    let text = rendered((result.clone(), circumstances.clone()));
    let agreed = "TLS          TLSv1.3, TLS_AES_128_GCM_SHA256, x25519, certificate verified\n";
    let took = "             1,200 resumed handshakes: p50 310µs, p99 420µs, max 1.50ms\n";
    assert!(text.contains(&[agreed, took].concat()), "{text}");
    assert!(!text.contains("full handshake"), "{text}");
    result.connections.tls = Some(TlsFigures::default());
    result.latency.tls_resumed = Summary::default();
    let text = rendered((result, circumstances));
    let none = "TLS          no handshake was completed, certificate not verified\n";
    assert!(text.contains(none), "{text}");
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
