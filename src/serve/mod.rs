//! The embedded server: a known answer for every path, on the same ring.
//!
//! One thread per CPU, each with a ring, a listener and connections of its own
//! (`SO_REUSEPORT` deals connections out). `worker` is one thread's pass;
//! `request`, `body` and `paths` read what is asked, `action` says what is done
//! for it, `answer` and `store` hold the bytes that are sent, `stats` counts.

mod action;
mod answer;
pub mod body;
mod connection;
mod paths;
mod recall;
pub mod request;
mod stats;
mod store;
mod timers;
mod worker;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use core_affinity::CoreId;
use socket2::{Domain, Protocol, Socket, Type};

pub use stats::{Gaps, Stats};

use crate::clock::Monotonic;
use crate::observe::limits::raise_nofile;
use crate::observe::process::set_timer_slack_1ns;
use crate::plan::serve::{ServePlan, Stall};
use crate::ring::kernel::KernelRing;
use crate::ring::{Features, Limits};
use stats::Shared;
use worker::{LISTENER, Parts, Worker};

/// Connections that may wait to be accepted, per thread; `net.core.somaxconn` bounds it.
const BACKLOG: i32 = 16 * 1024;
/// The most connections of a thread, where `RLIMIT_NOFILE` allows them.
const MAX_SLOTS: u64 = 64 * 1024;
/// Receive buffers of a thread.
const BUFFERS: u16 = 1024;
/// Bytes of a receive buffer: most requests fit one.
const BUFFER_LEN: u32 = 4096;

/// A server that runs. It is stopped when it is dropped.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Arc<AtomicBool>,
    /// Each thread's listener again, to end its accept.
    listeners: Vec<Socket>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Server {
    /// Starts the threads; all of them accept when this returns.
    ///
    /// # Errors
    /// The address cannot be bound, or a ring cannot be made (see [`KernelRing::new`]).
    pub fn start(plan: &ServePlan) -> io::Result<Self> {
        let slots = raise_nofile().soft.min(MAX_SLOTS) as u32;
        // On a thread of its own: the kernel takes a ring down behind its owner's back and
        // interrupts the owner's system calls for it (EINTR) a while after it was dropped.
        let features = thread::spawn(KernelRing::probe).join().map_err(|_| panicked())??;
        let listeners = listen(plan.http, plan.threads.max(1))?;
        let address = listeners[0].local_addr()?.as_socket().ok_or(io::ErrorKind::Unsupported)?;
        let mut server = Self {
            address,
            shared: Arc::new(Shared::new(listeners.len())),
            stop: Arc::new(AtomicBool::new(false)),
            listeners,
            threads: Vec::new(),
        };
        let clock = Monotonic::start();
        let (started, starts) = mpsc::channel();
        for thread in 0..server.listeners.len() {
            let seed = Seed {
                listener: server.listeners[thread].try_clone()?,
                limits: Limits { slots, buffers: BUFFERS, buffer_len: BUFFER_LEN, scratch_len: 0 },
                features,
                cpu: plan.cpus.get(thread % plan.cpus.len().max(1)).copied(),
                clock,
                shared: Arc::clone(&server.shared),
                thread,
                stop: Arc::clone(&server.stop),
                stall: plan.stall,
            };
            let started = started.clone();
            let name = format!("serve-{thread}");
            let run = move || seed.run(&started);
            server.threads.push(thread::Builder::new().name(name).spawn(run)?);
        }
        drop(started);
        for start in starts.iter().take(server.threads.len()) {
            start?;
        }
        Ok(server)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it counted so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// Stops: accepts no more, drops all connections, and waits for the threads.
    ///
    /// # Errors
    /// What a thread ended with.
    pub fn stop(mut self) -> io::Result<()> {
        self.join()
    }

    fn join(&mut self) -> io::Result<()> {
        self.stop.store(true, Ordering::Release);
        for listener in &self.listeners {
            // It ends the thread's accept; one that has ended already is none to end.
            let _ = listener.shutdown(std::net::Shutdown::Both);
        }
        let ends =
            self.threads.drain(..).map(|thread| thread.join().unwrap_or_else(|_| Err(panicked())));
        ends.fold(Ok(()), io::Result::and)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // After `stop` there is nothing left to join; here nobody asks for the error.
        let _ = self.join();
    }
}

/// What a thread is started with.
struct Seed {
    listener: Socket,
    limits: Limits,
    features: Features,
    cpu: Option<usize>,
    clock: Monotonic,
    shared: Arc<Shared>,
    thread: usize,
    stop: Arc<AtomicBool>,
    stall: Option<Stall>,
}

impl Seed {
    /// Makes the worker on its own thread, tells how that went, and runs it.
    fn run(self, started: &Sender<io::Result<()>>) -> io::Result<()> {
        match self.worker() {
            Ok(worker) => {
                let _ = started.send(Ok(()));
                worker.run()
            }
            Err(error) => {
                let _ = started.send(Err(error));
                Ok(())
            }
        }
    }

    fn worker(self) -> io::Result<Worker> {
        if let Some(id) = self.cpu {
            core_affinity::set_for_current(CoreId { id });
        }
        set_timer_slack_1ns()?;
        let mut ring = KernelRing::new(self.limits, self.features)?;
        ring.install_listener(LISTENER, self.listener.into())?;
        let Self { clock, shared, thread, stop, stall, .. } = self;
        Ok(Worker::new(Parts { ring, clock, shared, thread, stop, stall }))
    }
}

/// One listener a thread, all at the same address.
fn listen(address: SocketAddr, threads: usize) -> io::Result<Vec<Socket>> {
    if threads > 1 && address.port() != 0 {
        // With SO_REUSEPORT another server's port would be shared without a word.
        bind(address, false)?;
    }
    let first = bind(address, threads > 1)?;
    let address = first.local_addr()?.as_socket().ok_or(io::ErrorKind::Unsupported)?;
    let mut listeners = vec![first];
    for _ in 1..threads {
        listeners.push(bind(address, true)?);
    }
    for listener in &listeners {
        listener.listen(BACKLOG)?;
    }
    Ok(listeners)
}

fn bind(address: SocketAddr, share: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(share)?;
    // Accepted sockets inherit it.
    socket.set_tcp_nodelay(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

fn panicked() -> io::Error {
    io::Error::other("a thread of the server panicked")
}
