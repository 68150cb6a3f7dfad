//! Operations from their submission to their completion: links, retries, cancelling, and what
//! holds a socket alive.

use std::collections::VecDeque;

use super::super::{
    AddressId, BufferId, BytesId, Completion, Family, Flags, Kind, Op, Slot, Token,
};
use super::SimRing;
use super::network::Outcome;
use super::wire::{SocketId, What};
use crate::clock::Clock;

/// One entry of the submission queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub op: Op,
    pub token: Token,
    pub flags: Flags,
}

impl Entry {
    /// A send out of the worker's pool, which has a completion of its own.
    pub(super) fn is_pooled_send(&self) -> bool {
        matches!(self.op, Op::Send { .. }) && self.token.kind() == Kind::SendPooled
    }
}

/// The rest of a chain of linked entries.
pub(super) type Chain = VecDeque<Entry>;

/// An operation that has begun and not ended.
pub(super) struct Operation {
    serial: u64,
    entry: Entry,
    rest: Chain,
    socket: Option<SocketId>,
    /// Bytes sent or thrown away so far.
    done: u32,
    cancelled: bool,
    /// It is in the work queue.
    queued: bool,
    epoch: u64,
}

/// Deferred work, which runs within an enter.
pub(super) enum Work {
    /// The operation at this index may get further. `lazy`: nothing is linked to it.
    Retry {
        index: u32,
        lazy: bool,
    },
    /// The next of a chain begins.
    Issue(Chain),
    Post(Completion),
}

impl Work {
    /// Sends out of the pool among the operations that have yet to begin.
    pub(super) fn sends(&self) -> usize {
        match self {
            Self::Issue(chain) => chain.iter().filter(|entry| entry.is_pooled_send()).count(),
            Self::Retry { .. } | Self::Post(_) => 0,
        }
    }

    /// Whether the kernel wakes the waiting task for it alone.
    pub(super) fn wakes_at_once(&self) -> bool {
        !matches!(self, Self::Retry { lazy: true, .. })
    }

    /// Operations that have yet to begin, or whose completion is yet to be posted.
    pub(super) fn operations(&self) -> usize {
        match self {
            Self::Retry { .. } => 0,
            Self::Issue(chain) => chain.len(),
            Self::Post(_) => 1,
        }
    }
}

/// The end of an operation.
struct End {
    result: i32,
    failed: bool,
    buffer: Option<BufferId>,
}

impl End {
    fn result(result: i32) -> Self {
        Self { result, failed: result < 0, buffer: None }
    }

    fn errno(errno: i32) -> Self {
        Self::result(-errno)
    }

    /// The end of what moves `len` bytes whole or not at all (`MSG_WAITALL`): a part counts, and
    /// the error that cut it short is lost; the links fail all the same.
    fn partial(done: u32, errno: i32) -> Self {
        if done > 0 {
            Self { result: done as i32, failed: true, buffer: None }
        } else {
            Self { failed: true, ..Self::errno(errno) }
        }
    }
}

/// Files that were removed while the operations of one epoch were pending (`io_rsrc_node`).
#[derive(Default)]
pub(super) struct Epoch {
    live: u32,
    removed: Vec<SocketId>,
}

impl Operation {
    /// Sends out of the pool, it or what is linked to it.
    pub(super) fn sends(&self) -> usize {
        let entries = std::iter::once(&self.entry).chain(&self.rest);
        entries.filter(|entry| entry.is_pooled_send()).count()
    }
}

impl SimRing {
    /// Begins an operation; `rest` is linked to it.
    pub(super) fn issue(&mut self, entry: Entry, rest: Chain) {
        self.serial += 1;
        let operation = Operation {
            serial: self.serial,
            entry,
            rest,
            socket: None,
            done: 0,
            cancelled: false,
            queued: false,
            epoch: 0,
        };
        let result = match entry.op {
            Op::Socket { slot, family } => self.make_socket(slot, family),
            Op::SetOption { slot, option } => match self.occupant(slot) {
                Some(_) if self.chance(self.config.faults.option) => -libc::ENOMEM,
                Some(socket) => self.net.set_option(socket, option),
                None => -libc::EBADF,
            },
            Op::Bind { slot, source } => self.bind(slot, source),
            Op::Cancel { token } => self.cancel(token),
            Op::Close { slot } => self.close(slot),
            // No socket here ever listens.
            Op::AcceptMulti { listener } => {
                -self.occupant(listener).map_or(libc::EBADF, |_| libc::EINVAL)
            }
            Op::SendNow { slot, bytes, from, to } => {
                let end = match self.occupant(slot) {
                    Some(socket) => self.send_now(socket, bytes, from, to),
                    None => End::errno(libc::EBADF),
                };
                self.conclude(operation, end);
                return;
            }
            // The server's alone, and no server runs on this ring.
            Op::ShutdownWrite { .. } => -libc::EOPNOTSUPP,
            // The kernel runs it on a thread of its own, and looks at the slot only then.
            Op::Shutdown { .. } => {
                let serial = operation.serial;
                let delay_ns = self.net.wire.dice.delay(self.config.worker_thread_ns);
                let at = self.net.clock.now() + delay_ns;
                self.net.wire.schedule(at, What::Operation { serial });
                self.keep(operation);
                return;
            }
            Op::Connect { slot, .. }
            | Op::Send { slot, .. }
            | Op::ReceiveMulti { slot }
            | Op::Receive { slot, .. }
            | Op::Discard { slot, .. } => {
                if let Some(socket) = self.occupant(slot) {
                    self.begin(operation, socket);
                    return;
                }
                -libc::EBADF
            }
        };
        self.conclude(operation, End::result(result));
    }

    /// What the socket takes at once; less than all is a failure.
    fn send_now(&mut self, socket: SocketId, bytes: BytesId, from: u32, to: u32) -> End {
        let part = &self.bytes[bytes.0 as usize][from as usize..to as usize];
        let mut done = 0;
        while done < to - from {
            match self.net.send(socket, &part[done as usize..]) {
                Outcome::Done(len) => done += len,
                Outcome::Failed(errno) => return End::partial(done, errno),
                Outcome::Wait => return End::partial(done, libc::EAGAIN),
            }
        }
        End::result(done as i32)
    }

    /// First attempt at an operation that may have to wait for its socket.
    fn begin(&mut self, mut operation: Operation, socket: SocketId) {
        operation.socket = Some(socket);
        operation.epoch = self.first_epoch + self.epochs.len() as u64 - 1;
        self.epochs.back_mut().expect("there is always an epoch").live += 1;
        self.net.socket_mut(socket).pins += 1;
        let end = match operation.entry.op {
            // They poll first, and read only when woken.
            Op::ReceiveMulti { .. } | Op::Receive { .. } => None,
            Op::Connect { address, .. } => self.connect(socket, address),
            _ => self.attempt(&mut operation),
        };
        match end {
            Some(end) => self.conclude(operation, end),
            None => {
                let index = self.keep(operation);
                self.net.socket_mut(socket).waiting.push(index);
                self.wake(index);
            }
        }
    }

    fn keep(&mut self, operation: Operation) -> u32 {
        if let Some(index) = self.free_operations.pop() {
            self.operations[index as usize] = Some(operation);
            return index;
        }
        self.operations.push(Some(operation));
        self.operations.len() as u32 - 1
    }

    fn remove(&mut self, index: u32) -> Operation {
        self.free_operations.push(index);
        let operation = self.operations[index as usize].take().expect("the operation is pending");
        if let Some(socket) = operation.socket {
            self.net.socket_mut(socket).waiting.retain(|&waiting| waiting != index);
        }
        operation
    }

    /// Queues a retry where the operation would get further.
    pub(super) fn wake(&mut self, index: u32) {
        let operation = self.operations[index as usize].as_mut().expect("the operation is pending");
        let Some(socket) = operation.socket else { return };
        let ready = match operation.entry.op {
            Op::Connect { .. } => self.net.is_settled(socket),
            Op::Send { .. } => self.net.is_writable(socket),
            _ => self.net.is_readable(socket),
        };
        if ready && !operation.queued {
            operation.queued = true;
            let lazy = operation.rest.is_empty();
            self.work.push_back(Work::Retry { index, lazy });
        }
    }

    /// The kernel turns to an operation on its own account, if that is still pending.
    pub(super) fn turn_to(&mut self, serial: u64) {
        let is_it = |kept: &Option<Operation>| kept.as_ref().is_some_and(|o| o.serial == serial);
        let Some(index) = self.operations.iter().position(is_it) else { return };
        let operation = self.operations[index].as_ref().expect("it was found");
        if let Op::Shutdown { slot } = operation.entry.op {
            let now = self.net.clock.now();
            // What shutdown itself returns is no failure to the ring (io_shutdown never calls
            // req_set_fail); a slot that is empty is.
            let end = match self.occupant(slot) {
                Some(socket) => {
                    End { failed: false, ..End::result(self.net.shutdown(socket, now)) }
                }
                None => End::errno(libc::EBADF),
            };
            let operation = self.remove(index as u32);
            self.conclude_later(operation, end);
        } else {
            self.mark_cancelled(index);
        }
    }

    /// Takes up the operation again.
    pub(super) fn retry(&mut self, index: u32) {
        let mut operation =
            self.operations[index as usize].take().expect("queued work has its operation");
        operation.queued = false;
        let end = if operation.cancelled {
            Some(End::partial(operation.done, libc::ECANCELED))
        } else {
            self.attempt(&mut operation)
        };
        self.operations[index as usize] = Some(operation);
        match end {
            Some(end) => {
                let operation = self.remove(index);
                self.conclude(operation, end);
            }
            // More may have come, or may have been left.
            None => self.wake(index),
        }
    }

    fn attempt(&mut self, operation: &mut Operation) -> Option<End> {
        let socket = operation.socket.expect("it has a socket");
        match operation.entry.op {
            Op::Connect { .. } => ended(self.net.connected(socket)),
            Op::Send { bytes, from, to, .. } => {
                let part = &self.bytes[bytes.0 as usize][from as usize..to as usize];
                loop {
                    let left = &part[operation.done as usize..];
                    match self.net.send(socket, left) {
                        Outcome::Done(len) => operation.done += len,
                        Outcome::Failed(errno) => {
                            return Some(End::partial(operation.done, errno));
                        }
                        Outcome::Wait => return None,
                    }
                    if operation.done == to - from {
                        return Some(End::result(operation.done as i32));
                    }
                }
            }
            Op::Discard { len, .. } => match self.net.receive(socket, len as usize, None) {
                Outcome::Done(len) => Some(End::result(len as i32)),
                Outcome::Failed(errno) => Some(End::partial(0, errno)),
                Outcome::Wait => None,
            },
            Op::Receive { len, .. } => {
                self.receive_once(socket, len).map(|received| received.end())
            }
            Op::ReceiveMulti { .. } => self.receive_many(socket, operation.entry.token),
            Op::Socket { .. }
            | Op::SetOption { .. }
            | Op::Bind { .. }
            | Op::Cancel { .. }
            | Op::Shutdown { .. }
            | Op::Close { .. }
            | Op::SendNow { .. }
            | Op::ShutdownWrite { .. }
            | Op::AcceptMulti { .. } => unreachable!("it never waits for a socket"),
        }
    }

    /// One receive into the next provided buffer, of at most `limit` bytes (0: all); `None` where there is nothing yet.
    fn receive_once(&mut self, socket: SocketId, limit: u32) -> Option<Received> {
        let Some((buffer, memory)) = self.buffers.select() else {
            return Some(Received::Nothing(-libc::ENOBUFS));
        };
        let len = if limit == 0 { memory.len() } else { memory.len().min(limit as usize) };
        match self.net.receive(socket, len, Some(&mut memory[..len])) {
            Outcome::Done(0) => Some(Received::Nothing(0)),
            Outcome::Done(len) => {
                self.buffers.commit(buffer, len);
                Some(Received::Data(len, buffer))
            }
            Outcome::Failed(errno) => Some(Received::Nothing(-errno)),
            Outcome::Wait => None,
        }
    }

    fn receive_many(&mut self, socket: SocketId, token: Token) -> Option<End> {
        while self.net.is_readable(socket) {
            let received = self.receive_once(socket, 0)?;
            let Received::Data(len, buffer) = received else { return Some(received.end()) };
            let queue_is_full = self.completions.len() >= self.config.cq_len as usize;
            if queue_is_full || self.chance(self.config.faults.clear_more) {
                return Some(received.end());
            }
            let result = len as i32;
            self.post(Completion { token, result, more: true, buffer: Some(buffer) });
            if self.chance(self.config.faults.yields) {
                return None;
            }
        }
        None
    }

    /// An operation has ended: its completion, what was linked to it, and what it held.
    fn conclude(&mut self, operation: Operation, end: End) {
        if let Some(socket) = operation.socket {
            let past = (operation.epoch - self.first_epoch) as usize;
            self.epochs[past].live -= 1;
            self.unpin(socket);
            self.drain_epochs();
        }
        let Entry { token, flags, .. } = operation.entry;
        if end.failed || !flags.skip_success {
            let End { result, buffer, .. } = end;
            self.post(Completion { token, result, more: false, buffer });
        }
        self.follow(operation.rest, flags, end.failed);
    }

    /// As `conclude`, from another thread: the completion is posted by deferred work.
    fn conclude_later(&mut self, operation: Operation, end: End) {
        let Entry { token, flags, .. } = operation.entry;
        let End { result, failed, .. } = end;
        if failed || !flags.skip_success {
            let completion = Completion { token, result, more: false, buffer: None };
            self.work.push_back(Work::Post(completion));
        }
        self.follow(operation.rest, flags, failed);
    }

    fn follow(&mut self, rest: Chain, flags: Flags, failed: bool) {
        if rest.is_empty() {
            return;
        }
        if !failed {
            self.work.push_back(Work::Issue(rest));
        } else if !flags.skip_success {
            for Entry { token, .. } in rest {
                let result = -libc::ECANCELED;
                let completion = Completion { token, result, more: false, buffer: None };
                self.work.push_back(Work::Post(completion));
            }
        }
    }

    fn connect(&mut self, socket: SocketId, address: AddressId) -> Option<End> {
        let address = &self.addresses[address.0 as usize];
        if address.family != self.net.socket(socket).family {
            return Some(End::errno(libc::EAFNOSUPPORT));
        }
        ended(self.net.connect(socket, &self.config, address.refused))
    }

    pub(super) fn make_socket(&mut self, slot: Slot, family: Family) -> i32 {
        if slot as usize >= self.slots.len() {
            return -libc::EINVAL;
        }
        if self.chance(self.config.faults.socket) {
            return -self.net.wire.dice.pick(&[libc::ENFILE, libc::ENOBUFS]);
        }
        // An occupied slot changes its occupant.
        self.close(slot);
        let socket = self.net.make_socket(family);
        self.net.socket_mut(socket).pins += 1;
        self.slots[slot as usize] = Some(socket);
        0
    }

    pub(super) fn bind(&mut self, slot: Slot, source: AddressId) -> i32 {
        let Some(socket) = self.occupant(slot) else { return -libc::EBADF };
        if self.addresses[source.0 as usize].family != self.net.socket(socket).family {
            return -libc::EAFNOSUPPORT;
        }
        if self.chance(self.config.faults.bind) {
            return -self.net.wire.dice.pick(&[libc::EADDRINUSE, libc::EADDRNOTAVAIL]);
        }
        0
    }

    fn close(&mut self, slot: Slot) -> i32 {
        let Some(socket) = self.slots.get_mut(slot as usize).and_then(Option::take) else {
            return -libc::EBADF;
        };
        if self.config.serial_release {
            self.epochs.back_mut().expect("there is always an epoch").removed.push(socket);
            self.epochs.push_back(Epoch::default());
            self.drain_epochs();
        } else {
            self.unpin(socket);
        }
        0
    }

    /// Lets the files of past epochs go, in order, as far as no operation of theirs is pending.
    fn drain_epochs(&mut self) {
        while self.epochs.len() > 1 && self.epochs[0].live == 0 {
            let epoch = self.epochs.pop_front().expect("there are two");
            self.first_epoch += 1;
            for socket in epoch.removed {
                self.unpin(socket);
            }
        }
    }

    fn unpin(&mut self, socket: SocketId) {
        let held = self.net.socket_mut(socket);
        held.pins -= 1;
        if held.pins == 0 {
            let now = self.net.clock.now();
            self.net.release(socket, now, self.config.time_wait_ns);
        }
    }

    fn cancel(&mut self, token: Token) -> i32 {
        let pending = self.operations.iter().enumerate();
        let matching = pending.filter_map(|(index, kept)| {
            kept.as_ref().filter(|o| o.entry.token == token).map(|o| (o.serial, index))
        });
        let Some((serial, index)) = matching.min() else { return -libc::ENOENT };
        let operation = self.operations[index].as_ref().expect("it was found");
        if let Op::Shutdown { .. } = operation.entry.op {
            return -libc::EALREADY;
        }
        if !operation.cancelled && self.chance(self.config.faults.cancel_already) {
            let delay_ns = self.net.wire.dice.delay(self.config.worker_thread_ns);
            self.net.wire.schedule(self.net.clock.now() + delay_ns, What::Operation { serial });
            return -libc::EALREADY;
        }
        self.mark_cancelled(index);
        0
    }

    fn mark_cancelled(&mut self, index: usize) {
        let operation = self.operations[index].as_mut().expect("the operation is pending");
        operation.cancelled = true;
        if !operation.queued {
            operation.queued = true;
            self.work.push_back(Work::Retry { index: index as u32, lazy: false });
        }
    }

    fn occupant(&self, slot: Slot) -> Option<SocketId> {
        self.slots.get(slot as usize).copied().flatten()
    }

    pub(super) fn chance(&mut self, probability: f64) -> bool {
        self.net.wire.dice.chance(probability)
    }
}

enum Received {
    Data(u32, BufferId),
    /// The end of the stream, or a negative errno.
    Nothing(i32),
}

impl Received {
    fn end(self) -> End {
        match self {
            Self::Data(len, buffer) => {
                End { result: len as i32, failed: false, buffer: Some(buffer) }
            }
            Self::Nothing(result) => End::result(result),
        }
    }
}

fn ended(outcome: Outcome) -> Option<End> {
    match outcome {
        Outcome::Done(result) => Some(End::result(result as i32)),
        Outcome::Failed(errno) => Some(End::errno(errno)),
        Outcome::Wait => None,
    }
}
