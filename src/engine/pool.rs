//! Bytes that are sent once: what a session encrypted. They belong to the worker, and to a
//! connection only while they are on their way.
//!
//! A send that does not wait ([`Op::SendNow`](crate::ring::Op::SendNow)) runs while it is
//! submitted, so that its bytes are free again after the enter that submitted it and the completions
//! that this brought, unless one of these says that the socket did not take all. Any other send has
//! a completion, and its bytes are free with it.

use crate::ring::{BytesId, Kind, Ring, Slot, Token};

/// The smallest size: a ClientHello, or the last flight of a handshake and a request.
const SMALLEST_LEN: usize = 1_024;
/// Sizes, each twice the one before. The largest holds what a request may be at most.
const SIZES: usize = 24;

/// Which bytes of the pool.
pub(super) type Index = u32;

/// Bytes of the pool, and whose they are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lent {
    pub(super) bytes: BytesId,
    /// Those of them that are sent.
    pub(super) from: u32,
    pub(super) to: u32,
    /// The connection, and which one of those in its slot.
    pub(super) slot: Slot,
    pub(super) generation: u32,
    /// How often they were lent: a completion of an earlier time is none of this one's.
    times: u32,
    size: u8,
}

/// The bytes of one worker.
#[derive(Default)]
pub(super) struct Pool {
    lent: Vec<Lent>,
    free: [Vec<Index>; SIZES],
    /// Sent without waiting, and not submitted yet.
    queued: Vec<Index>,
    /// The same, submitted; free once the completions are through.
    submitted: Vec<Index>,
}

impl Pool {
    /// Bytes for at least `len`, for a connection.
    ///
    /// # Panics
    /// Where `len` is beyond all sizes (8 GiB).
    pub(super) fn take(
        &mut self,
        ring: &mut impl Ring,
        len: usize,
        slot: Slot,
        generation: u32,
    ) -> Index {
        let size = len.div_ceil(SMALLEST_LEN).next_power_of_two().trailing_zeros() as usize;
        let index = self.free[size].pop().unwrap_or_else(|| {
            let len = SMALLEST_LEN << size;
            let bytes = ring.add_bytes(vec![0; len]);
            self.lent.push(Lent {
                bytes,
                from: 0,
                to: 0,
                slot,
                generation,
                times: 0,
                size: size as u8,
            });
            self.lent.len() as Index - 1
        });
        let lent = &mut self.lent[index as usize];
        (lent.slot, lent.generation, lent.from, lent.to) = (slot, generation, 0, 0);
        lent.times = (lent.times + 1) % Token::GENERATIONS;
        index
    }

    /// What the bytes are sent under.
    pub(super) fn token(&self, index: Index) -> Token {
        Token::new(Kind::SendPooled, self.lent[index as usize].times, index)
    }

    pub(super) fn get(&self, index: Index) -> Lent {
        self.lent[index as usize]
    }

    /// Says which of the bytes are sent.
    pub(super) fn set(&mut self, index: Index, from: u32, to: u32) {
        let lent = &mut self.lent[index as usize];
        (lent.from, lent.to) = (from, to);
    }

    /// They are not needed any more.
    pub(super) fn give_back(&mut self, index: Index) {
        let size = self.lent[index as usize].size;
        self.free[usize::from(size)].push(index);
    }

    /// They are sent without waiting.
    pub(super) fn sent_now(&mut self, index: Index) {
        self.queued.push(index);
    }

    /// What is queued was submitted.
    pub(super) fn submit(&mut self) {
        self.submitted.append(&mut self.queued);
    }

    /// The socket did not take all of what was sent without waiting: the bytes stay lent.
    pub(super) fn keep(&mut self, index: Index) {
        self.submitted.retain(|&submitted| submitted != index);
        self.queued.retain(|&queued| queued != index);
    }

    /// The completions of what was submitted are through.
    pub(super) fn completed(&mut self) {
        while let Some(index) = self.submitted.pop() {
            self.give_back(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::Limits;
    use crate::ring::sim::{ServerModel, SimConfig, SimRing};

    fn ring() -> SimRing {
        let limits = Limits { slots: 1, buffers: 1, buffer_len: 64, scratch_len: 0 };
        SimRing::new(SimConfig::exact(limits, ServerModel::exact(0)), 1)
    }

    #[test]
    fn bytes_are_used_again_only_when_they_are_through() {
        let mut ring = ring();
        let mut pool = Pool::default();
        let first = pool.take(&mut ring, 10, 0, 1);
        pool.sent_now(first);
        let second = pool.take(&mut ring, 10, 1, 1);
        assert_ne!(first, second, "the first is queued");
        pool.completed();
        assert_ne!(pool.take(&mut ring, 10, 2, 1), first, "it was not submitted");
        pool.submit();
        pool.completed();
        assert_eq!(pool.take(&mut ring, 1_024, 3, 1), first);
        assert_eq!((pool.get(first).slot, pool.get(first).generation), (3, 1));
        let large = pool.take(&mut ring, 1_025, 4, 1);
        assert_eq!(ring.bytes_mut(pool.get(large).bytes).len(), 2_048);
    }

    #[test]
    fn what_the_socket_did_not_take_stays() {
        let mut ring = ring();
        let mut pool = Pool::default();
        let index = pool.take(&mut ring, 10, 0, 1);
        pool.sent_now(index);
        pool.submit();
        pool.keep(index);
        pool.completed();
        assert_ne!(pool.take(&mut ring, 10, 0, 1), index);
        pool.give_back(index);
        assert_eq!(pool.take(&mut ring, 10, 0, 1), index);
    }
}
