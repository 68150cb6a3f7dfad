//! A command that writes samples, over ssh or here: `cmd:`.

use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::lines::{LogReader, shown};
use super::series::Series;

/// A line is at most so long; the rest of it is a line of its own.
const MAX_LINE: u64 = 1 << 20;

/// How long a command may take to end once it was told to, before it is made to.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often it is looked whether it has ended.
const POLL: Duration = Duration::from_millis(10);

/// A command that is running, with all that it started.
#[derive(Debug)]
pub(super) struct Running {
    child: Arc<Mutex<Child>>,
    stopping: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

impl Running {
    /// Starts `sh -c COMMAND` in a process group of its own, so that Ctrl-C reaches it through us
    /// and its children end with it.
    ///
    /// # Errors
    /// The shell or a thread cannot be started.
    pub(super) fn start(command: &str, series: Arc<Mutex<Series>>) -> io::Result<Self> {
        let mut child = Command::new("sh")
            .args(["-c", command])
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let pipes = (child.stdout.take(), child.stderr.take());
        let (Some(stdout), Some(stderr)) = pipes else { unreachable!("both are piped") };
        let child = Arc::new(Mutex::new(child));
        let stopping = Arc::new(AtomicBool::new(false));
        let mut running = Self { child, stopping, reader: None };
        let (child, stopping) = (Arc::clone(&running.child), Arc::clone(&running.stopping));
        // Where no thread can be had, dropping `running` ends the command.
        running.reader = Some(
            thread::Builder::new()
                .name("watch".into())
                .spawn(move || follow(stdout, stderr, &child, &stopping, &series))?,
        );
        Ok(running)
    }

    /// Tells it to end, with all its children.
    pub(super) fn ask_to_end(&self) {
        self.stopping.store(true, Ordering::Release);
        self.signal(Signal::TERM);
    }

    /// Ends it with all its children, and waits until what it wrote is read.
    fn stop(&mut self) {
        let Some(reader) = self.reader.take() else { return self.signal(Signal::KILL) };
        self.ask_to_end();
        for is_last in [false, true] {
            if is_last {
                self.signal(Signal::KILL);
            }
            let deadline = Instant::now() + PATIENCE;
            while !reader.is_finished() && Instant::now() < deadline {
                thread::sleep(POLL);
            }
        }
        // One of its children may have left the group and hold the pipe: the reader is let go.
        if reader.is_finished() {
            let _ = reader.join();
        }
    }

    /// Signals the group, unless its leader was waited for: its number may be another's by then.
    fn signal(&self, signal: Signal) {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Ok(None), Some(group)) = (child.try_wait(), Pid::from_raw(child.id() as i32)) {
            // It may have ended just now.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Reads what the command writes until its end, and tells how that was.
fn follow(
    stdout: ChildStdout,
    stderr: ChildStderr,
    child: &Mutex<Child>,
    stopping: &AtomicBool,
    series: &Mutex<Series>,
) {
    let complaint = thread::Builder::new().name("watch".into()).spawn(move || last_line(stderr));
    let mut log = LogReader::default();
    let mut samples = 0_u64;
    for_each_line(stdout, |line| {
        let at = Instant::now();
        if let Some(reading) = log.read(line) {
            samples += 1;
            lock(series).push_reading(at, reading);
        }
    });
    let ended = Instant::now();
    let status = loop {
        let status = child.lock().unwrap_or_else(PoisonError::into_inner).try_wait();
        match status {
            Ok(Some(status)) => break Some(status),
            Ok(None) => thread::sleep(POLL),
            Err(_) => break None,
        }
    };
    let complaint = complaint.ok().and_then(|thread| thread.join().ok()).unwrap_or_default();
    let mut series = lock(series);
    if let Some(remark) = log.remark() {
        series.remark(ended, remark);
    }
    if !stopping.load(Ordering::Acquire) {
        series.remark(ended, told(status, &complaint));
    } else if samples == 0 {
        series.remark(ended, with("the command gave no sample".into(), &complaint));
    }
}

/// How a command ended that should not have.
fn told(status: Option<ExitStatus>, complaint: &str) -> String {
    let how = match status.map(|status| (status.code(), status.signal())) {
        Some((Some(127), _)) => "not found".into(),
        Some((Some(code), _)) => format!("exit code {code}"),
        Some((_, Some(signal))) => format!("signal {signal}"),
        _ => "how is not known".into(),
    };
    with(format!("the command ended ({how})"), complaint)
}

fn with(remark: String, complaint: &str) -> String {
    if complaint.is_empty() { remark } else { format!("{remark}: {complaint}") }
}

/// The last line with anything in it.
fn last_line(stderr: ChildStderr) -> String {
    let mut last = String::new();
    for_each_line(stderr, |line| {
        let line = shown(line);
        if !line.is_empty() {
            last = line;
        }
    });
    last
}

fn for_each_line(pipe: impl Read, mut each: impl FnMut(&str)) {
    let mut pipe = BufReader::new(pipe);
    let mut line = Vec::new();
    loop {
        line.clear();
        match pipe.by_ref().take(MAX_LINE).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => each(&String::from_utf8_lossy(&line)),
        }
    }
}

fn lock(series: &Mutex<Series>) -> std::sync::MutexGuard<'_, Series> {
    series.lock().unwrap_or_else(PoisonError::into_inner)
}
