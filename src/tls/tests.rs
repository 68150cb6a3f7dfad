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
