//! What was measured: counters, histograms, errors, and their merging.
//!
//! A [`Recorder`] belongs to one worker and is written on its hot path. Every second it hands a
//! [`Second`] to the control thread, where [`Live`] lays the workers' seconds over each other. At the
//! end it becomes [`WorkerStats`], and [`assemble::assemble`] makes one [`result::RunResult`] of all.

pub mod assemble;
pub mod distribution;
pub mod errors;
pub mod live;
pub mod pages;
pub mod recorder;
pub mod result;
pub mod second;
pub mod worker_stats;

pub use distribution::{Distribution, Summary};
pub use errors::{Fault, FaultKind, Phase};
pub use live::{Live, MergedSecond};
pub use recorder::{Exchange, Recorder};
pub use second::Second;
pub use worker_stats::WorkerStats;
