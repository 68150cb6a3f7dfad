//! One small test for each rule of the model, and a naive client over many seeds.

mod agreement;
mod links;
mod network;
mod receiving;
mod seeds;
mod tls;
mod waiting;

use std::net::SocketAddr;

use super::super::{Kind, Limits};
use super::*;

const LIMITS: Limits = Limits { slots: 8, buffers: 8, buffer_len: 64, scratch_len: 1_000 };
const PLAIN: Flags = Flags { link: false, skip_success: false };
const LINK: Flags = Flags { link: true, skip_success: false };
const SKIP: Flags = Flags { link: false, skip_success: true };
const LINK_SKIP: Flags = Flags { link: true, skip_success: true };
const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";
const LAST_GET: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
/// The service time of the exact server.
const SERVICE_NS: Nanos = 1_000;

/// A ring with an address and a request.
struct Lab {
    ring: SimRing,
    clock: SimClock,
    address: AddressId,
    get: BytesId,
    get_len: u32,
}

impl Lab {
    /// The exact machine, after `change`.
    fn new(change: impl FnOnce(&mut SimConfig)) -> Self {
        let mut config = SimConfig::exact(LIMITS, ServerModel::exact(SERVICE_NS));
        change(&mut config);
        Self::with(config, 1)
    }

    fn with(config: SimConfig, seed: u64) -> Self {
        let mut ring = SimRing::new(config, seed);
        let address = ring.add_address(&SocketAddr::from(([127, 0, 0, 1], 80)).into());
        let get = ring.add_bytes(GET.to_vec());
        Self { clock: ring.clock(), ring, address, get, get_len: GET.len() as u32 }
    }

    /// Sends this from now on in place of the plain request.
    fn request(&mut self, bytes: &[u8]) {
        self.get = self.ring.add_bytes(bytes.to_vec());
        self.get_len = bytes.len() as u32;
    }

    fn push(&mut self, op: Op, kind: Kind, slot: Slot, flags: Flags) {
        self.ring.reserve(1).expect("room");
        self.ring.push(op, Token::new(kind, 0, slot), flags);
    }

    fn socket(&mut self, slot: Slot, flags: Flags) {
        self.push(Op::Socket { slot, family: Family::V4 }, Kind::Socket, slot, flags);
    }

    fn connect(&mut self, slot: Slot, flags: Flags) {
        let address = self.address;
        self.push(Op::Connect { slot, address }, Kind::Connect, slot, flags);
    }

    fn send(&mut self, slot: Slot, flags: Flags) {
        let (bytes, to) = (self.get, self.get_len);
        self.push(Op::Send { slot, bytes, from: 0, to }, Kind::Send, slot, flags);
    }

    fn receive_multi(&mut self, slot: Slot) {
        self.push(Op::ReceiveMulti { slot }, Kind::ReceiveMulti, slot, PLAIN);
    }

    fn receive(&mut self, slot: Slot) {
        self.push(Op::Receive { slot, len: 0 }, Kind::Receive, slot, PLAIN);
    }

    fn discard(&mut self, slot: Slot, len: u32, flags: Flags) {
        self.push(Op::Discard { slot, len }, Kind::Discard, slot, flags);
    }

    fn cancel(&mut self, kind: Kind, slot: Slot) {
        let token = Token::new(kind, 0, slot);
        self.push(Op::Cancel { token }, Kind::Cancel, slot, PLAIN);
    }

    fn shutdown(&mut self, slot: Slot, flags: Flags) {
        self.push(Op::Shutdown { slot }, Kind::Shutdown, slot, flags);
    }

    fn close(&mut self, slot: Slot, flags: Flags) {
        self.push(Op::Close { slot }, Kind::Close, slot, flags);
    }

    /// Makes and connects a socket.
    fn connected(&mut self, slot: Slot) {
        self.socket(slot, LINK_SKIP);
        self.connect(slot, PLAIN);
        assert_eq!(self.wait(1), [done(Kind::Connect, 0)]);
    }

    /// Enters until there are `want` completions, and gives them without their buffers, which go
    /// back.
    fn wait(&mut self, want: u32) -> Vec<Done> {
        self.enter(Wait { want, timeout_ns: None, min_wait_ns: 0 })
    }

    fn poll(&mut self) -> Vec<Done> {
        self.enter(Wait::POLL)
    }

    fn enter(&mut self, wait: Wait) -> Vec<Done> {
        self.ring.enter(wait).expect("entering succeeds");
        let mut all = Vec::new();
        while let Some(completion) = self.ring.next() {
            if let Some(buffer) = completion.buffer {
                self.ring.recycle(buffer);
            }
            let Completion { token, result, more, .. } = completion;
            all.push(Done { kind: token.kind(), result, more });
        }
        self.ring.publish();
        all
    }
}

/// What a test looks at of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Done {
    kind: Kind,
    result: i32,
    more: bool,
}

fn done(kind: Kind, result: i32) -> Done {
    Done { kind, result, more: false }
}

fn more(kind: Kind, result: i32) -> Done {
    Done { kind, result, more: true }
}
