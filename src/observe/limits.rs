//! The limits of this process, `RLIMIT_*`.

use std::fmt;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A soft limit, which counts, and the hard limit up to which it can be raised.
/// `u64::MAX` is unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// What counts.
    pub soft: u64,
    /// What `soft` can be raised to without privileges.
    pub hard: u64,
}

impl Limits {
    fn of(resource: Resource) -> Self {
        let limit = getrlimit(resource);
        Self { soft: limit.current.unwrap_or(u64::MAX), hard: limit.maximum.unwrap_or(u64::MAX) }
    }

    /// Checks that `needed` descriptors fit, `connections` of them for connections.
    ///
    /// # Errors
    /// Where they do not, with the numbers and the remedy.
    pub fn check_descriptors(
        self,
        needed: u64,
        connections: u64,
    ) -> Result<(), NotEnoughDescriptors> {
        if needed <= self.soft {
            return Ok(());
        }
        Err(NotEnoughDescriptors { needed, connections, limits: self })
    }
}

/// Descriptors that were asked for do not fit the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotEnoughDescriptors {
    /// Descriptors needed.
    pub needed: u64,
    /// How many of them are for connections.
    pub connections: u64,
    /// What is allowed.
    pub limits: Limits,
}

impl fmt::Display for NotEnoughDescriptors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { needed, connections, limits } = self;
        write!(
            f,
            "{connections} connections need {needed} descriptors, and this process may have {}; \
             use fewer connections (-c), or raise the limit: `ulimit -n {needed}` as root, \
             LimitNOFILE={needed} in a systemd unit, `docker run --ulimit nofile={needed}`",
            limits.soft
        )
    }
}

impl std::error::Error for NotEnoughDescriptors {}

/// The limit of open descriptors. It bounds the direct descriptors of each ring as well.
#[must_use]
pub fn nofile() -> Limits {
    Limits::of(Resource::Nofile)
}

/// Raises the soft limit of open descriptors to the hard one and gives the limits that then hold.
/// Where the kernel refuses that, they are as before.
#[must_use]
pub fn raise_nofile() -> Limits {
    let limit = getrlimit(Resource::Nofile);
    // The limits read afterwards say whether it worked.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    nofile()
}

/// The limit of locked memory, bytes.
#[must_use]
pub fn memlock() -> Limits {
    Limits::of(Resource::Memlock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soft_limit_is_raised_to_the_hard_one() {
        let before = nofile();
        let after = raise_nofile();
        assert_eq!(after.hard, before.hard);
        assert_eq!(after.soft, after.hard);
    }

    #[test]
    fn refusal_has_numbers_and_remedy() {
        let limits = Limits { soft: 1_024, hard: 1_024 };
        assert_eq!(limits.check_descriptors(1_024, 1_000), Ok(()));
        let error = limits.check_descriptors(5_024, 5_000).unwrap_err().to_string();
        assert!(error.starts_with("5000 connections need 5024 descriptors"), "{error}");
        assert!(error.contains("may have 1024;"), "{error}");
        assert!(error.contains("ulimit -n 5024"), "{error}");
    }
}
