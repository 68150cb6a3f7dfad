//! What each path answers.

use std::io::{ErrorKind, Read};
use std::time::{Duration, Instant};

use ringload::plan::serve::Stall;

use super::client::{Client, field, start, start_with, wait_until};

#[test]
fn sizes_and_statuses() {
    let server = start();
    let mut client = Client::connect(&server);
    assert_eq!(client.get("/").body, b"ok");
    assert_eq!(client.get("/?query=/bytes/7").body, b"ok");
    // Held whole, at the limit of what is held, and sent in parts.
    for n in [0, 1, 700, 80 * 1024, 1 << 20, (1 << 20) + 1, 3_000_001] {
        let plain = client.get(&format!("/bytes/{n}"));
        assert_eq!((plain.status, plain.body.len()), (200, n));
        let chunked = client.get(&format!("/chunked/{n}"));
        assert_eq!((chunked.status, chunked.body.len()), (200, n));
        assert_eq!(field(&chunked.head, "transfer-encoding"), Some("chunked"));
    }
    assert_eq!(client.get("/bytes/25KiB").body.len(), 25 * 1024);
    for (path, status, body) in [
        ("/status/200", 200, "200"),
        ("/status/204", 204, ""),
        ("/status/304", 304, ""),
        ("/status/503", 503, "503"),
        ("/status/599", 599, "599"),
        ("/nothing", 404, "404"),
        ("/bytes/many", 404, "404"),
    ] {
        let answer = client.get(path);
        assert_eq!((answer.status, &*answer.body), (status, body.as_bytes()), "{path}");
    }
}

#[test]
fn head_has_no_body() {
    let server = start();
    let mut client = Client::connect(&server);
    for path in ["/", "/bytes/700", "/bytes/3000000", "/chunked/9", "/status/500", "/slow/9/9s"] {
        client.send(format!("HEAD {path} HTTP/1.1\r\nHost: test\r\n\r\n"));
        let (_, head) = client.head();
        if path == "/bytes/3000000" {
            assert_eq!(field(&head, "content-length"), Some("3000000"));
        }
    }
    assert_eq!(client.get("/").body, b"ok");
}

#[test]
fn a_delay_is_kept() {
    let server = start();
    let mut client = Client::connect(&server);
    let mut shortest = Duration::MAX;
    for _ in 0..20 {
        let start = Instant::now();
        assert_eq!(client.get("/delay/2ms").body, b"ok");
        let took = start.elapsed();
        assert!(took >= Duration::from_millis(2), "{took:?}");
        shortest = shortest.min(took);
    }
    assert!(shortest < Duration::from_millis(4), "{shortest:?}");
}

#[test]
fn a_range_of_delays_is_drawn_from_both_halves() {
    let server = start();
    let mut client = Client::connect(&server);
    let mut halves = [0, 0];
    for _ in 0..40 {
        let start = Instant::now();
        client.get("/delay/2ms..22ms");
        let took = start.elapsed();
        assert!(took >= Duration::from_millis(2), "{took:?}");
        halves[usize::from(took > Duration::from_millis(12))] += 1;
    }
    // By chance alone a half stays below 5 of 40 once in a million runs.
    assert!(halves[0] >= 5 && halves[1] >= 5, "{halves:?}");
}

#[test]
fn cpu_time_is_burnt() {
    let server = start();
    let mut client = Client::connect(&server);
    let start = Instant::now();
    assert_eq!(client.get("/cpu/30ms").body, b"ok");
    assert!(start.elapsed() >= Duration::from_millis(30));
}

#[test]
fn a_slow_body_comes_in_parts_and_in_time() {
    let server = start();
    let mut client = Client::connect(&server);
    let start = Instant::now();
    client.send("GET /slow/1000/500ms HTTP/1.1\r\n\r\n");
    let (_, head) = client.head();
    assert_eq!(field(&head, "content-length"), Some("1000"));
    client.bytes(100);
    assert!(start.elapsed() < Duration::from_millis(450), "{:?}", start.elapsed());
    client.bytes(900);
    assert!(start.elapsed() >= Duration::from_millis(500), "{:?}", start.elapsed());
    assert_eq!(client.get("/").body, b"ok");
}

#[test]
fn close_reset_truncate() {
    let server = start();
    let mut client = Client::connect(&server);
    client.get("/");
    let answer = client.get("/close");
    assert_eq!((field(&answer.head, "connection"), &*answer.body), (Some("close"), &b"ok"[..]));
    assert_eq!(client.rest().expect("FIN"), b"");

    for before in [false, true] {
        let mut client = Client::connect(&server);
        if before {
            client.get("/");
        }
        client.send("GET /reset HTTP/1.1\r\n\r\n");
        let error = client.rest().expect_err("RST");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }

    let mut client = Client::connect(&server);
    client.send("GET /truncate/1000 HTTP/1.1\r\n\r\n");
    let (_, head) = client.head();
    assert_eq!(field(&head, "content-length"), Some("1000"));
    assert_eq!(client.rest().expect("FIN").len(), 500);
    wait_until("all closed", || server.stats().open == 0);
}

#[test]
fn never_answers() {
    let server = start();
    let mut client = Client::connect(&server);
    client.send("GET /never HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n");
    client.stream.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
    let error = client.stream.read(&mut [0; 1]).expect_err("nothing");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    drop(client);
    wait_until("all closed", || server.stats().open == 0);
}

#[test]
fn stats_count_what_arrived() {
    let server = start_with(2, None);
    let mut busy = Client::connect(&server);
    for _ in 0..10 {
        busy.get("/");
    }
    let mut other = Client::connect(&server);
    other.get("/bytes/7");
    let mut asking = Client::connect(&server);
    let text = asking.get("/stats");
    assert_eq!(field(&text.head, "content-type"), Some("application/json"));
    let stats: serde_json::Value = serde_json::from_slice(&text.body).expect("JSON");
    assert_eq!(stats["requests"], 11);
    assert_eq!(stats["connections"], 2);
    assert_eq!(stats["open"], 2);
    assert_eq!(stats["max_requests_per_connection"], 10);
    let (p50, max) = (stats["gap_us"]["p50"].as_f64(), stats["gap_us"]["max"].as_f64());
    assert!(p50 > Some(0.0) && max >= p50, "{stats}");
    let stats: serde_json::Value =
        serde_json::from_slice(&asking.get("/stats/reset").body).expect("JSON");
    assert_eq!((&stats["requests"], &stats["connections"]), (&0.into(), &0.into()));
    assert_eq!((&stats["open"], &stats["peak_open"]), (&2.into(), &2.into()));
}

#[test]
fn gaps_are_those_of_the_arrivals() {
    let server = start();
    let mut client = Client::connect(&server);
    for _ in 0..20 {
        client.get("/");
        std::thread::sleep(Duration::from_millis(3));
    }
    let gaps = server.stats().gap_us;
    assert!(gaps.p50 >= Some(3_000.0) && gaps.p50 < Some(20_000.0), "{gaps:?}");
}

#[test]
fn a_stall_freezes_everything_once() {
    let stall = Stall { duration_ns: 300_000_000, at_ns: 100_000_000 };
    let begin = Instant::now();
    let server = start_with(1, Some(stall));
    let mut client = Client::connect(&server);
    let mut longest = Duration::ZERO;
    while begin.elapsed() < Duration::from_millis(700) {
        let start = Instant::now();
        client.get("/");
        longest = longest.max(start.elapsed());
    }
    assert!(longest >= Duration::from_millis(290), "{longest:?}");
    assert!(longest < Duration::from_millis(590), "{longest:?}");
}
