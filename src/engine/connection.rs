//! One connection's states.
//!
//! ```text
//!            open            connected           response
//!  Empty ──────────► Connecting ──────► Busy ◄──────────► Idle
//!    ▲  ▲                │ │  over TLS:  ▲ │   request     │
//!    │  │                │ └ Handshaking ┘ │               │
//!    │  └── Queued ◄─────┘ no port,        │ last response │
//!    │      (waits for    sent again       ▼               │
//!    │       the gate)                 Lingering           │
//!    └─────────────────────────────────────┴───────────────┘ closed
//! ```

use super::secure::Secure;
use crate::clock::Nanos;
use crate::http1::response::Scanner;

/// Where a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No socket.
    Empty,
    /// No socket, and a turn at the gate is waited for.
    Queued,
    /// The chain that makes it is under way.
    Connecting,
    /// TCP is connected, and TLS is not yet.
    Handshaking,
    /// Open, nothing asked.
    Idle,
    /// A request was sent.
    Busy,
    /// Its last response is complete; the server's FIN is waited for.
    Lingering,
}

/// Which receive is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receive {
    /// None.
    None,
    /// A multishot one.
    Multi,
    /// One into a provided buffer.
    Single,
    /// One that is thrown away.
    Discard,
}

/// A request from when it was wanted to when it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// Which page it asks for.
    pub(super) page: u32,
    /// Whether it counts: not in the warm-up.
    pub(super) recorded: bool,
    /// Whether it has been sent once more.
    pub(super) resent: bool,
    /// When the plan wanted it, or its place was free.
    pub(super) intended_ns: Nanos,
    /// When it was last sent.
    pub(super) sent_ns: Option<Nanos>,
    /// When its deadline is, once it was first sent or first held back.
    pub(super) deadline_ns: Option<Nanos>,
    /// When the first byte of its response was there.
    pub(super) first_byte_ns: Option<Nanos>,
}

/// One connection. It owns no buffer but what a split head needs.
pub(super) struct Connection {
    pub(super) state: State,
    pub(super) receive: Receive,
    /// Of the socket in the slot; completions of an older one are dropped.
    pub(super) generation: u32,
    /// Requests it may still carry.
    pub(super) left: u64,
    /// Requests it has carried.
    pub(super) carried: u64,
    /// When its chain was prepared.
    pub(super) begun_ns: Nanos,
    pub(super) request: Option<Request>,
    /// With clients: requests that the client in this place still has to make.
    pub(super) client_left: Option<u64>,
    /// Whether that client is in the recorded time.
    pub(super) client_recorded: bool,
    /// Whether its request left in the chain that made it.
    pub(super) chained: bool,
    /// Whether a long request is still leaving.
    pub(super) sending: bool,
    /// Whether the stream has ended.
    pub(super) at_end: bool,
    /// Whether its place waits out its think time.
    pub(super) thinking: bool,
    pub(super) scanner: Scanner,
    /// A head or chunk line that is split over reads.
    pub(super) carry: Vec<u8>,
    /// Its session, over TLS.
    pub(super) secure: Option<Box<Secure>>,
}

impl Connection {
    pub(super) fn new() -> Self {
        Self {
            state: State::Empty,
            receive: Receive::None,
            generation: 0,
            left: 0,
            carried: 0,
            begun_ns: 0,
            request: None,
            client_left: None,
            client_recorded: false,
            chained: false,
            sending: false,
            at_end: false,
            thinking: false,
            scanner: Scanner::new(false),
            carry: Vec::new(),
            secure: None,
        }
    }

    /// Whether it owns memory in which there is nothing.
    pub(super) fn has_spare_memory(&self) -> bool {
        let is_spare = |bytes: &Vec<u8>| bytes.is_empty() && bytes.capacity() > 0;
        let secure = self.secure.as_ref();
        is_spare(&self.carry)
            || secure.is_some_and(|tls| is_spare(&tls.incoming) || is_spare(&tls.behind))
    }

    /// Changes the state along an arrow of the picture.
    pub(super) fn enter(&mut self, to: State) {
        use State::{Busy, Connecting, Empty, Handshaking, Idle, Lingering, Queued};
        let allowed = matches!(
            (self.state, to),
            (Empty | Queued, Connecting)
                | (Empty, Queued)
                | (Queued, Empty)
                | (Connecting, Handshaking | Busy | Idle | Empty)
                | (Handshaking, Busy | Idle | Empty)
                | (Busy, Idle | Lingering | Empty)
                | (Idle, Busy | Empty)
                | (Lingering, Empty)
        );
        assert!(allowed, "a connection went from {:?} to {to:?}", self.state);
        self.state = to;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_small() {
        // The memory of 5,000 idle connections is a goal of its own.
        assert!(size_of::<Connection>() <= 256, "{}", size_of::<Connection>());
    }
}
