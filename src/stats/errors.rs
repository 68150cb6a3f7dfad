//! Failures by phase and kind: what a failure is, and a bounded table that counts them.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::clock::Nanos;

/// The most different failures that are told apart; all later ones are counted as [`OVERFLOW`].
pub const MAX_KINDS: usize = 256;

/// The detail under which failures beyond [`MAX_KINDS`] are counted.
pub const OVERFLOW: &str = "more-kinds";

/// The detail of a body over TLS that a bare end of the connection ended, where only the server's
/// close_notify could have (RFC 8446, 6.1).
pub const NO_CLOSE_NOTIFY: &str = "no-close-notify";

/// The most bytes of a malformed head that an example keeps.
pub const EXAMPLE_BYTES: usize = 64;

/// Where a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
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
    /// The first bytes of what was malformed, at most 64; of other kinds what there is to say, in
    /// words; else empty.
    pub bytes: Vec<u8>,
    /// When, on the run's clock.
    pub at_ns: Nanos,
}

/// What tells failures apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FaultKey {
    /// Where.
    pub phase: Phase,
    /// What.
    pub kind: FaultKind,
    /// The errno behind it, positive, or 0.
    pub errno: i32,
    /// A finer name, or empty.
    pub detail: &'static str,
}

/// Failures of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultCount {
    /// How many.
    pub count: u64,
    /// When the first was.
    pub first_ns: Nanos,
    /// When the last was.
    pub last_ns: Nanos,
    /// The bytes of the first one that has any; else empty.
    pub bytes: Vec<u8>,
}

/// Failures counted by key, at most [`MAX_KINDS`] keys and one more for each phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultTable {
    counts: HashMap<FaultKey, FaultCount>,
}

impl Phase {
    /// Its name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Resolve => "resolve",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Send => "send",
            Self::Head => "head",
            Self::Body => "body",
            Self::Expectation => "expectation",
        }
    }
}

impl FaultKind {
    /// The kind of failure behind a positive errno of a socket operation.
    #[must_use]
    pub const fn of_errno(errno: i32) -> Self {
        match errno {
            libc::ECONNREFUSED => Self::Refused,
            libc::ECONNRESET | libc::EPIPE | libc::ECONNABORTED => Self::Reset,
            libc::ETIMEDOUT => Self::Timeout,
            libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ENETDOWN | libc::EHOSTDOWN => {
                Self::Unreachable
            }
            libc::EADDRNOTAVAIL => Self::NoPorts,
            libc::EMFILE | libc::ENFILE => Self::NoDescriptors,
            _ => Self::Other,
        }
    }

    /// Its name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Reset => "reset",
            Self::Timeout => "timeout",
            Self::Closed => "closed",
            Self::Unreachable => "unreachable",
            Self::NoPorts => "no-ports",
            Self::NoDescriptors => "no-descriptors",
            Self::Certificate => "certificate",
            Self::Handshake => "handshake",
            Self::Malformed => "malformed",
            Self::Truncated => "truncated",
            Self::TooLarge => "too-large",
            Self::Expectation => "expectation",
            Self::Other => "other",
        }
    }

    /// In words, where no errno and no bytes say more.
    const fn words(self) -> &'static str {
        match self {
            Self::Refused => "nobody listens there",
            Self::Reset => "the server reset the connection",
            Self::Timeout => "the time limit passed",
            Self::Closed => "the server closed the connection before it answered",
            Self::Unreachable => "no route to the server",
            Self::NoPorts => "no local port was free",
            Self::NoDescriptors => "no file descriptor was free",
            Self::Certificate => "the server's certificate was not accepted",
            Self::Handshake => "the TLS handshake failed",
            Self::Malformed => "the answer is not HTTP/1.1",
            Self::Truncated => "the body ended before its announced length",
            Self::TooLarge => "the answer exceeds a limit",
            Self::Expectation => "the answer was not as expected",
            Self::Other => "another failure",
        }
    }
}

impl FaultKey {
    /// Where everything beyond the table's limit is counted.
    const fn overflow(phase: Phase) -> Self {
        Self { phase, kind: FaultKind::Other, errno: 0, detail: OVERFLOW }
    }

    /// The finer name in results: the detail, else the errno's name, else empty.
    #[must_use]
    pub fn detail_text(&self) -> String {
        match (self.detail, self.errno) {
            ("", 0) => String::new(),
            ("", errno) => {
                errno_name(errno).map_or_else(|| format!("errno {errno}"), str::to_owned)
            }
            (detail, _) => detail.to_owned(),
        }
    }

    /// A short text for people: the words that came with it, or the escaped bytes of what was
    /// malformed, or the errno in words, or the kind in words.
    #[must_use]
    pub fn example(&self, bytes: &[u8]) -> String {
        match self.kind {
            _ if bytes.is_empty() => {}
            FaultKind::Certificate | FaultKind::Handshake | FaultKind::Other => {
                return String::from_utf8_lossy(bytes).into_owned();
            }
            _ => return bytes[..bytes.len().min(EXAMPLE_BYTES)].escape_ascii().to_string(),
        }
        if self.detail == NO_CLOSE_NOTIFY {
            return "the connection ended, and the server had not said that the body does".into();
        }
        if self.errno == 0 {
            return self.kind.words().to_owned();
        }
        let words = std::io::Error::from_raw_os_error(self.errno).to_string();
        words.split(" (os error").next().unwrap_or_default().to_owned()
    }
}

impl FaultTable {
    /// Counts one failure.
    pub fn add(&mut self, fault: Fault) {
        let Fault { phase, kind, errno, detail, bytes, at_ns } = fault;
        let key = self.admit(FaultKey { phase, kind, errno, detail });
        self.merge_one(key, FaultCount { count: 1, first_ns: at_ns, last_ns: at_ns, bytes });
    }

    /// Adds another table's failures.
    pub fn merge(&mut self, other: Self) {
        let mut others: Vec<_> = other.counts.into_iter().collect();
        others.sort_unstable_by_key(|(key, _)| *key);
        for (key, count) in others {
            let key = self.admit(key);
            self.merge_one(key, count);
        }
    }

    /// All failures.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.values().map(|c| c.count).sum()
    }

    /// What was counted, the most frequent first.
    #[must_use]
    pub fn sorted(&self) -> Vec<(&FaultKey, &FaultCount)> {
        let mut all: Vec<_> = self.counts.iter().collect();
        all.sort_unstable_by_key(|(key, c)| (std::cmp::Reverse(c.count), **key));
        all
    }

    /// The key itself while there is room for it, else the overflow's.
    fn admit(&self, key: FaultKey) -> FaultKey {
        if self.counts.len() < MAX_KINDS || self.counts.contains_key(&key) {
            key
        } else {
            FaultKey::overflow(key.phase)
        }
    }

    fn merge_one(&mut self, key: FaultKey, new: FaultCount) {
        match self.counts.get_mut(&key) {
            Some(old) => {
                if old.bytes.is_empty() || (new.first_ns < old.first_ns && !new.bytes.is_empty()) {
                    old.bytes = new.bytes;
                }
                old.count += new.count;
                old.first_ns = old.first_ns.min(new.first_ns);
                old.last_ns = old.last_ns.max(new.last_ns);
            }
            None => {
                self.counts.insert(key, new);
            }
        }
    }
}

/// The symbol of an errno that sockets give, as in `errno(3)`.
#[must_use]
pub fn errno_name(errno: i32) -> Option<&'static str> {
    let name = match errno {
        libc::EPERM => "EPERM",
        libc::ENOENT => "ENOENT",
        libc::EINTR => "EINTR",
        libc::EIO => "EIO",
        libc::EBADF => "EBADF",
        libc::EAGAIN => "EAGAIN",
        libc::ENOMEM => "ENOMEM",
        libc::EACCES => "EACCES",
        libc::EFAULT => "EFAULT",
        libc::EINVAL => "EINVAL",
        libc::ENFILE => "ENFILE",
        libc::EMFILE => "EMFILE",
        libc::EPIPE => "EPIPE",
        libc::EPROTO => "EPROTO",
        libc::ENOTSOCK => "ENOTSOCK",
        libc::EPROTOTYPE => "EPROTOTYPE",
        libc::EOPNOTSUPP => "EOPNOTSUPP",
        libc::EAFNOSUPPORT => "EAFNOSUPPORT",
        libc::EADDRINUSE => "EADDRINUSE",
        libc::EADDRNOTAVAIL => "EADDRNOTAVAIL",
        libc::ENETDOWN => "ENETDOWN",
        libc::ENETUNREACH => "ENETUNREACH",
        libc::ENETRESET => "ENETRESET",
        libc::ECONNABORTED => "ECONNABORTED",
        libc::ECONNRESET => "ECONNRESET",
        libc::ENOBUFS => "ENOBUFS",
        libc::EISCONN => "EISCONN",
        libc::ENOTCONN => "ENOTCONN",
        libc::ESHUTDOWN => "ESHUTDOWN",
        libc::ETIMEDOUT => "ETIMEDOUT",
        libc::ECONNREFUSED => "ECONNREFUSED",
        libc::EHOSTDOWN => "EHOSTDOWN",
        libc::EHOSTUNREACH => "EHOSTUNREACH",
        libc::EALREADY => "EALREADY",
        libc::EINPROGRESS => "EINPROGRESS",
        libc::ECANCELED => "ECANCELED",
        _ => return None,
    };
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(errno: i32, at_ns: Nanos) -> Fault {
        Fault {
            phase: Phase::Connect,
            kind: FaultKind::Refused,
            errno,
            detail: "",
            bytes: Vec::new(),
            at_ns,
        }
    }

    #[test]
    fn same_failures_share_a_row_with_first_and_last() {
        let mut table = FaultTable::default();
        for at_ns in [70, 20, 50] {
            table.add(fault(libc::ECONNREFUSED, at_ns));
        }
        let rows = table.sorted();
        assert_eq!(rows.len(), 1);
        let (key, count) = rows[0];
        assert_eq!((count.count, count.first_ns, count.last_ns), (3, 20, 70));
        assert_eq!(key.detail_text(), "ECONNREFUSED");
        assert_eq!(key.example(&count.bytes), "Connection refused");
    }

    #[test]
    fn the_table_is_bounded_and_loses_no_failure() {
        let mut table = FaultTable::default();
        for errno in 1..=1000 {
            table.add(fault(errno, 1));
        }
        assert_eq!(table.total(), 1000);
        assert_eq!(table.sorted().len(), MAX_KINDS + 1);
        let (key, count) = table.sorted()[0];
        assert_eq!((key.detail, count.count), (OVERFLOW, 1000 - MAX_KINDS as u64));

        let mut other = FaultTable::default();
        for errno in 2000..2300 {
            other.add(fault(errno, 1));
        }
        table.merge(other);
        assert_eq!(table.total(), 1300);
        assert_eq!(table.sorted().len(), MAX_KINDS + 1);
    }

    #[test]
    fn bytes_from_outside_come_out_escaped() {
        let key = FaultKey { phase: Phase::Head, kind: FaultKind::Malformed, errno: 0, detail: "" };
        assert_eq!(key.example(b"\x1b[31mhi\r\n\xff"), r"\x1b[31mhi\r\n\xff");
        assert_eq!(key.example(b""), "the answer is not HTTP/1.1");
        assert_eq!(key.example(&[b'a'; 200]).len(), EXAMPLE_BYTES);
    }

    #[test]
    fn words_come_out_as_they_are() {
        let words = "the certificate is for b\u{fc}cher.example; ".repeat(3);
        for kind in [FaultKind::Certificate, FaultKind::Handshake, FaultKind::Other] {
            let key = FaultKey { phase: Phase::Tls, kind, errno: 0, detail: "wrong-host" };
            assert_eq!(key.example(words.as_bytes()), words);
        }
    }

    #[test]
    fn names_are_the_contracts() {
        for (kind, name) in [(FaultKind::NoPorts, "no-ports"), (FaultKind::TooLarge, "too-large")] {
            assert_eq!(kind.name(), name);
            assert_eq!(serde_json::to_value(kind).unwrap(), name);
        }
        assert_eq!(serde_json::to_value(Phase::Expectation).unwrap(), Phase::Expectation.name());
    }
}
