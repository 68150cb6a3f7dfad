//! The ring in virtual time: a machine, a network and an HTTP server out of one seed.
//!
//! [`SimRing`] does what [`super::Ring`] promises, as Linux 6.1 to 6.18 keep it, at the worst
//! moments that they allow. The same seed and the same worker give the same run, to the last
//! completion ([`Truth::digest`]). A worker that breaks a rule of HTTP or of the ring is told so by
//! a panic that begins with `worker bug`.
//!
//! Where a rule can be tried on any machine, `tests/agreement.rs` tries it on the kernel too.
//!
//! # What is modelled
//!
//! * **Submission** in order. A chain's later links begin in deferred work: within this enter, or
//!   where its wait is satisfied before, within the next. A chain that is split over two submissions
//!   is the worker's bug.
//! * **Deferred work** runs only within an enter (`DEFER_TASKRUN`), in an order that may be
//!   shuffled, and may be left over. A task that waits for many completions is not woken for fewer
//!   pieces of work than that ([`SimConfig::lazy_wake`]), however many completions one of them would
//!   give: waiting for more than one without a timeout can hang.
//! * **Shutdown** runs on a thread of the kernel's (`REQ_F_FORCE_ASYNC`), later than what was
//!   submitted after it, and looks its slot up only then, to find it closed, or another connection
//!   in it, unless what empties the slot is linked behind it. `ENOTCONN`, which it gives on a socket
//!   that was reset, does not fail its links, and is skipped like a success.
//! * **Slots**: closing and replacing do not end what is pending; the socket lives on with it. Before
//!   Linux 6.13 it also lives on with every operation that began before, on *any* slot
//!   ([`SimConfig::serial_release`]): a close there sends no FIN while other receives are armed.
//! * **Receives** into provided buffers: `ENOBUFS`, a cleared `more`, the end of the stream, an error
//!   after the data that came before it, an error reported once. Cancelling, with both outcomes of
//!   each race.
//! * **Sends** of more than the socket takes; two pending ones on one socket interleave; bytes that
//!   change while a send is pending leave as they are then.
//! * **Waiting**: timeouts, minimal waits, signals, `EAGAIN`, a worker that is not run for a while.
//!   A wait that nothing will ever end is a panic, and so is a worker that enters a million times
//!   to no effect.
//! * **TCP** as far as a client sees it: refusals, lost and repeated SYNs, ports in TIME_WAIT, FIN and
//!   RST from both sides, RST for data after a close, a window that does not open.
//! * **TLS** ([`TlsModel`]), 1.2 and 1.3, by a real session: its flights, tickets, changes of keys and
//!   answers leave in records of any length, cut and merged at any byte. A handshake may fail at any
//!   byte of a flight ([`HandshakeEnd`]), and close_notify be left out. What the worker sends must be
//!   what the session takes: plaintext, a second ClientHello, records in another order, or anything
//!   after the close_notify, is the worker's bug. Keys and random bytes differ from run to run;
//!   lengths, and so the run, do not.
//! * **HTTP**: every kind of response in [`ResponseKind`], cut at any byte; keep-alive limits by number
//!   and by time; requests checked to be whole, in turn, and on connections that may carry them.
//!
//! # What is not
//!
//! Listening sockets (`AcceptMulti` gives `EINVAL`); early data, empty records, renegotiation and
//! HelloRetryRequest; a receive window on our side; urgent data; chunked requests; failing allocations in the kernel; several receives that are armed before their
//! socket connects.

mod buffers;
mod config;
mod dice;
mod network;
mod operation;
mod request;
mod response;
mod server;
mod session;
#[cfg(test)]
mod tests;
mod tls;
mod truth;
mod wire;

use std::collections::VecDeque;
use std::io;

use socket2::SockAddr;

pub use config::{Cuts, Faults, ResponseKind, ServerModel, SimConfig};
pub use dice::Delay;
pub use tls::{HandshakeEnd, TlsModel};
pub use truth::{HandshakeTruth, RequestTruth, Truth};
pub use wire::SimClock;

use self::buffers::Buffers;
use self::network::Network;
use self::operation::{Chain, Entry, Epoch, Operation, Work};
use self::truth::Digest;
use super::{
    AddressId, BufferId, BytesId, Completion, Counters, Family, Features, Flags, Op, Ring, Slot,
    SocketOption, Token, Wait,
};
use crate::clock::{Clock, MILLISECOND, Nanos};

/// Enters in a row that neither took nor gave anything, after which the worker hangs.
const IDLE_ENTERS_MAX: u32 = 1_000_000;

struct Address {
    family: Family,
    refused: bool,
}

/// A simulated ring. See the module's text.
pub struct SimRing {
    config: SimConfig,
    net: Network,
    buffers: Buffers,
    slots: Vec<Option<wire::SocketId>>,
    bytes: Vec<Vec<u8>>,
    addresses: Vec<Address>,
    /// The submission queue, and for how many more entries room was reserved.
    queue: Vec<Entry>,
    reserved: u32,
    operations: Vec<Option<Operation>>,
    free_operations: Vec<u32>,
    /// Of the last operation that began.
    serial: u64,
    work: VecDeque<Work>,
    completions: VecDeque<Completion>,
    overflow: VecDeque<Completion>,
    epochs: VecDeque<Epoch>,
    first_epoch: u64,
    counters: Counters,
    idle_enters: u32,
    digest: Digest,
}

impl SimRing {
    /// A ring whose every draw comes from `seed`.
    #[must_use]
    pub fn new(config: SimConfig, seed: u64) -> Self {
        Self {
            net: Network::new(&config, seed),
            buffers: Buffers::new(config.limits.buffers, config.limits.buffer_len),
            slots: vec![None; config.limits.slots as usize],
            bytes: Vec::new(),
            addresses: Vec::new(),
            queue: Vec::new(),
            reserved: 0,
            operations: Vec::new(),
            free_operations: Vec::new(),
            serial: 0,
            work: VecDeque::new(),
            completions: VecDeque::new(),
            overflow: VecDeque::new(),
            epochs: VecDeque::from([Epoch::default()]),
            first_epoch: 0,
            counters: Counters::default(),
            idle_enters: 0,
            digest: Digest(seed),
            config,
        }
    }

    /// The clock that this ring drives.
    #[must_use]
    pub fn clock(&self) -> SimClock {
        self.net.clock.clone()
    }

    /// Nobody listens at this address from now on: connecting to it is refused.
    pub fn refuse(&mut self, address: AddressId) {
        self.addresses[address.0 as usize].refused = true;
    }

    /// Buffers that the worker holds, the unpublished ones included.
    #[must_use]
    pub fn buffers_out(&self) -> u32 {
        self.buffers.out()
    }

    /// What really happened so far, and what is left.
    #[must_use]
    pub fn truth(&self) -> Truth {
        let server = &self.net.server;
        let begun = self.operations.iter().flatten().count();
        let deferred: usize = self.work.iter().map(|work| work.operations()).sum();
        Truth {
            connects: self.net.connects,
            connects_failed: self.net.connects_failed,
            accepted: server.accepted(),
            closed_by_server: server.closed_by_server,
            closed_by_worker: server.closed_by_worker,
            requests: server.requests.clone(),
            handshakes: server.handshakes.clone(),
            bytes_received: server.bytes_received,
            bytes_sent: server.bytes_sent,
            open_sockets: self.net.open_sockets(),
            occupied_slots: self.slots.iter().flatten().count() as u32,
            buffers_out: self.buffers.out(),
            pending_operations: (begun + deferred + self.queue.len()) as u32,
            pending_sends: self.pending_sends(),
            pending_completions: (self.completions.len() + self.overflow.len()) as u32,
            digest: self.digest.0,
        }
    }

    fn pending_sends(&self) -> u32 {
        let begun: usize = self.operations.iter().flatten().map(Operation::sends).sum();
        let deferred: usize = self.work.iter().map(Work::sends).sum();
        let queued = self.queue.iter().filter(|entry| entry.is_pooled_send()).count();
        (begun + deferred + queued) as u32
    }

    /// One `io_uring_enter`: submits, runs what is due, waits.
    fn enter_once(&mut self, want: u32, timeout_ns: Option<Nanos>, min_wait_ns: Nanos) {
        self.counters.enters += 1;
        let passed_ns = self.net.wire.dice.delay(self.config.enter_ns) + self.drawn_stall_ns();
        self.net.clock.advance(passed_ns);
        self.happen();
        while self.completions.len() < self.config.cq_len as usize
            && let Some(completion) = self.overflow.pop_front()
        {
            self.completions.push_back(completion);
        }
        if !self.queue.is_empty() && self.chance(self.config.faults.again) {
            self.trace(|| "enter: EAGAIN".to_owned());
            return;
        }
        let submitted = self.submit();
        if want == 0 {
            self.happen();
            self.run_work(0);
        } else {
            self.wait(want, timeout_ns, min_wait_ns);
        }
        self.guard_progress(submitted, want == 0 || timeout_ns == Some(0));
        let late_ns = self.drawn_stall_ns();
        self.net.clock.advance(late_ns);
        let now = self.net.clock.now();
        self.digest.add(now);
        self.trace(|| format!("{now} enter: want {want}, submitted {submitted}"));
    }

    fn drawn_stall_ns(&mut self) -> Nanos {
        if self.chance(self.config.faults.stall) {
            self.net.wire.dice.delay(self.config.faults.stall_ns)
        } else {
            0
        }
    }

    /// Issues what is queued, chain by chain.
    fn submit(&mut self) -> usize {
        let queue = std::mem::take(&mut self.queue);
        let last = queue.last();
        assert!(
            !last.is_some_and(|entry| entry.flags.link),
            "worker bug: a chain is split over two submissions after {last:?}"
        );
        let mut entries = queue.iter().copied();
        while let Some(head) = entries.next() {
            let mut rest = Chain::new();
            let mut linked = head.flags.link;
            while linked {
                let entry = entries.next().expect("the last entry has no link");
                linked = entry.flags.link;
                rest.push_back(entry);
            }
            self.issue(head, rest);
        }
        let submitted = queue.len();
        self.queue = queue;
        self.queue.clear();
        submitted
    }

    /// Lets the network run up to now, and queues work for what it woke.
    fn happen(&mut self) {
        self.net.run();
        for serial in std::mem::take(&mut self.net.due) {
            self.turn_to(serial);
        }
        let mut woken = std::mem::take(&mut self.net.woken);
        for &socket in &woken {
            for place in 0..self.net.socket(socket).waiting.len() {
                self.wake(self.net.socket(socket).waiting[place]);
            }
        }
        woken.clear();
        self.net.woken = woken;
    }

    /// Runs deferred work; some may be left once there are `need` completions.
    fn run_work(&mut self, need: usize) {
        loop {
            let shuffled = self.work.len() > 1 && self.chance(self.config.faults.shuffle);
            let place = if shuffled { self.net.wire.dice.index(self.work.len()) } else { 0 };
            match self.work.remove(place) {
                None => return,
                Some(Work::Retry { index, .. }) => self.retry(index),
                Some(Work::Post(completion)) => self.post(completion),
                Some(Work::Issue(mut chain)) => {
                    let head = chain.pop_front().expect("a chain that goes on is not empty");
                    self.issue(head, chain);
                }
            }
            let satisfied = self.completions.len() >= need.max(1);
            if satisfied && self.chance(self.config.faults.leave_work) {
                return;
            }
        }
    }

    fn wait(&mut self, want: u32, timeout_ns: Option<Nanos>, min_wait_ns: Nanos) {
        let begun = self.net.clock.now();
        let after = |ns: Nanos| begun.saturating_add(ns);
        let interrupted = self.chance(self.config.faults.interrupt);
        let interrupt = interrupted.then(|| after(self.net.wire.dice.between(0, MILLISECOND)));
        let deadline = timeout_ns.map(after).into_iter().chain(interrupt).min();
        let mut patience = (min_wait_ns > 0).then(|| after(min_wait_ns));
        let mut need = want as usize;
        self.happen();
        self.run_work(need);
        while self.completions.len() < need {
            self.happen();
            if self.is_woken(need) {
                self.run_work(need);
                continue;
            }
            let now = self.net.clock.now();
            if deadline.is_some_and(|at| at <= now) {
                self.run_work(need);
                return;
            }
            if patience.is_some_and(|at| at <= now) {
                patience = None;
                need = 1;
                self.run_work(need);
                continue;
            }
            let next = self.net.next_at().into_iter().chain(deadline).chain(patience).min();
            let Some(next) = next else { self.deadlock(want) };
            self.net.clock.advance_to(next);
        }
        let late_ns = self.net.wire.dice.delay(self.config.wake_ns);
        self.net.clock.advance(late_ns);
    }

    /// Whether the kernel wakes the task that waits for `need` completions.
    fn is_woken(&mut self, need: usize) -> bool {
        !self.work.is_empty()
            && (!self.config.lazy_wake
                || self.completions.len() + self.work.len() >= need
                || self.work.iter().any(Work::wakes_at_once)
                || self.chance(self.config.faults.eager_wake))
    }

    #[cold]
    fn deadlock(&self, want: u32) -> ! {
        let truth = self.truth();
        panic!(
            "worker bug: deadlock at {} ns: it waits for {want} completions without a timeout, has \
             {}, and nothing will ever happen; {} operations pending, {} slots occupied, {} buffers \
             out",
            self.net.clock.now(),
            truth.pending_completions,
            truth.pending_operations,
            truth.occupied_slots,
            truth.buffers_out
        );
    }

    /// Makes polling take time, and a worker that polls for ever fail.
    fn guard_progress(&mut self, submitted: usize, polls: bool) {
        if submitted > 0 || !self.completions.is_empty() {
            self.idle_enters = 0;
            return;
        }
        if polls {
            self.net.clock.advance(self.config.poll_ns);
        }
        self.idle_enters += 1;
        assert!(
            self.idle_enters < IDLE_ENTERS_MAX,
            "worker bug: {IDLE_ENTERS_MAX} enters in a row submitted nothing and brought nothing"
        );
    }

    fn post(&mut self, completion: Completion) {
        self.digest.add(completion.token.bits());
        self.digest.add(completion.result as u64 ^ u64::from(completion.more) << 63);
        self.trace(|| format!("{} {completion:?}", self.net.clock.now()));
        if self.completions.len() < self.config.cq_len as usize {
            self.completions.push_back(completion);
        } else {
            self.counters.cq_overflows += 1;
            self.overflow.push_back(completion);
        }
    }

    fn trace(&self, line: impl FnOnce() -> String) {
        if self.config.trace {
            eprintln!("{}", line());
        }
    }
}

impl Ring for SimRing {
    fn features(&self) -> Features {
        self.config.features
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn scratch_len(&self) -> u32 {
        self.config.limits.scratch_len
    }

    fn add_bytes(&mut self, bytes: Vec<u8>) -> BytesId {
        self.bytes.push(bytes);
        BytesId(self.bytes.len() as u32 - 1)
    }

    fn bytes_mut(&mut self, id: BytesId) -> &mut [u8] {
        &mut self.bytes[id.0 as usize]
    }

    fn add_address(&mut self, address: &SockAddr) -> AddressId {
        assert!(self.queue.is_empty(), "worker bug: addresses are given before operations");
        let family = match i32::from(address.family()) {
            libc::AF_INET => Family::V4,
            libc::AF_INET6 => Family::V6,
            libc::AF_UNIX => Family::Unix,
            other => panic!("worker bug: an address of family {other}"),
        };
        self.addresses.push(Address { family, refused: false });
        AddressId(self.addresses.len() as u32 - 1)
    }

    fn reserve(&mut self, n: u32) -> io::Result<()> {
        assert!(
            n <= self.config.sq_len,
            "worker bug: a chain of {n} does not fit a submission queue of {}",
            self.config.sq_len
        );
        while self.queue.len() as u32 + n > self.config.sq_len {
            self.enter_once(0, None, 0);
        }
        self.reserved = self.reserved.max(n).min(self.config.sq_len - self.queue.len() as u32);
        Ok(())
    }

    fn queued(&self) -> u32 {
        self.queue.len() as u32
    }

    fn sq_len(&self) -> u32 {
        self.config.sq_len
    }

    fn push(&mut self, op: Op, token: Token, flags: Flags) {
        assert!(self.reserved > 0, "worker bug: {op:?} is pushed without room reserved");
        self.reserved -= 1;
        let features = self.config.features;
        match op {
            Op::SetOption { .. } => assert!(features.socket_options, "worker bug: no {op:?} here"),
            Op::Bind { .. } => assert!(features.bind, "worker bug: no {op:?} here"),
            Op::ReceiveMulti { .. } | Op::Receive { .. } => {
                assert!(!flags.skip_success, "worker bug: {op:?} would hide its buffers");
            }
            Op::Discard { len, .. } => assert!(
                (1..=self.config.limits.scratch_len).contains(&len),
                "worker bug: {op:?} with a scratch of {} bytes",
                self.config.limits.scratch_len
            ),
            Op::Send { from, to, .. } | Op::SendNow { from, to, .. } => {
                assert!(from < to, "worker bug: {op:?} sends nothing");
            }
            _ => {}
        }
        self.digest.add(token.bits());
        self.trace(|| format!("{} {op:?} {flags:?} {token:?}", self.net.clock.now()));
        self.queue.push(Entry { op, token, flags });
    }

    fn install(
        &mut self,
        slot: Slot,
        family: Family,
        options: &[SocketOption],
        source: Option<AddressId>,
    ) -> io::Result<()> {
        if self.chance(self.config.faults.socket) {
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        let mut result = self.make_socket(slot, family);
        for &option in options {
            if result == 0 {
                let socket = self.slots[slot as usize].expect("it was just made");
                result = self.net.set_option(socket, option);
            }
        }
        if let Some(source) = source
            && result == 0
        {
            result = self.bind(slot, source);
        }
        if result == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-result)) }
    }

    fn enter(&mut self, wait: Wait) -> io::Result<()> {
        self.reserved = 0;
        // As the kernel's ring does it, with and without the feature.
        let batch = wait.want > 1 && wait.min_wait_ns > 0;
        if batch && !self.config.features.min_wait {
            self.enter_once(wait.want, Some(wait.min_wait_ns), 0);
            if self.completions.is_empty() {
                self.enter_once(1, wait.timeout_ns, 0);
            }
            return Ok(());
        }
        let min_wait_ns = if batch { wait.min_wait_ns } else { 0 };
        self.enter_once(wait.want, wait.timeout_ns, min_wait_ns);
        Ok(())
    }

    fn next(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    fn received(&self, buffer: BufferId, len: usize) -> &[u8] {
        self.buffers.bytes(buffer, len)
    }

    fn received_mut(&mut self, buffer: BufferId, len: usize) -> &mut [u8] {
        self.buffers.bytes_mut(buffer, len)
    }

    fn recycle(&mut self, buffer: BufferId) {
        self.buffers.recycle(buffer);
    }

    fn publish(&mut self) {
        self.buffers.publish();
    }
}
