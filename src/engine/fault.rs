//! How failures are made: from an errno, a scan error, or a deadline.

use crate::clock::Nanos;
use crate::http1::response::ScanError;
use crate::stats::{Fault, FaultKind, Phase};

/// A failure with this errno.
pub(super) fn of_errno(phase: Phase, errno: i32, now: Nanos) -> Fault {
    Fault { errno, ..of_kind(phase, FaultKind::of_errno(errno), now) }
}

/// A failure that has no errno.
pub(super) fn of_kind(phase: Phase, kind: FaultKind, now: Nanos) -> Fault {
    Fault { phase, kind, errno: 0, detail: "", bytes: Vec::new(), at_ns: now }
}

/// A session that cannot be made or went wrong.
pub(super) fn of_tls(phase: Phase, error: &rustls::Error, _missed: bool, now: Nanos) -> Fault {
    Fault {
        detail: "",
        bytes: error.to_string().into_bytes(),
        ..of_kind(phase, FaultKind::Handshake, now)
    }
}

/// A response that is none.
pub(super) fn of_scan(error: ScanError, now: Nanos) -> Fault {
    let ScanError { phase, kind, detail, bytes } = error;
    Fault { phase, kind, errno: 0, detail, bytes, at_ns: now }
}
