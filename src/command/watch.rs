//! `ringload watch`: samples of this machine, as JSON lines on standard output.
//!
//! It runs on the machine that is loaded, which may have little left: one thread, no ring, one
//! buffer for all that is read and one for what is written.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

use super::{Exit, Failure};
use crate::cli::WatchCommand;
use crate::observe::watch::{Line, Sampler, Ticker};
use crate::stats::result::Sample;

/// Writes a line at once and one each interval, until a signal comes or nobody reads any more.
///
/// # Errors
/// A control group that is not there, or standard output cannot be written.
pub fn run(command: &WatchCommand) -> Result<Exit, Failure> {
    let mut sampler =
        Sampler::new(&command.sources).map_err(|error| Failure::Use(error.to_string()))?;
    let mut alarm = Alarm::new().map_err(|error| Failure::output("signal handlers", &error))?;
    let host = fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let mut host = host.as_deref().map(str::trim);
    let (mut sample, mut notes, mut text) = (Sample::default(), Vec::new(), Vec::new());
    let started = Instant::now();
    let mut ticker = Ticker::start(command.interval);
    loop {
        notes.clear();
        text.clear();
        let unix_s = unix_seconds();
        let at = sampler.sample(&mut sample, &mut notes);
        sample.t_s = rounded(at.saturating_duration_since(started));
        let line = Line { unix_s, host: host.take(), sample: &sample, notes: &notes };
        write_line(&line, &mut text);
        let mut stdout = io::stdout().lock();
        match stdout.write_all(&text).and_then(|()| stdout.flush()) {
            Ok(()) => {}
            // Whoever read this has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Exit::Done),
            Err(error) => return Err(Failure::output("standard output", &error)),
        }
        if let Some(signal) = alarm.wait(ticker.wait(Instant::now())) {
            return Ok(Exit::Signal(signal));
        }
    }
}

/// One line, and its end.
fn write_line(line: &Line<'_>, text: &mut Vec<u8>) {
    serde_json::to_writer(&mut *text, line).expect("names and numbers are JSON");
    text.push(b'\n');
}

/// Seconds since 1970, to the millisecond.
fn unix_seconds() -> f64 {
    rounded(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Seconds, to the millisecond.
fn rounded(duration: Duration) -> f64 {
    duration.as_millis() as f64 / 1e3
}

/// Wakes a wait when a signal comes.
struct Alarm {
    /// The number of the last signal.
    signal: Arc<AtomicUsize>,
    /// Has a byte a signal.
    bell: UnixStream,
}

impl Alarm {
    fn new() -> io::Result<Self> {
        let signal = Arc::new(AtomicUsize::new(0));
        let (bell, ringer) = UnixStream::pair()?;
        for number in [SIGINT, SIGTERM] {
            // In this order: who wakes by the bell finds the number.
            flag::register_usize(number, Arc::clone(&signal), number as usize)?;
            low_level::pipe::register(number, ringer.try_clone()?)?;
        }
        Ok(Self { signal, bell })
    }

    /// Waits for so long, or for a signal, and gives the signal.
    fn wait(&mut self, duration: Duration) -> Option<i32> {
        let due = Instant::now() + duration;
        loop {
            let signal = self.signal.load(Ordering::Relaxed);
            if signal != 0 {
                return i32::try_from(signal).ok();
            }
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            // A limit below what the kernel can tell apart would be none at all; it cannot fail else.
            let limit = left.max(Duration::from_micros(10));
            let _ = self.bell.set_read_timeout(Some(limit));
            let _ = self.bell.read(&mut [0]);
        }
    }
}
