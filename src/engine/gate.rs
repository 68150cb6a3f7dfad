//! Whether a worker may open one more connection just now.

use crate::clock::{MILLISECOND, Nanos, SECOND};

/// Connections that a worker opens at once: 5,000 at a time overrun a listen queue, and what is
/// measured then are SYNs sent again.
const CONNECTING_MAX: u32 = 256;
/// The first wait after a connection that could not be made; it doubles.
const BACKOFF_MIN_NS: Nanos = 10 * MILLISECOND;
/// The longest wait.
const BACKOFF_MAX_NS: Nanos = SECOND;

/// Whether a connection may be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// Yes.
    Now,
    /// Not before this time.
    At(Nanos),
    /// When one that is being opened has come to its end.
    Later,
}

/// The gate of one worker.
pub(super) struct Gate {
    connecting: u32,
    /// Between two openings, with `--open-rate`.
    interval_ns: Nanos,
    next_ns: Nanos,
    backoff_ns: Nanos,
    closed_until_ns: Nanos,
}

impl Gate {
    /// `interval_ns` 0: as fast as they come; the first opens at `first_ns`.
    pub(super) fn new(interval_ns: Nanos, first_ns: Nanos) -> Self {
        Self { connecting: 0, interval_ns, next_ns: first_ns, backoff_ns: 0, closed_until_ns: 0 }
    }

    pub(super) fn opening(&self, now: Nanos) -> Opening {
        let at_ns = self.opened_at_ns();
        if self.connecting >= CONNECTING_MAX {
            Opening::Later
        } else if at_ns > now {
            Opening::At(at_ns)
        } else {
            Opening::Now
        }
    }

    /// When a connection may be opened, as far as it is known: `None` where one that is being
    /// opened must end first.
    pub(super) fn at_ns(&self, now: Nanos) -> Option<Nanos> {
        match self.opening(now) {
            Opening::Now => Some(now),
            Opening::At(at_ns) => Some(at_ns),
            Opening::Later => None,
        }
    }

    /// When the gate, which is open, was opened.
    pub(super) fn opened_at_ns(&self) -> Nanos {
        self.closed_until_ns.max(if self.interval_ns > 0 { self.next_ns } else { 0 })
    }

    /// Whether no connection is being opened.
    pub(super) fn is_idle(&self) -> bool {
        self.connecting == 0
    }

    /// A connection is being opened.
    pub(super) fn opened(&mut self, now: Nanos) {
        self.connecting += 1;
        if self.interval_ns > 0 {
            // One that was not used in time is not made up for.
            self.next_ns =
                self.next_ns.max(now.saturating_sub(self.interval_ns)) + self.interval_ns;
        }
    }

    /// It was made.
    pub(super) fn made(&mut self) {
        self.connecting -= 1;
        self.backoff_ns = 0;
    }

    /// It could not be made. Those that were begun before the gate closed close it no further.
    pub(super) fn failed(&mut self, begun_ns: Nanos, now: Nanos) {
        self.connecting -= 1;
        if begun_ns >= self.closed_until_ns {
            self.backoff_ns = (self.backoff_ns * 2).clamp(BACKOFF_MIN_NS, BACKOFF_MAX_NS);
            self.closed_until_ns = now + self.backoff_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_double_the_wait_once_a_burst() {
        let mut gate = Gate::new(0, 0);
        let mut now = 5;
        for wait_ms in [10, 20, 40, 80, 160, 320, 640, 1000, 1000] {
            for _ in 0..3 {
                assert_eq!(gate.opening(now), Opening::Now);
                gate.opened(now);
            }
            for _ in 0..3 {
                gate.failed(now, now + 1);
            }
            assert_eq!(gate.opening(now + 1), Opening::At(now + 1 + wait_ms * MILLISECOND));
            now += 1 + wait_ms * MILLISECOND;
        }
        gate.opened(now);
        gate.made();
        gate.opened(now);
        gate.failed(now, now);
        assert_eq!(gate.opening(now), Opening::At(now + BACKOFF_MIN_NS), "a success forgives");
    }

    #[test]
    fn at_most_so_many_at_once() {
        let mut gate = Gate::new(0, 0);
        for _ in 0..CONNECTING_MAX {
            assert_eq!(gate.opening(0), Opening::Now);
            gate.opened(0);
        }
        assert_eq!(gate.opening(0), Opening::Later);
        gate.made();
        assert_eq!(gate.opening(0), Opening::Now);
    }

    #[test]
    fn an_opening_rate_is_kept_and_a_pause_not_made_up_for() {
        let mut gate = Gate::new(100, 50);
        assert_eq!(gate.opening(0), Opening::At(50));
        gate.opened(50);
        gate.made();
        assert_eq!(gate.opening(60), Opening::At(150));
        gate.opened(155);
        assert_eq!(gate.opening(160), Opening::At(250), "a late one does not shift the schedule");
        gate.opened(10_000);
        assert_eq!(gate.opening(10_000), Opening::Now, "one of the interval just past");
        gate.opened(10_000);
        assert_eq!(gate.opening(10_000), Opening::At(10_100));
    }
}
