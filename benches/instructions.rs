//! Work to count instructions of, which do not depend on the machine's mood: the response scanner,
//! and a worker's pass over a ring that answers at once. `scripts/count-instructions` runs it under
//! callgrind with two counts; the difference is the price of one.
//!
//! `instructions scan|scan-chunked|pass COUNT`

use std::hint::black_box;

use ringload::clock::{Clock, Nanos};
use ringload::engine::assignment::{Assignment, Demand, EncodedPage};
use ringload::engine::worker::{StopFlag, Worker};
use ringload::http1::response::Scanner;
use ringload::plan::{Profile, Ratio};
use ringload::ring::{
    AddressId, BufferId, BytesId, Completion, Counters, Family, Features, Flags, Kind, Op, Ring,
    Slot, SocketOption, Token, Wait,
};
use ringload::stats::Recorder;
use ringload::stats::recorder::Settings;
use socket2::SockAddr;

const SLOTS: u32 = 64;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    // `cargo test` and `cargo bench` call it with flags of their own.
    let [_, what, count] = &arguments[..] else { return };
    let Ok(count) = count.parse::<u64>() else { return };
    match what.as_str() {
        "scan" => scan(&response(), count),
        "scan-chunked" => scan(&chunked(), count),
        "pass" => pass(count),
        other => panic!("{other:?} is none of scan, scan-chunked and pass"),
    }
}

/// As nginx answers a small page.
fn response() -> Vec<u8> {
    let mut bytes =
        b"HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Mon, 30 Nov 2026 22:00:00 GMT\r\n\
        Content-Type: text/html\r\nContent-Length: 700\r\nLast-Modified: Mon, 30 Nov 2026 21:00:00 \
        GMT\r\nConnection: keep-alive\r\nETag: \"656900a0-2bc\"\r\nAccept-Ranges: bytes\r\n\r\n"
            .to_vec();
    bytes.resize(bytes.len() + 700, b'x');
    bytes
}

fn chunked() -> Vec<u8> {
    let mut bytes =
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"
            .to_vec();
    for _ in 0..7 {
        bytes.extend_from_slice(b"64\r\n");
        bytes.resize(bytes.len() + 100, b'x');
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}

fn scan(bytes: &[u8], count: u64) {
    let mut carry = Vec::new();
    for _ in 0..count {
        let mut scanner = Scanner::new(false);
        let step = scanner.feed(&mut carry, black_box(bytes));
        assert!(step.is_ok());
        black_box(&scanner);
    }
}

/// A worker that makes `count` requests on 64 connections.
fn pass(count: u64) {
    let page = EncodedPage {
        keep: b"GET / HTTP/1.1\r\nHost: h\r\n\r\n".to_vec(),
        close: b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".to_vec(),
        head: false,
        idempotent: true,
        weight: 1,
    };
    let demand = Demand::Closed { places: Profile::constant(Ratio::whole(u64::from(SLOTS))) };
    let plan = Assignment {
        requests: Some(count),
        slots: SLOTS,
        ..Assignment::of_page(page, ([127, 0, 0, 1], 80).into(), demand)
    };
    let settings = Settings { pages: 1, start_ns: 0, end_ns: None, open_model: false };
    let (recorder, _seconds) = Recorder::new(settings);
    let stop = StopFlag::new(0);
    let worker = Worker::new(plan, Echo::new(), Still, &stop, recorder);
    let (outcome, _ring) = worker.run(0).expect("this ring never fails");
    assert_eq!(outcome.stats.completed, count);
}

/// A clock that stands still.
struct Still;

impl Clock for Still {
    fn now(&self) -> Nanos {
        0
    }
}

/// A ring that connects at once and has the response to each send ready at the next enter.
struct Echo {
    response: Vec<u8>,
    ready: Vec<Completion>,
    bytes: u32,
    addresses: u32,
    /// The receive that is armed in each slot.
    armed: Vec<Option<Token>>,
    sent: Vec<Slot>,
}

impl Echo {
    fn new() -> Self {
        Self {
            response: response(),
            ready: Vec::new(),
            bytes: 0,
            addresses: 0,
            armed: vec![None; SLOTS as usize],
            sent: Vec::new(),
        }
    }
}

impl Ring for Echo {
    fn features(&self) -> Features {
        Features { socket_options: true, bind: true, ..Features::default() }
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }

    fn scratch_len(&self) -> u32 {
        0
    }

    fn add_bytes(&mut self, _bytes: Vec<u8>) -> BytesId {
        self.bytes += 1;
        BytesId(self.bytes - 1)
    }

    fn bytes_mut(&mut self, _id: BytesId) -> &mut [u8] {
        &mut []
    }

    fn add_address(&mut self, _address: &SockAddr) -> AddressId {
        self.addresses += 1;
        AddressId(self.addresses - 1)
    }

    fn reserve(&mut self, _n: u32) -> std::io::Result<()> {
        Ok(())
    }

    fn queued(&self) -> u32 {
        0
    }

    fn sq_len(&self) -> u32 {
        256
    }

    fn push(&mut self, op: Op, token: Token, _flags: Flags) {
        match op {
            Op::Connect { .. } => {
                self.ready.push(Completion { token, result: 0, more: false, buffer: None });
            }
            Op::Send { slot, .. } => self.sent.push(slot),
            Op::ReceiveMulti { slot } => self.armed[slot as usize] = Some(token),
            _ => {}
        }
    }

    fn install(
        &mut self,
        _slot: Slot,
        _family: Family,
        _options: &[SocketOption],
        _source: Option<AddressId>,
    ) -> std::io::Result<()> {
        Ok(())
    }

    fn enter(&mut self, _wait: Wait) -> std::io::Result<()> {
        // Taken from the end: connects come out last in, first out, before any answer.
        let connects = std::mem::take(&mut self.ready);
        for slot in self.sent.drain(..) {
            let token = self.armed[slot as usize].expect("a receive is armed with each send");
            assert_eq!(token.kind(), Kind::ReceiveMulti);
            let result = self.response.len() as i32;
            self.ready.push(Completion { token, result, more: true, buffer: Some(BufferId(0)) });
        }
        self.ready.extend(connects);
        Ok(())
    }

    fn next(&mut self) -> Option<Completion> {
        self.ready.pop()
    }

    fn received(&self, _buffer: BufferId, len: usize) -> &[u8] {
        &self.response[..len]
    }

    fn received_mut(&mut self, _buffer: BufferId, len: usize) -> &mut [u8] {
        &mut self.response[..len]
    }

    fn recycle(&mut self, _buffer: BufferId) {}

    fn publish(&mut self) {}
}
