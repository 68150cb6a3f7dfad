//! Watching a machine while a load runs: this one, or another through what a command writes.
//!
//! [`Watch`] is what `--watch` starts: a thread a source, which fills its series; at the end each
//! series becomes a [`WatchRow`]. [`Sampler`] looks at this machine and is all that `ringload watch`
//! needs, on a kernel as old as 3.10. `docs/watch.md` says where each figure comes from.

mod command;
mod follow;
mod group;
mod kernel_memory;
mod lines;
mod listeners;
mod machine;
mod process;
mod sampler;
mod series;
mod skew;
mod source;
mod text;
mod vmstat;
mod zones;

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

pub use kernel_memory::{KernelMemory, kernel_socket_memory};
pub use lines::Line;
pub use sampler::{NoSuchGroup, Sampler, Ticker};
pub use series::Zero;
pub use source::{Source, SourceError};

use crate::stats::result::{ProcessSample, Sample, WatchRow};
use lines::LogReader;
use series::Series;

/// Samples that are being taken, one series a source. Dropping it ends all threads and commands.
#[derive(Debug)]
pub struct Watch {
    watched: Vec<Watched>,
    started: Instant,
    interval: Duration,
}

/// A source that cannot give anything, ever.
#[derive(Debug)]
pub enum WatchError {
    /// The file cannot be read.
    File(PathBuf, io::Error),
    /// The command cannot be started.
    Command(String, io::Error),
    /// There is no such control group.
    Group(NoSuchGroup),
    /// No thread can be started.
    Thread(io::Error),
}

impl fmt::Display for WatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, error) => write!(
                f,
                "cannot read {}: {error}; it has to be there when the run begins (start `vmstat -n \
                 -t 1` before it)",
                path.display()
            ),
            Self::Command(command, error) => write!(
                f,
                "cannot start \"{command}\": {error}; commands are run by `sh`, which has to be in \
                 PATH"
            ),
            Self::Group(error) => error.fmt(f),
            Self::Thread(error) => write!(
                f,
                "cannot start a thread to watch with: {error}; raise the limit of processes \
                 (`ulimit -u`, or pids.max of the control group)"
            ),
        }
    }
}

impl std::error::Error for WatchError {}

impl From<NoSuchGroup> for WatchError {
    fn from(error: NoSuchGroup) -> Self {
        Self::Group(error)
    }
}

/// One source, and who fills its series.
#[derive(Debug)]
struct Watched {
    source: Source,
    series: Arc<Mutex<Series>>,
    work: Work,
}

/// Who fills a series.
#[derive(Debug)]
enum Work {
    /// A thread that looks at this machine.
    Thread(Looking),
    /// What the command writes.
    Command(command::Running),
    /// Nobody: the file is read at the end.
    File,
}

/// A thread that takes samples until it is dropped.
#[derive(Debug)]
struct Looking {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Begins to take samples of each source, at once and then each `interval`; of a command at the
    /// pace at which it writes them.
    ///
    /// # Errors
    /// A source that can never work: a file that cannot be read, a command that cannot be started,
    /// a control group that is not there. A process that is not there yet is waited for.
    pub fn start(sources: &[Source], interval: Duration) -> Result<Self, WatchError> {
        let mut watched = Vec::with_capacity(sources.len());
        for source in sources {
            let series = Arc::new(Mutex::new(Series::default()));
            let work = match source {
                Source::Command(command) => {
                    let running = command::Running::start(command, Arc::clone(&series));
                    Work::Command(running.map_err(|e| WatchError::Command(command.clone(), e))?)
                }
                Source::File(path) => {
                    check_file(path)?;
                    Work::File
                }
                local => {
                    let sampler = Sampler::new([local])?;
                    let looking = Looking::start(sampler, interval, Arc::clone(&series));
                    Work::Thread(looking.map_err(WatchError::Thread)?)
                }
            };
            watched.push(Watched { source: source.clone(), series, work });
        }
        Ok(Self { watched, started: Instant::now(), interval })
    }

    /// The newest sample of the source at `index` of the list that was started, its `t_s` since the
    /// start of watching; of another machine, since its arrival here. `None` before the first one,
    /// and of files.
    #[must_use]
    pub fn latest(&self, index: usize) -> Option<Sample> {
        let series = lock(&self.watched.get(index)?.series);
        let (at, sample) = series.latest()?;
        let t_s = round(at.saturating_duration_since(self.started).as_secs_f64(), 3);
        Some(Sample { t_s, ..sample.clone() })
    }

    /// The processes of the newest sample of a source of this machine, with their `pss` read now.
    /// The kernel walks all their pages for it: once a level, not once a second. A `pss` is null
    /// where it is not ours to see (another user's process), and a control group has none. `None`
    /// where there is no sample, and of commands and files.
    #[must_use]
    pub fn pss_now(&self, index: usize) -> Option<Vec<ProcessSample>> {
        if !matches!(self.watched.get(index)?.work, Work::Thread(_)) {
            return None;
        }
        let mut processes = self.latest(index)?.processes;
        let mut buffer = text::Buffer::new();
        for process in processes.iter_mut().filter(|process| process.pid != 0) {
            process.pss = process::read_pss(process.pid, &mut buffer);
        }
        Some(processes)
    }

    /// Ends all sampling, and gives each source's samples in seconds since `zero`, in the order of
    /// time. Samples from before `zero` are kept, with negative seconds; of a file only those of
    /// the run are taken. Clocks of commands are corrected, see [`WatchRow::clock_offset_s`].
    #[must_use]
    pub fn stop(self, zero: Zero) -> Vec<WatchRow> {
        let (end, interval) = (Instant::now(), self.interval);
        for watched in &self.watched {
            // All at once: a command may take its time.
            if let Work::Command(running) = &watched.work {
                running.ask_to_end();
            }
        }
        self.watched.into_iter().map(|watched| watched.stop(zero, end, interval)).collect()
    }
}

impl Watched {
    fn stop(self, zero: Zero, end: Instant, interval: Duration) -> WatchRow {
        let name = self.source.to_string();
        self.work.end();
        if let Source::File(path) = &self.source {
            let (readings, gaps) = read_log(path);
            return series::row_of_log(name, readings, gaps, (zero, end), interval);
        }
        std::mem::take(&mut *lock(&self.series)).into_row(name, zero)
    }
}

impl Work {
    /// Ends it, and waits until all that it saw is in the series.
    fn end(self) {
        match self {
            Self::Thread(looking) => drop(looking),
            Self::Command(running) => drop(running),
            Self::File => {}
        }
    }
}

impl Looking {
    fn start(
        mut sampler: Sampler,
        interval: Duration,
        series: Arc<Mutex<Series>>,
    ) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let look = move || {
            let mut ticker = Ticker::start(interval);
            let mut is_last = false;
            loop {
                let (mut sample, mut notes) = (Sample::default(), Vec::new());
                let at = sampler.sample(&mut sample, &mut notes);
                lock(&series).push(at, sample, notes);
                if is_last {
                    return;
                }
                match stopped.recv_timeout(ticker.wait(Instant::now())) {
                    Err(RecvTimeoutError::Timeout) => {}
                    // A last look, so that the end is seen too, unless it was seen just now.
                    _ if at.elapsed() >= interval / 2 => is_last = true,
                    _ => return,
                }
            }
        };
        let thread = thread::Builder::new().name("watch".into()).spawn(look)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // Where it panicked, what it saw until then is all there is.
            let _ = thread.join();
        }
    }
}

/// Whether a log can be read, by trying it.
fn check_file(path: &Path) -> Result<(), WatchError> {
    let opened = File::open(path).and_then(|file| {
        if file.metadata()?.is_dir() { Err(io::ErrorKind::IsADirectory.into()) } else { Ok(()) }
    });
    opened.map_err(|error| WatchError::File(path.to_owned(), error))
}

/// All that a log says, and remarks about it.
fn read_log(path: &Path) -> (Vec<lines::Reading>, Vec<String>) {
    let mut log = LogReader::default();
    let mut readings = Vec::new();
    let mut gaps = Vec::new();
    match File::open(path) {
        Ok(file) => {
            for line in BufReader::new(file).split(b'\n') {
                match line {
                    Ok(line) => readings.extend(log.read(&String::from_utf8_lossy(&line))),
                    Err(error) => {
                        gaps.push(format!("it could not be read to its end: {error}"));
                        break;
                    }
                }
            }
        }
        Err(error) => gaps.push(format!("it could not be read: {error}")),
    }
    if readings.is_empty() && gaps.is_empty() {
        gaps.push("it has no sample".into());
    }
    gaps.extend(log.remark());
    (readings, gaps)
}

fn lock(series: &Mutex<Series>) -> MutexGuard<'_, Series> {
    // A thread that panicked between two samples has left the series whole.
    series.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Rounds to so many decimals: figures are read by people too, and lines stay short.
fn round(value: f64, decimals: i32) -> f64 {
    let power = 10_f64.powi(decimals);
    (value * power).round() / power
}
