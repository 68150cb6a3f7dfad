//! Opening connections and sending requests.

use std::io;

use rand::RngExt;

use super::{Stage, Worker};
use crate::clock::{Clock, Nanos};
use crate::engine::connection::{Connection, Receive, Request, State};
use crate::engine::deadlines::Deadline;
use crate::engine::gate::Opening;
use crate::http1::response::{Scanner, Stage as Reading};
use crate::plan::Lifetime;
use crate::ring::{AddressId, BytesId, Flags, Kind, Op, Ring, Slot, Token};

/// What is received of a response at first where large bodies are known: most heads fit
/// (docs/BENCHMARKING.md, large bodies).
const HEAD_RECEIVE_LEN: u32 = 2_048;
/// The next operation of a chain waits for this one, which completes only where it fails.
const QUIET_LINK: Flags = Flags { link: true, skip_success: true };
/// The next operation of a chain waits for this one, which completes in any case.
pub(super) const LINK: Flags = Flags { link: true, skip_success: false };
/// Completes only where it fails.
pub(super) const QUIET: Flags = Flags { link: false, skip_success: true };
/// Completes, and ends a chain.
pub(super) const PLAIN: Flags = Flags { link: false, skip_success: false };

impl<R: Ring, C: Clock> Worker<'_, R, C> {
    /// Makes sure that the slot has a connection behind it.
    pub(super) fn grow_to(&mut self, slot: Slot) {
        assert!(slot < self.plan.slots, "slot {slot} is beyond the limit");
        while self.connections.len() <= slot as usize {
            self.connections.push(Connection::new());
        }
    }

    /// Open model: a slot without a socket, now in use.
    pub(super) fn take_empty(&mut self) -> Option<Slot> {
        let slot = match self.empty.pop() {
            Some(slot) => slot,
            None if (self.connections.len() as u32) < self.plan.slots => {
                let slot = self.connections.len() as Slot;
                self.grow_to(slot);
                slot
            }
            None => return None,
        };
        self.occupied += 1;
        Some(slot)
    }

    pub(super) fn may_open(&self, now: Nanos) -> bool {
        self.gate.opening(now) == Opening::Now
    }

    /// The slot waits for its turn at the gate.
    pub(super) fn wait_in_queue(&mut self, slot: Slot) {
        self.connections[slot as usize].enter(State::Queued);
        self.queue.push_back(slot);
    }

    /// The slot was taken out of the queue and waits no more.
    pub(super) fn leave_queue(&mut self, slot: Slot) {
        self.connections[slot as usize].enter(State::Empty);
    }

    /// How many requests the next connection carries.
    pub(super) fn draw_lifetime(&mut self) -> u64 {
        match self.plan.lifetime {
            Lifetime::All => u64::MAX,
            Lifetime::Exactly(n) => n,
            Lifetime::Uniform(from, to) => self.rng.random_range(from..=to),
            Lifetime::Geometric(mean) if mean <= 1.0 => 1,
            // Inversion: the number of trials up to the first success with p = 1 / mean.
            Lifetime::Geometric(mean) => {
                let uniform = 1.0 - self.rng.random::<f64>();
                1 + (uniform.ln() / (1.0 - 1.0 / mean).ln()) as u64
            }
        }
    }

    /// Opens a connection in the slot, with its first request in the same chain.
    pub(super) fn open(
        &mut self,
        slot: Slot,
        request: Option<Request>,
        now: Nanos,
    ) -> io::Result<()> {
        let lifetime = match self.connections[slot as usize].client_left {
            Some(left) => left + 1,
            None => self.draw_lifetime(),
        };
        let address = self.addresses[self.turn % self.addresses.len()];
        let source = match self.sources.len() {
            0 => None,
            sources => Some(self.sources[self.turn % sources]),
        };
        self.turn = self.turn.wrapping_add(self.plan.threads as usize);
        self.gate.opened(now);
        self.opens += 1;
        self.recorder.tally.attempted += 1;
        let connection = &mut self.connections[slot as usize];
        connection.enter(State::Connecting);
        connection.generation = (connection.generation + 1) % Token::GENERATIONS;
        connection.begun_ns = now;
        connection.left = lifetime;
        connection.carried = 0;
        connection.chained = request.is_some();
        connection.sending = false;
        connection.at_end = false;
        connection.request = request;
        let deadline_ns = match request.and_then(|request| request.deadline_ns) {
            // Sent once more, or held back for want of a port: the first deadline stands.
            Some(deadline_ns) => deadline_ns.min(now + self.plan.connect_timeout_ns),
            None => now + self.plan.connect_timeout_ns,
        };
        self.deadlines.set(slot, Deadline::Connect, deadline_ns);
        if let Err(error) = self.begin_session(slot) {
            return self.not_begun(slot, &error, now);
        }
        let chain_len = 4 + self.plan.options.len() as u32 + 1;
        self.ring.reserve(chain_len)?;
        self.push_socket(slot, source)?;
        self.push_chain(slot, address, request)
    }

    /// The socket with its options and source: as links of the chain, or made beforehand where
    /// the kernel cannot.
    fn push_socket(&mut self, slot: Slot, source: Option<AddressId>) -> io::Result<()> {
        let family = self.plan.family;
        let features = self.ring.features();
        let needs_install = (!self.plan.options.is_empty() && !features.socket_options)
            || (source.is_some() && !features.bind);
        if needs_install {
            // A failure (no descriptor, say) shows as a connect that fails on an empty slot.
            return self.ring.install(slot, family, &self.plan.options, source).or_else(|error| {
                match error.raw_os_error() {
                    Some(_) => Ok(()),
                    None => Err(error),
                }
            });
        }
        let token = self.token(Kind::Socket, slot);
        self.ring.push(Op::Socket { slot, family }, token, QUIET_LINK);
        for &option in &self.plan.options {
            self.ring.push(Op::SetOption { slot, option }, token, QUIET_LINK);
        }
        if let Some(source) = source {
            self.ring.push(Op::Bind { slot, source }, token, QUIET_LINK);
        }
        Ok(())
    }

    fn push_chain(
        &mut self,
        slot: Slot,
        address: AddressId,
        request: Option<Request>,
    ) -> io::Result<()> {
        let token = self.token(Kind::Connect, slot);
        self.ring.push(Op::Connect { slot, address }, token, LINK);
        if self.security.is_some() {
            self.push_hello(slot);
        } else if let Some(request) = request {
            let (bytes, len) = self.take_bytes(slot, request.page);
            let sending = self.connections[slot as usize].sending;
            let flags = if sending { LINK } else { QUIET_LINK };
            let token = self.token(Kind::Send, slot);
            self.ring.push(Op::Send { slot, bytes, from: 0, to: len }, token, flags);
        }
        self.push_receive(slot);
        Ok(())
    }

    /// The bytes of the next request on this connection, which is one fewer then.
    fn take_bytes(&mut self, slot: Slot, page: u32) -> (BytesId, u32) {
        let connection = &mut self.connections[slot as usize];
        assert!(connection.left > 0, "a request on a connection that is to end");
        connection.left -= 1;
        let last = connection.left == 0;
        let page = &self.pages[page as usize];
        connection.sending = page.long;
        connection.scanner = Scanner::new(page.head);
        connection.carry = Vec::new();
        if last { page.close } else { page.keep }
    }

    /// Sends a request on an idle connection.
    pub(super) fn send(&mut self, slot: Slot, mut request: Request, now: Nanos) -> io::Result<()> {
        self.ring.reserve(3)?;
        let receive = self.connections[slot as usize].receive;
        if self.bulk && receive == Receive::Multi {
            // A receive of many pieces would race the one that takes the body whole.
            let armed = self.token(Kind::ReceiveMulti, slot);
            let token = self.token(Kind::Cancel, slot);
            self.ring.push(Op::Cancel { token: armed }, token, QUIET);
            self.connections[slot as usize].receive = Receive::None;
        }
        if self.security.is_some() {
            self.recorder.tally.reused += u64::from(self.connections[slot as usize].carried > 0);
            return self.send_on(slot, request, now);
        }
        let (bytes, len) = self.take_bytes(slot, request.page);
        let flags = if self.connections[slot as usize].sending { PLAIN } else { QUIET };
        let token = self.token(Kind::Send, slot);
        self.ring.push(Op::Send { slot, bytes, from: 0, to: len }, token, flags);
        if self.connections[slot as usize].receive == Receive::None {
            self.push_receive(slot);
        }
        self.recorder.tally.sent_bytes += u64::from(len);
        self.recorder.tally.reused += u64::from(self.connections[slot as usize].carried > 0);
        self.sent(slot, &mut request, now);
        let connection = &mut self.connections[slot as usize];
        connection.enter(State::Busy);
        connection.chained = false;
        connection.request = Some(request);
        Ok(())
    }

    /// Sends a request over a session that is established.
    pub(super) fn send_on(
        &mut self,
        slot: Slot,
        mut request: Request,
        now: Nanos,
    ) -> io::Result<()> {
        self.take_bytes(slot, request.page);
        self.connections[slot as usize].sending = false;
        self.send_secure(slot, Some(request.page))?;
        if self.connections[slot as usize].receive == Receive::None {
            self.ring.reserve(1)?;
            self.push_receive(slot);
        }
        self.sent(slot, &mut request, now);
        let connection = &mut self.connections[slot as usize];
        connection.enter(State::Busy);
        connection.chained = false;
        connection.request = Some(request);
        if connection.secure.as_ref().is_some_and(|secure| secure.peer_closed) {
            // Its keys are used up: as on one that the server has closed, nothing was sent.
            return self.stream_ended(slot, now);
        }
        Ok(())
    }

    /// The request is on its way: its time runs.
    pub(super) fn sent(&mut self, slot: Slot, request: &mut Request, sent_ns: Nanos) {
        request.sent_ns = Some(sent_ns);
        request.first_byte_ns = None;
        let deadline_ns = match request.deadline_ns {
            Some(deadline_ns) if request.resent => deadline_ns,
            _ => sent_ns + self.plan.timeout_ns,
        };
        request.deadline_ns = Some(deadline_ns);
        self.deadlines.set(slot, Deadline::Request, deadline_ns);
    }

    /// Arms a receive; the room for it is reserved.
    pub(super) fn push_receive(&mut self, slot: Slot) {
        let (op, kind, receive) = if self.bulk {
            // Of a response little more than its head; of a body that must be read all there is.
            let reads_body = self.connections[slot as usize].scanner.stage() != Reading::Head;
            let len = if reads_body { 0 } else { HEAD_RECEIVE_LEN };
            (Op::Receive { slot, len }, Kind::Receive, Receive::Single)
        } else {
            (Op::ReceiveMulti { slot }, Kind::ReceiveMulti, Receive::Multi)
        };
        let token = self.token(kind, slot);
        self.ring.push(op, token, PLAIN);
        self.connections[slot as usize].receive = receive;
    }

    /// Takes `len` bytes of a body at once.
    pub(super) fn push_discard(&mut self, slot: Slot, len: u32) -> io::Result<()> {
        self.ring.reserve(1)?;
        let token = self.token(Kind::Discard, slot);
        self.ring.push(Op::Discard { slot, len }, token, PLAIN);
        self.connections[slot as usize].receive = Receive::Discard;
        Ok(())
    }

    /// Empties the slot: what is pending on it ends, and what completes late is dropped.
    pub(super) fn push_close(&mut self, slot: Slot) -> io::Result<()> {
        self.ring.reserve(3)?;
        let connection = &self.connections[slot as usize];
        let pending = match connection.receive {
            // The receive is a link of the chain, which the connect holds up.
            _ if connection.state == State::Connecting => Some(Kind::Connect),
            Receive::None => None,
            Receive::Multi => Some(Kind::ReceiveMulti),
            Receive::Single => Some(Kind::Receive),
            Receive::Discard => Some(Kind::Discard),
        };
        if let Some(kind) = pending {
            // Closing does not end a pending receive, which would keep the socket open.
            let armed = self.token(kind, slot);
            let token = self.token(Kind::Cancel, slot);
            self.ring.push(Op::Cancel { token: armed }, token, QUIET);
        }
        let connecting = connection.state == State::Connecting;
        let sending = match &connection.secure {
            _ if connecting => None,
            Some(secure) => {
                let pool = self.security.as_ref().map(|security| &security.pool);
                pool.zip(secure.pending).map(|(pool, index)| pool.token(index))
            }
            None => connection.sending.then(|| self.token(Kind::Send, slot)),
        };
        if let Some(sending) = sending {
            // Nor a pending send.
            let token = self.token(Kind::Cancel, slot);
            self.ring.push(Op::Cancel { token: sending }, token, QUIET);
        }
        let token = self.token(Kind::Close, slot);
        self.ring.push(Op::Close { slot }, token, QUIET);
        let connection = &mut self.connections[slot as usize];
        connection.receive = Receive::None;
        connection.secure = None;
        connection.generation = (connection.generation + 1) % Token::GENERATIONS;
        Ok(())
    }

    pub(super) fn token(&self, kind: Kind, slot: Slot) -> Token {
        Token::new(kind, self.connections[slot as usize].generation, slot)
    }

    /// Whether nothing new is to be started.
    pub(super) fn is_draining(&self) -> bool {
        self.stage == Stage::Draining
    }
}
