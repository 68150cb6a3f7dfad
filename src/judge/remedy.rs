//! What to do about a failure.

use crate::stats::errors::NO_CLOSE_NOTIFY;
use crate::stats::{FaultKind, Phase};

/// What helps where no local port is free.
pub const PORTS: &str = "give more source addresses (--source), let connections carry more \
                         requests, or widen net.ipv4.ip_local_port_range";

/// What helps where no descriptor is free.
pub const DESCRIPTORS: &str =
    "raise the hard limit (ulimit -Hn, LimitNOFILE=), or ask for fewer connections (-c)";

/// What to do about failures of this phase, kind and detail, where something can be said that their
/// example does not say.
#[must_use]
pub fn remedy(phase: Phase, kind: FaultKind, detail: &str) -> Option<&'static str> {
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
        (Phase::Tls, Kind::Timeout) => {
            "the handshake was not over in time: does this port speak TLS? Open connections more \
             slowly (--open-rate), or allow more (--connect-timeout)"
        }
        (Phase::Tls, Kind::Closed | Kind::Reset) => {
            "the server ended the connection in the handshake: does this port speak TLS, and a \
             version that is offered (--tls)? Look at its error log"
        }
        (_, Kind::Timeout) => {
            "the server did not answer in time: lower the load, or allow more (--timeout)"
        }
        (_, Kind::Malformed) => "look at the bytes: is this an HTTP/1.1 port (and not HTTPS)?",
        (_, Kind::Truncated) if detail == NO_CLOSE_NOTIFY => {
            "the server gave no length and ended the connection without saying so (close_notify), \
             so that nobody can tell whether the body is whole: let it send Content-Length"
        }
        (_, Kind::Truncated) => "the server sent less than it announced: look at its error log",
        (_, Kind::Closed | Kind::Reset) => {
            "the server ended the connection before it answered: look at its error log and its \
             limits of connections and workers"
        }
        (_, Kind::TooLarge) => "the answer's head is beyond the limits (64 KiB, 256 headers)",
        (_, Kind::Certificate) => return certificate(detail),
        (_, Kind::Handshake) => return handshake(detail),
        (_, Kind::Refused | Kind::Unreachable | Kind::Expectation | Kind::Other) => return None,
    })
}

/// About a certificate, the server's or the client's. The examples of most say what helps.
fn certificate(detail: &str) -> Option<&'static str> {
    Some(match detail {
        "expired" => "renew the server's certificate, or do not verify (-k)",
        "not-yet-valid" => {
            "set the clocks of both machines, renew the server's certificate, or do not verify (-k)"
        }
        "unknown-issuer" | "self-signed" | "wrong-host" | "ca-as-end-entity" => return None,
        "client-certificate-required" => return None,
        // Alerts have underscores: what the server says of the client's.
        alert if alert.contains('_') => return None,
        _ => "let the server show another certificate, or do not verify (-k)",
    })
}

/// About a handshake that failed otherwise.
fn handshake(detail: &str) -> Option<&'static str> {
    match detail {
        "not-tls" | "no-group" | "protocol-version" | "no-application-protocol" => None,
        _ => Some("check the server's TLS versions and that the port speaks TLS"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_helps_depends_on_what_is_wrong() {
        let of = |phase, kind, detail| remedy(phase, kind, detail).unwrap_or_default();
        let certificate = |detail| of(Phase::Tls, FaultKind::Certificate, detail);
        assert!(certificate("expired").contains("renew"));
        assert!(certificate("not-yet-valid").contains("clocks"));
        // Its example says --cert and --key.
        assert_eq!(certificate("client-certificate-required"), "");
        assert_eq!(certificate("unknown_ca"), "");
        assert!(certificate("bad-signature").contains("-k"));
        assert!(of(Phase::Tls, FaultKind::Timeout, "").contains("--connect-timeout"));
        assert!(of(Phase::Head, FaultKind::Timeout, "").contains("--timeout"));
        assert!(of(Phase::Body, FaultKind::Truncated, NO_CLOSE_NOTIFY).contains("close_notify"));
        assert!(of(Phase::Body, FaultKind::Truncated, "").contains("announced"));
    }
}
