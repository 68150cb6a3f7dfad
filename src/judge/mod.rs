//! Judges a result: who was the limit, and what was wrong with the measurement.

pub mod remedy;
pub mod verdict;
mod warnings;
pub mod words;

pub use verdict::judge;
