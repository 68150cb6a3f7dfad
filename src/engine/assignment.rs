//! What one worker is to do, resolved: addresses, encoded requests, its share of the load.

use std::net::SocketAddr;
use std::sync::Arc;

use socket2::SockAddr;

use super::hold::Control;
use super::secure::Tls;
use crate::clock::{Nanos, SECOND};
use crate::plan::{Arrive, Lifetime, Pick, Profile, Ratio, Spacing, Spin, Traffic};
use crate::ring::{Family, SocketOption};

/// A request, encoded once.
#[derive(Clone, Debug)]
pub struct EncodedPage {
    /// The bytes that keep the connection.
    pub keep: Vec<u8>,
    /// The bytes that say `Connection: close`.
    pub close: Vec<u8>,
    /// `HEAD`: the response has no body.
    pub head: bool,
    /// Whether it may be sent once more (RFC 9110, 9.2.2).
    pub idempotent: bool,
    /// Against the other pages.
    pub weight: u32,
}

/// The load of all workers; a worker takes its share of it.
#[derive(Clone, Debug)]
pub enum Demand {
    /// Closed model.
    Closed {
        /// Places over time.
        places: Profile,
    },
    /// Open model.
    Open {
        /// Arrivals per second, over time.
        rate: Profile,
        /// Their spacing.
        spacing: Spacing,
        /// What an arrival starts.
        arrive: Arrive,
        /// Connections open at once, over time.
        max_connections: Profile,
        /// Connections opened before the clock starts, over all workers.
        preconnect: u32,
        /// Arrivals that found no place for so long are dropped.
        drop_after_ns: Option<Nanos>,
    },
    /// Connections in levels.
    Hold {
        /// What is wanted, and what is there.
        control: Arc<Control>,
        /// What goes over the connections.
        traffic: Traffic,
        /// Whether each makes a request when it is open.
        first_request: bool,
    },
}

/// What one worker is to do.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// Which worker of how many this is.
    pub thread: u32,
    /// How many workers there are.
    pub threads: u32,
    /// What is asked for.
    pub pages: Vec<EncodedPage>,
    /// How the next page is chosen.
    pub pick: Pick,
    /// Addresses to connect to, in turn; one family.
    pub addresses: Vec<SockAddr>,
    /// Their family.
    pub family: Family,
    /// Addresses to connect from, in turn.
    pub sources: Vec<SockAddr>,
    /// Options of each socket.
    pub options: Vec<SocketOption>,
    /// Connections are closed with RST, and no FIN is waited for.
    pub reset_on_close: bool,
    /// How connections are made over TLS, if they are.
    pub tls: Option<Tls>,
    /// The load.
    pub demand: Demand,
    /// Connections opened per second, over all workers.
    pub open_rate: Option<Ratio>,
    /// Requests or clients to start, over all workers.
    pub requests: Option<u64>,
    /// Length of the recorded time.
    pub duration_ns: Option<Nanos>,
    /// Load before it.
    pub warmup_ns: Nanos,
    /// Of a request.
    pub timeout_ns: Nanos,
    /// Of a connection.
    pub connect_timeout_ns: Nanos,
    /// For what is in flight at the end.
    pub grace_ns: Nanos,
    /// Requests a connection carries.
    pub lifetime: Lifetime,
    /// Wait between a response and the next request.
    pub think_ns: Option<(Nanos, Nanos)>,
    /// Polling before a due time.
    pub spin: Spin,
    /// Whether the closed model may wait for several completions.
    pub batch: bool,
    /// Of every random choice.
    pub seed: u64,
    /// The most connections of this worker.
    pub slots: u32,
}

impl Assignment {
    /// A load of one page at one address over plain TCP on one thread, without an end, with the
    /// contract's timeouts: what tests and benchmarks change a field or two of.
    #[must_use]
    pub fn of_page(page: EncodedPage, address: SocketAddr, demand: Demand) -> Self {
        Self {
            thread: 0,
            threads: 1,
            pages: vec![page],
            pick: Pick::InOrder,
            addresses: vec![address.into()],
            family: if address.is_ipv4() { Family::V4 } else { Family::V6 },
            sources: Vec::new(),
            options: Vec::new(),
            reset_on_close: false,
            tls: None,
            demand,
            open_rate: None,
            requests: None,
            duration_ns: None,
            warmup_ns: 0,
            timeout_ns: 10 * SECOND,
            connect_timeout_ns: 5 * SECOND,
            grace_ns: 5 * SECOND,
            lifetime: Lifetime::All,
            think_ns: None,
            spin: Spin::Never,
            batch: false,
            seed: 1,
            slots: 64,
        }
    }

    /// This worker's part of `total`, which all parts add up to.
    #[must_use]
    pub fn share(&self, total: u64) -> u64 {
        let (thread, threads) = (u64::from(self.thread), u64::from(self.threads));
        total / threads + u64::from(thread < total % threads)
    }
}
