//! Many connections at once, and what is left after them.

use std::io::Write;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use ringload::serve::ServeError;

use super::client::{Client, start, start_with, wait_until};

#[test]
fn many_connections_in_turn_leave_nothing() {
    let server = start_with(2, None);
    let threads: Vec<_> = (0..4)
        .map(|n| {
            let address = server.address();
            std::thread::spawn(move || {
                let fields = ["", "Connection: close\r\n"][n % 2];
                for _ in 0..300 {
                    let stream = std::net::TcpStream::connect(address).expect("connects");
                    let mut client = Client::from(stream);
                    client.send(format!("GET /bytes/700 HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
                    assert_eq!(client.answer().body.len(), 700);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("all answered"));
    wait_until("all closed", || server.stats().open == 0);
    let stats = server.stats();
    assert_eq!((stats.requests, stats.connections), (1_200, 1_200));
    assert!(stats.peak_open >= 1 && stats.peak_open <= 1_200);
    assert_eq!(stats.max_requests_per_connection, 1);
}

#[test]
fn clients_that_leave_at_any_point_leave_nothing() {
    let server = start();
    for path in [
        "/",
        "/bytes/80000",
        "/bytes/900000",
        "/bytes/90000000",
        "/chunked/90000000",
        "/delay/300ms",
        "/slow/1000/300ms",
        "/never",
        "/status/500",
    ] {
        for _ in 0..5 {
            let mut client = Client::connect(&server);
            client.send(format!("GET {path} HTTP/1.1\r\n\r\n"));
            // Bytes that are not read make the close an RST, where there are any by then.
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    let mut client = Client::connect(&server);
    client.send("GET /never HTTP/1.1\r\n\r\n");
    client.send(vec![b'x'; 5_000_000]);
    drop(client);
    for part in ["", "GET / HT", "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc"] {
        Client::connect(&server).send(part);
    }
    wait_until("all closed", || server.stats().open == 0);
    assert_eq!(Client::connect(&server).get("/").body, b"ok");
}

#[test]
fn a_thousand_idle_connections_are_open_at_once() {
    let server = start();
    let mut clients: Vec<_> = (0..1_000).map(|_| Client::connect(&server)).collect();
    wait_until("all open", || server.stats().open == 1_000);
    for client in &mut clients {
        assert_eq!(client.get("/").body, b"ok");
    }
    assert_eq!(server.stats().peak_open, 1_000);
    drop(clients);
    wait_until("all closed", || server.stats().open == 0);
}

#[test]
fn a_stopped_server_refuses_connections() {
    let server = start_with(3, None);
    let address = server.address();
    let client = Client::connect(&server);
    server.stop().expect("stops");
    drop(client);
    assert!(std::net::TcpStream::connect(address).is_err());
}

#[test]
fn a_port_that_is_taken_is_not_shared() {
    let server = start_with(2, None);
    for threads in [1, 2] {
        let config = ringload::plan::serve::ServePlan {
            http: Some(server.address()),
            https: None,
            identity: None,
            threads,
            cpus: Vec::new(),
            stall: None,
        };
        let error = ringload::serve::Server::start(&config).err().expect("refused");
        let ServeError::Listen { address, error, .. } = error else { panic!("{error}") };
        assert_eq!((address, error.kind()), (server.address(), std::io::ErrorKind::AddrInUse));
    }
}

/// What a path answers with, for the draws below.
fn draw(random: &mut Pcg64Mcg) -> (String, usize) {
    let len = random.random_range(0..40_000);
    match random.random_range(0..12) {
        0 => ("/delay/1ms..5ms".to_owned(), 2),
        1 => (format!("/slow/{}/12ms", len + 1), len + 1),
        2 => ("/bytes/1500000".to_owned(), 1_500_000),
        3 => ("/chunked/1500000".to_owned(), 1_500_000),
        4 => (format!("/chunked/{len}"), len),
        5 => ("/bytes/200000".to_owned(), 200_000),
        6 => ("/cpu/100us".to_owned(), 2),
        7 => ("/".to_owned(), 2),
        _ => (format!("/bytes/{len}"), len),
    }
}

/// Draws a pipeline, sends it cut anywhere and with pauses, and reads at its own pace.
fn play(server: &ringload::serve::Server, seed: u64) {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let (mut text, mut lens) = (Vec::new(), Vec::new());
    for _ in 0..random.random_range(1..40) {
        let (path, len) = draw(&mut random);
        let body = "b".repeat(random.random_range(0..200));
        let (fields, body) = match random.random_range(0..4) {
            0 => (format!("Content-Length: {}\r\n", body.len()), body),
            1 if !body.is_empty() => (
                "Transfer-Encoding: chunked\r\n".to_owned(),
                format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len()),
            ),
            _ => (String::new(), String::new()),
        };
        text.extend(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n{body}").bytes());
        lens.push(len);
    }
    let mut client = Client::connect(server);
    let mut writer = client.stream.try_clone().expect("a clone");
    let mut writing = random.clone();
    let sending = std::thread::spawn(move || {
        let mut rest = &text[..];
        while !rest.is_empty() {
            let (part, behind) = rest.split_at(writing.random_range(1..=rest.len().min(400)));
            writer.write_all(part).expect("sends");
            rest = behind;
            if writing.random_range(0..8) == 0 {
                std::thread::sleep(Duration::from_micros(writing.random_range(0..2_000)));
            }
        }
        writer.shutdown(std::net::Shutdown::Write).expect("shuts down");
    });
    for (n, len) in lens.into_iter().enumerate() {
        if random.random_range(0..4) == 0 {
            std::thread::sleep(Duration::from_micros(random.random_range(0..3_000)));
        }
        let answer = client.answer();
        assert_eq!((answer.status, answer.body.len()), (200, len), "answer {n} of seed {seed}");
    }
    assert_eq!(client.rest().expect("FIN"), b"", "seed {seed}");
    sending.join().expect("sent");
}

#[test]
fn any_pipeline_is_answered_whole_and_in_order() {
    let server = start_with(2, None);
    let server = &server;
    std::thread::scope(|scope| {
        for lane in 0..8 {
            scope.spawn(move || (0..8).for_each(|n| play(server, lane * 1_000 + n)));
        }
    });
    wait_until("all closed", || server.stats().open == 0);
}
