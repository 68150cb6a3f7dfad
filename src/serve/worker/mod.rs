//! One thread of the server: its pass, and what completes in it.
//!
//! An answer that never changes is sent without a completion by
//! [`Op::SendNow`], which runs while it is submitted: if no completion has come
//! by the end of the pass's completions, the socket took all of it. Until then
//! (`sent_in_pass`) no other answer is sent on that connection, so that answers
//! keep their order; what arrives waits for [`Worker::resume`]. Every other send
//! has a completion, and the connection does nothing else until it comes.

mod answering;
mod closing;
mod requests;
mod securing;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng;

use super::connection::{Connection, Piece, Receive, State};
use super::recall::Recall;
use super::secure::Secure;
use super::stats::{Pass, Shared};
use super::store::Store;
use super::timers::Timers;
use crate::clock::{Clock, MILLISECOND, Monotonic, Nanos, SECOND};
use crate::plan::serve::Stall;
use crate::ring::kernel::KernelRing;
use crate::ring::{BufferId, Completion, Flags, Kind, Op, Ring, Slot, Token, Wait};
use crate::tls;

/// The longest chain of operations that is pushed.
const CHAIN: u32 = 4;
/// After a refused accept, mostly for want of a slot.
const ACCEPT_RETRY: Nanos = 10 * MILLISECOND;
/// How often stalled sends are looked for.
const SWEEP: Nanos = 10 * SECOND;
/// A client that takes nothing of a send for so long is given up.
const SEND_TIMEOUT: Nanos = 60 * SECOND;
/// Bytes waiting on a connection, above which nothing more is received for it.
const MAX_INPUT: usize = 128 * 1024;

use securing::HANDSHAKE_TIMEOUT;

/// Operations whose success says nothing new.
const QUIET: Flags = Flags { link: false, skip_success: true };

/// One thread of the server.
pub struct Worker {
    ring: KernelRing,
    clock: Monotonic,
    shared: Arc<Shared>,
    /// Which thread this is.
    thread: usize,
    stop: Arc<AtomicBool>,
    /// The stall that is still to come.
    stall: Option<Stall>,
    /// By slot.
    connections: Vec<Connection>,
    timers: Timers,
    store: Store,
    recall: Recall,
    random: Pcg64Mcg,
    /// What was counted and not yet shared.
    counted: Pass,
    /// The number of this pass, from 1.
    pass: u64,
    /// Connections to look at again when this pass's completions are through.
    resume: Vec<(Slot, u32)>,
    /// The same for the pass after this one.
    later: Vec<(Slot, u32)>,
    /// Received bytes that are being looked at.
    scratch: Vec<u8>,
    /// Answers to pipelined requests that are sent as one.
    gathered: Vec<u8>,
    /// By slot: they have the first ones.
    listeners: Vec<Listener>,
    /// Encrypted answers that were sent without a completion in this pass.
    lent: Vec<Piece>,
    /// The same of the pass before.
    lent_before: Vec<Piece>,
    sweep_at_ns: Nanos,
    stopped: bool,
}

/// What a worker is made of.
pub struct Parts {
    /// A ring of this thread, with the listeners in its first slots.
    pub ring: KernelRing,
    /// For each of them in turn what its connections are over: TLS, or nothing.
    pub listeners: Vec<Option<tls::Server>>,
    /// The server's clock; its zero is the server's start.
    pub clock: Monotonic,
    /// What the threads share.
    pub shared: Arc<Shared>,
    /// Which thread this is.
    pub thread: usize,
    /// Set before the listener is shut down.
    pub stop: Arc<AtomicBool>,
    /// When to freeze.
    pub stall: Option<Stall>,
}

/// A listener of this thread.
struct Listener {
    /// What its connections are over; `None`: plain TCP.
    tls: Option<tls::Server>,
    /// When to accept again; `None`: an accept is armed.
    accept_at_ns: Option<Nanos>,
}

impl Worker {
    /// A worker that has not begun.
    pub fn new(parts: Parts) -> Self {
        let Parts { ring, listeners, clock, shared, thread, stop, stall } = parts;
        let now_ns = clock.now();
        Self {
            ring,
            clock,
            shared,
            thread,
            stop,
            stall,
            connections: Vec::new(),
            timers: Timers::default(),
            store: Store::default(),
            recall: Recall::new(),
            random: Pcg64Mcg::seed_from_u64(thread as u64),
            counted: Pass::default(),
            pass: 0,
            resume: Vec::new(),
            later: Vec::new(),
            scratch: Vec::new(),
            gathered: Vec::new(),
            listeners: listeners
                .into_iter()
                .map(|tls| Listener { tls, accept_at_ns: Some(now_ns) })
                .collect(),
            lent: Vec::new(),
            lent_before: Vec::new(),
            sweep_at_ns: now_ns + SWEEP,
            stopped: false,
        }
    }

    /// Serves until the listener is shut down.
    ///
    /// # Errors
    /// What the ring returned.
    pub fn run(mut self) -> io::Result<()> {
        while !self.stopped {
            self.pass()?;
        }
        Ok(())
    }

    fn pass(&mut self) -> io::Result<()> {
        self.pass += 1;
        let now_ns = self.freeze();
        self.fire(now_ns)?;
        self.shared.add(self.thread, &mut self.counted);
        self.ring.enter(self.wait())?;
        // Short of memory, the kernel may take nothing: what is lent then stays lent.
        let taken = self.ring.queued() == 0;
        while let Some(completion) = self.ring.next() {
            self.completed(completion)?;
        }
        self.resume()?;
        if taken {
            self.take_back_lent();
        }
        self.ring.publish();
        Ok(())
    }

    /// Freezes, if it is time for it; gives the time.
    fn freeze(&mut self) -> Nanos {
        let now_ns = self.clock.now();
        let Some(stall) = self.stall.filter(|stall| stall.at_ns <= now_ns) else { return now_ns };
        self.stall = None;
        let end_ns = stall.at_ns.saturating_add(stall.duration_ns);
        std::thread::sleep(Duration::from_nanos(end_ns.saturating_sub(now_ns)));
        self.clock.now()
    }

    /// Does what is due.
    fn fire(&mut self, now_ns: Nanos) -> io::Result<()> {
        while let Some(slot) = self.timers.pop(&mut self.connections, now_ns) {
            self.due(slot)?;
        }
        for index in 0..self.listeners.len() {
            let at_ns = &mut self.listeners[index].accept_at_ns;
            if at_ns.take_if(|at_ns| *at_ns <= now_ns).is_some() {
                let listener = index as Slot;
                let token = Token::new(Kind::Accept, 0, listener);
                self.push(Op::AcceptMulti { listener }, token, Flags::default())?;
            }
        }
        if self.sweep_at_ns <= now_ns {
            self.sweep_at_ns = now_ns + SWEEP;
            self.sweep(now_ns)?;
        }
        Ok(())
    }

    fn wait(&self) -> Wait {
        if !self.resume.is_empty() {
            return Wait::POLL;
        }
        let stall_ns = self.stall.map(|stall| stall.at_ns);
        let accepts = self.listeners.iter().map(|listener| listener.accept_at_ns);
        let others = [self.timers.next_ns(), stall_ns].into_iter().chain(accepts);
        let due_ns = others.flatten().fold(self.sweep_at_ns, Nanos::min);
        let timeout_ns = Some(due_ns.saturating_sub(self.clock.now()));
        Wait { want: 1, timeout_ns, min_wait_ns: 0 }
    }

    fn completed(&mut self, completion: Completion) -> io::Result<()> {
        let slot = completion.token.slot();
        match completion.token.kind() {
            Kind::Accept => self.accepted(completion),
            Kind::Receive | Kind::ReceiveMulti => self.received(completion),
            Kind::Send if self.is_live(completion.token) => self.sent(slot, completion.result),
            Kind::Shutdown if self.is_live(completion.token) => self.shut(slot),
            // An option that could not be set left the slot behind it open.
            Kind::Socket => self.push(Op::Close { slot }, completion.token, QUIET),
            // Too late to matter, or nothing was left to cancel, shut down or close.
            Kind::Send
            | Kind::Cancel
            | Kind::Shutdown
            | Kind::Close
            | Kind::Connect
            | Kind::Discard
            | Kind::SendPooled => Ok(()),
        }
    }

    fn accepted(&mut self, completion: Completion) -> io::Result<()> {
        let listener = completion.token.slot() as usize;
        if let Ok(slot) = Slot::try_from(completion.result) {
            self.open(slot, listener)?;
        }
        if !completion.more {
            self.stopped = self.stop.load(Ordering::Acquire);
            let pause_ns = if completion.result < 0 { ACCEPT_RETRY } else { 0 };
            self.listeners[listener].accept_at_ns = Some(self.clock.now() + pause_ns);
        }
        Ok(())
    }

    fn open(&mut self, slot: Slot, listener: usize) -> io::Result<()> {
        let index = slot as usize;
        let server = self.listeners[listener].tls.as_ref();
        let session = server.map(tls::Server::session).transpose().map_err(io::Error::other)?;
        let tls = session.map(|session| Box::new(Secure::new(session)));
        if index >= self.connections.len() {
            self.connections.resize_with(index + 1, Connection::free);
        }
        let is_secure = tls.is_some();
        self.connections[index].open(tls);
        if is_secure {
            let due_ns = self.clock.now() + HANDSHAKE_TIMEOUT;
            self.timers.set(&mut self.connections, slot, due_ns);
        }
        self.shared.opened();
        self.counted.connections += 1;
        // A connection that carries one request is closed without a receive to cancel.
        self.connections[index].receive = Receive::Once;
        let token = self.connections[index].token(Kind::Receive, slot);
        self.push(Op::Receive { slot, len: 0 }, token, Flags::default())
    }

    /// Whether a completion belongs to the connection that is in the slot now.
    fn is_live(&self, token: Token) -> bool {
        self.connections.get(token.slot() as usize).is_some_and(|connection| {
            connection.generation == token.generation() && !matches!(connection.state, State::Free)
        })
    }

    fn received(&mut self, completion: Completion) -> io::Result<()> {
        let slot = completion.token.slot();
        if !self.is_live(completion.token) {
            completion.buffer.into_iter().for_each(|buffer| self.ring.recycle(buffer));
            return Ok(());
        }
        if !completion.more {
            self.connections[slot as usize].receive = Receive::Off;
        }
        match (completion.result, completion.buffer) {
            (len @ 1.., Some(buffer)) => {
                self.data(slot, buffer, len as usize)?;
                self.arm(slot)
            }
            (result, buffer) => {
                buffer.into_iter().for_each(|buffer| self.ring.recycle(buffer));
                match -result {
                    // No buffer was left, or we cancelled it to hear no more for a while.
                    libc::ENOBUFS | libc::ECANCELED => {
                        self.look_again(slot);
                        Ok(())
                    }
                    errno => self.end(slot, errno != 0),
                }
            }
        }
    }

    /// Takes bytes that were received.
    fn data(&mut self, slot: Slot, buffer: BufferId, len: usize) -> io::Result<()> {
        if self.connections[slot as usize].tls.is_some() {
            return self.records(slot, buffer, len);
        }
        let arrived_ns = self.clock.now();
        let connection = &self.connections[slot as usize];
        if connection.can_answer(self.pass)
            && connection.input.is_empty()
            && connection.incoming.is_none()
        {
            let bytes = self.ring.received(buffer, len);
            if let Some((_, action)) = self.recall.find(bytes).filter(|&(known, _)| known == len) {
                self.ring.recycle(buffer);
                return self.answer_one(slot, action, arrived_ns);
            }
        }
        if !connection.takes_input() {
            self.ring.recycle(buffer);
            return Ok(());
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        scratch.extend_from_slice(self.ring.received(buffer, len));
        self.ring.recycle(buffer);
        let taken = self.take_input(slot, &scratch, arrived_ns);
        self.scratch = scratch;
        taken
    }

    /// Arms a receive where none is and one is wanted.
    fn arm(&mut self, slot: Slot) -> io::Result<()> {
        let connection = &mut self.connections[slot as usize];
        let wanted = match connection.state {
            State::Free | State::Departing => false,
            _ => connection.input.len() <= MAX_INPUT,
        };
        if !wanted || connection.ended || connection.receive != Receive::Off {
            return Ok(());
        }
        if connection.tls.is_some() && connection.requests == 0 {
            // As when it was opened: it may carry one request.
            connection.receive = Receive::Once;
            let token = connection.token(Kind::Receive, slot);
            return self.push(Op::Receive { slot, len: 0 }, token, Flags::default());
        }
        connection.receive = Receive::Multi;
        let token = connection.token(Kind::ReceiveMulti, slot);
        self.push(Op::ReceiveMulti { slot }, token, Flags::default())
    }

    /// Looks at a connection again when all completions of the next pass are through.
    fn look_again(&mut self, slot: Slot) {
        self.later.push((slot, self.connections[slot as usize].generation));
    }

    /// Goes on with the connections that were to be looked at again.
    fn resume(&mut self) -> io::Result<()> {
        let mut due = std::mem::replace(&mut self.resume, std::mem::take(&mut self.later));
        for (slot, generation) in due.drain(..) {
            if self.is_live(Token::new(Kind::Receive, generation, slot)) {
                self.go_on(slot)?;
            }
        }
        // What the loop asked for comes behind what was asked for before.
        self.resume.append(&mut self.later);
        self.later = due;
        Ok(())
    }

    fn push(&mut self, op: Op, token: Token, flags: Flags) -> io::Result<()> {
        self.ring.reserve(CHAIN)?;
        self.ring.push(op, token, flags);
        Ok(())
    }
}
