//! A connection's part of TLS: what its session takes in, and what is to be sent over it.
//!
//! What the session has to say itself (the handshake, an alert) is *pending*; it goes before
//! what is encrypted next, since records are numbered. An answer is encrypted in parts of
//! [`SEALED`] bytes, each when the one before it is sent.

use rustls::Error;

use super::connection::Piece;
use super::store::{SEALED, Store};
use crate::ring::Ring;
use crate::ring::kernel::KernelRing;
use crate::tls::{ServerSession, encrypted_len};

/// Bytes that are spared for short records: close_notify, and an update of the keys.
const SPARE: usize = 64;

/// A connection's part of TLS. While the connection is idle it owns its keys and no buffer.
pub struct Secure {
    session: ServerSession,
    stage: Stage,
    /// The beginning of a record that is cut.
    cut: Vec<u8>,
    /// What the session has to say and what is not on its way.
    pending: Vec<u8>,
    /// What is being sent and is not encrypted yet.
    plain: Option<Piece>,
    /// close_notify comes behind it.
    ends: bool,
    /// The client has said that it sends no more (close_notify).
    peer_closed: bool,
}

/// How far a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing has come yet.
    Fresh,
    /// The handshake goes on.
    Shaking,
    /// It is complete.
    Established {
        /// An earlier session was resumed.
        resumed: bool,
    },
    /// Something was wrong; what is pending is the alert that says so.
    Failed,
}

/// What a piece of input was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Records, or parts of them.
    Records,
    /// The same, and with them the handshake is complete.
    Established {
        /// An earlier session was resumed.
        resumed: bool,
    },
    /// Something is wrong with the handshake or a record.
    Failure,
    /// The beginning of a request in plain HTTP.
    PlainHttp,
}

impl Secure {
    /// A session that waits for the client to begin.
    pub fn new(session: ServerSession) -> Self {
        Self {
            session,
            stage: Stage::Fresh,
            cut: Vec::new(),
            pending: Vec::new(),
            plain: None,
            ends: false,
            peer_closed: false,
        }
    }

    /// Takes bytes that came in, which it changes in place, and appends the plaintext in them.
    pub fn take(&mut self, bytes: &mut [u8], plain: &mut Vec<u8>) -> Heard {
        // A method begins so and no record does (RFC 8446, B.1).
        if self.stage == Stage::Fresh && bytes.first().is_some_and(u8::is_ascii_uppercase) {
            return Heard::PlainHttp;
        }
        if self.stage == Stage::Fresh {
            self.stage = Stage::Shaking;
        }
        if self.stage == Stage::Failed || self.peer_closed {
            return Heard::Records;
        }
        let Self { session, cut, pending, .. } = self;
        let mut read = |bytes: &[u8]| plain.extend_from_slice(bytes);
        let progress = if cut.is_empty() {
            session.advance(bytes, pending, &mut read).inspect(|progress| {
                cut.extend_from_slice(&bytes[progress.used..]);
            })
        } else {
            cut.extend_from_slice(bytes);
            session.advance(cut, pending, &mut read).inspect(|progress| {
                cut.drain(..progress.used);
            })
        };
        let Ok(progress) = progress else {
            self.stage = Stage::Failed;
            self.cut = Vec::new();
            return Heard::Failure;
        };
        self.peer_closed = progress.peer_closed;
        if self.cut.is_empty() || self.peer_closed {
            self.cut = Vec::new();
        }
        if self.stage != Stage::Shaking || !progress.established {
            return Heard::Records;
        }
        let resumed = self.session.handshake().is_some_and(|handshake| handshake.resumed);
        self.stage = Stage::Established { resumed };
        Heard::Established { resumed }
    }

    /// Whether the handshake is still to be completed.
    pub fn is_shaking(&self) -> bool {
        matches!(self.stage, Stage::Fresh | Stage::Shaking)
    }

    /// Whether the handshake resumed an earlier session; `None` before it is complete.
    pub fn resumed(&self) -> Option<bool> {
        match self.stage {
            Stage::Established { resumed } => Some(resumed),
            Stage::Fresh | Stage::Shaking | Stage::Failed => None,
        }
    }

    /// Whether something was wrong.
    pub fn has_failed(&self) -> bool {
        self.stage == Stage::Failed
    }

    /// Whether the client has said that it sends no more.
    pub fn peer_closed(&self) -> bool {
        self.peer_closed
    }

    /// Whether something is to be sent that is not on its way.
    pub fn has_more(&self) -> bool {
        !self.pending.is_empty() || self.plain.is_some()
    }

    /// Takes plaintext to be sent, when nothing of the plaintext before it is left. `ends`: it is
    /// the last, and close_notify follows.
    pub fn say(&mut self, plain: Piece, ends: bool) {
        debug_assert!(self.plain.is_none(), "one answer after the other");
        (self.plain, self.ends) = (Some(plain), ends);
    }

    /// Says that nothing more is sent (close_notify).
    pub fn say_end(&mut self) {
        self.session.close_notify(&mut self.pending);
    }

    /// Forgets the plaintext that is not encrypted yet, and gives it back.
    pub fn unsay(&mut self) -> Option<Piece> {
        self.plain.take()
    }

    /// Encrypts what comes next into a buffer of its own; some of it, where that is large.
    ///
    /// # Errors
    /// Where the session has used up its keys. Nothing more can be sent over it.
    pub fn seal(&mut self, ring: &mut KernelRing, store: &mut Store) -> Result<Piece, Error> {
        let plain_len = self.plain.map_or(0, |plain| part_len(&plain));
        let room = self.pending.len() + encrypted_len(plain_len) + SPARE;
        let piece = store.room(ring, room);
        match self.fill(ring, store, &piece) {
            Ok(len) => Ok(Piece { to: len as u32, ..piece }),
            Err(error) => {
                store.take_back(piece);
                Err(error)
            }
        }
    }

    fn fill(
        &mut self,
        ring: &mut KernelRing,
        store: &mut Store,
        piece: &Piece,
    ) -> Result<usize, Error> {
        let (mut at, end) = (0, piece.to as usize);
        loop {
            let len = self.pending.len().min(end - at);
            ring.bytes_mut(piece.bytes)[at..at + len].copy_from_slice(&self.pending[..len]);
            at += len;
            if len < self.pending.len() {
                self.pending.drain(..len);
                return Ok(at);
            }
            self.pending = Vec::new();
            let Some(plain) = &mut self.plain else { return Ok(at) };
            let len = part_len(plain);
            if encrypted_len(len) + SPARE > end - at {
                return Ok(at);
            }
            let (from, to) = ring.bytes_between(plain.bytes, piece.bytes);
            at += self.session.encrypt(&from[plain.from as usize..][..len], &mut to[at..end])?;
            plain.from += len as u32;
            if plain.from == plain.to {
                self.plain.take().into_iter().for_each(|plain| store.take_back(plain));
                if std::mem::take(&mut self.ends) {
                    self.say_end();
                }
            }
        }
    }
}

/// Bytes of plaintext that are encrypted at once.
fn part_len(plain: &Piece) -> usize {
    ((plain.to - plain.from) as usize).min(SEALED)
}
