use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::*;
use crate::plan::pages::parse_url;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A server that hands each connection to a function, one after the other, and the URL of `/probe`
/// there.
fn server(answer: impl Fn(TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            answer(stream.unwrap());
        }
    });
    format!("http://{address}/probe")
}

/// Reads a request's head.
fn head(stream: &mut impl Read) -> String {
    let mut seen = Vec::new();
    let mut byte = [0];
    while !seen.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n == 1) {
        seen.push(byte[0]);
    }
    String::from_utf8_lossy(&seen).into_owned()
}

/// A server that answers with these bytes and closes.
fn answering(bytes: &'static [u8]) -> String {
    server(move |mut stream| {
        head(&mut stream);
        stream.write_all(bytes).unwrap();
    })
}

fn attempt(url: &str) -> ProbeOutcome {
    attempt_within(url, LIMIT, false)
}

fn attempt_within(url: &str, limit: Duration, insecure: bool) -> ProbeOutcome {
    let settings = Settings { insecure, ..Settings::new("127.0.0.1") };
    Destination::of(&parse_url(url).unwrap(), &settings).unwrap().attempt(limit)
}

fn failure(url: &str) -> String {
    attempt(url).failure.expect("it fails").to_string()
}

#[test]
fn one_probe_is_one_request_and_says_who_asks() {
    let (told, heard) = mpsc::channel();
    let url = server(move |mut stream| {
        told.send(head(&mut stream)).unwrap();
        stream.write_all(OK).unwrap();
    });
    let outcome = attempt(&url.replace("http://", "http://bob:secret@"));
    assert_eq!(outcome.failure, None);
    assert!(outcome.took < LIMIT);
    let request = heard.recv().unwrap();
    let agent = concat!("User-Agent: ringload/", env!("CARGO_PKG_VERSION"), "\r\n");
    // "bob:secret" in base64.
    for part in ["GET /probe HTTP/1.1\r\n", agent, "Connection: close", "Basic Ym9iOnNlY3JldA=="] {
        assert!(request.contains(part), "no {part} in {request}");
    }
}

#[test]
fn whatever_ends_an_answer_ends_the_probe() {
    for answer in [
        OK,
        b"HTTP/1.1 200 OK\r\n\r\nuntil the end",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 301 Moved\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
    ] {
        let outcome = attempt(&answering(answer));
        assert_eq!(outcome.failure, None, "{}", answer.escape_ascii());
    }
}

#[test]
fn failures_have_their_names() {
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_eq!(failure(&format!("http://{unused}/")), "connect refused");
    assert_eq!(failure(&answering(b"")), "head closed");
    assert_eq!(failure(&answering(b"HTTP/1.1 200 ")), "head malformed (head-cut)");
    assert_eq!(
        failure(&answering(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort")),
        "body truncated"
    );
    assert_eq!(
        failure(&answering(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")),
        "status 503"
    );
}

#[test]
fn an_answer_that_does_not_end_in_time_is_given_up() {
    let silent = server(|mut stream| {
        head(&mut stream);
        thread::sleep(Duration::from_secs(2));
    });
    let slow = server(|mut stream| {
        head(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n");
        // Each byte comes in time, the answer does not.
        while stream.write_all(b"x").is_ok() {
            thread::sleep(Duration::from_millis(20));
        }
    });
    let limit = Duration::from_millis(200);
    for (url, name) in [(silent, "head timeout"), (slow, "body timeout")] {
        let outcome = attempt_within(&url, limit, false);
        assert_eq!(outcome.failure.map(|f| f.to_string()).as_deref(), Some(name));
        assert!((limit..limit * 3).contains(&outcome.took), "{:?}", outcome.took);
    }
}

#[test]
fn a_certificate_that_nobody_vouches_for_is_refused_unless_told_otherwise() {
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let url = server(move |stream| {
        let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
        let mut stream = StreamOwned::new(connection, stream);
        if head(&mut stream).starts_with("GET /probe ") {
            let _ = stream.write_all(OK);
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
    });
    let url = url.replace("http://", "https://");
    assert_eq!(attempt_within(&url, LIMIT, true).failure, None);
    let refused = attempt_within(&url, LIMIT, false).failure.unwrap();
    assert_eq!(refused.to_string(), "tls certificate (self-signed)");
    let plain = server(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    let plain = plain.replace("http://", "https://");
    let other = attempt(&plain).failure.unwrap();
    assert_eq!((other.phase, other.kind), (Phase::Tls, FaultKind::Handshake), "{other}");
}

#[test]
fn it_runs_until_it_is_stopped() {
    let probe =
        Probe::start(&parse_url(&answering(OK)).unwrap(), &Settings::new("127.0.0.1")).unwrap();
    thread::sleep(Duration::from_millis(1_300));
    assert_eq!(probe.outcomes_since(0).len(), 2);
    assert_eq!(probe.outcomes_since(1).len(), 1);
    assert_eq!(probe.outcomes_since(9).len(), 0);
    let outcomes = probe.stop();
    assert_eq!(outcomes.len(), 2);
    let apart = outcomes[1].sent_at - outcomes[0].sent_at;
    assert!((900..1_200).contains(&apart.as_millis()), "{apart:?}");
}

#[test]
fn a_name_without_an_address_is_told_at_the_start() {
    // RFC 6761: no name under `invalid` exists.
    let url = parse_url("http://no-such-host.invalid/").unwrap();
    let started = Probe::start(&url, &Settings::new("no-such-host.invalid"));
    let told = started.err().unwrap().to_string();
    assert!(told.starts_with("--probe: no-such-host.invalid has no address"), "{told}");
}

#[test]
fn probes_that_were_slept_through_are_not_made_up_for() {
    let start = Instant::now();
    let at = |ms| start + Duration::from_millis(ms);
    for (now_ms, due_ms) in [(3, 1_000), (1_000, 1_000), (1_004, 1_000), (2_500, 2_000)] {
        assert_eq!(next_due(start, at(now_ms)), at(due_ms), "at {now_ms} ms");
    }
}

#[test]
fn a_summary_counts_by_reason() {
    let zero = Instant::now() + Duration::from_secs(5);
    let outcome = |at_ms: u64, took_ms, failure: Option<(Phase, FaultKind)>| ProbeOutcome {
        sent_at: zero + Duration::from_millis(at_ms),
        took: Duration::from_millis(took_ms),
        failure: failure.map(|(phase, kind)| ProbeFailure { phase, kind, detail: String::new() }),
    };
    let refused = Some((Phase::Connect, FaultKind::Refused));
    let timeout = Some((Phase::Head, FaultKind::Timeout));
    let outcomes = [
        outcome(0, 3, None),
        outcome(1_000, 1, None),
        outcome(2_000, 1_000, timeout),
        outcome(3_001, 0, refused),
        outcome(4_000, 0, refused),
    ];
    let result = summary(&outcomes, zero);
    assert_eq!((result.sent, result.failed, result.first_failed_s), (5, 3, Some(2.0)));
    // Refused ones have no latency; the one that was given up has.
    assert_eq!((result.p50_us, result.max_us), (Some(3_000.0), Some(1_000_000.0)));
    let failures = [("connect refused".to_owned(), 2), ("head timeout".to_owned(), 1)];
    assert_eq!(result.failures, failures.into());
}

#[test]
fn a_summary_of_nothing_has_no_times() {
    assert_eq!(summary(&[], Instant::now()), ProbeResult::default());
    let before = ProbeOutcome {
        sent_at: Instant::now(),
        took: Duration::ZERO,
        failure: Some(ProbeFailure {
            phase: Phase::Connect,
            kind: FaultKind::Refused,
            detail: String::new(),
        }),
    };
    let zero = before.sent_at + Duration::from_millis(9);
    // Sent just before the load: as at its start.
    assert_eq!(summary(&[before], zero).first_failed_s, Some(0.0));
}
