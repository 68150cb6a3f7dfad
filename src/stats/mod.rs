//! What was measured: counters, histograms, errors, and their merging.

pub mod errors;
pub mod recorder;
pub mod result;

pub use errors::{Fault, FaultKind, Phase};
pub use recorder::{Exchange, Recorder, Second};
