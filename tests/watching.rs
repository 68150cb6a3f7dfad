//! The real binary with an eye on the server: samples, probes, the line.

mod support;

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Stdio};

use serde_json::Value;
use support::raw::{Raw, always};
use support::{Run, ringload, run};

/// `ringload serve` on a free port, ended when it is dropped.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(arguments: &[&str]) -> Self {
        let mut child = ringload()
            .args(["serve", "--http", "127.0.0.1:0", "-t", "1"])
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next());
        let address = address.unwrap_or_else(|| panic!("no address in: {line}")).to_owned();
        Self { child, address }
    }

    fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    fn port(&self) -> &str {
        self.address.rsplit(':').next().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The samples of the only source.
#[track_caller]
fn samples(run: &Run) -> &[Value] {
    let rows = run.result["watch"].as_array().expect("watch is a list");
    assert_eq!(rows.len(), 1, "{rows:?}");
    rows[0]["samples"].as_array().expect("samples is a list")
}

fn f64_of(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn a_watched_server_is_sampled_once_a_second() {
    let server = Server::start(&[]);
    let source = format!("port:{}", server.port());
    let run = run(&[&server.url(), "-r", "500", "-d", "3s", "--watch", &source]);
    run.assert_identities();
    assert_eq!(run.result["watch"][0]["source"], source.as_str());
    assert_eq!(run.result["plan"]["watch"], serde_json::json!([source]));
    let samples = samples(&run);
    assert!((4..=6).contains(&samples.len()), "{} samples in 3 s", samples.len());
    let last = &samples[samples.len() - 1];
    assert!((2.0..4.0).contains(&f64_of(&last["t_s"])), "{last}");
    assert!(last["mem_available"].as_u64() > Some(0), "{last}");
    let process = &last["processes"][0];
    assert_eq!(process["pid"], server.child.id());
    assert_eq!(process["name"], "ringload");
    assert!(process["rss"].as_u64() > Some(1 << 20), "{process}");
    assert!((0.0..64.0).contains(&f64_of(&process["cpu"])), "{process}");
}

#[test]
fn a_local_target_is_watched_unasked_and_the_embedded_server_is_not() {
    let server = Server::start(&[]);
    let local = run(&[&server.url(), "-c", "2", "-d", "1s"]);
    assert_eq!(local.result["watch"][0]["source"], format!("port:{}", server.port()).as_str());
    assert_eq!(samples(&local)[0]["processes"][0]["pid"], server.child.id());

    let other = run(&[&server.url(), "-c", "2", "-d", "1s", "--watch", "system"]);
    assert_eq!(other.result["watch"][0]["source"], "system", "asked for is asked for");
    assert_eq!(samples(&other)[0]["processes"], serde_json::json!([]));

    let embedded = run(&["embedded", "-c", "2", "-n", "10"]);
    assert_eq!(embedded.result["watch"], serde_json::json!([]));
    assert_eq!(embedded.result["probe"], Value::Null);
}

#[test]
fn a_probe_is_a_connection_of_its_own_each_second() {
    let target = Server::start(&[]);
    let other = Raw::start(always(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
    let run = run(&[&target.url(), "-r", "100", "-d", "2500ms", "--probe", &other.url()]);
    run.assert_identities();
    assert_eq!(run.code, 0);
    let probe = &run.result["probe"];
    assert_eq!((&probe["sent"], &probe["failed"]), (&3.into(), &0.into()), "{probe}");
    assert_eq!(other.accepted.load(std::sync::atomic::Ordering::Relaxed), 3);
    let (p50_us, max_us) = (f64_of(&probe["p50_us"]), f64_of(&probe["max_us"]));
    assert!(0.0 < p50_us && p50_us <= max_us && max_us < 1e6, "{probe}");
    assert_eq!(probe["first_failed_s"], Value::Null);
    assert_eq!(run.count("/counts/completed"), 250, "no probe is among the requests");
}

#[test]
fn a_probe_of_a_dead_port_fails_from_the_start() {
    let server = Server::start(&[]);
    let dead = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let run = run(&[&server.url(), "-r", "50", "-d", "1500ms", "--probe", &dead.to_string()]);
    assert_eq!(run.code, 0, "the load itself was answered");
    let probe = &run.result["probe"];
    assert_eq!((&probe["sent"], &probe["failed"]), (&2.into(), &2.into()), "{probe}");
    assert_eq!(probe["failures"], serde_json::json!({"connect refused": 2}));
    assert_eq!((&probe["p50_us"], &probe["max_us"]), (&Value::Null, &Value::Null));
    assert!(f64_of(&probe["first_failed_s"]) < 0.1, "{probe}");
    let warnings = run.result["verdict"]["warnings"].to_string();
    assert!(warnings.contains("2 of 2 probes failed (most often: connect refused)"), "{warnings}");
}

#[test]
fn a_probe_sees_the_stall_of_a_server() {
    // Frozen from 2 s to 4.5 s of its life, which begins shortly before the run's.
    let server = Server::start(&["--stall", "2500ms@2s"]);
    let url = server.url();
    let run = run(&[&url, "-r", "20", "-d", "5s", "--timeout", "10s", "--probe", &url]);
    run.assert_identities();
    let probe = &run.result["probe"];
    assert!(probe["failed"].as_u64() >= Some(1), "{probe}");
    assert!(probe["failed"].as_u64() <= Some(3), "{probe}");
    assert_eq!(probe["failures"], serde_json::json!({"head timeout": probe["failed"]}));
    assert!((0.5..3.5).contains(&f64_of(&probe["first_failed_s"])), "{probe}");
    assert!((1e6..1.5e6).contains(&f64_of(&probe["max_us"])), "given up after a second: {probe}");
    assert_eq!(run.count("/counts/failed"), 0, "requests of the load may take longer");
}

#[test]
fn a_full_line_is_named() {
    let server = Server::start(&[]);
    let url = format!("{}bytes/100k", server.url());
    // A narrower line than loopback, as it is told.
    let run = run(&[&url, "-c", "1", "-d", "1s", "--think", "5ms", "--link", "1Mbit/s"]);
    assert_eq!(run.result["verdict"]["limited_by"], "link", "{}", run.result["verdict"]);
    assert_eq!(run.result["plan"]["link"], "1Mbit/s");
}

#[test]
fn what_is_watched_is_told_in_the_text_and_in_the_plan() {
    let server = Server::start(&[]);
    let url = server.url();
    let line = ["run", &url, "-c", "1", "-d", "2s", "--probe", &url, "--quiet", "--color", "never"];
    let output = ringload().args(line).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    for part in ["Watched      port:", "ringload, CPU ", "machine:", "sent, none failed", "for 2s"]
    {
        assert!(text.contains(part), "no {part} in: {text}");
    }
    let line = ["--dry-run", "--watch", "name:nginx", "--link", "267Mbit/s"];
    let output = ringload().args(["run", "h", "--probe", "h/status"]).args(line).output().unwrap();
    let plan = String::from_utf8_lossy(&output.stdout);
    for part in ["name:nginx", "GET http://h/status on a fresh connection", "267Mbit/s"] {
        assert!(plan.contains(part), "no {part} in: {plan}");
    }
}

#[test]
fn what_cannot_be_watched_or_probed_is_refused_before_the_load() {
    let server = Raw::start(always(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
    for (flag, value, part) in [
        ("--watch", "file:/no/such/log", "/no/such/log"),
        ("--watch", "cgroup:/no/such/group", "control group"),
        // RFC 6761: no name under `invalid` exists.
        ("--probe", "http://no-such-host.invalid/", "no-such-host.invalid has no address"),
    ] {
        let output = ringload().args(["run", &server.url(), flag, value]).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(flag) && told.contains(part), "{told}");
    }
    assert_eq!(server.accepted.load(std::sync::atomic::Ordering::Relaxed), 0);
}
