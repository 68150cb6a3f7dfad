//! The floor's work over tokio-uring 0.5: one task per connection, on its own runtime.
//!
//! It keeps the choice of the bare `io-uring` crate measured. The runtime waits in epoll beside
//! its ring, and offers neither multishot receives nor provided buffers, direct descriptors,
//! linked operations or a wait for more than one completion.
//!
//! ```text
//! cargo bench --bench runtime -- keepalive 127.0.0.1:8080 /700 -c 64 -d 5
//! cargo bench --bench runtime -- connect 127.0.0.1:8080 /700 -c 64 -d 5 --json
//! ```

#[path = "floor/work.rs"]
mod work;

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use tokio_uring::net::TcpStream;

use crate::work::{Counts, Options};

/// Bytes of a connection's receive buffer.
const BUFFER_LEN: usize = 16 * 1024;

/// The same work over a runtime.
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
    Keepalive(Options),
    /// Opens a connection for each request.
    Connect(Options),
}

/// What a connection's task needs.
#[derive(Clone)]
struct Task {
    address: SocketAddr,
    request: &'static [u8],
    response_len: u64,
    end: Instant,
    requests: Rc<Cell<u64>>,
    errors: Rc<Cell<u64>>,
}

fn main() -> io::Result<()> {
    match Command::parse().work {
        Work::Keepalive(options) => work::measure("keepalive", &options, || run(&options, true)),
        Work::Connect(options) => work::measure("connect", &options, || run(&options, false)),
    }
}

fn run(options: &Options, keep: bool) -> io::Result<Counts> {
    let request = options.request(!keep);
    let task = Task {
        address: options.address,
        request,
        response_len: options.response_len(request)?,
        end: Instant::now() + Duration::from_secs_f64(options.duration),
        requests: Rc::default(),
        errors: Rc::default(),
    };
    let Task { requests, errors, .. } = task.clone();
    let mut ring = tokio_uring::uring_builder();
    ring.setup_single_issuer().setup_coop_taskrun().setup_submit_all();
    tokio_uring::builder().uring_builder(&ring).entries(1024).start(async move {
        let tasks: Vec<_> = (0..options.connections)
            .map(|_| {
                let task = task.clone();
                tokio_uring::spawn(async move {
                    if keep { task.keepalive().await } else { task.connect().await }
                })
            })
            .collect();
        for task in tasks {
            task.await.map_err(io::Error::other)??;
        }
        Ok::<_, io::Error>(())
    })?;
    Ok(Counts { requests: requests.get(), errors: errors.get(), ..Counts::default() })
}

impl Task {
    async fn keepalive(self) -> io::Result<()> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let mut buffer = Vec::with_capacity(BUFFER_LEN);
        while Instant::now() < self.end {
            stream.write_all(self.request).await.0?;
            let mut left = self.response_len;
            while left > 0 {
                let (result, back) = stream.read(buffer).await;
                buffer = back;
                let n = result? as u64;
                if n == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                left -= n;
            }
            self.requests.set(self.requests.get() + 1);
        }
        Ok(())
    }

    async fn connect(self) -> io::Result<()> {
        let mut buffer = Vec::with_capacity(BUFFER_LEN);
        while Instant::now() < self.end {
            let stream = TcpStream::connect(self.address).await?;
            stream.write_all(self.request).await.0?;
            let mut received = 0;
            loop {
                let (result, back) = stream.read(buffer).await;
                buffer = back;
                match result? as u64 {
                    0 => break,
                    n => received += n,
                }
            }
            let count = if received == self.response_len { &self.requests } else { &self.errors };
            count.set(count.get() + 1);
        }
        Ok(())
    }
}
