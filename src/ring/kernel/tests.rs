use std::io::{Read, Write};
use std::net::TcpListener;

use super::super::Kind;
use super::*;

const LIMITS: Limits = Limits { slots: 8, buffers: 8, buffer_len: 4096, scratch_len: 1 << 16 };
const SECOND_LONG: Wait = Wait { want: 1, timeout_ns: Some(SECOND), min_wait_ns: 0 };

fn ring() -> KernelRing {
    KernelRing::new(LIMITS, KernelRing::probe().expect("io_uring")).expect("a ring")
}

fn open(ring: &mut KernelRing, address: AddressId, bytes: BytesId, len: u32) {
    let skip = Flags { link: true, skip_success: true };
    let token = |kind| Token::new(kind, 7, 3);
    ring.reserve(4).unwrap();
    ring.push(Op::Socket { slot: 3, family: Family::V4 }, token(Kind::Socket), skip);
    let link = Flags { link: true, skip_success: false };
    ring.push(Op::Connect { slot: 3, address }, token(Kind::Connect), link);
    ring.push(Op::Send { slot: 3, bytes, from: 0, to: len }, token(Kind::Send), skip);
    ring.push(Op::ReceiveMulti { slot: 3 }, token(Kind::ReceiveMulti), Flags::default());
}

fn drain(ring: &mut KernelRing, count: usize) -> Vec<Completion> {
    let mut found = Vec::new();
    for _ in 0..10 {
        if found.len() >= count {
            break;
        }
        ring.enter(SECOND_LONG).unwrap();
        while let Some(completion) = ring.next() {
            found.push(completion);
        }
    }
    found
}

#[test]
fn a_chain_connects_sends_and_receives() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 4];
        stream.read_exact(&mut request).unwrap();
        stream.write_all(b"pong!").unwrap();
        request
    });
    let mut ring = ring();
    let bytes = ring.add_bytes(b"ping".to_vec());
    let address = ring.add_address(&address.into());
    open(&mut ring, address, bytes, 4);
    let found = drain(&mut ring, 3);
    assert_eq!(&server.join().unwrap(), b"ping");
    assert_eq!(found[0].token, Token::new(Kind::Connect, 7, 3));
    assert_eq!((found[0].result, found[1].result, found[1].more), (0, 5, true));
    let buffer = found[1].buffer.unwrap();
    assert_eq!(ring.received(buffer, 5), b"pong!");
    ring.recycle(buffer);
    ring.publish();
    assert_eq!((found[2].result, found[2].more), (0, false), "the end of the stream");
    assert_eq!(ring.counters().cq_overflows, 0);
}

#[test]
fn a_refused_connect_cancels_the_rest_of_its_chain() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut ring = ring();
    let bytes = ring.add_bytes(b"ping".to_vec());
    let address = ring.add_address(&closed.into());
    open(&mut ring, address, bytes, 4);
    let found = drain(&mut ring, 3);
    let seen: Vec<_> = found.iter().map(|c| (c.token.kind(), c.result)).collect();
    assert_eq!(
        seen,
        [
            (Kind::Connect, -libc::ECONNREFUSED),
            (Kind::Send, -libc::ECANCELED),
            (Kind::ReceiveMulti, -libc::ECANCELED)
        ]
    );
}

#[test]
fn a_send_that_may_not_wait_says_only_what_it_could_not_send() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut ring = ring();
    let len = 64 << 20;
    let bytes = ring.add_bytes(vec![7; len as usize]);
    let address = ring.add_address(&listener.local_addr().unwrap().into());
    open(&mut ring, address, bytes, 4);
    drain(&mut ring, 1);
    let _peer = listener.accept().unwrap();
    let mut send_now = |to| {
        let quiet = Flags { link: false, skip_success: true };
        ring.reserve(1).unwrap();
        let op = Op::SendNow { slot: 3, bytes, from: 0, to };
        ring.push(op, Token::new(Kind::Send, 8, 3), quiet);
        ring.enter(Wait::POLL).unwrap();
        std::iter::from_fn(|| ring.next()).map(|completion| completion.result).collect()
    };
    let all: Vec<i32> = send_now(100);
    let part: Vec<i32> = send_now(len);
    let none: Vec<i32> = send_now(len);
    assert!(all.is_empty(), "{all:?}");
    assert!(part.len() == 1 && part[0] > 0 && part[0] < len as i32, "{part:?}");
    assert_eq!(none, [-libc::EAGAIN]);
}

#[test]
fn a_dropped_ring_closes_its_sockets() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut ring = ring();
    let bytes = ring.add_bytes(b"ping".to_vec());
    let address = ring.add_address(&listener.local_addr().unwrap().into());
    open(&mut ring, address, bytes, 4);
    drain(&mut ring, 1);
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
    drop(ring);
    let ended = stream.read_to_end(&mut Vec::new());
    ended.expect("the end of the stream, and no timeout");
}

#[test]
fn a_wait_ends_at_its_timeout_and_polling_does_not_wait() {
    let mut ring = ring();
    let start = std::time::Instant::now();
    ring.enter(Wait { want: 1, timeout_ns: Some(20_000_000), min_wait_ns: 0 }).unwrap();
    assert!(start.elapsed() >= std::time::Duration::from_millis(20));
    let enters = ring.counters().enters;
    ring.enter(Wait::POLL).unwrap();
    assert_eq!(ring.counters().enters, enters, "nothing to do, no system call");
    assert_eq!(ring.next(), None);
}
