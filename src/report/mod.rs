//! A result in, text out.

pub mod csv;
pub mod hgrm;
pub mod json;
mod page;
pub mod progress;
pub mod text;

pub use progress::Progress;
