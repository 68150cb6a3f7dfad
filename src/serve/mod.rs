//! The embedded server: a known answer for every path, on the same ring.
//!
//! One thread per CPU, each with a ring, listeners and connections of its own
//! (`SO_REUSEPORT` deals connections out). `worker` is one thread's pass;
//! `request`, `body` and `paths` read what is asked, `action` says what is done
//! for it, `answer` and `store` hold the bytes that are sent, `secure` is what
//! TLS adds to a connection, `stats` counts.

mod action;
mod answer;
pub mod body;
mod connection;
mod error;
mod paths;
mod recall;
pub mod request;
mod secure;
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
use rustls::pki_types::CertificateDer;
use socket2::{Domain, Protocol, Socket, Type};

pub use error::ServeError;
pub use stats::{Gaps, Stats};

use crate::clock::Monotonic;
use crate::observe::limits::raise_nofile;
use crate::observe::process::set_timer_slack_1ns;
use crate::plan::serve::{ServePlan, Stall};
use crate::ring::kernel::KernelRing;
use crate::ring::{Features, Limits};
use crate::tls;
use stats::Shared;
use worker::{Parts, Worker};

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
    http: Option<SocketAddr>,
    https: Option<SocketAddr>,
    tls: Option<tls::Server>,
    shared: Arc<Shared>,
    stop: Arc<AtomicBool>,
    /// All listeners again, to end their accepts.
    listeners: Vec<Socket>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Server {
    /// Starts the threads; all of them accept when this returns.
    ///
    /// # Errors
    /// An address cannot be bound, the certificate cannot be used, or a ring cannot be made.
    ///
    /// # Panics
    /// Where the plan has no address.
    pub fn start(plan: &ServePlan) -> Result<Self, ServeError> {
        assert!(plan.http.or(plan.https).is_some(), "a server that listens nowhere");
        let slots = raise_nofile().soft.min(MAX_SLOTS) as u32;
        // On a thread of its own: the kernel takes a ring down behind its owner's back and
        // interrupts the owner's system calls for it (EINTR) a while after it was dropped.
        let probe = thread::spawn(KernelRing::probe).join().unwrap_or_else(|_| Err(panicked()));
        let features = probe.map_err(ServeError::Ring)?;
        let threads = plan.threads.max(1);
        let tls = plan.https.map(|_| tls_server(plan)).transpose()?;
        let http = plan.http.map(|address| Door::open(address, None, threads)).transpose()?;
        let https = plan.https.map(|address| Door::open(address, tls.clone(), threads));
        let https = https.transpose()?;
        let mut server = Self {
            http: http.as_ref().map(|door| door.address),
            https: https.as_ref().map(|door| door.address),
            tls,
            shared: Arc::new(Shared::new(threads)),
            stop: Arc::new(AtomicBool::new(false)),
            listeners: Vec::new(),
            threads: Vec::new(),
        };
        let clock = Monotonic::start();
        let (started, starts) = mpsc::channel();
        for thread in 0..threads {
            let mut listeners = Vec::new();
            for door in http.iter().chain(&https) {
                let listener = &door.listeners[thread];
                server.listeners.push(listener.try_clone().map_err(ServeError::Thread)?);
                listeners
                    .push((listener.try_clone().map_err(ServeError::Thread)?, door.tls.clone()));
            }
            let seed = Seed {
                listeners,
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
            let spawned = thread::Builder::new().name(name).spawn(run);
            server.threads.push(spawned.map_err(ServeError::Thread)?);
        }
        drop(started);
        for start in starts.iter().take(server.threads.len()) {
            start.map_err(ServeError::Ring)?;
        }
        Ok(server)
    }

    /// Where it listens: for plain HTTP if it does, else for HTTPS.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.http.or(self.https).expect("one of both, as the start has seen")
    }

    /// Where it listens for plain HTTP.
    #[must_use]
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http
    }

    /// Where it listens for HTTPS.
    #[must_use]
    pub fn https_address(&self) -> Option<SocketAddr> {
        self.https
    }

    /// The certificate that it shows over TLS.
    #[must_use]
    pub fn certificate(&self) -> Option<CertificateDer<'static>> {
        self.tls.as_ref().map(|tls| tls.certificate().clone())
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
    /// With what their connections are over, if not plain TCP.
    listeners: Vec<(Socket, Option<tls::Server>)>,
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
        let mut listeners = Vec::new();
        for (slot, (socket, tls)) in (0..).zip(self.listeners) {
            ring.install_listener(slot, socket.into())?;
            listeners.push(tls);
        }
        let Self { clock, shared, thread, stop, stall, .. } = self;
        Ok(Worker::new(Parts { ring, listeners, clock, shared, thread, stop, stall }))
    }
}

/// An address, with a listener for each thread.
struct Door {
    address: SocketAddr,
    listeners: Vec<Socket>,
    tls: Option<tls::Server>,
}

impl Door {
    fn open(
        address: SocketAddr,
        tls: Option<tls::Server>,
        threads: usize,
    ) -> Result<Self, ServeError> {
        let secure = tls.is_some();
        let (address, listeners) = listen(address, threads)
            .map_err(|error| ServeError::Listen { address, secure, error })?;
        Ok(Self { address, listeners, tls })
    }
}

/// One listener a thread, all at the same address, which is given with its port.
fn listen(address: SocketAddr, threads: usize) -> io::Result<(SocketAddr, Vec<Socket>)> {
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
    Ok((address, listeners))
}

/// What connections are served over TLS with.
fn tls_server(plan: &ServePlan) -> Result<tls::Server, ServeError> {
    match &plan.identity {
        Some(tls::Identity { chain, key }) => tls::Server::new(chain.clone(), key.clone_key()),
        None => tls::Server::self_signed(),
    }
    .map_err(ServeError::Certificate)
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
