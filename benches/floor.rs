//! The floor: the least that any `io_uring` client of an HTTP server must do.
//!
//! Nothing is parsed and nothing is recorded. The length of the response is learned from a first
//! exchange; from then on bytes are counted, and when all of them are there the next request goes
//! out. What the engine costs above this is the price of knowing what came back.
//!
//! The options beyond address, path, `-c` and `-d` are the trials behind docs/BENCHMARKING.md:
//! each is a way to do the same work, and the defaults are the cheapest that was found.
//!
//! ```text
//! cargo bench --bench floor -- keepalive 127.0.0.1:8080 /700 -c 64 -d 5
//! cargo bench --bench floor -- connect 127.0.0.1:8080 /700 -c 64 -d 5 --json
//! ```

#[path = "floor/connect.rs"]
mod connect;
#[path = "floor/keepalive.rs"]
mod keepalive;
#[path = "floor/ring.rs"]
mod ring;
#[path = "floor/work.rs"]
mod work;

use std::io;

use clap::{Args, Parser, Subcommand};

/// The bare ring program.
#[derive(Parser)]
struct Command {
    #[command(subcommand)]
    work: Work,
    /// Cargo adds it to whatever it runs under `cargo bench`.
    #[arg(long, global = true, hide = true)]
    bench: bool,
}

#[derive(Subcommand)]
enum Work {
    /// Asks again and again over connections that stay open.
    Keepalive {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        options: keepalive::Options,
    },
    /// Opens a connection for each request.
    Connect {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        options: connect::Options,
    },
}

/// What both kinds of work are told.
#[derive(Args, Clone)]
pub struct Common {
    #[command(flatten)]
    work: work::Options,
    /// Completions to wait for in each enter.
    #[arg(long, default_value_t = 32)]
    want: u32,
    /// Microseconds after which one completion is enough; 0: none.
    #[arg(long, default_value_t = 100)]
    min_wait: u32,
    /// Bytes in a provided buffer.
    #[arg(long, default_value_t = 4096)]
    buffer: u32,
    /// Provided buffers; a power of two.
    #[arg(long, default_value_t = 64)]
    buffers: u16,
    /// Provided buffers are filled one piece after the other (Linux 6.12).
    #[arg(long)]
    incremental: bool,
    /// Waiting is not accounted as I/O wait (Linux 6.15).
    #[arg(long)]
    no_iowait: bool,
}

fn main() -> io::Result<()> {
    match Command::parse().work {
        Work::Keepalive { common, options } => {
            work::measure("keepalive", &common.work, || keepalive::run(&common, &options))
        }
        Work::Connect { common, options } => {
            work::measure("connect", &common.work, || connect::run(&common, &options))
        }
    }
}
