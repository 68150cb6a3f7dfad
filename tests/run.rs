//! The real binary against servers that misbehave, and against the embedded one.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Stdio};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use support::raw::{Raw, always, read_request};
use support::{Run, ringload, run};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// The only error of a result: its phase, kind and count.
#[track_caller]
fn only_error(run: &Run) -> (&str, &str, u64) {
    let errors = run.result["errors"].as_array().expect("errors is a list");
    assert_eq!(errors.len(), 1, "{errors:?}");
    let text = |key: &str| errors[0][key].as_str().expect("a name");
    (text("phase"), text("kind"), errors[0]["count"].as_u64().unwrap())
}

#[test]
fn an_answer_of_13_bytes_is_malformed_and_counts_for_nothing() {
    let server = Raw::start(|mut stream| {
        if read_request(&mut stream) {
            stream.write_all(b"HTTP/1.1 200 ").unwrap();
        }
    });
    let run = run(&[&server.url(), "-n", "20", "-c", "2"]);
    run.assert_identities();
    assert_eq!(run.code, 4, "not one complete response");
    assert_eq!(run.count("/counts/completed"), 0);
    assert_eq!(only_error(&run), ("head", "malformed", 20));
    let example = run.result["errors"][0]["example"].as_str().unwrap();
    assert!(example.contains("HTTP/1.1 200 "), "{example}");
    assert_eq!(run.result["status"].as_object().unwrap().len(), 0);
}

#[test]
fn a_refused_port_is_not_tried_in_a_spin() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let run = run(&[&format!("http://{address}/"), "-r", "1000", "-d", "1s", "-t", "1"]);
    run.assert_identities();
    assert_eq!(run.code, 4);
    let (phase, kind, count) = only_error(&run);
    assert_eq!((phase, kind), ("connect", "refused"));
    // 10 ms, doubling, and at most 256 at once: a few bursts in a second.
    assert!(count < 300, "{count} tries");
    assert_eq!(run.count("/counts/scheduled"), 1_000);
}

#[test]
fn a_server_that_closes_idle_connections_without_a_word_causes_no_failure() {
    let server = Raw::start(|mut stream| {
        for _ in 0..3 {
            if !read_request(&mut stream) || stream.write_all(OK).is_err() {
                return;
            }
        }
    });
    for model in [&["-c", "4", "-n", "400"][..], &["-r", "500", "-n", "400"]] {
        let run = run(&[&[&*server.url(), "-t", "1"], model].concat());
        run.assert_identities();
        assert_eq!(
            (run.code, run.count("/counts/completed")),
            (0, 400),
            "{}",
            run.result["errors"]
        );
        assert_eq!(run.count("/connections/requests_per_connection/max"), 3);
    }
}

#[test]
fn a_server_that_never_answers_is_a_timeout_in_the_latencies() {
    let server = Raw::start(|mut stream| {
        read_request(&mut stream);
        thread::sleep(Duration::from_secs(5));
    });
    let run = run(&[&server.url(), "-c", "2", "-d", "1s", "--timeout", "200ms"]);
    run.assert_identities();
    assert_eq!(run.code, 4);
    let (phase, kind, _) = only_error(&run);
    assert_eq!((phase, kind), ("head", "timeout"));
    let p50_us = run.result["latency"]["service"]["p50_us"].as_f64().unwrap();
    assert!((200_000.0..260_000.0).contains(&p50_us), "{p50_us}");
}

#[test]
fn bytes_after_a_response_end_its_connection_and_are_counted() {
    let server = Raw::start(always(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more"));
    let run = run(&[&server.url(), "-c", "1", "-n", "10"]);
    run.assert_identities();
    assert_eq!((run.code, run.count("/counts/completed")), (0, 10));
    assert_eq!(run.count("/connections/unexpected_bytes"), 10);
}

#[test]
fn a_body_cut_short_is_truncated_and_a_reset_a_reset() {
    let server = Raw::start(|mut stream| {
        read_request(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this");
    });
    let cut = run(&[&server.url(), "-c", "1", "-n", "5"]);
    cut.assert_identities();
    assert_eq!(only_error(&cut), ("body", "truncated", 5));

    let embedded = serve(&[]);
    let reset = run(&[&format!("{}reset", embedded.url), "-c", "1", "-n", "5"]);
    reset.assert_identities();
    let (_, kind, count) = only_error(&reset);
    assert_eq!((kind, count), ("reset", 5));
}

#[test]
fn a_server_that_ignores_connection_close_gets_a_new_connection_all_the_same() {
    let server = Raw::start(always(OK));
    let run = run(&[&server.url(), "--new-connections", "-c", "2", "-n", "50"]);
    run.assert_identities();
    assert_eq!(run.count("/counts/completed"), 50);
    assert_eq!(run.count("/connections/opened"), 50);
    assert_eq!(run.count("/connections/closed_by_us"), 50);
    assert_eq!(server.accepted.load(Ordering::Relaxed), 50);
}

#[test]
fn localhost_works_where_the_server_listens_on_one_family_only() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let address: SocketAddr = address.parse().unwrap();
        if TcpListener::bind(address).is_err() {
            println!("skipped: no {address} on this machine");
            continue;
        }
        let server = Raw::on(address, always(OK));
        let url = format!("http://localhost:{}/", server.address.port());
        let run = run(&[&url, "-n", "10", "-c", "1"]);
        assert_eq!((run.code, run.count("/counts/completed")), (0, 10), "{}", run.result["errors"]);
    }
}

#[test]
fn so_many_requests_as_asked_for_whatever_the_threads() {
    let server = serve(&[]);
    for (threads, requests) in [("1", 7), ("2", 1_001), ("2", 2)] {
        let n = requests.to_string();
        for model in [&["-c", "5"][..], &["-r", "20k"], &["-r", "20k", "--arrivals", "poisson"]] {
            let run = run(&[&[&*server.url, "-n", &n, "-t", threads], model].concat());
            run.assert_identities();
            assert_eq!(run.count("/counts/completed"), requests, "{threads} threads, {model:?}");
        }
    }
}

#[test]
fn more_connections_than_descriptors_are_refused_with_the_remedy() {
    let output =
        ringload().args(["run", "embedded", "-c", "5M", "-n", "1"]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(3));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("ulimit -n"), "{stderr}");
}

#[test]
fn an_interrupted_run_prints_and_writes_everything() {
    let server = serve(&[]);
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let child = ringload()
            .args([
                "run",
                &server.url,
                "-d",
                "30s",
                "-r",
                "100",
                "--json",
                "-",
                "--progress",
                "none",
            ])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        thread::sleep(Duration::from_millis(700));
        let id = child.id().to_string();
        assert!(std::process::Command::new("kill").args([signal, &id]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code));
        let result: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a result");
        assert_eq!(result["interrupted"], true);
        let scheduled = result["counts"]["scheduled"].as_u64().unwrap();
        assert!((20..100).contains(&scheduled), "{scheduled}");
    }
}

#[test]
fn secrets_are_in_no_output() {
    let server = serve(&[]);
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (csv, hgrm, json) = (file("csv"), file("hgrm"), file("json"));
    let url = server.url.replace("http://", "http://user:canary-1@");
    let secrets = ["Authorization: canary-2", "Cookie: canary-3", "X-Api-Key: canary-4"];
    for extra in [&["--dry-run"][..], &[]] {
        let mut arguments =
            vec!["run", &url, "-n", "5", "--csv", &csv, "--hgrm", &hgrm, "--json", &json];
        arguments.extend(secrets.iter().skip(1).flat_map(|secret| ["-H", secret]));
        arguments.extend(extra);
        let output = ringload().args(&arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        for text in [output.stdout, output.stderr] {
            assert!(!String::from_utf8_lossy(&text).contains("canary"));
        }
    }
    for name in [csv, hgrm, json] {
        assert!(!std::fs::read_to_string(name).unwrap().contains("canary"));
    }
}

#[test]
fn a_known_delay_is_measured_as_it_is() {
    let server = serve(&[]);
    let run = run(&[&format!("{}delay/1ms..20ms", server.url), "-r", "500", "-d", "4s", "-t", "1"]);
    run.assert_identities();
    assert_eq!(run.count("/counts/completed"), 2_000);
    // A uniform delay: its quantiles are known; what is on top is the way there and back.
    for (name, exact_us) in [("p50_us", 10_500.0), ("p90_us", 18_100.0), ("p99_us", 19_810.0)] {
        let us = run.result["latency"]["response"][name].as_f64().unwrap();
        assert!((us / exact_us - 1.0).abs() < 0.08, "{name} {us} where it is {exact_us}");
    }
}

#[test]
fn a_stall_of_the_server_is_not_hidden() {
    let server = serve(&["--stall", "1s@3s"]);
    let run = run(&[&server.url, "-r", "1000", "-d", "10s", "-t", "1"]);
    run.assert_identities();
    assert_eq!(run.count("/counts/completed"), 10_000);
    // 1,000 of 10,000 arrivals fall into it and wait for its rest: the quantile q of all is
    // 1 s - (1 - q) * 10 s.
    for (name, exact_us) in [("p99_us", 900_000.0), ("p99_9_us", 990_000.0)] {
        let us = run.result["latency"]["response"][name].as_f64().unwrap();
        assert!((us / exact_us - 1.0).abs() < 0.03, "{name} {us} where it is {exact_us}");
    }
}

/// `ringload serve` as a child.
struct Served {
    child: Child,
    url: String,
}

fn serve(arguments: &[&str]) -> Served {
    let mut child = ringload()
        .args(["serve", "--http", "127.0.0.1:0", "-t", "1"])
        .args(arguments)
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    let stderr = child.stderr.take().expect("it is piped");
    BufReader::new(stderr).read_line(&mut line).expect("it says where it listens");
    let url = line.split_whitespace().find(|word| word.starts_with("http://"));
    let url = url.unwrap_or_else(|| panic!("no address in {line:?}")).to_owned();
    Served { child, url }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_second_signal_ends_at_once() {
    let server = Raw::start(|mut stream| {
        read_request(&mut stream);
        thread::sleep(Duration::from_secs(15));
    });
    let child = ringload()
        .args(["run", &server.url(), "-c", "1", "-d", "30s", "--progress", "none"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let id = child.id().to_string();
    let interrupt =
        || std::process::Command::new("kill").args(["-INT", &id]).status().unwrap().success();
    thread::sleep(Duration::from_millis(500));
    assert!(interrupt());
    thread::sleep(Duration::from_millis(300));
    let second = Instant::now();
    assert!(interrupt());
    let output = child.wait_with_output().unwrap();
    assert!(second.elapsed() < Duration::from_secs(2), "it waited for the grace");
    assert_eq!(output.status.code(), Some(130));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 unfinished"));
}
