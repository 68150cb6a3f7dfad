//! Judges a result: who was the limit, and what was wrong with the measurement.

mod link;
pub mod remedy;
mod server;
pub mod verdict;
mod warnings;
pub mod words;

pub use verdict::judge;
