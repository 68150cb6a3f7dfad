//! Failures by phase and kind.

use crate::clock::Nanos;

/// Where a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// The name did not resolve.
    Resolve,
    /// Making the connection.
    Connect,
    /// The TLS handshake.
    Tls,
    /// Sending the request.
    Send,
    /// Before the end of the response's head.
    Head,
    /// In the response's body.
    Body,
    /// The response was complete and not as expected.
    Expectation,
}

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FaultKind {
    /// Nobody listens.
    Refused,
    /// The peer reset the connection.
    Reset,
    /// A deadline passed.
    Timeout,
    /// The peer closed before it answered.
    Closed,
    /// No route.
    Unreachable,
    /// No local port left.
    NoPorts,
    /// No descriptor left.
    NoDescriptors,
    /// The certificate was not accepted.
    Certificate,
    /// The handshake failed otherwise.
    Handshake,
    /// Not HTTP.
    Malformed,
    /// The body ended early.
    Truncated,
    /// Beyond a limit.
    TooLarge,
    /// Not as expected.
    Expectation,
    /// Anything else.
    Other,
}

/// One failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub phase: Phase,
    /// What.
    pub kind: FaultKind,
    /// The errno behind it, positive, or 0.
    pub errno: i32,
    /// A finer name where there is one, such as "chunk-size"; else empty.
    pub detail: &'static str,
    /// The first bytes of what was malformed, at most 64; else empty.
    pub bytes: Vec<u8>,
    /// When, on the run's clock.
    pub at_ns: Nanos,
}
