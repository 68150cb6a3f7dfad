//! Sessions against each other, in memory.

use super::*;

/// Moves what both sides have to say until neither says more; gives what each read.
fn converse(
    client: &mut ClientSession,
    server: &mut ServerSession,
    first: Vec<u8>,
) -> (Vec<u8>, Vec<u8>) {
    let (mut to_server, mut to_client) = (first, Vec::new());
    let (mut server_read, mut client_read) = (Vec::new(), Vec::new());
    loop {
        let mut output = Vec::new();
        let progress = server
            .advance(&mut to_server, &mut output, |bytes| server_read.extend_from_slice(bytes))
            .unwrap();
        to_server.drain(..progress.used);
        to_client.append(&mut output);
        let progress = client
            .advance(&mut to_client, &mut output, |bytes| client_read.extend_from_slice(bytes))
            .unwrap();
        to_client.drain(..progress.used);
        if output.is_empty() {
            return (server_read, client_read);
        }
        to_server.append(&mut output);
    }
}

fn pair(settings: &Settings) -> (Client, Server) {
    let server = Server::self_signed().unwrap();
    let roots = Roots::of(std::slice::from_ref(server.certificate()));
    (Client::new(settings, &roots).unwrap(), server)
}

fn insecure() -> Settings {
    Settings { insecure: true, ..Settings::new("localhost") }
}

fn shake(client: &Client, server: &Server, may_resume: bool) -> (ClientSession, ServerSession) {
    let mut client = client.session(may_resume).unwrap();
    let mut server = server.session().unwrap();
    let mut hello = Vec::new();
    client.advance(&mut [], &mut hello, |_| {}).unwrap();
    converse(&mut client, &mut server, hello);
    (client, server)
}

#[test]
fn a_handshake_is_told_in_names() {
    let (client, server) = pair(&insecure());
    let (client, server) = shake(&client, &server, false);
    let expected = Handshake {
        version: "TLSv1.3",
        suite: "TLS_AES_128_GCM_SHA256",
        group: Some("x25519"),
        resumed: false,
    };
    assert_eq!(client.handshake(), Some(expected));
    assert_eq!(server.handshake(), Some(expected));
    assert_eq!(client.connection().alpn_protocol(), Some(HTTP_1_1));
}

#[test]
fn sessions_are_resumed_only_where_they_may_be() {
    for versions in [Versions::Tls12, Versions::Tls13] {
        let (client, server) = pair(&Settings { versions, ..insecure() });
        let resumed = |may| shake(&client, &server, may).0.handshake().unwrap().resumed;
        assert_eq!([false, false].map(resumed), [false, false], "{versions:?}");
        assert_eq!([true, true, true].map(resumed), [false, true, true], "{versions:?}");
        assert!(!resumed(false), "{versions:?}");
    }
}

#[test]
fn traffic_arrives_however_it_is_cut() {
    for versions in [Versions::Tls12, Versions::Tls13] {
        let (client, server) = pair(&Settings { versions, ..insecure() });
        let (mut client, mut server) = shake(&client, &server, false);
        let plain: Vec<u8> = (0..40_000_u32).map(|n| (n % 251) as u8).collect();
        let mut encrypted = vec![0; encrypted_len(plain.len())];
        let len = client.encrypt(&plain, &mut encrypted).unwrap();
        let (mut read, mut waiting) = (Vec::new(), Vec::new());
        for piece in encrypted[..len].chunks(977) {
            waiting.extend_from_slice(piece);
            let mut sink = Vec::new();
            let progress = server
                .advance(&mut waiting, &mut sink, |bytes| read.extend_from_slice(bytes))
                .unwrap();
            assert!(sink.is_empty());
            waiting.drain(..progress.used);
        }
        assert!(waiting.is_empty());
        assert_eq!(read, plain);
    }
}

/// As browsers send it, and the engine.
#[test]
fn a_request_behind_the_last_flight_is_read_and_can_be_answered() {
    for versions in [Versions::Tls12, Versions::Tls13] {
        let (client, server) = pair(&Settings { versions, ..insecure() });
        // A full handshake, and one that is resumed.
        for resumed in [false, true] {
            let mut client = client.session(true).unwrap();
            let mut server = server.session().unwrap();
            let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
            client.advance(&mut [], &mut to_server, |_| {}).unwrap();
            let mut established = false;
            while !established {
                server.advance(&mut to_server, &mut to_client, |_| {}).unwrap();
                to_server.clear();
                established =
                    client.advance(&mut to_client, &mut to_server, |_| {}).unwrap().established;
                to_client.clear();
            }
            let (flight, mut room) = (to_server.len(), vec![0; encrypted_len(3)]);
            let len = client.encrypt(b"GET", &mut room).unwrap();
            to_server.extend_from_slice(&room[..len]);
            let mut read = Vec::new();
            let progress = server
                .advance(&mut to_server, &mut to_client, |bytes| read.extend_from_slice(bytes))
                .unwrap();
            assert_eq!((progress.used, progress.established), (flight + len, true));
            assert_eq!((&*read, server.handshake().unwrap().resumed), (&b"GET"[..], resumed));
            let len = server.encrypt(b"200", &mut room).expect("it can be answered");
            to_client.extend_from_slice(&room[..len]);
            read.clear();
            client
                .advance(&mut to_client, &mut Vec::new(), |bytes| read.extend_from_slice(bytes))
                .unwrap();
            assert_eq!(read, b"200", "{versions:?}");
        }
    }
}

#[test]
fn an_end_is_said_and_heard() {
    let (client, server) = pair(&insecure());
    let (mut client, mut server) = shake(&client, &server, false);
    let (mut notice, mut sink) = (Vec::new(), Vec::new());
    server.close_notify(&mut notice);
    let progress = client.advance(&mut notice, &mut sink, |_| {}).unwrap();
    assert!(progress.peer_closed);
    assert_eq!(progress.used, notice.len());
}

#[test]
fn what_is_broken_is_an_error_with_an_alert() {
    let (client, server) = pair(&insecure());
    let (mut client, _) = shake(&client, &server, false);
    let (mut broken, mut alert) = (vec![23, 3, 3, 0, 32], Vec::new());
    broken.extend([7; 32]);
    assert!(client.advance(&mut broken, &mut alert, |_| {}).is_err());
    // An encrypted alert looks like data (RFC 8446, 5.2).
    assert_eq!(alert.first(), Some(&23));
}

/// A handshake message in records of so many bytes each.
fn spread(record: &[u8], len: usize) -> Vec<u8> {
    let (header, message) = record.split_at(5);
    message
        .chunks(len)
        .flat_map(|part| [&header[..3], &[0, part.len() as u8], part].concat())
        .collect()
}

#[test]
fn a_handshake_message_may_be_spread_over_records() {
    let (client, server) = pair(&insecure());
    for (record_len, piece_len) in [(1, 1), (7, 5), (50, 55), (100, 64), (255, 1_000)] {
        let (mut client, mut server) = (client.session(false).unwrap(), server.session().unwrap());
        let (mut hello, mut output) = (Vec::new(), Vec::new());
        client.advance(&mut [], &mut hello, |_| {}).unwrap();
        let mut waiting = Vec::new();
        for piece in spread(&hello, record_len).chunks(piece_len) {
            assert!(output.is_empty(), "an answer before the end");
            waiting.extend_from_slice(piece);
            let progress = server.advance(&mut waiting, &mut output, |_| {}).unwrap();
            waiting.drain(..progress.used);
            // What is asked of it meanwhile does not disturb it.
            assert!(server.encrypt(b"x", &mut [0; 64]).is_err());
            server.close_notify(&mut output);
        }
        assert!(waiting.is_empty() && !output.is_empty());
        let mut finished = Vec::new();
        client.advance(&mut output, &mut finished, |_| {}).unwrap();
        converse(&mut client, &mut server, finished);
        assert!(server.handshake().is_some(), "{record_len} and {piece_len}");
    }
}

#[test]
fn a_broken_message_is_an_error_and_no_panic() {
    let (client, server) = pair(&insecure());
    let mut hello = Vec::new();
    client.session(false).unwrap().advance(&mut [], &mut hello, |_| {}).unwrap();
    let begun = spread(&hello[..25], 20);
    for hostile in [
        // The beginning of a message, and then a record of another kind.
        [&begun[..], &[23, 3, 3, 0, 1, 0]].concat(),
        // A message that is wrong, and behind it a whole one and the beginning of one.
        [22, 3, 3, 0, 13, 1, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 9].to_vec(),
        // A record that is too long.
        vec![22, 3, 3, 255, 255],
    ] {
        for cut in 0..hostile.len() {
            let (mut output, mut session) = (Vec::new(), server.session().unwrap());
            let mut waiting = hostile[..cut].to_vec();
            let error = session.advance(&mut waiting, &mut output, |_| {}).and_then(|progress| {
                waiting.drain(..progress.used);
                waiting.extend_from_slice(&hostile[cut..]);
                session.advance(&mut waiting, &mut output, |_| {})
            });
            assert!(error.is_err(), "{hostile:?} cut at {cut}");
        }
    }
}

/// The request travels with the client's last flight, and the server has a ticket to send.
#[test]
fn a_request_in_the_last_flight_can_be_answered() {
    for versions in [Versions::Tls12, Versions::Tls13] {
        let (client, server) = pair(&Settings { versions, ..insecure() });
        let (mut client, mut server) = (client.session(false).unwrap(), server.session().unwrap());
        let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
        let mut established = false;
        client.advance(&mut [], &mut to_server, |_| {}).unwrap();
        while !established {
            server.advance(&mut to_server, &mut to_client, |_| {}).unwrap();
            to_server.clear();
            established =
                client.advance(&mut to_client, &mut to_server, |_| {}).unwrap().established;
            to_client.clear();
        }
        let from = to_server.len();
        to_server.resize(from + encrypted_len(7), 0);
        let len = client.encrypt(b"request", &mut to_server[from..]).unwrap();
        to_server.truncate(from + len);
        let mut read = Vec::new();
        let plain = |bytes: &[u8]| read.extend_from_slice(bytes);
        let progress = server.advance(&mut to_server, &mut to_client, plain).unwrap();
        assert!(progress.established && progress.used == to_server.len(), "{versions:?}");
        assert_eq!(read, b"request", "{versions:?}");

        let from = to_client.len();
        to_client.resize(from + encrypted_len(6), 0);
        let len = server.encrypt(b"answer", &mut to_client[from..]).unwrap();
        to_client.truncate(from + len);
        let mut read = Vec::new();
        client
            .advance(&mut to_client, &mut to_server, |bytes| read.extend_from_slice(bytes))
            .unwrap();
        assert_eq!(read, b"answer", "{versions:?}");
    }
}
