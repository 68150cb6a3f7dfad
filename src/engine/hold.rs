//! What the control thread of a hold and its workers have in common: how many connections are
//! wanted, and how many there are.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use crate::stats::Distribution;

/// Shared between the control thread and the workers.
#[derive(Debug)]
pub struct Control {
    levels: usize,
    threads: usize,
    level: AtomicUsize,
    connections: AtomicU32,
    ended: AtomicBool,
}

/// Connections over all workers. Counts are since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Open now.
    pub open: u64,
    /// Now on their way: queued, connecting, handshaking or in their first request.
    pub opening: u64,
    /// Tried.
    pub attempted: u64,
    /// Opened.
    pub opened: u64,
    /// That could not be opened.
    pub failed: u64,
    /// That the server closed.
    pub closed_by_server: u64,
    /// Requests answered.
    pub completed: u64,
    /// Requests that failed.
    pub failed_requests: u64,
    /// Connects held back because no port was free.
    pub no_ports: u64,
}

/// What was recorded of a level, over all workers.
#[derive(Clone, Debug)]
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

impl Control {
    /// For so many levels and workers. No connection is wanted yet.
    #[must_use]
    pub fn new(levels: usize, threads: usize) -> Arc<Self> {
        Arc::new(Self {
            levels,
            threads,
            level: AtomicUsize::new(0),
            connections: AtomicU32::new(0),
            ended: AtomicBool::new(false),
        })
    }

    /// Wants so many connections over all workers; `index` names the level.
    pub fn set_level(&self, index: usize, connections: u32) {
        assert!(index < self.levels && self.threads > 0, "a level that there is not");
        self.level.store(index, Ordering::Relaxed);
        self.connections.store(connections, Ordering::Release);
    }

    /// Connections now, over all workers.
    #[must_use]
    pub fn held(&self) -> Held {
        Held::default()
    }

    /// Closes all and ends.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }
}
