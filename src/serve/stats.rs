//! What the server counted, as `/stats` shows it.
//!
//! Each thread counts on its own and adds that to its shared part once a pass;
//! who reads or resets goes over all parts. Requests for `/stats` and
//! `/stats/reset` are not counted, nor is a connection whose first request is
//! one: the figures are those of the load. (While it is open it may show in
//! `peak_open`.)

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::clock::{Nanos, SECOND};

/// The longest gap between two arrivals that is told apart, nanoseconds: an hour.
const MAX_GAP: Nanos = 3_600 * SECOND;

/// All that was counted since the start or the last reset.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stats {
    /// Requests whose head was complete.
    pub requests: u64,
    /// Connections accepted.
    pub connections: u64,
    /// Connections open now.
    pub open: u64,
    /// The most that were open at once.
    pub peak_open: u64,
    /// The most requests on one connection.
    pub max_requests_per_connection: u64,
    /// Full TLS handshakes.
    pub tls_full: u64,
    /// Resumed TLS handshakes.
    pub tls_resumed: u64,
    /// Between the arrivals of two requests in turn at the same thread.
    pub gap_us: Gaps,
}

/// Quantiles of the gaps between arrivals, microseconds; `None` before the second arrival.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gaps {
    /// Median.
    pub p50: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// The longest.
    pub max: Option<f64>,
}

/// What the threads share.
pub struct Shared {
    threads: Vec<Mutex<Counted>>,
    open: AtomicU64,
    peak_open: AtomicU64,
}

/// What one thread counted.
struct Counted {
    requests: u64,
    connections: u64,
    handshakes: Handshakes,
    max_requests: u64,
    gaps: Histogram<u64>,
    last_arrival: Option<Nanos>,
}

impl Counted {
    fn new() -> Self {
        // It cannot fail: the bounds are constants that are in order.
        let gaps = Histogram::new_with_bounds(1, MAX_GAP, 3).expect("bounds in order");
        Self {
            requests: 0,
            connections: 0,
            handshakes: Handshakes::default(),
            max_requests: 0,
            gaps,
            last_arrival: None,
        }
    }
}

/// TLS handshakes that were completed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handshakes {
    /// With a key exchange and a certificate.
    pub full: u64,
    /// Of a session that was known.
    pub resumed: u64,
}

impl Handshakes {
    /// Counts one.
    pub fn count(&mut self, resumed: bool) {
        *if resumed { &mut self.resumed } else { &mut self.full } += 1;
    }
}

/// What a thread counted since it last added it to its shared part.
#[derive(Debug, Default)]
pub struct Pass {
    /// When each request arrived, in this order.
    pub arrivals: Vec<Nanos>,
    /// Connections accepted.
    pub connections: u64,
    /// Of those and of earlier ones: connections that turned out to ask for `/stats`.
    pub not_counted: u64,
    /// Handshakes.
    pub handshakes: Handshakes,
    /// Handshakes of the connections that turned out to ask for `/stats`.
    pub handshakes_not_counted: Handshakes,
    /// The most requests on one of this thread's connections.
    pub max_requests: u64,
}

impl Pass {
    fn is_empty(&self) -> bool {
        self.arrivals.is_empty()
            && self.connections == 0
            && self.not_counted == 0
            && self.handshakes == Handshakes::default()
            && self.handshakes_not_counted == Handshakes::default()
    }
}

impl Shared {
    /// For this many threads.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        Self {
            threads: (0..threads).map(|_| Mutex::new(Counted::new())).collect(),
            open: AtomicU64::new(0),
            peak_open: AtomicU64::new(0),
        }
    }

    /// A connection was opened.
    pub fn opened(&self) {
        let open = self.open.fetch_add(1, Ordering::Relaxed) + 1;
        self.peak_open.fetch_max(open, Ordering::Relaxed);
    }

    /// A connection was closed.
    pub fn closed(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// Adds what a thread counted to its part, and empties it.
    ///
    /// # Panics
    /// Where another thread panicked while it held the part.
    pub fn add(&self, thread: usize, pass: &mut Pass) {
        if pass.is_empty() {
            return;
        }
        let mut counted = self.threads[thread].lock().expect("no thread panics here");
        counted.requests += pass.arrivals.len() as u64;
        // A connection may turn out not to count after a reset; it then was not counted since.
        counted.connections =
            (counted.connections + pass.connections).saturating_sub(pass.not_counted);
        let Pass { handshakes: new, handshakes_not_counted: not, .. } = *pass;
        let sum = &mut counted.handshakes;
        sum.full = (sum.full + new.full).saturating_sub(not.full);
        sum.resumed = (sum.resumed + new.resumed).saturating_sub(not.resumed);
        counted.max_requests = counted.max_requests.max(pass.max_requests);
        for &arrival in &pass.arrivals {
            if let Some(last) = counted.last_arrival {
                counted.gaps.saturating_record((arrival - last).max(1));
            }
            counted.last_arrival = Some(arrival);
        }
        pass.arrivals.clear();
        *pass = Pass { arrivals: std::mem::take(&mut pass.arrivals), ..Pass::default() };
    }

    /// The sums over all threads.
    ///
    /// # Panics
    /// Where another thread panicked while it held its part.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut sum = Counted::new();
        for part in &self.threads {
            let part = part.lock().expect("no thread panics here");
            sum.requests += part.requests;
            sum.connections += part.connections;
            sum.handshakes.full += part.handshakes.full;
            sum.handshakes.resumed += part.handshakes.resumed;
            sum.max_requests = sum.max_requests.max(part.max_requests);
            sum.gaps.add(&part.gaps).expect("histograms of one shape");
        }
        let gap = |ns: u64| (!sum.gaps.is_empty()).then_some(ns as f64 / 1_000.0);
        let max = sum.gaps.max();
        let quantile = |q| gap(sum.gaps.value_at_quantile(q).min(max));
        Stats {
            requests: sum.requests,
            connections: sum.connections,
            open: self.open.load(Ordering::Relaxed),
            peak_open: self.peak_open.load(Ordering::Relaxed),
            max_requests_per_connection: sum.max_requests,
            tls_full: sum.handshakes.full,
            tls_resumed: sum.handshakes.resumed,
            gap_us: Gaps { p50: quantile(0.5), p99: quantile(0.99), max: gap(max) },
        }
    }

    /// Forgets all but what is open now.
    ///
    /// # Panics
    /// Where another thread panicked while it held its part.
    pub fn reset(&self) {
        for part in &self.threads {
            *part.lock().expect("no thread panics here") = Counted::new();
        }
        self.peak_open.store(self.open.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(arrivals: &[Nanos]) -> Pass {
        let handshakes = Handshakes { full: 1, resumed: 2 };
        Pass {
            arrivals: arrivals.to_vec(),
            connections: 2,
            handshakes,
            max_requests: 3,
            ..Pass::default()
        }
    }

    #[test]
    fn sums_over_threads_and_passes() {
        let shared = Shared::new(2);
        for _ in 0..3 {
            shared.opened();
        }
        shared.closed();
        shared.add(0, &mut pass(&[1_000, 101_000]));
        shared.add(0, &mut pass(&[201_000]));
        shared.add(1, &mut pass(&[5_000]));
        let stats = shared.stats();
        assert_eq!((stats.requests, stats.connections), (4, 6));
        assert_eq!((stats.open, stats.peak_open), (2, 3));
        assert_eq!((stats.tls_full, stats.tls_resumed), (3, 6));
        assert_eq!(stats.max_requests_per_connection, 3);
        assert_eq!(stats.gap_us.max.map(f64::round), Some(100.0));
        assert_eq!(stats.gap_us.p50.map(f64::round), Some(100.0));
    }

    #[test]
    fn a_reset_forgets_the_last_arrival_too() {
        let shared = Shared::new(1);
        shared.opened();
        shared.add(0, &mut pass(&[1_000]));
        shared.reset();
        let stats = shared.stats();
        assert_eq!((stats.requests, stats.connections, stats.peak_open), (0, 0, 1));
        shared.add(0, &mut pass(&[2_000_000_000]));
        assert_eq!(shared.stats().gap_us, Gaps { p50: None, p99: None, max: None });
    }

    #[test]
    fn a_connection_that_only_asks_is_not_counted() {
        let shared = Shared::new(1);
        let not = Handshakes { full: 0, resumed: 1 };
        let mut asking = Pass { not_counted: 1, handshakes_not_counted: not, ..Pass::default() };
        shared.add(0, &mut pass(&[]));
        shared.add(0, &mut asking);
        let stats = shared.stats();
        assert_eq!((stats.connections, stats.tls_full, stats.tls_resumed), (1, 1, 1));
    }

    #[test]
    fn json_has_the_names_of_the_contract() {
        let json = serde_json::to_value(Shared::new(1).stats()).expect("json");
        for name in [
            "requests",
            "connections",
            "open",
            "peak_open",
            "max_requests_per_connection",
            "tls_full",
            "tls_resumed",
        ] {
            assert_eq!(json[name], 0, "{name}");
        }
        for name in ["p50", "p99", "max"] {
            assert!(json["gap_us"].get(name).is_some(), "{name}");
        }
    }
}
