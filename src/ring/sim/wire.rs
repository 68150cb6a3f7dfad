//! What is under way, in the order of virtual time.

use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::rc::Rc;

use super::dice::Dice;
use crate::clock::{Clock, Nanos};

/// Virtual time. Copies of it share the time.
#[derive(Clone, Debug, Default)]
pub struct SimClock {
    now: Rc<Cell<Nanos>>,
}

impl SimClock {
    /// A clock that shows `start_ns`.
    #[must_use]
    pub fn new(start_ns: Nanos) -> Self {
        Self { now: Rc::new(Cell::new(start_ns)) }
    }

    /// Lets time pass: outside the ring, a slow worker.
    pub fn advance(&self, ns: Nanos) {
        self.now.set(self.now.get() + ns);
    }

    pub(super) fn advance_to(&self, at: Nanos) {
        self.now.set(self.now.get().max(at));
    }
}

impl Clock for SimClock {
    fn now(&self) -> Nanos {
        self.now.get()
    }
}

/// Index of a socket; never used again.
pub(super) type SocketId = u32;
/// Index of a connection at the server, in the order of being accepted.
pub(super) type ConnectionId = u32;

/// Part of what the server sent.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub bytes: Rc<Vec<u8>>,
    pub from: usize,
    pub to: usize,
    pub subject: Subject,
    /// Where in `bytes` its subject is complete; `usize::MAX`: nowhere.
    pub complete_at: usize,
}

/// What a segment is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// The answer to this request.
    Answer(usize),
    /// The last flight of the server's in this handshake.
    Handshake(usize),
    /// Anything else that is said over TLS.
    Records,
}

#[derive(Debug)]
pub(super) enum ToServer {
    /// The stream of the connection has arrived up to this offset.
    Bytes(u64),
    Fin,
    Reset,
}

#[derive(Debug)]
pub(super) enum ToClient {
    Data(Segment),
    Fin,
    Reset,
}

/// What a server's connection was going to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Begin the answer to the request that it has.
    Answer,
    /// Send the next piece.
    Write,
    /// Change the keys, over TLS.
    UpdateKeys,
    Close,
}

#[derive(Debug)]
pub(super) enum What {
    /// The outcome of connecting: 0 or an errno.
    Handshake {
        socket: SocketId,
        attempt: u32,
        errno: i32,
    },
    ToServer {
        connection: ConnectionId,
        arrival: ToServer,
    },
    ToClient {
        socket: SocketId,
        arrival: ToClient,
    },
    Server {
        connection: ConnectionId,
        serial: u32,
        act: Act,
    },
    /// The kernel turns to an operation.
    Operation {
        serial: u64,
    },
    /// A local port is free again.
    Port,
}

struct Event {
    at: Nanos,
    seq: u64,
    what: What,
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.seq == other.seq
    }
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    /// The greatest is the earliest, and of the same time the one scheduled first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.seq).cmp(&(self.at, self.seq))
    }
}

/// Events to come, and the dice.
pub(super) struct Wire {
    events: BinaryHeap<Event>,
    seq: u64,
    pub dice: Dice,
}

impl Wire {
    pub(super) fn new(dice: Dice) -> Self {
        Self { events: BinaryHeap::new(), seq: 0, dice }
    }

    pub(super) fn schedule(&mut self, at: Nanos, what: What) {
        self.seq += 1;
        self.events.push(Event { at, seq: self.seq, what });
    }

    pub(super) fn next_at(&self) -> Option<Nanos> {
        self.events.peek().map(|event| event.at)
    }

    /// The next event that is due.
    pub(super) fn pop(&mut self, now: Nanos) -> Option<(Nanos, What)> {
        if self.next_at()? > now {
            return None;
        }
        self.events.pop().map(|event| (event.at, event.what))
    }
}
