//! A plain client: blocking sockets and a reader that knows the server's answers.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use ringload::plan::serve::{ServePlan, Stall};
use ringload::serve::Server;

/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(20);

pub fn start() -> Server {
    start_with(1, None)
}

pub fn start_with(threads: usize, stall: Option<Stall>) -> Server {
    let http = "127.0.0.1:0".parse().ok();
    Server::start(&ServePlan {
        http,
        https: None,
        identity: None,
        threads,
        cpus: Vec::new(),
        stall,
    })
    .expect("a server")
}

/// One answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    /// Without chunks.
    pub body: Vec<u8>,
}

pub struct Client<S = TcpStream> {
    pub stream: S,
    /// Bytes that were read and not yet used.
    read: Vec<u8>,
}

impl Client {
    pub fn connect(server: &Server) -> Self {
        Self::from(TcpStream::connect(server.address()).expect("connects"))
    }

    pub fn from(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        Self::over(stream)
    }

    pub fn finish(&mut self) {
        self.stream.shutdown(Shutdown::Write).expect("shuts down");
    }
}

impl<S: Read + Write> Client<S> {
    pub fn over(stream: S) -> Self {
        Self { stream, read: Vec::new() }
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("sends");
    }

    pub fn get(&mut self, path: &str) -> Answer {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n"));
        self.answer()
    }

    /// The next answer.
    pub fn answer(&mut self) -> Answer {
        let (status, head) = self.head();
        let body = if let Some(length) = field(&head, "content-length") {
            self.bytes(length.parse().expect("a number"))
        } else if field(&head, "transfer-encoding").is_some() {
            self.chunks()
        } else {
            Vec::new()
        };
        Answer { status, head, body }
    }

    /// The next head alone.
    pub fn head(&mut self) -> (u16, String) {
        let end = loop {
            if let Some(at) = self.read.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            assert!(self.more().expect("a head") > 0, "closed in a head: {:?}", self.read);
        };
        let head = String::from_utf8(self.read.drain(..end).collect()).expect("text");
        assert!(head.starts_with("HTTP/1.1 "), "{head}");
        (head[9..12].parse().expect("a status"), head)
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        while self.read.len() < len {
            assert!(self.more().expect("a body") > 0, "closed in a body");
        }
        self.read.drain(..len).collect()
    }

    fn chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let line = loop {
                if let Some(at) = self.read.windows(2).position(|two| two == b"\r\n") {
                    break self.bytes(at + 2);
                }
                assert!(self.more().expect("a chunk") > 0, "closed in a chunk");
            };
            let size = std::str::from_utf8(&line).expect("text").trim_end();
            let size = usize::from_str_radix(size, 16).expect("a size");
            body.extend(self.bytes(size));
            assert_eq!(self.bytes(2), b"\r\n");
            if size == 0 {
                return body;
            }
        }
    }

    /// All that comes until the server closes.
    pub fn rest(&mut self) -> io::Result<Vec<u8>> {
        while self.more()? > 0 {}
        Ok(std::mem::take(&mut self.read))
    }

    fn more(&mut self) -> io::Result<usize> {
        let mut buffer = [0; 64 * 1024];
        let len = self.stream.read(&mut buffer)?;
        self.read.extend_from_slice(&buffer[..len]);
        Ok(len)
    }
}

/// The value of a header field.
pub fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// Waits until `holds`, for as long as a slow machine may need.
pub fn wait_until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..2_000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("never: {what}");
}
