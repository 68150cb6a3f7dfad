//! How failures are made: from an errno, a scan error, or a deadline.

use crate::clock::Nanos;
use crate::http1::response::ScanError;
use crate::stats::{Fault, FaultKind, Phase};
use crate::tls::failure;

/// A failure with this errno.
pub(super) fn of_errno(phase: Phase, errno: i32, now: Nanos) -> Fault {
    Fault { errno, ..of_kind(phase, FaultKind::of_errno(errno), now) }
}

/// A failure that has no errno.
pub(super) fn of_kind(phase: Phase, kind: FaultKind, now: Nanos) -> Fault {
    Fault { phase, kind, errno: 0, detail: "", bytes: Vec::new(), at_ns: now }
}

/// A session that cannot be made or went wrong. `missed`: the server asked for a certificate of the
/// client's, and there was none.
pub(super) fn of_tls(phase: Phase, error: &rustls::Error, missed: bool, now: Nanos) -> Fault {
    failure::of(error, missed).fault(phase, now)
}

/// A response that is none.
pub(super) fn of_scan(error: ScanError, now: Nanos) -> Fault {
    let ScanError { phase, kind, detail, bytes } = error;
    Fault { phase, kind, errno: 0, detail, bytes, at_ns: now }
}
