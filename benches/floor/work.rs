//! What the bench programs share: what they ask, and what they print.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use clap::Args;

/// What is asked of whom, and for how long.
#[derive(Args, Clone)]
pub struct Options {
    /// The server.
    pub address: SocketAddr,
    /// The page.
    pub path: String,
    /// Connections that are kept busy.
    #[arg(short, default_value_t = 64)]
    pub connections: u32,
    /// Seconds.
    #[arg(short, default_value_t = 5.0)]
    pub duration: f64,
    /// One line of JSON instead of text.
    #[arg(long)]
    pub json: bool,
}

/// What was counted while the work was done.
#[derive(Default)]
pub struct Counts {
    /// Complete responses.
    pub requests: u64,
    /// Responses that ended early.
    pub errors: u64,
    /// System calls into the ring; 0: not known.
    pub enters: u64,
    /// Completions that were seen; 0: not known.
    pub completions: u64,
    /// Provided buffers ran out and a multishot receive had to be armed again.
    pub no_buffers: u64,
}

/// Does the work, and prints what was counted and what it cost.
pub fn measure(
    name: &str,
    options: &Options,
    run: impl FnOnce() -> io::Result<Counts>,
) -> io::Result<()> {
    let (start, cpu_start_us) = (Instant::now(), cpu_us());
    let Counts { requests, errors, enters, completions, no_buffers } = run()?;
    let (seconds, cpu_us) = (start.elapsed().as_secs_f64(), cpu_us() - cpu_start_us);
    let rate = requests as f64 / seconds;
    let cpu = cpu_us as f64 / requests.max(1) as f64;
    let busy = cpu_us as f64 / 1e6 / seconds;
    let per_enter = requests as f64 / enters.max(1) as f64;
    if options.json {
        println!(
            "{{\"work\":\"{name}\",\"requests\":{requests},\"errors\":{errors},\"seconds\":{seconds:.3},\
             \"rate\":{rate:.0},\"cpu_us_per_request\":{cpu:.3},\"busy\":{busy:.3},\"enters\":{enters},\
             \"requests_per_enter\":{per_enter:.2},\"completions\":{completions},\"no_buffers\":{no_buffers}}}"
        );
    } else {
        println!(
            "{name}: {requests} requests, {errors} errors in {seconds:.2} s, {rate:.0}/s; \
             CPU {cpu:.3} us per request, busy {busy:.2}"
        );
        if enters > 0 {
            println!(
                "{per_enter:.1} requests per enter, {:.2} completions per request, \
                 buffers ran out {no_buffers} times",
                completions as f64 / requests.max(1) as f64
            );
        }
    }
    Ok(())
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

impl Options {
    /// The bytes of the request, which live as long as the process and never change.
    pub fn request(&self, close: bool) -> &'static [u8] {
        let close = if close { "Connection: close\r\n" } else { "" };
        let Self { path, address, .. } = self;
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nUser-Agent: floor\r\n{close}\r\n")
            .into_bytes()
            .leak()
    }

    /// Asks once and gives the length of the response, head and body.
    ///
    /// # Errors
    /// Those of the socket, and a response without `Content-Length`.
    pub fn response_len(&self, request: &[u8]) -> io::Result<u64> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.write_all(request)?;
        let mut bytes = Vec::new();
        let mut chunk = [0; 4096];
        let head_len = loop {
            let n = stream.read(&mut chunk)?;
            if n == 0 {
                return Err(io::Error::other("the server closed before the head was complete"));
            }
            bytes.extend_from_slice(&chunk[..n]);
            if let Some(at) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
                break at + 4;
            }
        };
        let head = String::from_utf8_lossy(&bytes[..head_len]).to_ascii_lowercase();
        let body_len = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<u64>().ok())
            .ok_or_else(|| io::Error::other(format!("no Content-Length in {head}")))?;
        Ok(head_len as u64 + body_len)
    }
}
