//! What the embedded server is to do.

use std::net::SocketAddr;

use crate::clock::Nanos;
use crate::tls::Identity;

/// The embedded server, on its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServePlan {
    /// Where it listens for plain HTTP; port 0: a free one.
    pub http: Option<SocketAddr>,
    /// Where it listens for HTTPS; port 0: a free one. At least one of the two is there.
    pub https: Option<SocketAddr>,
    /// What it shows over TLS; `None`: a certificate for this machine that it signs itself.
    pub identity: Option<Identity>,
    /// Its threads, at least 1.
    pub threads: usize,
    /// The CPU of each thread; empty: not pinned.
    pub cpus: Vec<usize>,
    /// When it stands still.
    pub stall: Option<Stall>,
}

/// A time in which the server does nothing at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// How long, nanoseconds.
    pub duration_ns: Nanos,
    /// When, nanoseconds from the server's start.
    pub at_ns: Nanos,
}
