//! How a command ends: exit codes, and failures with their remedy.

use std::fmt;
use std::io;

use crate::engine::EngineError;
use crate::engine::prepare::PrepareError;

/// How a command ended that was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// As it should.
    Done,
    /// Not one request got a complete response.
    Unanswered,
    /// `--abort-if` ended it.
    Aborted,
    /// A signal ended it early; its number.
    Signal(i32),
    /// This machine lacks something (`doctor`).
    MachineCannot,
}

impl Exit {
    /// The process's exit code.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::MachineCannot => 3,
            Self::Unanswered => 4,
            Self::Aborted => 99,
            // As a shell reports a process that a signal ended.
            Self::Signal(signal) => 128_u8.saturating_add(u8::try_from(signal).unwrap_or(127)),
        }
    }
}

/// Why a command could not be carried out.
#[derive(Debug)]
pub enum Failure {
    /// A fault of this program, or of what it writes to.
    Internal(String),
    /// Wrong use.
    Use(String),
    /// This machine cannot.
    Machine(String),
    /// Nobody answers to that name.
    Unanswered(String),
}

impl Failure {
    /// The process's exit code.
    #[must_use]
    pub fn code(&self) -> u8 {
        match self {
            Self::Internal(_) => 1,
            Self::Use(_) => 2,
            Self::Machine(_) => 3,
            Self::Unanswered(_) => 4,
        }
    }

    /// `what` could not be written.
    #[must_use]
    pub fn output(what: &str, error: &io::Error) -> Self {
        Self::Internal(format!("cannot write {what}: {error}"))
    }

    /// The ring could not be made.
    #[must_use]
    pub fn ring(error: &io::Error) -> Self {
        let remedy = match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                "io_uring is forbidden here: by the sysctl kernel.io_uring_disabled (set it to 0), \
                 or by a container's seccomp profile (docs/containers.md has one that allows it)"
            }
            Some(libc::ENOSYS) => {
                "this kernel has no io_uring, or a seccomp profile hides it: ringload needs Linux \
                 6.1 or newer, in a container the profile of docs/containers.md"
            }
            Some(libc::EINVAL) => {
                "this kernel's io_uring is too old: ringload needs Linux 6.1 or newer"
            }
            Some(libc::EMFILE | libc::ENFILE) => {
                "too few descriptors: use fewer connections (-c) or raise `ulimit -n`"
            }
            Some(libc::ENOMEM) => {
                "too little memory may be locked: raise `ulimit -l`, or use fewer connections (-c)"
            }
            _ => "`ringload doctor` says what this machine lacks",
        };
        Self::Machine(format!("cannot set up io_uring: {error}\n{remedy}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Internal(text) | Self::Use(text) | Self::Machine(text) | Self::Unanswered(text)) =
            self;
        f.write_str(text)
    }
}

impl std::error::Error for Failure {}

impl From<PrepareError> for Failure {
    fn from(error: PrepareError) -> Self {
        let text = error.to_string();
        match error {
            PrepareError::Resolve(_) => Self::Unanswered(text),
            PrepareError::Descriptors(_) => Self::Machine(text),
            PrepareError::UnixPath(_)
            | PrepareError::Source(_)
            | PrepareError::Request(_)
            | PrepareError::Tls(_) => Self::Use(text),
        }
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Ring(error) => Self::ring(&error),
            EngineError::Enter(error) => Self::Internal(format!("io_uring_enter failed: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_end_as_in_a_shell() {
        assert_eq!(Exit::Signal(libc::SIGINT).code(), 130);
        assert_eq!(Exit::Signal(libc::SIGTERM).code(), 143);
    }

    #[test]
    fn a_refused_ring_names_the_remedy() {
        for (errno, word) in
            [(libc::EPERM, "seccomp"), (libc::ENOSYS, "6.1"), (libc::ENOMEM, "ulimit -l")]
        {
            let failure = Failure::ring(&io::Error::from_raw_os_error(errno));
            assert_eq!(failure.code(), 3);
            assert!(failure.to_string().contains(word), "{failure}");
        }
    }
}
