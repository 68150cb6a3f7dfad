//! TLS, with a session on the worker's side: what the server says, and what it calls a bug.

use super::*;
use crate::clock::SECOND;
use crate::tls::{Client, ClientSession, Progress, Roots, Settings};

/// A connection on slot 0 with a session, whose bytes are sent from buffers of their own.
struct Line {
    lab: Lab,
    session: ClientSession,
    read: Vec<u8>,
    /// What of a record is here.
    cut: Vec<u8>,
}

impl Line {
    fn new(change: impl FnOnce(&mut SimConfig)) -> Self {
        let mut lab = Lab::new(|config| {
            config.limits.buffer_len = 4_096;
            config.server.tls = Some(TlsModel::exact());
            change(config);
        });
        lab.connected(0);
        let settings = Settings { insecure: true, ..Settings::new("localhost") };
        let client = Client::new(&settings, &Roots::none()).expect("the settings are sound");
        let session = client.session(false).expect("the system gives random bytes");
        lab.receive_multi(0);
        Self { lab, session, read: Vec::new(), cut: Vec::new() }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.lab.request(bytes);
        let (bytes, to) = (self.lab.get, self.lab.get_len);
        let op = Op::SendNow { slot: 0, bytes, from: 0, to };
        self.lab.push(op, Kind::SendPooled, 0, SKIP);
        self.lab.ring.enter(Wait::POLL).expect("entering succeeds");
    }

    /// Takes one completion's bytes; gives what is to be sent.
    fn hear(&mut self) -> (Progress, Vec<u8>) {
        let wait = Wait { want: 1, timeout_ns: Some(SECOND), min_wait_ns: 0 };
        self.lab.ring.enter(wait).expect("entering succeeds");
        while let Some(completion) = self.lab.ring.next() {
            let Some(buffer) = completion.buffer else { continue };
            let len = completion.result as usize;
            self.cut.extend_from_slice(self.lab.ring.received(buffer, len));
            self.lab.ring.recycle(buffer);
        }
        self.lab.ring.publish();
        let (mut output, read) = (Vec::new(), &mut self.read);
        let progress = self
            .session
            .advance(&mut self.cut, &mut output, |plain| read.extend_from_slice(plain))
            .expect("the server speaks TLS");
        self.cut.drain(..progress.used);
        (progress, output)
    }

    fn hello(&mut self) -> Vec<u8> {
        let mut hello = Vec::new();
        self.session.advance(&mut [], &mut hello, |_| {}).expect("a session begins");
        hello
    }

    /// A handshake; gives the last flight and this behind it.
    fn shaken(&mut self, plain: &[u8]) -> Vec<u8> {
        let hello = self.hello();
        self.send(&hello);
        let (progress, mut output) = self.hear();
        assert!(progress.established);
        output.extend(self.sealed(plain));
        output
    }

    fn sealed(&mut self, plain: &[u8]) -> Vec<u8> {
        let mut sealed = vec![0; crate::tls::encrypted_len(plain.len())];
        let len = self.session.encrypt(plain, &mut sealed).expect("it is established");
        sealed.truncate(len);
        sealed
    }
}

#[test]
fn a_request_is_answered_in_records() {
    let mut line = Line::new(|config| {
        config.server.tls.as_mut().expect("it speaks TLS").record_len = (7, 7);
    });
    let flight = line.shaken(LAST_GET);
    line.send(&flight);
    while !line.hear().0.peer_closed {}
    assert!(line.read.starts_with(b"HTTP/1.1 200"), "{}", line.read.escape_ascii());
    let truth = line.lab.ring.truth();
    assert_eq!((truth.received(), truth.answered(), truth.handed()), (1, 1, 1));
    let [handshake] = truth.handshakes[..] else { panic!("{:?}", truth.handshakes) };
    assert_eq!((handshake.connection, handshake.resumed), (0, false));
    assert!(handshake.handed_ns.is_some());
    assert_eq!(truth.requests[0].target, "/");
}

#[test]
fn a_request_arrives_with_the_record_that_holds_its_last_byte() {
    let mut line = Line::new(|_| {});
    let flight = line.shaken(GET);
    let (all, last) = flight.split_at(flight.len() - 1);
    line.send(all);
    assert_eq!(line.lab.ring.truth().requests, []);
    line.send(last);
    assert_eq!(line.lab.ring.truth().received(), 1);
}

#[test]
fn a_send_that_does_not_wait_tells_only_what_it_could_not_send() {
    let mut lab = Lab::new(|config| {
        config.server.send_buffer = 100;
        config.server.one_way_ns = Delay::Constant(SECOND);
    });
    lab.connected(0);
    let body = "b".repeat(1_000);
    let request =
        format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    lab.request(request.as_bytes());
    let bytes = lab.get;
    let mut now = |from, to| {
        lab.push(Op::SendNow { slot: 0, bytes, from, to }, Kind::SendPooled, 0, SKIP);
        lab.poll()
    };
    assert_eq!(now(0, 60), []);
    assert_eq!(now(60, 200), [done(Kind::SendPooled, 40)]);
    assert_eq!(now(100, 200), [done(Kind::SendPooled, -libc::EAGAIN)]);
}

#[test]
fn sends_out_of_the_pool_are_counted_while_they_are_pending() {
    let mut line = Line::new(|config| config.server.send_buffer = 100);
    let hello = line.hello();
    line.lab.request(&hello);
    let (bytes, to) = (line.lab.get, line.lab.get_len);
    line.lab.push(Op::Send { slot: 0, bytes, from: 0, to }, Kind::SendPooled, 0, PLAIN);
    assert_eq!(line.lab.ring.truth().pending_sends, 1, "it is queued");
    line.lab.wait(1);
    assert_eq!(line.lab.ring.truth().pending_sends, 0);
}

#[test]
#[should_panic(expected = "worker bug: connection 0: what it sends is no TLS")]
fn plaintext_is_a_bug() {
    Line::new(|_| {}).send(GET);
}

#[test]
#[should_panic(expected = "worker bug: connection 0: what it sends is no TLS")]
fn a_second_hello_is_a_bug() {
    let mut line = Line::new(|_| {});
    let hello = line.hello();
    line.send(&hello);
    line.send(&hello);
}

#[test]
#[should_panic(expected = "worker bug: connection 0: what it sends is no TLS")]
fn bytes_that_changed_on_the_way_are_a_bug() {
    let mut line = Line::new(|_| {});
    let mut flight = line.shaken(GET);
    *flight.last_mut().expect("it is not empty") ^= 1;
    line.send(&flight);
}

#[test]
#[should_panic(expected = "worker bug: connection 0: what it sends is no TLS")]
fn records_that_overtake_each_other_are_a_bug() {
    let mut line = Line::new(|_| {});
    let flight = line.shaken(&[]);
    line.send(&flight);
    let first = line.sealed(&GET[..5]);
    let second = line.sealed(&GET[5..]);
    line.send(&second);
    line.send(&first);
}

#[test]
#[should_panic(expected = "worker bug: connection 0: bytes after its own close_notify")]
fn bytes_after_the_end_are_a_bug() {
    let mut line = Line::new(|_| {});
    let mut flight = line.shaken(&[]);
    line.session.close_notify(&mut flight);
    line.send(&flight);
    line.send(&[23, 3, 3, 0, 1, 0]);
}

#[test]
fn a_session_that_the_server_spoiled_may_say_anything() {
    for end in HandshakeEnd::ALL {
        let mut line = Line::new(|config| {
            let tls = config.server.tls.as_mut().expect("it speaks TLS");
            (tls.fails, tls.failures, tls.fails_at) = (1.0, vec![(end, 1)], Some(20));
        });
        let hello = line.hello();
        line.send(&hello);
        line.lab.poll();
        if end != HandshakeEnd::CertificateWanted {
            line.send(&[21, 3, 3, 0, 2, 2, 50]);
        }
        assert_eq!(line.lab.ring.truth().requests, [], "{end:?}");
    }
}
