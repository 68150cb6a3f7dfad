//! Servers of a few lines, for answers that no real server gives.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// A server that hands each connection to a function, on a thread of its own, until it is dropped.
pub struct Raw {
    pub address: SocketAddr,
    /// Connections accepted.
    pub accepted: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Raw {
    pub fn start(answer: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        Self::on("127.0.0.1:0".parse().unwrap(), answer)
    }

    pub fn on(address: SocketAddr, answer: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(address).expect("a free port");
        let address = listener.local_addr().unwrap();
        let (stop, accepted) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, count) = (Arc::clone(&stop), Arc::clone(&accepted));
        thread::spawn(move || {
            let answer = Arc::new(answer);
            for stream in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(stream) = stream else { return };
                count.fetch_add(1, Ordering::Relaxed);
                let answer = Arc::clone(&answer);
                thread::spawn(move || {
                    // No connection outlives a test by much.
                    let _ = stream.set_read_timeout(Some(Duration::from_secs(20)));
                    answer(stream);
                });
            }
        });
        Self { address, accepted, stop }
    }

    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the accept.
        let _ = TcpStream::connect(self.address);
    }
}

/// Reads one request without a body; `false` at the end of the stream.
pub fn read_request(stream: &mut TcpStream) -> bool {
    let mut seen = Vec::new();
    let mut byte = [0];
    while !seen.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => seen.push(byte[0]),
            _ => return false,
        }
    }
    true
}

/// Answers every request on the connection with the same bytes.
pub fn always(answer: &'static [u8]) -> impl Fn(TcpStream) + Send + Sync + 'static {
    move |mut stream| while read_request(&mut stream) && stream.write_all(answer).is_ok() {}
}
