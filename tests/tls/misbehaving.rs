//! Servers that break the rules of TLS, or end where nobody expects it.

use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use rustls::version::{TLS12, TLS13};

use super::support::raw::{self, Raw};
use super::support::secure::{self, Session, read_hello, read_request, send};
use super::support::{Run, certificates, child, ringload, run};
use super::{Authority, VERSIONS, answered, only_error};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const OK_TO_THE_END: &[u8] = b"HTTP/1.1 200 OK\r\n\r\nok";
const OK_CHUNKED: &[u8] =
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";

/// A server with a certificate that nobody asks about, in both versions.
fn server(answer: impl Fn(Session) + Send + Sync + 'static) -> Raw {
    let shown = Authority::named("The Authority").signs(&certificates::here());
    secure::start(shown.config_for_all(&[&TLS12, &TLS13]), answer)
}

/// A run of 6 requests on 2 connections, without verification.
#[track_caller]
fn asked(server: &Raw, arguments: &[&str]) -> Run {
    let url = secure::url(server.address);
    let run = run(&[&[&*url, "-k", "-n", "6", "-c", "2"], arguments].concat());
    run.assert_identities();
    run
}

/// What six failures of a kind were, in both versions.
#[track_caller]
fn fails(server: &Raw, found: (&str, &str, &str)) {
    for (version, _) in VERSIONS {
        let run = asked(server, &["--tls", version]);
        assert_eq!(only_error(&run), found, "{version}: {}", run.result["errors"]);
        assert_eq!((run.code, run.count("/counts/failed")), (4, 6));
    }
}

/// Six answers in both versions.
#[track_caller]
fn completes(server: &Raw, arguments: &[&str]) -> Vec<Run> {
    let complete = |(version, _)| {
        let run = asked(server, &[&["--tls", version], arguments].concat());
        assert_eq!(run.count("/counts/completed"), 6, "{version}: {}", run.result["errors"]);
        assert_eq!(run.code, 0);
        run
    };
    VERSIONS.into_iter().map(complete).collect()
}

#[test]
fn a_body_that_only_a_bare_end_of_the_connection_ends_is_truncated() {
    let bare = server(|mut session| {
        if read_request(&mut session) {
            send(&mut session, OK_TO_THE_END);
        }
    });
    fails(&bare, ("body", "truncated", "no-close-notify"));
    let url = secure::url(bare.address);
    let line = ["run", &url, "-k", "-n", "2", "-c", "1", "--progress", "none"];
    let text = String::from_utf8(ringload().args(line).output().unwrap().stdout).unwrap();
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("close_notify") && words.contains("Content-Length"), "{text}");
    assert!(!words.contains("announced"), "nothing was announced:\n{text}");

    let said = server(|mut session| {
        if read_request(&mut session) {
            send(&mut session, OK_TO_THE_END);
            secure::say_end(session);
        }
    });
    for run in completes(&said, &[]) {
        assert_eq!(run.count("/bytes/body"), 12);
        assert_eq!(run.count("/connections/opened"), 6);
    }
}

#[test]
fn a_bare_end_behind_a_body_that_is_whole_is_fine() {
    for answer in [OK, OK_CHUNKED] {
        let server = server(move |mut session| {
            if read_request(&mut session) {
                send(&mut session, answer);
            }
        });
        for run in completes(&server, &[]) {
            assert_eq!(run.count("/bytes/body"), 12);
        }
    }
}

#[test]
fn a_bare_end_within_a_body_is_truncated() {
    for answer in [&OK[..OK.len() - 1], &OK_CHUNKED[..OK_CHUNKED.len() - 2]] {
        let server = server(move |mut session| {
            if read_request(&mut session) {
                send(&mut session, answer);
            }
        });
        fails(&server, ("body", "truncated", ""));
    }
}

#[test]
fn an_end_that_is_said_before_the_answer_is_a_close() {
    let said = server(|mut session| {
        if read_request(&mut session) {
            secure::say_end(session);
        }
    });
    fails(&said, ("head", "closed", ""));
}

/// As a server does whose keep-alive time is over.
#[test]
fn connections_that_end_between_requests_are_no_failures() {
    let bare = server(|mut session| {
        if read_request(&mut session) && send(&mut session, OK) && read_request(&mut session) {
            send(&mut session, OK);
        }
    });
    for run in completes(&bare, &["-t", "1"]) {
        assert_eq!(run.count("/connections/requests_per_connection/max"), 2);
    }
    let said = server(|mut session| {
        if read_request(&mut session) && send(&mut session, OK) {
            secure::say_end(session);
        }
    });
    completes(&said, &["-t", "1"]);
}

#[test]
fn plaintext_cut_byte_by_byte_arrives_whole() {
    let server = server(|mut session| {
        while read_request(&mut session) {
            for byte in OK_CHUNKED {
                if !send(&mut session, &[*byte]) {
                    return;
                }
            }
        }
    });
    for run in completes(&server, &[]) {
        assert_eq!(run.count("/bytes/body"), 12);
    }
}

#[test]
fn records_cut_byte_by_byte_arrive_whole() {
    // Each byte of what the server sends goes in a segment of its own, or so it is asked for.
    let inner = server(|mut session| while read_request(&mut session) && send(&mut session, OK) {});
    let address = inner.address;
    let outer = Raw::start(move |client| {
        let server = TcpStream::connect(address).unwrap();
        client.set_nodelay(true).unwrap();
        let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let up = thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(std::net::Shutdown::Both);
        });
        let (mut server, mut client) = (server, client);
        let mut byte = [0];
        while matches!(std::io::Read::read(&mut server, &mut byte), Ok(1)) {
            if client.write_all(&byte).is_err() {
                break;
            }
        }
        let _ = client.shutdown(std::net::Shutdown::Both);
        up.join().unwrap();
    });
    completes(&outer, &[]);
}

#[test]
fn new_keys_of_the_server_are_taken() {
    let server = server(|mut session| {
        while read_request(&mut session) && send(&mut session, OK) {
            // TLS 1.2 has none.
            let _ = session.conn.refresh_traffic_keys();
        }
    });
    for run in completes(&server, &[]) {
        assert_eq!(run.count("/connections/opened"), 2);
    }
}

#[test]
fn bytes_behind_an_answer_end_its_connection_and_are_counted() {
    let server = server(|mut session| {
        if read_request(&mut session) {
            send(&mut session, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more");
            read_request(&mut session);
        }
    });
    for run in completes(&server, &[]) {
        assert_eq!(run.count("/connections/unexpected_bytes"), 6);
    }
}

#[test]
fn an_answer_that_is_not_http_is_malformed() {
    let server = server(|mut session| {
        if read_request(&mut session) {
            send(&mut session, b"220 smtp.example ready\r\n");
        }
    });
    let run = asked(&server, &[]);
    let (phase, kind, _) = only_error(&run);
    assert_eq!((phase, kind), ("head", "malformed"));
    let example = run.result["errors"][0]["example"].as_str().unwrap();
    assert!(example.contains("220 smtp.example"), "{example}");
}

#[test]
fn an_answer_before_the_question_is_not_taken_for_one() {
    let server = server(|mut session| {
        // In the server's first flight already, where the version lets it.
        send(&mut session, OK);
        read_request(&mut session);
    });
    for (version, _) in VERSIONS {
        let run = asked(&server, &["--tls", version, "--timeout", "2s"]);
        run.assert_identities();
        assert!(matches!(run.code, 0 | 4), "{}", run.stderr);
    }
}

#[test]
fn what_is_not_tls_is_said_to_be_none() {
    for garbage in [
        &b"SSH-2.0-OpenSSH_9.2\r\n"[..],
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        &[0xff; 600],
    ] {
        let server = Raw::start(move |mut stream| {
            read_hello(&mut stream);
            let _ = stream.write_all(garbage);
            // Until the client has gone.
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        });
        let run = asked(&server, &[]);
        assert_eq!(only_error(&run), ("tls", "handshake", "not-tls"), "{garbage:?}");
        assert_eq!((run.code, run.count("/counts/failed")), (4, 6));
        let example = run.result["errors"][0]["example"].as_str().unwrap();
        assert!(example.contains("http://"), "{example}");
    }
}

#[test]
fn a_port_of_plain_http_is_said_to_be_one() {
    let server = child::serve(&["--http", "127.0.0.1:0"]);
    let url = server.url().replace("http://", "https://");
    let run = run(&[&url, "-n", "4", "-c", "2"]);
    assert_eq!(only_error(&run), ("tls", "handshake", "not-tls"));
    assert_eq!(run.code, 4);
}

#[test]
fn plain_http_to_a_port_of_https_is_answered_400_and_warned_about() {
    let server = child::serve(&["--https", "127.0.0.1:0"]);
    let url = server.url().replace("https://", "http://");
    let run = run(&[&url, "-n", "4", "-c", "2"]);
    run.assert_identities();
    assert_eq!((run.code, run.count("/status/400")), (0, 4));
    let warnings = run.result["verdict"]["warnings"].to_string();
    assert!(warnings.contains("4xx"), "{warnings}");
}

#[test]
fn records_that_are_changed_are_refused() {
    let server = Raw::start(|mut stream| {
        read_hello(&mut stream);
        // A ServerHello that is none.
        let _ = stream.write_all(&[22, 3, 3, 0, 8, 2, 0, 0, 4, 9, 9, 9, 9]);
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    let run = asked(&server, &[]);
    let (phase, kind, detail) = only_error(&run);
    assert_eq!((phase, kind, detail), ("tls", "handshake", "invalid-message"));
}

#[test]
fn an_alert_is_named() {
    for (code, detail, kind) in [
        (40, "handshake_failure", "handshake"),
        (80, "internal_error", "handshake"),
        (112, "unrecognized_name", "handshake"),
        (70, "protocol-version", "handshake"),
        (48, "unknown_ca", "certificate"),
        (211, "unknown_alert", "handshake"),
    ] {
        let server = Raw::start(move |mut stream| {
            read_hello(&mut stream);
            let _ = stream.write_all(&[21, 3, 3, 0, 2, 2, code]);
        });
        let run = asked(&server, &[]);
        assert_eq!(only_error(&run), ("tls", kind, detail), "alert {code}");
    }
}

#[test]
fn an_end_in_the_handshake_is_a_close() {
    let ends: [fn(&mut TcpStream); 3] = [
        |stream| drop(read_hello(stream)),
        |stream| {
            read_hello(stream);
            let _ = stream.write_all(&[22, 3, 3]);
        },
        |stream| {
            read_hello(stream);
            let _ = stream.write_all(&[22, 3, 3, 0, 90, 2, 0, 0]);
        },
    ];
    for end in ends {
        let server = Raw::start(move |mut stream| end(&mut stream));
        let run = asked(&server, &[]);
        assert_eq!(only_error(&run), ("tls", "closed", ""));
        assert_eq!((run.code, run.count("/counts/failed")), (4, 6));
        assert_eq!(run.count("/connections/tls/full"), 0);
    }
    // And said in TLS, whatever that is worth.
    let server = Raw::start(|mut stream| {
        read_hello(&mut stream);
        let _ = stream.write_all(&[21, 3, 3, 0, 2, 1, 0]);
    });
    assert_eq!(only_error(&asked(&server, &[])), ("tls", "closed", ""));
}

#[test]
fn a_reset_in_the_handshake_is_a_reset() {
    let at_once = Raw::start(secure::reset);
    let after_the_hello = Raw::start(|mut stream| {
        read_hello(&mut stream);
        secure::reset(stream);
    });
    for server in [at_once, after_the_hello] {
        let run = asked(&server, &[]);
        let (phase, kind, _) = only_error(&run);
        assert_eq!((phase, kind), ("tls", "reset"), "{}", run.result["errors"]);
        assert_eq!((run.code, run.count("/counts/failed")), (4, 6));
    }
}

#[test]
fn a_reset_after_the_handshake_is_of_the_request() {
    let server = server(|mut session| {
        read_request(&mut session);
        secure::reset(session.sock);
    });
    fails(&server, ("head", "reset", "ECONNRESET"));
    let server = self::server(|mut session| {
        if read_request(&mut session) {
            send(&mut session, b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\nbegun");
            // It is read before the RST comes.
            thread::sleep(Duration::from_millis(100));
            secure::reset(session.sock);
        }
    });
    fails(&server, ("body", "reset", "ECONNRESET"));
}

#[test]
fn a_hello_that_is_never_answered_is_a_timeout_of_the_handshake() {
    let silent = Raw::start(|mut stream| {
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    let stalling = Raw::start(|mut stream| {
        read_hello(&mut stream);
        let _ = stream.write_all(&[22, 3, 3, 0, 90, 2, 0, 0]);
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    for server in [silent, stalling] {
        for model in [&[][..], &["-r", "100"], &["-r", "100", "--preconnect", "2"]] {
            let begun = Instant::now();
            let run = asked(&server, &[&["--connect-timeout", "300ms"], model].concat());
            let found = only_error(&run);
            assert_eq!(found, ("tls", "timeout", ""), "{model:?}");
            assert_eq!((run.code, run.count("/counts/failed")), (4, 6), "{model:?}");
            assert!(begun.elapsed() < Duration::from_secs(30));
            // What was given up is in the latencies, at the time it was given up.
            let fastest = run.result["latency"]["response"]["min_us"].as_f64().unwrap();
            assert!(fastest >= 290_000.0, "{fastest}");
        }
    }
}

#[test]
fn protocols_without_one_in_common_are_said() {
    let shown = Authority::named("The Authority").signs(&certificates::here());
    for version in [&TLS12, &TLS13] {
        let mut config = (*shown.config_for_all(&[version])).clone();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let server = secure::start(config.into(), |_| {});
        let run = asked(&server, &[]);
        assert_eq!(only_error(&run), ("tls", "handshake", "no-application-protocol"));
    }
}

#[test]
fn versions_without_one_in_common_are_said() {
    let shown = Authority::named("The Authority").signs(&certificates::here());
    for (spoken, offered) in [(&TLS12, "1.3"), (&TLS13, "1.2")] {
        let server = secure::start(shown.config_for_all(&[spoken]), |_| {});
        let run = asked(&server, &["--tls", offered]);
        assert_eq!(only_error(&run), ("tls", "handshake", "protocol-version"), "{offered}");
        assert_eq!(run.result["connections"]["tls"]["version"], serde_json::Value::Null);
    }
}

/// A measure of the measure: the servers above answer a client that asks them well.
#[test]
fn a_server_that_behaves_is_no_failure() {
    let server =
        server(|mut session| while read_request(&mut session) && send(&mut session, OK) {});
    completes(&server, &[]);
    let plain = Raw::start(raw::always(OK));
    answered(&[&plain.url(), "-n", "6", "-c", "2"]);
}
