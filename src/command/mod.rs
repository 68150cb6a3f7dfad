//! The subcommands: plan, run, judge, show.

pub mod doctor;
