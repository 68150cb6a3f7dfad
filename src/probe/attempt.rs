//! One probe: a fresh connection, one request, its whole answer, all before a deadline.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rustls::StreamOwned;

use super::{LIMIT, ProbeError, ProbeFailure, ProbeOutcome};
use crate::http1::request::encode;
use crate::http1::response::{ScanError, Scanner, Stage, Step};
use crate::net;
use crate::plan::ParsedUrl;
use crate::plan::pages::Scheme;
use crate::stats::{FaultKind, Phase};
use crate::tls::failure::Failure;
use crate::tls::{self, Client, Roots, Settings};

/// What is received at once.
const BUFFER_LEN: usize = 16 * 1024;

/// Where probes go, and what they say.
pub(super) struct Destination {
    address: SocketAddr,
    request: Vec<u8>,
    tls: Option<Client>,
}

impl Destination {
    /// Resolves and encodes, once.
    pub(super) fn of(url: &ParsedUrl, settings: &Settings) -> Result<Self, ProbeError> {
        let found = net::resolve(&url.host, url.port, None).map_err(ProbeError::Resolve)?;
        // A name that resolves has an address.
        let address = net::answering(found, LIMIT).addresses[0];
        let tls = match url.scheme {
            Scheme::Http => None,
            Scheme::Https => {
                let roots = Roots::for_settings(settings).map_err(ProbeError::Roots)?;
                Some(Client::new(settings, &roots).map_err(ProbeError::Tls)?)
            }
        };
        Ok(Self { address, request: request(url)?, tls })
    }

    /// Sends one.
    pub(super) fn attempt(&self, limit: Duration) -> ProbeOutcome {
        let sent_at = Instant::now();
        let failure = self.exchange(sent_at, limit).err();
        ProbeOutcome { sent_at, took: sent_at.elapsed(), failure }
    }

    fn exchange(&self, sent_at: Instant, limit: Duration) -> Result<(), ProbeFailure> {
        let stream = TcpStream::connect_timeout(&self.address, limit)
            .map_err(|error| failure(Phase::Connect, &error, false))?;
        // Nagle's algorithm would only delay what is complete. A socket that refuses it works too.
        let _ = stream.set_nodelay(true);
        let mut stream = Timed { stream, deadline: sent_at + limit };
        let Some(tls) = &self.tls else { return ask(&mut stream, &self.request) };
        let mut connection = tls.buffered().map_err(|error| tls_failure(&error, false))?;
        while connection.is_handshaking() {
            connection
                .complete_io(&mut stream)
                .map_err(|error| failure(Phase::Tls, &error, tls.take_certificate_missed()))?;
        }
        ask(&mut StreamOwned::new(connection, stream), &self.request)
    }
}

/// A GET that adds nothing but what HTTP needs, the program's name and, where the URL has them,
/// its credentials.
fn request(url: &ParsedUrl) -> Result<Vec<u8>, ProbeError> {
    let host = url.authority();
    let agent = concat!("ringload/", env!("CARGO_PKG_VERSION"));
    let authorization = url.credentials.as_ref().map(|credentials| {
        let pair = [&credentials.user[..], b":", &credentials.password].concat();
        format!("Basic {}", BASE64_STANDARD.encode(pair))
    });
    let mut headers = vec![("Host", host.as_bytes()), ("User-Agent", agent.as_bytes())];
    headers.extend(authorization.iter().map(|value| ("Authorization", value.as_bytes())));
    encode("GET", &url.target, headers, None, true).map_err(ProbeError::Request)
}

/// Sends the request and reads the answer to its end.
fn ask(stream: &mut (impl Read + Write), request: &[u8]) -> Result<(), ProbeFailure> {
    let sent = stream.write_all(request).and_then(|()| stream.flush());
    sent.map_err(|error| failure(Phase::Send, &error, false))?;
    let (mut scanner, mut carry) = (Scanner::new(false), Vec::new());
    let mut buffer = [0; BUFFER_LEN];
    loop {
        let received = match stream.read(&mut buffer) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(failure(phase(scanner.stage()), &error, false)),
        };
        if received == 0 {
            scanner.finish(&mut carry).map_err(scan_failure)?;
            break;
        }
        let step = scanner.feed(&mut carry, &buffer[..received]).map_err(scan_failure)?;
        if step != Step::More {
            break;
        }
    }
    match scanner.status() {
        status @ 500..=599 => Err(ProbeFailure {
            phase: Phase::Expectation,
            kind: FaultKind::Expectation,
            detail: format!("status {status}"),
        }),
        _ => Ok(()),
    }
}

/// The phase that a read belongs to.
fn phase(stage: Stage) -> Phase {
    if stage == Stage::Head { Phase::Head } else { Phase::Body }
}

fn scan_failure(error: ScanError) -> ProbeFailure {
    ProbeFailure { phase: error.phase, kind: error.kind, detail: error.detail.to_owned() }
}

/// What an error of TLS says, by the names that results have for it.
fn tls_failure(error: &rustls::Error, certificate_missed: bool) -> ProbeFailure {
    let Failure { kind, detail, .. } = tls::failure::of(error, certificate_missed);
    ProbeFailure { phase: Phase::Tls, kind, detail: detail.to_owned() }
}

/// What an I/O error says.
fn failure(phase: Phase, error: &io::Error, certificate_missed: bool) -> ProbeFailure {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let (kind, detail) = match (tls, error.raw_os_error(), error.kind()) {
        (Some(error), ..) => return tls_failure(error, certificate_missed),
        // A socket's time limit ends a call with EAGAIN (socket(7), SO_RCVTIMEO).
        (_, _, io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
            (FaultKind::Timeout, String::new())
        }
        (_, Some(errno), _) => match FaultKind::of_errno(errno) {
            FaultKind::Other => (FaultKind::Other, error.to_string()),
            kind => (kind, String::new()),
        },
        // Of rustls: the stream ended without its close_notify.
        (_, _, io::ErrorKind::UnexpectedEof) if phase == Phase::Body => {
            (FaultKind::Truncated, String::new())
        }
        (_, _, io::ErrorKind::UnexpectedEof) => (FaultKind::Closed, String::new()),
        _ => (FaultKind::Other, error.to_string()),
    };
    ProbeFailure { phase, kind, detail }
}

/// A socket on which no call lasts beyond a deadline.
struct Timed {
    stream: TcpStream,
    deadline: Instant,
}

impl Timed {
    fn left(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(buffer)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
