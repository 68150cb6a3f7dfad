//! Arguments that do not fit together, or name what is not there.

use std::fmt;

/// What is wrong, where, and what would be right, in one sentence for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mistake(String);

impl Mistake {
    /// A mistake, told in full.
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// With a remark behind it.
    pub(super) fn note(&self, remark: &str) -> Self {
        Self(format!("{} ({remark})", self.0))
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns a [`Mistake`] from the function, written as `format!` would.
macro_rules! wrong {
    ($($message:tt)*) => {
        return Err($crate::cli::mistake::Mistake::new(format!($($message)*)))
    };
}
pub(super) use wrong;
