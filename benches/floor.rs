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

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

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
    /// The server.
    address: SocketAddr,
    /// The page.
    path: String,
    /// Connections that are kept busy.
    #[arg(short, default_value_t = 64)]
    connections: u32,
    /// Seconds.
    #[arg(short, default_value_t = 5.0)]
    duration: f64,
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
    #[arg(long, default_value_t = 256)]
    buffers: u16,
    /// Provided buffers are filled one piece after the other (Linux 6.12).
    #[arg(long)]
    incremental: bool,
    /// Waiting is not accounted as I/O wait (Linux 6.15).
    #[arg(long)]
    no_iowait: bool,
    /// One line of JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// What was counted while the work was done.
#[derive(Default)]
pub struct Counts {
    requests: u64,
    errors: u64,
    enters: u64,
    completions: u64,
    /// Provided buffers ran out and a multishot receive had to be armed again.
    no_buffers: u64,
}

fn main() -> io::Result<()> {
    let (common, name, run): (Common, &str, Box<dyn FnOnce(&Common) -> io::Result<Counts>>) =
        match Command::parse().work {
            Work::Keepalive { common, options } => {
                (common, "keepalive", Box::new(move |c| keepalive::run(c, &options)))
            }
            Work::Connect { common, options } => {
                (common, "connect", Box::new(move |c| connect::run(c, &options)))
            }
        };
    let (start, cpu_start_us) = (Instant::now(), cpu_us());
    let counts = run(&common)?;
    print(name, &common, &counts, start.elapsed(), cpu_us() - cpu_start_us);
    Ok(())
}

fn print(name: &str, common: &Common, counts: &Counts, elapsed: Duration, cpu_us: u64) {
    let Counts { requests, errors, enters, completions, no_buffers } = *counts;
    let seconds = elapsed.as_secs_f64();
    let per_request = |x: u64| x as f64 / requests.max(1) as f64;
    let rate = requests as f64 / seconds;
    let cpu = per_request(cpu_us);
    let busy = cpu_us as f64 / 1e6 / seconds;
    let per_enter = requests as f64 / enters.max(1) as f64;
    if common.json {
        println!(
            "{{\"work\":\"{name}\",\"requests\":{requests},\"errors\":{errors},\"seconds\":{seconds:.3},\
             \"rate\":{rate:.0},\"cpu_us_per_request\":{cpu:.3},\"busy\":{busy:.3},\"enters\":{enters},\
             \"requests_per_enter\":{per_enter:.2},\"completions\":{completions},\"no_buffers\":{no_buffers}}}"
        );
    } else {
        println!(
            "{name}: {requests} requests, {errors} errors in {seconds:.2} s, {rate:.0}/s; CPU {cpu:.3} us per \
             request, busy {busy:.2}; {per_enter:.1} requests per enter, {:.2} completions per request, \
             buffers ran out {no_buffers} times",
            per_request(completions)
        );
    }
}

/// User and system time of this process so far, in microseconds.
fn cpu_us() -> u64 {
    // SAFETY: an all-zero rusage is valid, and getrusage writes only into it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let us = |t: libc::timeval| t.tv_sec as u64 * 1_000_000 + t.tv_usec as u64;
    us(usage.ru_utime) + us(usage.ru_stime)
}

impl Common {
    /// The bytes of the request, which never change.
    fn request(&self, close: bool) -> Vec<u8> {
        let close = if close { "Connection: close\r\n" } else { "" };
        format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: floor\r\n{close}\r\n",
            self.path, self.address
        )
        .into_bytes()
    }

    /// Asks once and gives the length of the response, head and body.
    fn response_len(&self, request: &[u8]) -> io::Result<u64> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.write_all(request)?;
        let mut bytes = Vec::new();
        let mut chunk = [0; 4096];
        let head = loop {
            let n = stream.read(&mut chunk)?;
            if n == 0 {
                return Err(io::Error::other("the server closed before the head was complete"));
            }
            bytes.extend_from_slice(&chunk[..n]);
            if let Some(at) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
                break at + 4;
            }
        };
        let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
        let length = text
            .lines()
            .find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<u64>().ok())
            .ok_or_else(|| io::Error::other(format!("no Content-Length in {text}")))?;
        Ok(head as u64 + length)
    }
}
