//! The bytes that a thread sends from: answers that never change, buffers that
//! are used in turn, and the filler of large bodies.

use std::collections::HashMap;

use super::action::{After, Hold, Ready};
use super::answer::{self, Answer, CHUNK, Content};
use super::connection::{Owner, Piece};
use crate::ring::{BytesId, Ring};
use crate::tls::encrypted_len;

/// The largest body that is held whole.
const MAX_HELD_BODY: u64 = 1 << 20;
/// The most bytes of sized answers that are held by a thread.
const MAX_HELD: u64 = 32 << 20;
/// Bytes of a small buffer: a head.
const SMALL: usize = 1 << 10;
/// Bytes of a large buffer: several answers, or the last chunk of a body.
pub const LARGE: usize = 16 << 10;
/// Plaintext that is encrypted at once: four full records.
pub const SEALED: usize = 64 << 10;
/// Bytes of a buffer for that; what the session has to say itself goes before it.
const SEALED_ROOM: usize = encrypted_len(SEALED) + SMALL;
/// Bytes of the filler that large bodies are sent from; whole periods of its pattern.
pub const FILLER: u64 = 256 << 10;
/// Full chunks in the filler of chunked bodies.
pub const FILLER_CHUNKS: u64 = FILLER / CHUNK;

/// The bytes that a thread sends from.
#[derive(Default)]
pub struct Store {
    held: HashMap<Answer, Ready>,
    held_bytes: u64,
    go_on: Option<Ready>,
    small: Vec<BytesId>,
    large: Vec<BytesId>,
    sealed: Vec<BytesId>,
    filler: Option<BytesId>,
    chunks: Option<(BytesId, u32)>,
}

impl Store {
    /// `100 Continue`.
    pub fn go_on(&mut self, ring: &mut impl Ring) -> Ready {
        *self.go_on.get_or_insert_with(|| Ready {
            bytes: ring.add_bytes(answer::CONTINUE.to_vec()),
            len: answer::CONTINUE.len() as u32,
            after: After::Keep,
        })
    }

    /// A buffer with these bytes, at most [`LARGE`], for one send.
    ///
    /// # Panics
    /// Where they are more.
    pub fn lend(&mut self, ring: &mut impl Ring, bytes: &[u8]) -> Piece {
        assert!(bytes.len() <= LARGE, "more than a buffer holds");
        let piece = self.room(ring, bytes.len());
        ring.bytes_mut(piece.bytes)[..bytes.len()].copy_from_slice(bytes);
        Piece { to: bytes.len() as u32, ..piece }
    }

    /// A buffer for one send, to be filled: all of it. It is as large as is asked for or larger,
    /// up to what [`SEALED`] bytes and a few more become when they are encrypted.
    pub fn room(&mut self, ring: &mut impl Ring, len: usize) -> Piece {
        let (pool, owner, len) = if len <= SMALL {
            (&mut self.small, Owner::Small, SMALL)
        } else if len <= LARGE {
            (&mut self.large, Owner::Large, LARGE)
        } else {
            (&mut self.sealed, Owner::Sealed, SEALED_ROOM)
        };
        let bytes = pool.pop().unwrap_or_else(|| ring.add_bytes(vec![0; len]));
        Piece { bytes, from: 0, to: len as u32, owner }
    }

    /// Takes back what a send was lent.
    pub fn take_back(&mut self, piece: Piece) {
        match piece.owner {
            Owner::All => {}
            Owner::Small => self.small.push(piece.bytes),
            Owner::Large => self.large.push(piece.bytes),
            Owner::Sealed => self.sealed.push(piece.bytes),
        }
    }

    /// `len` bytes of filler, at most [`FILLER`].
    pub fn filler(&mut self, ring: &mut impl Ring, len: u64) -> Piece {
        let bytes = *self.filler.get_or_insert_with(|| {
            let mut filler = Vec::new();
            answer::push_filler(&mut filler, FILLER);
            ring.add_bytes(filler)
        });
        Piece { bytes, from: 0, to: len.min(FILLER) as u32, owner: Owner::All }
    }

    /// `count` full chunks, at most [`FILLER_CHUNKS`].
    pub fn chunks(&mut self, ring: &mut impl Ring, count: u64) -> Piece {
        let (bytes, chunk_len) = *self.chunks.get_or_insert_with(|| {
            let mut chunks = Vec::new();
            answer::push_chunks(&mut chunks, FILLER_CHUNKS);
            let chunk_len = chunks.len() as u32 / FILLER_CHUNKS as u32;
            (ring.add_bytes(chunks), chunk_len)
        });
        let count = count.min(FILLER_CHUNKS) as u32;
        Piece { bytes, from: 0, to: count * chunk_len, owner: Owner::All }
    }

    /// The store as a place for answers.
    pub fn holding<'a, R: Ring>(&'a mut self, ring: &'a mut R) -> Holding<'a, R> {
        Holding { store: self, ring }
    }
}

/// A store with the ring that owns its bytes.
pub struct Holding<'a, R> {
    store: &'a mut Store,
    ring: &'a mut R,
}

impl<R: Ring> Hold for Holding<'_, R> {
    fn has_room(&self, answer: &Answer) -> bool {
        let len = answer.body_len();
        self.store.held.contains_key(answer)
            || (len <= MAX_HELD_BODY && self.store.held_bytes + len + SMALL as u64 <= MAX_HELD)
    }

    fn hold(&mut self, answer: Answer) -> Ready {
        if let Some(&ready) = self.store.held.get(&answer) {
            return ready;
        }
        let whole = answer.whole();
        // Contents without a size are so few that they need no bound.
        if matches!(answer.content, Content::Bytes(_) | Content::Chunked(_) | Content::Truncated(_))
        {
            self.store.held_bytes += (whole.len() + SMALL) as u64;
        }
        let len = whole.len() as u32;
        let bytes = self.ring.add_bytes(whole);
        let ready = Ready { bytes, len, after: After::answer(&answer) };
        self.store.held.insert(answer, ready);
        ready
    }
}
