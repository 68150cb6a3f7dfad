//! What the machine is and what it allows: `/proc`, `/sys` and the limits of this process.
//!
//! Everything here is read at the start or the end of a run, or on a thread of its own ([`watch`]),
//! never on a request's way. What cannot be read is `None`: a container hides much of it, and a run
//! does not fail for that.

pub mod cgroup;
pub mod cpus;
pub mod doctor;
mod environment;
pub mod interface;
pub mod limits;
pub mod machine;
pub mod process;
pub mod watch;

pub use environment::Environment;
