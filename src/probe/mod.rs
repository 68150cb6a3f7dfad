//! A request a second beside the load, each on a connection of its own: whether the server still
//! answers somebody who comes anew, and how soon.
//!
//! It has a thread of its own and a blocking socket. It must not go through the ring that makes the
//! load: what is measured here is what another user would see.

mod attempt;

use std::collections::BTreeMap;
use std::fmt;
use std::panic;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::http1::request::RequestError;
use crate::net::ResolveError;
use crate::plan::ParsedUrl;
use crate::stats::result::ProbeResult;
use crate::stats::{FaultKind, Phase};
use crate::tls::{ClientError, RootsError, Settings};

use attempt::Destination;

/// From one probe to the next.
const INTERVAL: Duration = Duration::from_secs(1);
/// From the start of connecting to the last byte of the answer.
pub const LIMIT: Duration = Duration::from_secs(1);

/// A probe that runs until it is stopped, or dropped.
pub struct Probe {
    outcomes: Arc<Mutex<Vec<ProbeOutcome>>>,
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

/// What came of one probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeOutcome {
    /// When it began to connect.
    pub sent_at: Instant,
    /// From then to the last byte of the answer, or to when it failed; at most about [`LIMIT`].
    pub took: Duration,
    /// Why it failed, if it did.
    pub failure: Option<ProbeFailure>,
}

/// Why a probe failed. Its `Display` is what failures are counted by, such as `connect refused`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeFailure {
    /// Where.
    pub phase: Phase,
    /// What; an answer of status 5xx is [`FaultKind::Expectation`].
    pub kind: FaultKind,
    /// A finer name, such as `status 503`, or empty.
    pub detail: String,
}

/// Why a probe cannot be started.
#[derive(Debug)]
pub enum ProbeError {
    /// The name does not resolve.
    Resolve(ResolveError),
    /// The URL makes no request.
    Request(RequestError),
    /// TLS cannot be set up.
    Tls(ClientError),
    /// There is nobody to trust.
    Roots(RootsError),
}

impl fmt::Display for ProbeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("--probe: ")?;
        match self {
            Self::Resolve(error) => error.fmt(f),
            Self::Request(error) => error.fmt(f),
            Self::Tls(error) => error.fmt(f),
            Self::Roots(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ProbeError {}

impl fmt::Display for ProbeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind, &*self.detail) {
            (FaultKind::Expectation, detail) => f.write_str(detail),
            (kind, "") => write!(f, "{} {}", self.phase.name(), kind.name()),
            (kind, detail) => write!(f, "{} {} ({detail})", self.phase.name(), kind.name()),
        }
    }
}

impl Probe {
    /// Starts one: the first request leaves at once, the next ones a second apart. The name is
    /// resolved here, once, and of its addresses the first is probed that belongs to the family
    /// that answers. Over HTTPS by these settings; each probe makes a full handshake, as somebody
    /// who comes anew.
    ///
    /// # Errors
    /// Where the name does not resolve or the URL cannot be asked for.
    pub fn start(url: &ParsedUrl, settings: &Settings) -> Result<Self, ProbeError> {
        let destination = Destination::of(url, settings)?;
        let outcomes = Arc::new(Mutex::new(Vec::new()));
        let (stop, stopped) = mpsc::channel();
        let written = Arc::clone(&outcomes);
        let thread = thread::spawn(move || keep_probing(&destination, &written, &stopped));
        Ok(Self { outcomes, stop, thread })
    }

    /// The outcomes from this number on, in the order in which they were sent. A probe that waits
    /// for its answer is not among them yet.
    #[must_use]
    pub fn outcomes_since(&self, index: usize) -> Vec<ProbeOutcome> {
        let outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        outcomes.get(index..).unwrap_or_default().to_vec()
    }

    /// Ends it and gives all outcomes. One that waits for its answer is waited for, at most
    /// [`LIMIT`].
    ///
    /// # Panics
    /// Where its thread panicked: a fault of this program.
    #[must_use]
    pub fn stop(self) -> Vec<ProbeOutcome> {
        let Self { outcomes, stop, thread } = self;
        drop(stop);
        thread.join().unwrap_or_else(|cause| panic::resume_unwind(cause));
        std::mem::take(&mut outcomes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The probe's thread.
fn keep_probing(
    destination: &Destination,
    outcomes: &Mutex<Vec<ProbeOutcome>>,
    stopped: &Receiver<()>,
) {
    let mut due = Instant::now();
    loop {
        let wait = due.saturating_duration_since(Instant::now());
        if stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        let outcome = destination.attempt(LIMIT);
        outcomes.lock().unwrap_or_else(PoisonError::into_inner).push(outcome);
        due = next_due(due, Instant::now());
    }
}

/// A second after the last, without making up for those that this thread slept through.
fn next_due(last: Instant, now: Instant) -> Instant {
    let late = now.saturating_duration_since(last + INTERVAL);
    last + INTERVAL + INTERVAL * u32::try_from(late.as_secs()).unwrap_or(u32::MAX)
}

/// What a result says of these outcomes; `zero` is the start of recorded time.
#[must_use]
pub fn summary(outcomes: &[ProbeOutcome], zero: Instant) -> ProbeResult {
    let failed = || outcomes.iter().filter_map(|o| Some((o, o.failure.as_ref()?)));
    let mut failures = BTreeMap::new();
    for (_, failure) in failed() {
        *failures.entry(failure.to_string()).or_insert(0) += 1;
    }
    // As in a result's latencies: what ran out of time is in, other failures are not.
    let in_times = |o: &&ProbeOutcome| {
        o.failure.as_ref().is_none_or(|failure| failure.kind == FaultKind::Timeout)
    };
    let mut times: Vec<Duration> = outcomes.iter().filter(in_times).map(|o| o.took).collect();
    times.sort_unstable();
    let micros = |time: &Duration| time.as_nanos() as f64 / 1e3;
    ProbeResult {
        sent: outcomes.len() as u64,
        failed: failed().count() as u64,
        p50_us: times.get(times.len().saturating_sub(1) / 2).map(micros),
        max_us: times.last().map(micros),
        first_failed_s: failed()
            .next()
            .map(|(first, _)| first.sent_at.saturating_duration_since(zero).as_secs_f64()),
        failures,
    }
}

#[cfg(test)]
mod tests;
