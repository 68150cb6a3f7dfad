//! Judges a result: who was the limit, and what was wrong with the measurement.

pub mod hold;
pub mod levels;
mod link;
pub mod memory;
pub mod objective;
pub mod recent;
pub mod remedy;
mod server;
pub mod settled;
pub mod verdict;
mod warnings;
pub mod words;

pub use verdict::judge;
