//! `ringload hold` against the embedded server, nginx, and a server that closes.

mod support;

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::raw::{Raw, read_request};
use support::{Run, child, nginx, ringload, run};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// `ringload hold` with these arguments, ready to start.
fn command(arguments: &[&str]) -> Command {
    let mut command = ringload();
    command.arg("hold").args(arguments).args(["--json", "-", "--progress", "none"]);
    command
}

#[track_caller]
fn read(output: Output) -> Run {
    let Output { status, stdout, stderr } = output;
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    let result = serde_json::from_slice(&stdout)
        .unwrap_or_else(|error| panic!("no result ({error}), {status}: {stderr}"));
    Run { code: status.code().expect("no signal ended it"), result, stderr }
}

#[track_caller]
fn hold(arguments: &[&str]) -> Run {
    let run = read(command(arguments).output().expect("ringload starts"));
    run.assert_identities();
    run
}

fn levels(result: &Value) -> &Vec<Value> {
    result["levels"].as_array().expect("levels is a list")
}

fn numbers(levels: &[Value], key: &str) -> Vec<u64> {
    levels.iter().map(|level| level[key].as_u64().unwrap_or_else(|| panic!("{level}"))).collect()
}

/// Bytes resident of a process and its children, by hand.
fn resident(pid: u32) -> u64 {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let pids = children.split_whitespace().map(|pid| pid.parse::<u32>().unwrap());
    std::iter::once(pid)
        .chain(pids)
        .map(|pid| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
            line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
        })
        .sum()
}

#[test]
fn the_embedded_server_is_held_level_by_level() {
    let run = hold(&["embedded", "--levels", "0,200,600", "--dwell", "1s", "--open-rate", "5k"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(run.result["command"], "hold");
    let levels = levels(&run.result);
    assert_eq!(numbers(levels, "connections"), [0, 200, 600]);
    assert_eq!(numbers(levels, "open"), [0, 200, 600]);
    assert_eq!(numbers(levels, "opened"), [0, 200, 400]);
    for level in levels {
        for key in ["rss", "pss", "swap", "rss_peak"] {
            assert!(level["server"][key].is_u64(), "no {key} in {level}");
        }
        assert!(level["server"]["rss_peak"].as_u64() >= level["server"]["rss"].as_u64());
        assert_eq!(level["probe"], Value::Null);
        assert!(level["connect"]["count"].is_u64() && level["tls"]["count"].is_u64(), "{level}");
    }
    assert_eq!(numbers(levels, "connections")[1], levels[1]["connect"]["count"]);
    assert!(run.result["per_connection"]["user_bytes"].is_f64());
    assert!(run.result["per_connection"]["stderr"].is_f64());
    assert!(run.result.get("targets").is_none(), "one URL has no targets");
    assert_eq!(run.count("/counts/completed"), 600, "one request each");
    assert_eq!(run.count("/connections/peak_open"), 600);
}

#[test]
fn a_slope_is_what_the_processes_have_by_hand() {
    let Some(nginx) = nginx::start() else { return };
    let url = nginx.url("/700");
    // A worker that has answered has all that it has at the start.
    assert_eq!(run(&[&url, "-n", "1", "-c", "1"]).code, 0);
    let before = resident(nginx.pid());
    let child = command(&[&url, "--levels", "0,1k,4k", "--dwell", "2s", "--open-rate", "8k"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // nginx gives back what it has too much only when it needs it again, so the most is at the end.
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut most = before;
    let done = thread::scope(|scope| {
        let waiting = scope.spawn(|| child.wait_with_output().unwrap());
        while !waiting.is_finished() && Instant::now() < deadline {
            most = most.max(resident(nginx.pid()));
            thread::sleep(Duration::from_millis(20));
        }
        waiting.join().unwrap()
    });
    let run = read(done);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(numbers(levels(&run.result), "open"), [0, 1_000, 4_000]);
    let by_hand = (most - before) as f64 / 4_000.0;
    let slope = run.result["per_connection"]["user_bytes"].as_f64().unwrap();
    assert!((slope / by_hand - 1.0).abs() < 0.2, "{slope} against {by_hand} by hand");
    assert_eq!(run.result["watch"][0]["source"], format!("port:{}", nginx.port()));
}

#[test]
fn two_targets_stand_beside_each_other() {
    let run = hold(&["embedded", "embedded/bytes/700", "--levels", "0,100", "--dwell", "500ms"]);
    let targets = run.result["targets"].as_array().expect("two URLs have targets");
    assert_eq!(targets.len(), 2);
    assert_eq!(targets[0]["levels"], run.result["levels"]);
    assert_eq!(targets[0]["per_connection"], run.result["per_connection"]);
    for target in targets {
        assert_eq!(numbers(target["levels"].as_array().unwrap(), "open"), [0, 100]);
        assert_eq!(target["counts"]["completed"], 100);
    }
    // Each has a process of its own.
    let pid = |target: &Value| target["watch"][0]["samples"][0]["processes"][0]["pid"].clone();
    assert_ne!(pid(&targets[0]), pid(&targets[1]));
}

#[test]
fn a_server_that_closes_idle_connections_is_told() {
    let server = Raw::start(|mut stream| {
        if read_request(&mut stream) {
            stream.write_all(OK).unwrap();
            thread::sleep(Duration::from_millis(1_500));
        }
    });
    let run = hold(&[&server.url(), "--levels", "0,20", "--dwell", "4s", "--open-rate", "1k"]);
    assert_eq!(run.code, 0);
    let level = &levels(&run.result)[1];
    assert_eq!((&level["closed_by_server"], &level["open"]), (&20.into(), &0.into()), "{level}");
    let notes = level["notes"].to_string();
    assert!(notes.contains("server closed 20 of them after about 2s (its keep-alive"), "{notes}");
    assert_eq!(run.count("/counts/failed"), 0, "an idle connection that ends is no failure");
}

#[test]
fn a_server_that_closes_at_once_is_told_so() {
    let server = Raw::start(drop);
    let run = hold(&[&server.url(), "--levels", "0,10", "--dwell", "300ms"]);
    assert_eq!(run.code, 0);
    let level = &levels(&run.result)[1];
    assert_eq!((&level["closed_by_server"], &level["open"]), (&10.into(), &0.into()), "{level}");
    let notes = level["notes"].to_string();
    assert!(notes.contains("at once") && !notes.contains("keep-alive"), "{notes}");
    assert_eq!(run.count("/counts/failed"), 10, "nothing was answered");
}

/// What is refused is tried ever more slowly, and must not make an evening of a level.
#[test]
fn a_server_that_refuses_all_is_not_waited_for() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let started = Instant::now();
    let short = ["--connect-timeout", "1s", "--timeout", "1s", "--dwell", "300ms"];
    let run = hold(&[&[&*format!("http://{address}/"), "--levels", "0,1k"], &short[..]].concat());
    assert_eq!(run.code, 0);
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    let level = &levels(&run.result)[1];
    assert_eq!((&level["opened"], &level["fitted"]), (&0.into(), &false.into()), "{level}");
    assert!(level["failed"].as_u64().unwrap() > 0);
    assert!(level["notes"].to_string().contains("could not be opened"), "{level}");
}

#[test]
fn a_server_that_dies_is_told_at_its_level() {
    let server = child::serve(&["--http", "127.0.0.1:0"]);
    let short = ["--connect-timeout", "1s", "--timeout", "1s", "--open-rate", "1k"];
    let line = [server.url(), "--levels", "0,50,60", "--dwell", "2s"];
    let child = command(&[&line[..], &short].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    thread::sleep(Duration::from_millis(3_500));
    server.kill();
    let run = read(child.wait_with_output().unwrap());
    run.assert_identities();
    assert_eq!(run.code, 0, "{}", run.stderr);
    let levels = levels(&run.result);
    assert_eq!(levels.len(), 3);
    let closed: u64 = numbers(levels, "closed_by_server").iter().sum();
    let failed: u64 = numbers(levels, "failed").iter().sum();
    assert!(closed >= 50 && failed > 0, "{levels:?}");
    assert_eq!(run.result["verdict"]["limited_by"], "server");
    let gaps = run.result["watch"][0]["gaps"].to_string();
    assert!(gaps.contains(" went at ") && !gaps.contains("root"), "{gaps}");
}

#[test]
fn idle_traffic_never_ends_with_exit_4() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{address}/");
    let run = hold(&[&url, "--levels", "0,5", "--dwell", "300ms"]);
    assert_eq!(run.code, 0);
    assert_eq!(levels(&run.result)[1]["failed"], 5);
    let run = hold(&[&url, "--levels", "0,5", "--dwell", "300ms", "--traffic", "busy"]);
    assert_eq!(run.code, 4, "nothing that was asked was answered");
}

#[test]
fn busy_connections_ask_again_and_again() {
    let line = ["embedded", "--levels", "0,20", "--dwell", "1s", "--traffic"];
    let busy = hold(&[&line[..], &["busy"]].concat());
    assert!(busy.count("/counts/completed") > 500, "{}", busy.result["counts"]);
    let rate = hold(&[&line[..], &["50/s"]].concat());
    let completed = rate.count("/counts/completed");
    assert!((40..=90).contains(&completed), "20 first requests, and 50 a second: {completed}");
}

#[test]
fn without_a_request_nothing_is_sent() {
    let run = hold(&["embedded", "--levels", "0,50", "--dwell", "300ms", "--no-request"]);
    assert_eq!(run.code, 0);
    assert_eq!((run.count("/counts/scheduled"), run.count("/bytes/sent")), (0, 0));
    assert_eq!(numbers(levels(&run.result), "open"), [0, 50]);
}

#[test]
fn it_ends_before_the_target_goes_down() {
    let started = Instant::now();
    let run = hold(&[
        "embedded",
        "--levels",
        "0,50,100",
        "--dwell",
        "10s",
        "--abort-if",
        "target_mem_available<1000TiB",
    ]);
    assert_eq!(run.code, 99);
    assert!(started.elapsed() < Duration::from_secs(8), "it goes on to the end");
    let aborted = &run.result["aborted"];
    assert_eq!(aborted["expression"], "target_mem_available<1000TiB");
    assert!(aborted["value"].as_f64().unwrap() > 1e6, "{aborted}");
    assert_eq!(levels(&run.result).len(), 1);
}

#[test]
fn a_probe_that_fails_is_seen_at_its_level() {
    let server = Raw::start(|mut stream| {
        // Whoever asks for the probe's page hears nothing.
        let mut first = [0; 8];
        if stream.peek(&mut first).is_ok() && &first == b"GET /ok " && read_request(&mut stream) {
            stream.write_all(OK).unwrap();
        }
        thread::sleep(Duration::from_secs(20));
    });
    let run = hold(&[
        &format!("{}ok", server.url()),
        "--levels",
        "0,5",
        "--dwell",
        "8s",
        "--probe",
        &format!("{}dead", server.url()),
        "--abort-if",
        "probe_failed>50%",
    ]);
    assert_eq!(run.code, 99);
    assert_eq!(run.result["aborted"]["expression"], "probe_failed>50%");
    assert_eq!(levels(&run.result).len(), 1, "three probes of 1 s are enough");
    assert!(levels(&run.result)[0]["probe"]["failed"].as_u64().unwrap() >= 3);
}

#[test]
fn an_interrupted_hold_tells_what_it_knows() {
    let child = command(&["embedded", "--levels", "0,50,100", "--dwell", "1s"])
        .args(["--watch", "system"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    thread::sleep(Duration::from_millis(2_500));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let run = read(child.wait_with_output().unwrap());
    assert_eq!((run.code, &run.result["interrupted"]), (130, &true.into()));
    let known = levels(&run.result).len();
    assert!((1..=3).contains(&known), "{known} levels");
    assert!(levels(&run.result)[0]["ended_s"].as_f64().unwrap() >= 1.0);
}

#[test]
fn the_text_has_a_row_a_level() {
    let line = ["hold", "embedded", "--levels", "0,30", "--dwell", "300ms", "--progress", "none"];
    let output = ringload().args(line).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["connections     open    memory", "         30       30", "A connection costs"] {
        assert!(text.contains(part), "no \"{part}\" in:\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn more_than_the_ports_of_one_address_are_refused_elsewhere() {
    // RFC 5737: an address of documentation. Nothing is opened to it.
    let output = command(&["http://192.0.2.1/", "--levels", "0,200k"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("200,000 connections") && stderr.contains("--source"), "{stderr}");
}

#[test]
fn more_than_this_machine_has_threads_for_are_refused() {
    for url in ["embedded", "http://127.0.0.1:9/"] {
        let output = command(&[url, "--levels", "0,2G"]).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{stderr}");
        for part in ["2,000,000,000 connections", "ulimit -n", "--levels"] {
            assert!(stderr.contains(part), "no \"{part}\" in: {stderr}");
        }
    }
}

#[test]
fn a_dry_run_sends_nothing() {
    let output = ringload().args(["hold", "http://192.0.2.1/", "--dry-run"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0));
    let part = "0 1,000 5,000 10,000 connections, each level held for 10 s: one request each, then";
    assert!(text.contains(part), "{text}");
}
