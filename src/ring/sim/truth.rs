//! What really happened, to compare the worker's report with.

use super::config::ResponseKind;
use crate::clock::Nanos;

/// One request of which at least one byte was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestTruth {
    /// The connection it went over, counted from 0 in the order of being established.
    pub connection: u32,
    /// Its place on that connection, from 0.
    pub place: u32,
    /// The request's target; empty where the head was never sent whole.
    pub target: String,
    /// When its first byte was sent.
    pub sent_ns: Nanos,
    /// When the server had its last byte.
    pub received_ns: Option<Nanos>,
    /// What the server answered, or was about to.
    pub kind: Option<ResponseKind>,
    /// The status of that answer.
    pub status: u16,
    /// Bytes of the body of the complete answer, after transfer coding.
    pub body_len: u64,
    /// When the first byte of the answer left the server.
    pub answer_start_ns: Option<Nanos>,
    /// When the byte that completes the answer left the server.
    pub answer_end_ns: Option<Nanos>,
    /// When that byte was handed to the worker by a completion. (Where the answer has no length
    /// the worker learns of its end later, by the FIN.)
    pub handed_ns: Option<Nanos>,
    /// Bytes that belong to no response were sent before on this connection.
    pub disturbed: bool,
}

/// One TLS handshake that the server took to its Finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandshakeTruth {
    /// The connection, counted from 0 in the order of being established.
    pub connection: u32,
    /// An earlier session is resumed.
    pub resumed: bool,
    /// When the last byte of the Finished was handed to the worker by a completion.
    pub handed_ns: Option<Nanos>,
}

/// What the server saw, and what is left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Truth {
    /// Connect operations that began.
    pub connects: u64,
    /// Those that failed.
    pub connects_failed: u64,
    /// Connections that the server accepted.
    pub accepted: u64,
    /// Connections whose first FIN or RST was the server's.
    pub closed_by_server: u64,
    /// Connections whose first FIN or RST was the worker's.
    pub closed_by_worker: u64,
    /// In the order of their first bytes.
    pub requests: Vec<RequestTruth>,
    /// In the order of the server's Finished, where it speaks TLS.
    pub handshakes: Vec<HandshakeTruth>,
    /// Bytes that the server received.
    pub bytes_received: u64,
    /// Bytes that the server sent.
    pub bytes_sent: u64,
    /// Sockets that exist: in a slot, or held by an operation.
    pub open_sockets: u32,
    /// Slots that hold a socket.
    pub occupied_slots: u32,
    /// Buffers that the worker holds, the unpublished ones included.
    pub buffers_out: u32,
    /// Operations that have not ended.
    pub pending_operations: u32,
    /// Those among them that send out of the worker's pool and have a completion of their own.
    pub pending_sends: u32,
    /// Completions that wait to be taken.
    pub pending_completions: u32,
    /// What was submitted and completed, and when, in one number: the same for the same seed and
    /// the same worker.
    pub digest: u64,
}

impl Truth {
    /// Requests that the server received whole.
    #[must_use]
    pub fn received(&self) -> usize {
        self.requests.iter().filter(|request| request.received_ns.is_some()).count()
    }

    /// Answers that the server sent to their last byte.
    #[must_use]
    pub fn answered(&self) -> usize {
        self.requests.iter().filter(|request| request.answer_end_ns.is_some()).count()
    }

    /// Answers whose last byte the worker was given.
    #[must_use]
    pub fn handed(&self) -> usize {
        self.requests.iter().filter(|request| request.handed_ns.is_some()).count()
    }
}

/// A running digest of a trace (the multiplier is the 64-bit FNV prime).
pub(super) struct Digest(pub u64);

impl Digest {
    pub(super) fn add(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
    }
}
