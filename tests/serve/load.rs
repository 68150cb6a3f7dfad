//! Many connections at once, and what is left after them.

use std::time::Duration;

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
            http: server.address(),
            threads,
            cpus: Vec::new(),
            stall: None,
        };
        let error = ringload::serve::Server::start(&config).err().expect("refused");
        assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    }
}
