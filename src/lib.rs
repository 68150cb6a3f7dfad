//! ringload: a load generator for HTTP/1.1 on Linux io_uring.
//!
//! The rooms of the house, from the bottom up; a room uses only rooms below it
//! (see `docs/ARCHITECTURE.md`).
#![deny(unsafe_code)]

// Floor 1: what touches the kernel, the wire and the numbers.
pub mod clock;
pub mod http1;
pub mod net;
pub mod observe;
pub mod ring;
pub mod stats;
pub mod tls;
pub mod units;

// Floor 2: what is to be done, and the server to try it on.
pub mod judge;
pub mod plan;
pub mod serve;

// Floor 3: when, how it was typed, how it is shown.
pub mod cli;
pub mod pace;
pub mod report;

// Floors 4 and 5: the engine, the probe beside it, and the subcommands.
pub mod command;
pub mod engine;
pub mod probe;
