//! The same steps over the kernel's ring and over the simulated one: this machine's kernel keeps
//! the rules that the simulation claims for it.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use socket2::SockRef;

use super::super::super::kernel::KernelRing;
use super::*;

const LONG: Wait = Wait { want: 1, timeout_ns: Some(2_000_000_000), min_wait_ns: 0 };

/// What completed, of a result only whether it is positive where it is.
type Seen = Vec<(Kind, i32, bool)>;

struct Steps<R> {
    ring: R,
    address: AddressId,
    get: BytesId,
    seen: Seen,
}

impl<R: Ring> Steps<R> {
    fn push(&mut self, op: Op, kind: Kind, flags: Flags) {
        self.ring.reserve(4).expect("room");
        self.ring.push(op, Token::new(kind, 0, 0), flags);
    }

    /// Enters until there were `count` completions more.
    fn await_completions(&mut self, count: usize) {
        let until = self.seen.len() + count;
        while self.seen.len() < until {
            self.ring.enter(LONG).expect("entering succeeds");
            let before = self.seen.len();
            while let Some(completion) = self.ring.next() {
                let Completion { token, result, more, buffer } = completion;
                if let Some(buffer) = buffer {
                    self.ring.recycle(buffer);
                }
                self.seen.push((token.kind(), result.min(1), more));
            }
            self.ring.publish();
            assert!(self.seen.len() > before, "nothing came after {:?}", self.seen);
        }
    }

    fn connect(&mut self) {
        let address = self.address;
        self.push(Op::Socket { slot: 0, family: Family::V4 }, Kind::Socket, LINK_SKIP);
        self.push(Op::Connect { slot: 0, address }, Kind::Connect, PLAIN);
        self.await_completions(1);
    }

    fn send(&mut self) {
        let to = GET.len() as u32;
        self.push(Op::Send { slot: 0, bytes: self.get, from: 0, to }, Kind::Send, SKIP);
    }

    fn shutdown(&mut self, flags: Flags) {
        self.push(Op::Shutdown { slot: 0 }, Kind::Shutdown, flags);
    }
}

/// A server that answers the first request of each connection with some bytes and then with RST.
/// It ends with the process.
fn resetting_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut request = [0; GET.len()];
            // The client may leave without a request.
            if stream.read_exact(&mut request).is_ok() {
                stream.write_all(b"HTTP/1.1").expect("it writes");
                std::thread::sleep(Duration::from_millis(20));
                SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("it lingers");
            }
        }
    });
    address
}

fn over_kernel(steps: fn(&mut Steps<KernelRing>)) -> Seen {
    let mut ring = KernelRing::new(LIMITS, KernelRing::probe().expect("io_uring")).expect("a ring");
    let address = ring.add_address(&resetting_server().into());
    let get = ring.add_bytes(GET.to_vec());
    let mut run = Steps { ring, address, get, seen: Vec::new() };
    steps(&mut run);
    run.seen
}

fn over_simulation(steps: fn(&mut Steps<SimRing>)) -> Seen {
    let mut model = ServerModel::exact(SERVICE_NS);
    model.kinds = vec![(ResponseKind::Reset, 1)];
    model.body_len = (40, 40);
    let mut ring = SimRing::new(SimConfig::exact(LIMITS, model), 1);
    let address = ring.add_address(&SocketAddr::from(([127, 0, 0, 1], 80)).into());
    let get = ring.add_bytes(GET.to_vec());
    let mut run = Steps { ring, address, get, seen: Vec::new() };
    steps(&mut run);
    run.seen
}

fn data_then_reset<R: Ring>(run: &mut Steps<R>) {
    run.connect();
    run.push(Op::ReceiveMulti { slot: 0 }, Kind::ReceiveMulti, PLAIN);
    run.send();
    run.await_completions(2);
    run.push(Op::Receive { slot: 0, len: 0 }, Kind::Receive, PLAIN);
    run.await_completions(1);
}

fn discard_then_reset<R: Ring>(run: &mut Steps<R>) {
    run.connect();
    run.push(Op::Discard { slot: 0, len: 1_000 }, Kind::Discard, LINK);
    run.push(Op::Close { slot: 5 }, Kind::Close, SKIP);
    run.send();
    run.await_completions(2);
    run.push(Op::Receive { slot: 0, len: 0 }, Kind::Receive, PLAIN);
    run.await_completions(1);
}

fn shutdown_after_reset<R: Ring>(run: &mut Steps<R>) {
    run.connect();
    run.push(Op::ReceiveMulti { slot: 0 }, Kind::ReceiveMulti, PLAIN);
    run.send();
    run.await_completions(2);
    run.shutdown(PLAIN);
    run.await_completions(1);
    run.send();
    run.await_completions(1);
    run.shutdown(LINK_SKIP);
    run.push(Op::Close { slot: 0 }, Kind::Close, PLAIN);
    run.await_completions(1);
    run.shutdown(LINK_SKIP);
    run.push(Op::Close { slot: 0 }, Kind::Close, PLAIN);
    run.await_completions(1);
}

fn unconnected<R: Ring>(run: &mut Steps<R>) {
    run.push(Op::Socket { slot: 0, family: Family::V4 }, Kind::Socket, PLAIN);
    run.send();
    run.push(Op::Receive { slot: 0, len: 0 }, Kind::Receive, PLAIN);
    run.await_completions(3);
    run.shutdown(PLAIN);
    run.await_completions(1);
    run.push(Op::ReceiveMulti { slot: 0 }, Kind::ReceiveMulti, PLAIN);
    run.await_completions(1);
    run.connect();
}

fn close_over_a_receive<R: Ring>(run: &mut Steps<R>) {
    let cancel = Op::Cancel { token: Token::new(Kind::ReceiveMulti, 0, 0) };
    run.connect();
    run.push(Op::ReceiveMulti { slot: 0 }, Kind::ReceiveMulti, PLAIN);
    run.push(Op::Close { slot: 0 }, Kind::Close, PLAIN);
    run.await_completions(1);
    run.push(cancel, Kind::Cancel, PLAIN);
    run.await_completions(2);
    run.push(cancel, Kind::Cancel, SKIP);
    run.await_completions(1);
    run.connect();
    run.push(Op::ReceiveMulti { slot: 0 }, Kind::ReceiveMulti, PLAIN);
    run.shutdown(SKIP);
    run.await_completions(1);
}

fn shutdown_beside_a_close<R: Ring>(run: &mut Steps<R>) {
    run.connect();
    run.shutdown(PLAIN);
    run.push(Op::Close { slot: 0 }, Kind::Close, SKIP);
    run.await_completions(1);
}

#[test]
fn bytes_before_a_reset_are_read_and_its_error_reported_once() {
    let seen = over_kernel(data_then_reset);
    assert_eq!(seen, over_simulation(data_then_reset));
}

#[test]
fn a_discard_before_a_reset_gives_its_bytes() {
    let seen = over_kernel(discard_then_reset);
    assert_eq!(seen, over_simulation(discard_then_reset));
}

#[test]
fn a_shutdown_after_a_reset_is_refused_and_does_not_break_its_chain() {
    let seen = over_kernel(shutdown_after_reset);
    assert_eq!(seen, over_simulation(shutdown_after_reset));
}

#[test]
fn an_unconnected_socket_refuses_what_it_must() {
    let seen = over_kernel(unconnected);
    assert_eq!(seen, over_simulation(unconnected));
}

#[test]
fn a_closed_slot_keeps_its_receive_until_it_is_cancelled() {
    let seen = over_kernel(close_over_a_receive);
    assert_eq!(seen, over_simulation(close_over_a_receive));
}

#[test]
fn a_shutdown_finds_the_slot_as_the_close_behind_it_left_it() {
    let simulated = over_simulation(shutdown_beside_a_close);
    assert_eq!(simulated[1..], [(Kind::Shutdown, -libc::EBADF, false)]);
    // The kernel's thread is late as a rule, not always.
    let found = (0..20).filter(|_| over_kernel(shutdown_beside_a_close) == simulated).count();
    assert!(found > 0, "the kernel never looks the slot up late");
}
