//! The embedded server over TLS: the same answers, in records.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rcgen::{PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_RSA_SHA256};
use rustls::version::TLS13;

use super::client::{Client, field, wait_until};
use super::secure::{
    Stream, VERSIONS, chain, config, connect, connect_cut, dial, session, start, start_as, trusting,
};

#[test]
fn every_path_answers_as_over_plain_http() {
    let server = start(1);
    for version in VERSIONS {
        let config = Arc::new(config(&server, &[version]));
        let mut plain = Client::connect(&server);
        let mut secure = connect(&server, &config);
        let sizes =
            [0, 1, 700, 16_384, 65_300, 65_536, 80 * 1024, 1 << 20, (1 << 20) + 1, 3_000_001];
        let mut paths =
            vec!["/".to_owned(), "/delay/2ms".to_owned(), "/slow/70000/30ms".to_owned()];
        paths.extend(["/cpu/1ms", "/status/204", "/status/503", "/nothing"].map(str::to_owned));
        paths.extend(sizes.iter().map(|n| format!("/bytes/{n}")));
        paths.extend(sizes.iter().map(|n| format!("/chunked/{n}")));
        for path in paths {
            let (expected, found) = (plain.get(&path), secure.get(&path));
            assert_eq!((found.status, &found.head), (expected.status, &expected.head), "{path}");
            assert!(found.body == expected.body, "{path}: {} bytes", found.body.len());
        }
        secure.send("HEAD /bytes/3000000 HTTP/1.1\r\nHost: test\r\n\r\n");
        assert_eq!(field(&secure.head().1, "content-length"), Some("3000000"));
        let large = vec![b'x'; 2_000_000];
        secure.send("POST /bytes/5 HTTP/1.1\r\nContent-Length: 2000000\r\n\r\n");
        secure.send(&large);
        assert_eq!(secure.answer().body.len(), 5);
        assert_eq!(secure.stream.conn.protocol_version(), Some(version.version));
    }
}

#[test]
fn a_client_that_sends_byte_by_byte_is_answered() {
    let server = start(1);
    for version in VERSIONS {
        let config = Arc::new(config(&server, &[version]));
        for most in [1, 3, 100] {
            let mut client = connect_cut(&server, &config, most);
            assert_eq!(client.get("/bytes/700").body.len(), 700);
            client.send("POST /bytes/7 HTTP/1.1\r\nContent-Length: 300\r\n\r\n");
            client.send([b'x'; 300]);
            assert_eq!(client.answer().body.len(), 7);
        }
    }
}

#[test]
fn a_record_may_be_cut_anywhere() {
    let server = start(1);
    let config = Arc::new(config(&server, &VERSIONS));
    let mut client = connect(&server, &config);
    client.get("/");
    let mut cut = 0;
    loop {
        let session = &mut client.stream.conn;
        session.writer().write_all(b"GET /bytes/9 HTTP/1.1\r\n\r\n").expect("a request");
        let mut records = Vec::new();
        session.write_tls(&mut records).expect("records");
        let socket = &mut client.stream.sock.stream;
        socket.write_all(&records[..cut]).expect("sends");
        std::thread::sleep(Duration::from_millis(1));
        socket.write_all(&records[cut..]).expect("sends");
        assert_eq!(client.answer().body.len(), 9, "cut at {cut}");
        cut += 1;
        if cut == records.len() {
            return;
        }
    }
}

#[test]
fn requests_and_records_need_not_agree() {
    let server = start(1);
    // Many requests in a record.
    let whole = Arc::new(config(&server, &VERSIONS));
    let mut client = connect(&server, &whole);
    let mut text = "GET /bytes/30 HTTP/1.1\r\n\r\n".repeat(500);
    text += "GET /delay/10ms HTTP/1.1\r\n\r\nGET /bytes/300000 HTTP/1.1\r\n\r\n";
    text += "GET /slow/5/30ms HTTP/1.1\r\n\r\nGET /bytes/4 HTTP/1.1\r\n\r\n";
    client.send(&text);
    for _ in 0..500 {
        assert_eq!(client.answer().body.len(), 30);
    }
    for len in [2, 300_000, 5, 4] {
        assert_eq!(client.answer().body.len(), len);
    }
    // A request in many records.
    let mut small = config(&server, &VERSIONS);
    small.max_fragment_size = Some(32);
    let mut client = connect(&server, &Arc::new(small));
    for len in [1, 100, 2_000] {
        let name = "a".repeat(len);
        client.send(format!("GET /bytes/8 HTTP/1.1\r\nX: {name}\r\n\r\nGET / HTTP/1.1\r\n\r\n"));
        assert_eq!(client.answer().body.len(), 8);
        assert_eq!(client.answer().body, b"ok");
    }
}

#[test]
fn answers_to_a_client_that_does_not_read_stay_whole() {
    let server = start(1);
    let config = Arc::new(config(&server, &VERSIONS));
    let mut client = connect(&server, &config);
    let count = 1_500;
    for n in 0..count {
        // Writes of their own, so that the server sees no pipelining in its buffers.
        client.send(format!("GET /bytes/{} HTTP/1.1\r\n\r\n", 20_000 + n % 7));
    }
    std::thread::sleep(Duration::from_millis(200));
    for n in 0..count {
        assert_eq!(client.answer().body.len(), 20_000 + n % 7, "answer {n}");
    }
}

/// Draws a pipeline, sends it cut anywhere and with pauses, and reads at its own pace.
fn play(mut client: Client<Stream>, seed: u64) {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let (mut text, mut lens) = (String::new(), Vec::new());
    for _ in 0..random.random_range(1..40) {
        let len = random.random_range(0..100_000);
        let (path, len) = match random.random_range(0..8) {
            0 => ("/delay/1ms..5ms".to_owned(), 2),
            1 => (format!("/slow/{}/12ms", len + 1), len + 1),
            2 => ("/bytes/1500000".to_owned(), 1_500_000),
            3 => ("/chunked/1500000".to_owned(), 1_500_000),
            4 => (format!("/chunked/{len}"), len),
            5 => ("/".to_owned(), 2),
            _ => (format!("/bytes/{len}"), len),
        };
        let body = "b".repeat(random.random_range(0..200));
        text += &format!("GET {path} HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        lens.push(len);
    }
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let (part, behind) = rest.split_at(random.random_range(1..=rest.len().min(900)));
        client.send(part);
        rest = behind;
        if random.random_range(0..8) == 0 {
            std::thread::sleep(Duration::from_micros(random.random_range(0..2_000)));
        }
    }
    client.stream.conn.send_close_notify();
    client.stream.flush().expect("sends");
    for (n, len) in lens.into_iter().enumerate() {
        if random.random_range(0..4) == 0 {
            std::thread::sleep(Duration::from_micros(random.random_range(0..3_000)));
        }
        let answer = client.answer();
        assert_eq!((answer.status, answer.body.len()), (200, len), "answer {n} of seed {seed}");
    }
    assert_eq!(client.rest().expect("close_notify"), b"", "seed {seed}");
}

#[test]
fn any_pipeline_is_answered_whole_and_in_order() {
    let server = start(2);
    let config = &Arc::new(config(&server, &VERSIONS));
    let server = &server;
    std::thread::scope(|scope| {
        for lane in 0..8 {
            scope.spawn(move || {
                for seed in (0..8).map(|n| lane * 1_000 + n) {
                    let most = if seed % 3 == 0 { 777 } else { usize::MAX };
                    play(connect_cut(server, config, most), seed);
                }
            });
        }
    });
    wait_until("all closed", || server.stats().open == 0);
}

#[test]
fn an_end_is_said() {
    let server = start(1);
    for version in VERSIONS {
        let config = Arc::new(config(&server, &[version]));
        let paths = ["/", "/bytes/200000", "/bytes/2000000", "/delay/5ms", "/slow/2/9ms", "/stats"];
        for path in paths {
            let mut client = connect(&server, &config);
            client.send(format!("GET {path} HTTP/1.1\r\nConnection: close\r\n\r\n"));
            assert_eq!(client.answer().status, 200, "{path}");
            // Without close_notify this would be an error.
            assert_eq!(client.rest().expect("close_notify"), b"", "{path}");
        }
        let mut client = connect(&server, &config);
        client.send("GET /close HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n");
        assert_eq!(client.answer().body, b"ok");
        assert_eq!(client.rest().expect("close_notify"), b"", "nothing behind it");
    }
}

#[test]
fn a_cut_body_has_no_said_end() {
    let server = start(1);
    let config = Arc::new(config(&server, &VERSIONS));
    for behind in ["", "GET / HTTP/1.1\r\n\r\n"] {
        let mut client = connect(&server, &config);
        client.send(format!("GET /truncate/1000 HTTP/1.1\r\n\r\n{behind}"));
        client.head();
        client.bytes(500);
        assert_eq!(client.rest().expect_err("no end").kind(), ErrorKind::UnexpectedEof);
    }
    let mut client = connect(&server, &config);
    client.get("/");
    client.send("GET /reset HTTP/1.1\r\n\r\n");
    assert_eq!(client.rest().expect_err("RST").kind(), ErrorKind::ConnectionReset);
    wait_until("all closed", || server.stats().open == 0);
}

#[test]
fn a_client_that_ends_is_answered_and_told_so() {
    let server = start(1);
    let config = Arc::new(config(&server, &VERSIONS));
    for path in ["/", "/delay/50ms", "/bytes/300000", "/bytes/3000000", "/slow/30/30ms"] {
        let mut client = connect(&server, &config);
        client.send(format!("GET {path} HTTP/1.1\r\n\r\nGET /bytes/7 HTTP/1.1\r\n\r\n"));
        client.stream.conn.send_close_notify();
        client.stream.flush().expect("sends");
        assert_eq!(client.answer().status, 200, "{path}");
        assert_eq!(client.answer().body.len(), 7, "{path}");
        assert_eq!(client.rest().expect("close_notify"), b"", "{path}");
    }
    for path in ["/", "/never"] {
        let mut client = connect(&server, &config);
        client.send(format!("GET {path} HTTP/1.1\r\n\r\n"));
        std::thread::sleep(Duration::from_millis(20));
        client.stream.conn.send_close_notify();
        client.stream.flush().expect("sends");
        client.rest().expect("close_notify");
    }
    // One that closes TCP without a word.
    let mut client = connect(&server, &config);
    client.get("/");
    drop(client);
    wait_until("all closed", || server.stats().open == 0);
}

#[test]
fn handshakes_are_counted() {
    let server = start(2);
    for (n, version) in (1..).zip(VERSIONS) {
        let config = Arc::new(config(&server, &[version]));
        for _ in 0..5 {
            assert_eq!(connect(&server, &config).get("/").body, b"ok");
        }
        let stats = server.stats();
        assert_eq!((stats.tls_full, stats.tls_resumed), (n, 4 * n), "{version:?}");
    }
    // Who only asks for this is not counted, as over plain HTTP.
    let mut asking = connect(&server, &Arc::new(config(&server, &VERSIONS)));
    let text = asking.get("/stats");
    let stats: serde_json::Value = serde_json::from_slice(&text.body).expect("JSON");
    assert_eq!((&stats["tls_full"], &stats["connections"]), (&2.into(), &10.into()), "{stats}");
    asking.get("/stats/reset");
    let stats = server.stats();
    assert_eq!((stats.tls_full, stats.tls_resumed, stats.connections), (0, 0, 0));
}

#[test]
fn new_keys_are_taken() {
    let server = start(1);
    let config = Arc::new(config(&server, &[&TLS13]));
    let mut client = connect(&server, &config);
    for n in 0..20 {
        assert_eq!(client.get(&format!("/bytes/{n}")).body.len(), n);
        client.stream.conn.refresh_traffic_keys().expect("new keys");
        client.stream.flush().expect("sends");
    }
    // While an answer is on its way.
    client.send("GET /slow/100000/50ms HTTP/1.1\r\n\r\n");
    client.stream.conn.refresh_traffic_keys().expect("new keys");
    client.stream.flush().expect("sends");
    assert_eq!(client.answer().body.len(), 100_000);
    assert_eq!(client.get("/").body, b"ok");
}

#[test]
fn plain_http_is_told_that_this_is_not_its_port() {
    let server = start(1);
    for text in ["GET / HTTP/1.1\r\nHost: a\r\n\r\n", "POST /x HTTP/1.0\r\n\r\n", "G"] {
        let mut client = dial(&server);
        client.send(text);
        let answer = client.answer();
        assert_eq!(answer.status, 400);
        assert!(String::from_utf8_lossy(&answer.body).contains("HTTPS port"), "{answer:?}");
        assert_eq!(client.rest().expect("FIN"), b"");
    }
    wait_until("all closed", || server.stats().open == 0);
    assert_eq!(server.stats().requests, 0);
}

#[test]
fn rubbish_gets_an_alert_and_an_end() {
    let server = start(1);
    let config = Arc::new(config(&server, &VERSIONS));
    let mut random = Pcg64Mcg::seed_from_u64(7);
    let mut noise = || (0..600).map(|_| random.random()).collect::<Vec<u8>>();
    // A content type that is none, an alert, a record too long, a version that is none, half a
    // message and then something else.
    let mut cases = vec![vec![0; 40], vec![21, 3, 3, 0, 2, 2, 40], vec![22, 3, 3, 255, 255, 1]];
    cases.push(vec![22, 3, 1, 0, 6, 1, 0, 0, 200, 3, 3, 23, 3, 3, 0, 1, 0]);
    cases.extend((0..40).map(|n| [&[[22, 23, 20, 250][n % 4], 3, 3, 2][..], &noise()].concat()));
    for text in &cases {
        let mut client = dial(&server);
        client.send(text);
        client.finish();
        // Whatever it says, it says it in an alert, and it ends.
        match client.rest() {
            Ok(said) => assert!(said.is_empty() || said[0] == 21, "{said:?} to {text:?}"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{text:?}"),
        }
        // The same on a connection that is established.
        let mut client = connect(&server, &config);
        client.get("/");
        client.stream.sock.stream.write_all(text).expect("sends");
        client.stream.sock.stream.shutdown(Shutdown::Write).expect("shuts down");
        let _ = client.rest();
    }
    wait_until("all closed", || server.stats().open == 0);
    let mut client = dial(&server);
    client.send(&cases[0]);
    assert_eq!(client.bytes(7), [21, 3, 3, 0, 2, 2, 50], "decode_error, as an alert");
}

#[test]
fn records_that_were_changed_are_refused_wherever() {
    let server = start(1);
    let config = Arc::new(config(&server, &VERSIONS));
    let mut hello = Vec::new();
    session(&config).write_tls(&mut hello).expect("a ClientHello");
    for at in 0..hello.len() {
        for cut in [1, at + 1, hello.len()] {
            let mut changed = hello.clone();
            changed[at] ^= 0x55;
            let mut client = dial(&server);
            let (first, second) = changed.split_at(cut.min(changed.len()));
            client.send(first);
            let _ = client.stream.write_all(second);
            let _ = client.stream.shutdown(Shutdown::Write);
        }
    }
    wait_until("all closed", || server.stats().open == 0);
    assert_eq!(connect(&server, &config).get("/").body, b"ok");
}

#[test]
fn a_server_that_is_not_trusted_hears_so() {
    let (server, other) = (start(1), start(1));
    let config = Arc::new(config(&other, &VERSIONS));
    for _ in 0..5 {
        let mut client = connect(&server, &config);
        assert!(client.stream.write_all(b"GET / HTTP/1.1\r\n\r\n").is_err());
    }
    wait_until("all closed", || server.stats().open == 0);
    let stats = server.stats();
    assert_eq!((stats.tls_full, stats.connections), (0, 5));
}

#[test]
fn a_handshake_that_stalls_is_given_up() {
    let server = start(1);
    let config = Arc::new(config(&server, &VERSIONS));
    let mut hello = Vec::new();
    session(&config).write_tls(&mut hello).expect("a ClientHello");
    let begun = Instant::now();
    let mut waiting = vec![dial(&server)];
    for len in [1, 5, 100, hello.len()] {
        let mut client = dial(&server);
        client.send(&hello[..len]);
        waiting.push(client);
    }
    let mut established = connect(&server, &config);
    established.get("/");
    wait_until("all open", || server.stats().open == 6);
    for client in &mut waiting {
        client.rest().expect("FIN");
        assert!(begun.elapsed() >= Duration::from_secs(9), "{:?}", begun.elapsed());
    }
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert_eq!(established.get("/").body, b"ok", "others stay");
    assert_eq!(server.stats().open, 1);
}

#[test]
fn clients_that_leave_at_any_point_leave_nothing() {
    let server = start(1);
    let config = Arc::new(config(&server, &VERSIONS));
    for path in [
        "/",
        "/bytes/80000",
        "/bytes/90000000",
        "/chunked/90000000",
        "/delay/300ms",
        "/slow/1000/300ms",
        "/never",
    ] {
        for _ in 0..5 {
            let mut client = connect(&server, &config);
            client.send(format!("GET {path} HTTP/1.1\r\n\r\n"));
            // Bytes that are not read make the close an RST, where there are any by then.
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    wait_until("all closed", || server.stats().open == 0);
    assert_eq!(connect(&server, &config).get("/").body, b"ok");
}

#[test]
fn a_certificate_of_ones_own_is_shown_with_its_chain() {
    for algorithm in [&PKCS_ECDSA_P256_SHA256, &PKCS_ECDSA_P384_SHA384, &PKCS_RSA_SHA256] {
        let (identity, root) = chain(algorithm);
        let leaf = identity.chain[0].clone();
        let server = start_as(1, Some(identity));
        assert_eq!(server.certificate(), Some(leaf.clone()));
        for version in VERSIONS {
            // The client knows the root alone, so that it needs the intermediate one.
            let mut client = connect(&server, &Arc::new(trusting(root.clone(), &[version])));
            assert_eq!(client.get("/bytes/700").body.len(), 700, "{algorithm:?}");
            let shown = client.stream.conn.peer_certificates().expect("certificates");
            assert_eq!((shown.len(), &shown[0]), (2, &leaf));
        }
    }
}

#[test]
fn both_ports_serve_at_once_and_a_stopped_server_serves_neither() {
    let server = start(2);
    let config = Arc::new(config(&server, &VERSIONS));
    let (mut plain, mut secure) = (Client::connect(&server), connect(&server, &config));
    for _ in 0..3 {
        assert_eq!((plain.get("/").body, secure.get("/").body), (b"ok".into(), b"ok".into()));
    }
    let stats = server.stats();
    assert_eq!((stats.requests, stats.connections, stats.tls_full), (6, 2, 1));
    let addresses = [server.http_address(), server.https_address()].map(|one| one.expect("both"));
    server.stop().expect("stops");
    for address in addresses {
        assert!(std::net::TcpStream::connect(address).is_err());
    }
    let mut end = [0; 1];
    let ended = secure.stream.sock.stream.read(&mut end);
    assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
}
