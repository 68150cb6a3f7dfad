//! What ringload says it did is what nginx's log says was done.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;

use support::nginx::{self, Log, Nginx, PAGES, Setup};
use support::{Run, run};

/// What must agree after any run in which every answer was a 200 and nothing was cut off.
#[track_caller]
fn assert_agreement(run: &Run, log: &Log) {
    assert_eq!(run.code, 0, "{}", run.stderr);
    run.assert_identities();
    let answered = log.with_status(200);
    assert_eq!(answered, log.lines.len() as u64, "another status in {log:?}");
    assert_eq!(run.count("/counts/completed"), answered);
    assert_eq!(run.count("/counts/failed"), 0, "{}", run.result["errors"]);
    assert_eq!(run.count("/counts/unfinished"), 0);
    assert_eq!(run.count("/status/200"), answered);
    assert_eq!(run.count("/connections/opened"), log.connections());
    assert_eq!(run.count("/bytes/sent"), log.received());
    assert_eq!(run.count("/bytes/received"), log.sent());
    let most = log.requests_by_connection().into_values().max().unwrap_or(0);
    let requests = &run.result["connections"]["requests_per_connection"];
    assert_eq!(requests["max"].as_f64(), Some(most as f64), "{requests}");
}

/// Runs against `path` of a server, which then ends.
#[track_caller]
fn run_against(nginx: Nginx, path: &str, arguments: &[&str]) -> (Run, Log) {
    let url = nginx.url(path);
    let run = run(&[&[url.as_str()], arguments].concat());
    (run, nginx.finish())
}

/// The measure itself: without it, a log that counts wrong would pass with a run that does.
#[test]
fn log_counts_what_was_sent() {
    let Some(nginx) = nginx::start() else { return };
    let request = "GET /700 HTTP/1.1\r\nHost: a\r\n\r\n";
    let last = "GET /no HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let mut received = 0;
    for text in [[request, request, last].concat(), last.to_owned()] {
        let mut stream = TcpStream::connect(("127.0.0.1", nginx.port())).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        received += stream.read_to_end(&mut Vec::new()).unwrap() as u64;
    }
    let log = nginx.finish();
    assert_eq!((log.with_status(200), log.with_status(404)), (2, 2));
    assert_eq!(log.requests_by_connection().into_values().collect::<Vec<_>>(), [3, 1]);
    assert_eq!(log.received(), (2 * request.len() + 2 * last.len()) as u64);
    assert_eq!(log.sent(), received);
}

#[test]
fn closed_model() {
    let Some(nginx) = nginx::start() else { return };
    let (run, log) = run_against(nginx, "/700", &["-c", "16", "-n", "2000"]);
    assert_agreement(&run, &log);
    assert_eq!(run.count("/counts/completed"), 2_000);
    assert_eq!(log.connections(), 16);
    assert_eq!(run.count("/bytes/body"), 2_000 * 700);
}

#[test]
fn closed_model_by_time() {
    let Some(nginx) = nginx::start() else { return };
    let (run, log) = run_against(nginx, "/700", &["-c", "8", "-d", "1s"]);
    assert_agreement(&run, &log);
    assert!(run.count("/counts/completed") > 100);
}

#[test]
fn open_model() {
    let Some(nginx) = nginx::start() else { return };
    let (run, log) = run_against(nginx, "/700", &["-r", "1000", "-d", "2s"]);
    assert_agreement(&run, &log);
    assert!(run.count("/counts/scheduled").abs_diff(2_000) <= 1);
    assert_eq!(run.count("/counts/completed"), run.count("/counts/scheduled"));
}

#[test]
fn open_model_on_preconnected_connections() {
    let Some(nginx) = nginx::start() else { return };
    let arguments = ["-r", "500", "-d", "2s", "--preconnect", "20"];
    let (run, log) = run_against(nginx, "/700", &arguments);
    assert_agreement(&run, &log);
    // All are kept in use, in turn.
    assert!(log.connections() >= 20);
}

#[test]
fn new_connection_per_request() {
    let Some(nginx) = nginx::start() else { return };
    let arguments = ["-c", "8", "-n", "500", "--new-connections"];
    let (run, log) = run_against(nginx, "/700", &arguments);
    assert_agreement(&run, &log);
    assert_eq!(log.connections(), 500);
    assert_eq!(run.count("/connections/reused"), 0);
}

#[test]
fn new_connection_per_arrival() {
    let Some(nginx) = nginx::start() else { return };
    let arguments = ["-r", "250", "-d", "2s", "--new-connections"];
    let (run, log) = run_against(nginx, "/700", &arguments);
    assert_agreement(&run, &log);
    assert_eq!(log.connections(), run.count("/counts/started"));
}

#[test]
fn seven_requests_per_connection() {
    let Some(nginx) = nginx::start() else { return };
    let arguments = ["-c", "5", "-n", "700", "--requests-per-connection", "7"];
    let (run, log) = run_against(nginx, "/700", &arguments);
    assert_agreement(&run, &log);
    let requests = log.requests_by_connection();
    assert!(requests.values().all(|&n| n <= 7), "{requests:?}");
    // The end of the run finds each of the five places in the middle of a connection, at most.
    assert!(requests.values().filter(|&&n| n < 7).count() <= 5, "{requests:?}");
    assert_eq!(run.count("/counts/completed"), 700);
}

#[test]
fn clients() {
    let Some(nginx) = nginx::start() else { return };
    let arguments =
        ["-r", "50", "-d", "2s", "--arrive", "clients", "--requests-per-connection", "5"];
    let (run, log) = run_against(nginx, "/700", &arguments);
    assert_agreement(&run, &log);
    assert!(run.count("/counts/clients/scheduled").abs_diff(100) <= 1);
    let started = run.count("/counts/clients/started");
    assert_eq!(run.count("/counts/clients/finished"), started);
    assert_eq!(log.connections(), started);
    let requests = log.requests_by_connection();
    assert!(requests.values().all(|&n| n == 5), "{requests:?}");
    assert_eq!(run.count("/counts/completed"), started * 5);
}

#[test]
fn server_that_closes_after_ten_requests() {
    let Some(nginx) = nginx::start_with(&Setup { keepalive_requests: 10, ..Setup::default() })
    else {
        return;
    };
    let (run, log) = run_against(nginx, "/700", &["-c", "4", "-n", "1000"]);
    assert_agreement(&run, &log);
    assert!(log.requests_by_connection().into_values().all(|n| n <= 10));
    assert!(log.connections() >= 100);
}

#[test]
fn pages_of_every_size() {
    for (path, len) in PAGES {
        let Some(nginx) = nginx::start() else { return };
        let (run, log) = run_against(nginx, path, &["-c", "6", "-n", "120"]);
        assert_agreement(&run, &log);
        assert_eq!(run.count("/bytes/body"), 120 * len as u64, "{path}");
    }
}

#[test]
fn pages_that_are_not_there() {
    let Some(nginx) = nginx::start() else { return };
    let (run, log) = run_against(nginx, "/nothing", &["-c", "2", "-n", "50"]);
    run.assert_identities();
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(log.with_status(404), 50);
    assert_eq!(run.count("/status/404"), 50);
    assert_eq!(run.count("/counts/completed"), 50);
    assert_eq!(run.count("/counts/http_errors"), 50);
}

#[test]
fn unix_socket() {
    let Some(nginx) = nginx::start() else { return };
    let socket = nginx.unix_socket();
    let arguments = ["-c", "4", "-n", "400", "--unix-socket", socket.to_str().unwrap()];
    let (run, log) = run_against(nginx, "/700", &arguments);
    assert_agreement(&run, &log);
    assert_eq!(log.connections(), 4);
}
