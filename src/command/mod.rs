//! The subcommands: plan, run, judge, show.

mod beside;
pub mod doctor;
mod exit;
pub mod run;
pub mod serve;
pub mod watch;

pub use exit::{Exit, Failure};
