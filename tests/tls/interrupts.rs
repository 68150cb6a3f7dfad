//! Ctrl-C in each phase over TLS: the result is whole, and it ends.

use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use super::support::raw::Raw;
use super::support::{Run, child, secure};

/// Starts it, sends these signals, each so long after the one before, and reads what it wrote.
#[track_caller]
fn interrupted(arguments: &[&str], signals: &[(u64, Signal)]) -> (Run, Duration) {
    let outputs = ["--json", "-", "--progress", "none"];
    let running = child::start(&[arguments, &outputs].concat());
    for (after_ms, signal) in signals {
        thread::sleep(Duration::from_millis(*after_ms));
        running.signal(*signal);
    }
    let at = Instant::now();
    let output = running.output();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let result: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("no result of {arguments:?} ({error}): {stderr}"));
    let code = output.status.code().expect("it ends by itself");
    let run = Run { code, result, stderr };
    run.assert_identities();
    assert_eq!(run.result["interrupted"], true, "{arguments:?}");
    (run, at.elapsed())
}

/// A server that never says a word.
fn silent() -> Raw {
    Raw::start(|mut stream| {
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    })
}

#[test]
fn in_handshakes_that_stall() {
    let server = silent();
    let url = secure::url(server.address);
    for model in [&["-c", "3"][..], &["-r", "20"], &["-r", "20", "--preconnect", "3"]] {
        // The grace is for what is in flight.
        let line = [&["run", &*url, "--grace", "500ms"], model].concat();
        let (run, took) = interrupted(&line, &[(700, Signal::INT)]);
        assert_eq!((run.code, run.count("/counts/completed")), (130, 0), "{model:?}");
        assert!(took < Duration::from_secs(20), "{model:?} took {took:?}");
    }
    // The second ends at once.
    let line = ["run", &*url, "-c", "3"];
    let (run, took) = interrupted(&line, &[(700, Signal::INT), (300, Signal::INT)]);
    assert_eq!((run.code, run.count("/counts/unfinished")), (130, 3));
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[test]
fn in_a_load() {
    let server = child::serve(&["--https", "127.0.0.1:0"]);
    let url = server.url();
    for (arguments, signal, code) in [
        (&["-c", "4"][..], Signal::INT, 130),
        (&["-c", "4", "--new-connections"], Signal::TERM, 143),
        (&["-r", "100", "--tls-resume", "on", "--new-connections"], Signal::INT, 130),
    ] {
        let line = [&["run", url, "-k", "-d", "1m"], arguments].concat();
        let (run, _) = interrupted(&line, &[(1_500, signal)]);
        assert_eq!(run.code, code, "{arguments:?}");
        assert!(run.count("/counts/completed") > 0, "{}", run.result["errors"]);
        assert_eq!(run.count("/counts/failed"), 0, "{}", run.result["errors"]);
    }
    // Nothing is recorded in a warm-up, and nothing made up.
    let line = ["run", url, "-k", "-c", "2", "--warmup", "1m"];
    let (run, _) = interrupted(&line, &[(1_000, Signal::INT)]);
    assert_eq!((run.code, run.count("/counts/completed")), (130, 0));
}

#[test]
fn in_each_phase_of_a_hold() {
    let server = child::serve(&["--https", "127.0.0.1:0"]);
    let url = server.url();
    let stalling = silent();
    let silent = secure::url(stalling.address);
    for (what, arguments) in [
        ("at level 0", &[url, "-k", "--levels", "0,50", "--dwell", "1m"][..]),
        ("opening", &[url, "-k", "--levels", "1k", "--dwell", "100ms", "--open-rate", "50"]),
        ("held", &[url, "-k", "--levels", "0,20", "--dwell", "800ms", "--traffic", "busy"]),
        ("stalled", &[&silent, "--levels", "0,20", "--dwell", "100ms"]),
        ("the first of two", &["embedded", "embedded+tls", "--levels", "0,5"]),
    ] {
        let line = [&["hold"], arguments].concat();
        let (run, took) = interrupted(&line, &[(1_500, Signal::INT)]);
        assert_eq!(run.code, 130, "{what}: {}", run.stderr);
        assert!(took < Duration::from_secs(20), "{what} took {took:?}");
        assert!(run.result["levels"].as_array().is_some_and(|levels| !levels.is_empty()), "{what}");
    }
}
