//! What to do about a failure.

use crate::stats::{FaultKind, Phase};

/// What helps where no local port is free.
pub const PORTS: &str = "give more source addresses (--source), let connections carry more \
                         requests, or widen net.ipv4.ip_local_port_range";

/// What helps where no descriptor is free.
pub const DESCRIPTORS: &str =
    "raise the hard limit (ulimit -Hn, LimitNOFILE=), or ask for fewer connections (-c)";

/// What to do about failures of this phase and kind, where something can be said.
#[must_use]
pub fn remedy(phase: Phase, kind: FaultKind) -> Option<&'static str> {
    use FaultKind as Kind;
    Some(match (phase, kind) {
        (Phase::Resolve, _) => "check the name, or say where to connect (--connect-to)",
        (_, Kind::NoPorts) => PORTS,
        (_, Kind::NoDescriptors) => DESCRIPTORS,
        (Phase::Connect, Kind::Refused) => {
            "nobody listens on that address and port: check both, and whether the server is up"
        }
        (Phase::Connect, Kind::Unreachable) => {
            "check the route and the firewall, or choose the family (-4, -6)"
        }
        (Phase::Connect, Kind::Timeout) => {
            "the server's listen queue may be full (its backlog, net.core.somaxconn) or a firewall \
             drops SYNs; open connections more slowly (--open-rate)"
        }
        (Phase::Connect, Kind::Reset) => {
            "a layer before the server closes new connections; open them more slowly (--open-rate)"
        }
        (_, Kind::Timeout) => {
            "the server did not answer in time: lower the load, or allow more (--timeout)"
        }
        (_, Kind::Malformed) => "look at the bytes: is this an HTTP/1.1 port (and not HTTPS)?",
        (_, Kind::Truncated) => "the server sent less than it announced: look at its error log",
        (_, Kind::Closed | Kind::Reset) => {
            "the server ended the connection before it answered: look at its error log and its \
             limits of connections and workers"
        }
        (_, Kind::TooLarge) => "the answer's head is beyond the limits (64 KiB, 256 headers)",
        (_, Kind::Certificate) => "give the certificate (--cacert), or do not verify (-k)",
        (_, Kind::Handshake) => "check the server's TLS versions and that the port speaks TLS",
        (_, Kind::Refused | Kind::Unreachable | Kind::Expectation | Kind::Other) => return None,
    })
}
