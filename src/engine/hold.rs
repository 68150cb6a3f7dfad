//! What the control thread of a hold and its workers have in common: how many connections are
//! wanted, and how many there are.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::stats::Distribution;
use crate::stats::distribution::TOTAL_DIGITS;

/// Shared between the control thread and the workers.
#[derive(Debug)]
pub struct Control {
    levels: usize,
    /// Counts the calls of [`Control::set_level`], so that workers find a new level also where it
    /// looks like the last one.
    turn: AtomicU32,
    level: AtomicUsize,
    connections: AtomicU32,
    ended: AtomicBool,
    /// What each worker has, written by it alone.
    workers: Vec<Counters>,
}

/// Connections over all workers. Counts are since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Open now.
    pub open: u64,
    /// Now on their way: queued, connecting, handshaking or in their first request. At least 1 as
    /// long as a worker has not seen the level.
    pub opening: u64,
    /// Tried.
    pub attempted: u64,
    /// Opened: connected, and over TLS with the handshake complete.
    pub opened: u64,
    /// That could not be opened.
    pub failed: u64,
    /// That the server closed.
    pub closed_by_server: u64,
    /// Requests answered.
    pub completed: u64,
    /// Requests that failed, those of connections that could not be opened among them.
    pub failed_requests: u64,
    /// Connects held back because no port was free.
    pub no_ports: u64,
}

/// What was recorded of a level.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelStats {
    /// TCP alone.
    pub connect: Distribution,
    /// The full TLS handshake alone.
    pub tls: Distribution,
    /// The resumed TLS handshake alone.
    pub tls_resumed: Distribution,
    /// Connections opened.
    pub opened: u64,
    /// Connections that could not be opened.
    pub failed: u64,
    /// Connections that the server closed.
    pub closed_by_server: u64,
}

/// The level that is wanted, as a worker reads it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) turn: u32,
    pub(super) level: usize,
    pub(super) connections: u32,
}

/// A worker's counters, on a cache line of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counters {
    turn: AtomicU32,
    counts: [AtomicU64; 9],
}

impl Control {
    /// For so many levels and workers. No connection is wanted yet.
    #[must_use]
    pub fn new(levels: usize, threads: usize) -> Arc<Self> {
        Arc::new(Self {
            levels,
            turn: AtomicU32::new(0),
            level: AtomicUsize::new(0),
            connections: AtomicU32::new(0),
            ended: AtomicBool::new(false),
            workers: (0..threads).map(|_| Counters::default()).collect(),
        })
    }

    /// How many levels there are.
    #[must_use]
    pub fn levels(&self) -> usize {
        self.levels
    }

    /// Wants so many connections over all workers; `index` names the level, under which times and
    /// failures are recorded. Each connection that is missing is tried once.
    ///
    /// # Panics
    /// Where there is no such level.
    pub fn set_level(&self, index: usize, connections: u32) {
        assert!(index < self.levels, "a level that there is not");
        self.level.store(index, Ordering::Relaxed);
        self.connections.store(connections, Ordering::Relaxed);
        self.turn.fetch_add(1, Ordering::Release);
    }

    /// Connections now, over all workers.
    #[must_use]
    pub fn held(&self) -> Held {
        let turn = self.turn.load(Ordering::Relaxed);
        let mut held = Held::default();
        for worker in &self.workers {
            let seen = worker.turn.load(Ordering::Acquire) == turn;
            let [open, opening, attempted, opened, failed, closed, completed, failures, no_ports] =
                std::array::from_fn(|index| worker.counts[index].load(Ordering::Relaxed));
            held.open += open;
            held.opening += opening + u64::from(!seen);
            held.attempted += attempted;
            held.opened += opened;
            held.failed += failed;
            held.closed_by_server += closed;
            held.completed += completed;
            held.failed_requests += failures;
            held.no_ports += no_ports;
        }
        held
    }

    /// Closes all and ends.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// What is wanted. A level that is being set is seen whole, or not yet.
    pub(super) fn wanted(&self) -> Wanted {
        let turn = self.turn.load(Ordering::Acquire);
        Wanted {
            turn,
            level: self.level.load(Ordering::Relaxed),
            connections: self.connections.load(Ordering::Relaxed),
        }
    }

    /// A worker's own counts, as of the turn that it has seen.
    pub(super) fn publish(&self, thread: usize, turn: u32, held: &Held) {
        let worker = &self.workers[thread];
        let counts = [
            held.open,
            held.opening,
            held.attempted,
            held.opened,
            held.failed,
            held.closed_by_server,
            held.completed,
            held.failed_requests,
            held.no_ports,
        ];
        for (counter, count) in worker.counts.iter().zip(counts) {
            counter.store(count, Ordering::Relaxed);
        }
        worker.turn.store(turn, Ordering::Release);
    }
}

impl LevelStats {
    /// Nothing recorded yet.
    #[must_use]
    pub fn new() -> Self {
        let empty = || Distribution::new(TOTAL_DIGITS);
        Self {
            connect: empty(),
            tls: empty(),
            tls_resumed: empty(),
            opened: 0,
            failed: 0,
            closed_by_server: 0,
        }
    }

    /// Adds another worker's.
    pub fn merge(&mut self, other: &Self) {
        self.connect.merge(&other.connect);
        self.tls.merge(&other.tls);
        self.tls_resumed.merge(&other.tls_resumed);
        self.opened += other.opened;
        self.failed += other.failed;
        self.closed_by_server += other.closed_by_server;
    }
}

impl Default for LevelStats {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_opening_until_every_worker_has_seen_it() {
        let control = Control::new(2, 2);
        assert_eq!(control.held().opening, 0);
        control.set_level(1, 7);
        assert_eq!(control.held().opening, 2);
        let wanted = control.wanted();
        assert_eq!((wanted.level, wanted.connections), (1, 7));
        control.publish(0, wanted.turn, &Held { open: 3, ..Held::default() });
        assert_eq!(control.held(), Held { open: 3, opening: 1, ..Held::default() });
        control.publish(1, wanted.turn, &Held { open: 4, ..Held::default() });
        assert_eq!(control.held(), Held { open: 7, ..Held::default() });
    }
}
