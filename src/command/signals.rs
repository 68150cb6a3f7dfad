//! SIGINT and SIGTERM while a load runs.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU8, Ordering};
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

/// Signals while the load runs: the first stops sending, the second ends at once.
pub(super) struct Caught {
    handle: Handle,
    count: Arc<AtomicU8>,
    signal: Arc<AtomicI32>,
}

impl Caught {
    /// Listens.
    ///
    /// # Errors
    /// Where handlers cannot be set.
    pub(super) fn new() -> io::Result<Self> {
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let handle = signals.handle();
        let (count, signal) = (Arc::new(AtomicU8::new(0)), Arc::new(AtomicI32::new(0)));
        let (counted, first) = (Arc::clone(&count), Arc::clone(&signal));
        thread::spawn(move || {
            for signal in signals.forever() {
                let _ = first.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed);
                let before = counted.load(Ordering::Relaxed);
                counted.store(before.saturating_add(1), Ordering::Relaxed);
            }
        });
        Ok(Self { handle, count, signal })
    }

    /// How many came, live: what stops the engine.
    pub(super) fn counter(&self) -> &AtomicU8 {
        &self.count
    }

    /// How many came so far.
    pub(super) fn count(&self) -> u8 {
        self.count.load(Ordering::Relaxed)
    }

    /// The first signal that came, if any.
    pub(super) fn release(self) -> Option<i32> {
        self.handle.close();
        Some(self.signal.load(Ordering::Relaxed)).filter(|&signal| signal != 0)
    }
}
