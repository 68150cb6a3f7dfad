//! Requests as they really come: split, pipelined, with bodies, half-closed, and rubbish.

use std::io::{ErrorKind, Write};
use std::time::{Duration, Instant};

use super::client::{Client, field, start, wait_until};

#[test]
fn requests_split_at_any_byte() {
    let server = start();
    let text = "POST /bytes/3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
                3;a=b\r\nabc\r\n0\r\nT: x\r\n\r\nGET /bytes/4 HTTP/1.1\r\n\r\n";
    for split in 0..text.len() {
        let mut client = Client::connect(&server);
        client.send(&text[..split]);
        std::thread::sleep(Duration::from_millis(1));
        client.send(&text[split..]);
        assert_eq!(client.answer().body.len(), 3, "at {split}");
        assert_eq!(client.answer().body.len(), 4, "at {split}");
    }
    let mut client = Client::connect(&server);
    for byte in text.bytes() {
        client.send([byte]);
    }
    assert_eq!((client.answer().body.len(), client.answer().body.len()), (3, 4));
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = start();
    let mut client = Client::connect(&server);
    let paths = [
        "/bytes/1",
        "/bytes/2",
        "/delay/20ms",
        "/bytes/300000",
        "/bytes/4",
        "/slow/5/30ms",
        "/bytes/2000000",
        "/chunked/7",
        "/cpu/1ms",
        "/bytes/9",
    ];
    let lens = [1, 2, 2, 300_000, 4, 5, 2_000_000, 7, 2, 9];
    let all: String = paths.iter().map(|path| format!("GET {path} HTTP/1.1\r\n\r\n")).collect();
    for round in 0..3 {
        client.send(&all);
        for (path, len) in paths.iter().zip(lens) {
            assert_eq!(client.answer().body.len(), len, "{path} in round {round}");
        }
    }
    client.send(all + "GET /close HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n");
    for (path, len) in paths.iter().zip(lens) {
        assert_eq!(client.answer().body.len(), len, "{path}");
    }
    assert_eq!(client.answer().body, b"ok");
    assert_eq!(client.rest().expect("FIN"), b"", "nothing is answered after a close");
}

#[test]
fn answers_to_a_client_that_does_not_read_stay_whole() {
    let server = start();
    let mut client = Client::connect(&server);
    let count = 3_000;
    let mut writer = client.stream.try_clone().expect("a clone");
    let sending = std::thread::spawn(move || {
        for n in 0..count {
            // Writes of their own, so that the server sees no pipelining in its buffers.
            write!(writer, "GET /bytes/{} HTTP/1.1\r\n\r\n", 20_000 + n % 7).expect("sends");
        }
    });
    std::thread::sleep(Duration::from_millis(300));
    let mut first = None;
    for n in 0..count {
        let answer = client.answer();
        assert_eq!(answer.body.len(), 20_000 + n % 7, "answer {n}");
        let first = first.get_or_insert_with(|| answer.body[..20_000].to_vec());
        assert!(answer.body[..20_000] == **first, "answer {n}");
    }
    sending.join().expect("sent");
}

#[test]
fn a_client_that_floods_a_delayed_connection_is_held_back() {
    let server = start();
    let mut client = Client::connect(&server);
    client.send("GET /delay/2s HTTP/1.1\r\n\r\n");
    client.stream.set_write_timeout(Some(Duration::from_millis(300))).expect("a timeout");
    let mut sent = 0;
    let error = loop {
        match client.stream.write(&[b'a'; 64 * 1024]) {
            Ok(len) => sent += len,
            Err(error) => break error,
        }
        assert!(sent < 64 << 20, "it is never held back");
    };
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    drop(client);
    assert_eq!(Client::connect(&server).get("/").body, b"ok", "another works meanwhile");
    wait_until("all closed", || server.stats().open == 0);
}

#[test]
fn a_pipeline_longer_than_is_held_back_is_answered() {
    let server = start();
    let mut client = Client::connect(&server);
    let count = 20_000;
    let mut writer = client.stream.try_clone().expect("a clone");
    let sending = std::thread::spawn(move || {
        writer.write_all(b"GET /delay/200ms HTTP/1.1\r\n\r\n").expect("sends");
        writer.write_all(&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(count)).expect("sends");
    });
    for n in 0..=count {
        assert_eq!(client.answer().body, b"ok", "answer {n}");
    }
    sending.join().expect("sent");
}

#[test]
fn bodies_are_thrown_away() {
    let server = start();
    let mut client = Client::connect(&server);
    let large = vec![b'x'; 5_000_000];
    for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "GET"] {
        client.send(format!("{method} /bytes/5 HTTP/1.1\r\nContent-Length: 5000000\r\n\r\n"));
        client.send(&large);
        assert_eq!(client.answer().body.len(), 5, "{method}");
    }
}

#[test]
fn a_held_back_body_is_asked_for() {
    let server = start();
    let mut client = Client::connect(&server);
    for _ in 0..2 {
        client.send(
            "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n",
        );
        assert_eq!(client.answer().status, 100);
        client.send("abc");
        assert_eq!(client.answer().body, b"ok");
    }
    // One that did not wait is not asked.
    client.send("POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc");
    assert_eq!(client.answer().status, 200);
}

#[test]
fn connections_are_kept_as_the_client_asks() {
    let server = start();
    for (fields, said) in [
        ("HTTP/1.0\r\n", Some("close")),
        ("HTTP/1.1\r\nConnection: close\r\n", Some("close")),
        ("HTTP/1.1\r\nConnection: Keep-Alive, Close\r\n", Some("close")),
    ] {
        for path in ["/", "/bytes/200000", "/bytes/2000000", "/delay/5ms", "/slow/2/9ms", "/stats"]
        {
            let mut client = Client::connect(&server);
            client.send(format!("GET {path} {fields}\r\n"));
            assert_eq!(field(&client.answer().head, "connection"), said, "{path} {fields}");
            assert_eq!(client.rest().expect("FIN"), b"", "{path} {fields}");
        }
    }
    let mut client = Client::connect(&server);
    for _ in 0..2 {
        client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        assert_eq!(field(&client.answer().head, "connection"), Some("keep-alive"));
    }
}

#[test]
fn a_half_closed_client_is_answered() {
    let server = start();
    for path in ["/", "/delay/50ms", "/bytes/300000", "/bytes/3000000", "/slow/30/30ms"] {
        let mut client = Client::connect(&server);
        client.send(format!("GET {path} HTTP/1.1\r\n\r\nGET /bytes/7 HTTP/1.1\r\n\r\n"));
        client.finish();
        assert_eq!(client.answer().status, 200, "{path}");
        assert_eq!(client.answer().body.len(), 7, "{path}");
        assert_eq!(client.rest().expect("FIN"), b"", "{path}");
    }
    wait_until("all closed", || server.stats().open == 0);
}

#[test]
fn rubbish_is_refused_and_the_refusal_arrives() {
    let server = start();
    for (text, status) in [
        ("rubbish\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\nBad Header: x\r\n\r\n".to_owned(), 400),
        ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".to_owned(), 400),
        (format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "b".repeat(70_000)), 431),
    ] {
        let mut client = Client::connect(&server);
        client.get("/");
        client.send(&text);
        // Were the connection closed at once, this would have the answer lost to an RST.
        client.send(vec![b'x'; 500_000]);
        let answer = client.answer();
        assert_eq!(answer.status, status);
        assert_eq!(field(&answer.head, "connection"), Some("close"));
        client.finish();
        assert_eq!(client.rest().expect("FIN"), b"");
    }
    wait_until("all closed", || server.stats().open == 0);
}

#[test]
fn a_client_that_lingers_is_closed() {
    let server = start();
    let mut client = Client::connect(&server);
    client.send("rubbish\r\n\r\n");
    let start = Instant::now();
    assert_eq!(client.answer().status, 400);
    assert_eq!(client.rest().expect("FIN"), b"");
    assert!(start.elapsed() < Duration::from_millis(900), "our FIN does not wait for theirs");
    wait_until("closed without the client's FIN", || server.stats().open == 0);
}
