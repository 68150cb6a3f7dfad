//! The subcommands: plan, run, judge, show.

mod beside;
pub mod doctor;
mod exit;
pub mod hold;
mod outputs;
pub mod run;
mod secure;
pub mod serve;
mod signals;
pub mod watch;

pub use exit::{Exit, Failure};
