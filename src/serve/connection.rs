//! One connection's state.

use super::action::{Action, After, Ready};
use super::answer::Answer;
use super::body::Body;
use super::secure::Secure;
use crate::clock::Nanos;
use crate::ring::{BytesId, Kind, Slot, Token};

/// A connection, or the free slot of one. An idle one owns nothing beyond this.
pub struct Connection {
    /// Which of the slot's connections, in turn.
    pub generation: u32,
    /// What it is at.
    pub state: State,
    /// Whether we are receiving.
    pub receive: Receive,
    /// The client has sent its last byte.
    pub ended: bool,
    /// It counts in the statistics.
    pub counted: bool,
    /// Requests so far.
    pub requests: u64,
    /// The pass in which an answer was last sent without a completion. Until that pass is over we
    /// do not know whether the socket took all of it.
    pub sent_in_pass: u64,
    /// The part that was sent then.
    pub sent: Piece,
    /// When its timer is due; others of it are void.
    pub due_ns: Option<Nanos>,
    /// The body that is being received, and what is done at its end.
    pub incoming: Option<(Body, Action)>,
    /// Bytes that were received and not yet looked at; plaintext, where it is over TLS.
    pub input: Vec<u8>,
    /// Its part of TLS; none on a plain one, and none once all is said over TLS.
    pub tls: Option<Box<Secure>>,
}

/// What a connection is at.
pub enum State {
    /// The slot is empty.
    Free,
    /// Requests are answered as they come.
    Ready,
    /// Bytes are being sent, and the completion is awaited.
    Sending(Sending),
    /// The answer is sent when the timer is due.
    Delayed(Ready),
    /// The next part of a slow answer is sent when the timer is due.
    Pausing(Box<Slow>),
    /// There will be no answer.
    Silent,
    /// Sent without a completion and closed behind it; back if the socket did not take all.
    Departing,
    /// Our side is being closed.
    Shutting,
    /// Our side is closed; the client's end is awaited.
    Lingering,
}

/// Whether we are receiving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receive {
    /// No.
    Off,
    /// One receive is armed.
    Once,
    /// A multishot receive is armed.
    Multi,
    /// It is being cancelled.
    Cancelling,
}

/// Bytes being sent.
pub struct Sending {
    /// What of them is left.
    pub piece: Piece,
    /// What is done when all are sent.
    pub then: Then,
    /// When they were handed over.
    pub since_ns: Nanos,
}

/// A part of the ring's bytes.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// The bytes.
    pub bytes: BytesId,
    /// The first that is not sent.
    pub from: u32,
    /// Behind the last.
    pub to: u32,
    /// Who owns the bytes.
    pub owner: Owner,
}

/// Who owns bytes that are being sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// All: they never change.
    All,
    /// This send; they are small.
    Small,
    /// This send; they are large.
    Large,
    /// This send; they are large and encrypted.
    Sealed,
}

/// What is done when bytes are sent.
pub enum Then {
    /// The next request.
    Ready,
    /// The connection is closed.
    Close,
    /// The connection is closed in the middle of a body.
    Cut,
    /// The connection is closed when the client has closed it.
    Linger,
    /// A request that came behind, and when it came.
    Act(Action, Nanos),
    /// The next part of the body.
    Stream(Box<Stream>),
    /// The next part of the body, when it is due.
    Slow(Box<Slow>),
}

/// A body that is sent in parts.
pub struct Stream {
    /// The answer.
    pub answer: Answer,
    /// Bytes of its body that are left, chunks not counted.
    pub left: u64,
}

/// A body that is spread over time.
pub struct Slow {
    /// The answer.
    pub answer: Answer,
    /// When it began.
    pub start_ns: Nanos,
    /// The time over which it is spread.
    pub time_ns: Nanos,
    /// Parts that were sent.
    pub step: u64,
    /// Parts in all.
    pub steps: u64,
}

impl Connection {
    /// A slot that never had a connection.
    pub const fn free() -> Self {
        Self {
            generation: 0,
            state: State::Free,
            receive: Receive::Off,
            ended: false,
            counted: false,
            requests: 0,
            sent_in_pass: 0,
            sent: Piece { bytes: BytesId(0), from: 0, to: 0, owner: Owner::All },
            due_ns: None,
            incoming: None,
            input: Vec::new(),
            tls: None,
        }
    }

    /// A new connection in this slot, with `tls` over TLS.
    ///
    /// # Panics
    /// Where the slot was not empty.
    pub fn open(&mut self, tls: Option<Box<Secure>>) {
        assert!(
            matches!(self.state, State::Free | State::Departing),
            "accepted into a slot that is in use"
        );
        let generation = (self.generation + 1) % Token::GENERATIONS;
        *self = Self { generation, state: State::Ready, counted: true, tls, ..Self::free() };
    }

    /// What an operation on it is submitted under.
    pub fn token(&self, kind: Kind, slot: Slot) -> Token {
        Token::new(kind, self.generation, slot)
    }

    /// Whether something is to be sent over TLS that is not on its way.
    pub fn has_more(&self) -> bool {
        self.tls.as_ref().is_some_and(|secure| secure.has_more())
    }

    /// Whether its session has failed: nothing that comes is of use.
    pub fn has_failed(&self) -> bool {
        self.tls.as_ref().is_some_and(|secure| secure.has_failed())
    }

    /// Whether the next request may be answered now, in this pass.
    pub fn can_answer(&self, pass: u64) -> bool {
        matches!(self.state, State::Ready) && self.sent_in_pass != pass
    }

    /// Whether bytes that come are still of use.
    pub fn takes_input(&self) -> bool {
        match self.state {
            State::Ready | State::Sending(_) | State::Delayed(_) | State::Pausing(_) => true,
            State::Free | State::Silent | State::Departing | State::Shutting | State::Lingering => {
                false
            }
        }
    }
}

impl Piece {
    /// All of an answer that the ring holds.
    pub fn of(ready: Ready) -> Self {
        Self { bytes: ready.bytes, from: 0, to: ready.len, owner: Owner::All }
    }
}

impl Then {
    /// What is done after the last bytes of an answer.
    pub fn after(after: After) -> Self {
        match after {
            After::Keep => Self::Ready,
            After::Close => Self::Close,
            After::Cut => Self::Cut,
            After::Linger => Self::Linger,
        }
    }

    /// Whether nothing comes behind the bytes, and that is said over TLS.
    pub fn ends(&self) -> bool {
        matches!(self, Self::Close | Self::Linger)
    }
}

impl Slow {
    /// When the next part is due.
    pub fn due_ns(&self) -> Nanos {
        self.start_ns.saturating_add(self.share(self.time_ns, self.step + 1))
    }

    /// Bytes of the next part.
    pub fn next_len(&self) -> u64 {
        let total = self.answer.body_len();
        self.share(total, self.step + 1) - self.share(total, self.step)
    }

    /// What of a total is over after so many steps.
    fn share(&self, total: u64, step: u64) -> u64 {
        (u128::from(total) * u128::from(step) / u128::from(self.steps)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::super::answer::Content;
    use super::super::request::Keep;
    use super::*;

    #[test]
    fn an_idle_connection_is_small() {
        assert!(size_of::<Connection>() <= 256, "{}", size_of::<Connection>());
    }

    #[test]
    fn a_slow_body_is_whole_and_in_time() {
        let answer =
            Answer { content: Content::Bytes(1_001), head_only: false, keep: Keep::Implied };
        let mut slow = Slow { answer, start_ns: 5, time_ns: 1_000_000, step: 0, steps: 7 };
        let mut sent = 0;
        while slow.step < slow.steps {
            sent += slow.next_len();
            if slow.step + 1 == slow.steps {
                assert_eq!(slow.due_ns(), 1_000_005);
            }
            slow.step += 1;
        }
        assert_eq!(sent, 1_001);
    }
}
