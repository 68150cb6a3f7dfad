//! The engine: starts the workers, stops them, and hands on what they leave.

pub mod assignment;
mod batching;
mod connection;
mod deadlines;
mod fault;

mod gate;
pub mod hold;
mod lists;
mod pool;
pub mod prepare;
pub mod secure;
pub mod sources;
pub mod worker;

use std::io;
use std::panic;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use crate::clock::{Clock, MILLISECOND, Monotonic, Nanos};
use crate::observe;
use crate::ring::kernel::KernelRing;
use crate::ring::{Features, Limits};
use crate::stats::recorder::Settings;
use crate::stats::{Recorder, Second};

use assignment::Assignment;
use worker::{Outcome, StopFlag, Worker};

/// Provided buffers of a worker, and their size (docs/BENCHMARKING.md, buffers).
const BUFFERS: u16 = 64;
const BUFFER_LEN: u32 = 16 * 1024;
/// What a large body is received into at once, and never read.
const SCRATCH_LEN: u32 = 1024 * 1024;
/// How often the control thread looks after its workers.
const CONTROL_TICK: Duration = Duration::from_millis(20);
/// The load begins so long after the last worker is ready, so that all know of it in time.
const START_DELAY_NS: Nanos = 2 * MILLISECOND;
/// How often a worker asks whether other threads want its CPU, and the share of the time it may
/// have waited for it before it stops polling for a while.
const CONTENTION_INTERVAL_NS: Nanos = 100 * MILLISECOND;
const CONTENTION_SHARE: u64 = 200;
const CONTENTION_PAUSE_NS: Nanos = 1_000 * MILLISECOND;

/// One worker's job.
pub struct Job {
    /// What it is to do.
    pub assignment: Assignment,
    /// The CPU it is pinned to.
    pub cpu: Option<usize>,
}

/// What came of one worker.
pub struct Report {
    /// What it measured.
    pub outcome: Outcome,
    /// The CPU it was pinned to.
    pub cpu: Option<usize>,
    /// CPU time of its thread while it ran, nanoseconds.
    pub cpu_ns: Nanos,
    /// Time for which its thread was ready and did not run, nanoseconds, where the kernel tells.
    pub waited_ns: Option<Nanos>,
    /// For how long it ran, the grace included, nanoseconds.
    pub elapsed_ns: Nanos,
}

/// What came of all.
pub struct Run {
    /// The workers' reports, in their order.
    pub workers: Vec<Report>,
    /// When the load began, on `clock`.
    pub start_ns: Nanos,
    /// When recorded time began.
    pub record_ns: Nanos,
    /// CPU time of the whole process from then to the end, nanoseconds.
    pub process_cpu_ns: Nanos,
    /// What was recorded of each level of a hold.
    pub levels: Vec<hold::LevelStats>,
}

/// Why a run could not be made or went wrong.
#[derive(Debug)]
pub enum EngineError {
    /// The ring could not be made.
    Ring(io::Error),
    /// Entering the ring failed on the way.
    Enter(io::Error),
}

/// Runs the jobs, each on a thread of its own, and gives each worker's seconds to `on_second` as
/// they come (the number of the worker, and the second).
///
/// # Errors
/// Where a ring could not be made or entered.
///
/// # Panics
/// Where a worker panicked: a fault of this program.
pub fn run(
    jobs: Vec<Job>,
    features: Features,
    clock: Monotonic,
    stop: &StopFlag,
    mut on_second: impl FnMut(usize, Second),
) -> Result<Run, EngineError> {
    thread::scope(|scope| {
        let warmup_ns = jobs.first().map_or(0, |job| job.assignment.warmup_ns);
        let mut crew: Vec<Member<'_>> = jobs
            .into_iter()
            .enumerate()
            .map(|(number, job)| {
                let (ready, is_ready) = channel();
                let (start, started) = channel();
                let thread = thread::Builder::new()
                    .name(format!("worker-{number}"))
                    .spawn_scoped(scope, move || work(job, features, clock, stop, &ready, &started))
                    .map_err(EngineError::Ring)?;
                Ok(Member { thread, is_ready, start, seconds: None })
            })
            .collect::<Result<_, EngineError>>()?;
        for member in &mut crew {
            // A worker that fails says so by ending.
            member.seconds = member.is_ready.recv().ok();
        }
        let start_ns = clock.now() + START_DELAY_NS;
        if crew.iter().all(|member| member.seconds.is_some()) {
            for member in &crew {
                // One that is gone in between is found when it is joined.
                let _ = member.start.send(start_ns);
            }
        } else {
            // Without a start time the others end as well.
            crew.iter_mut().for_each(|member| member.start = channel().0);
        }
        let cpu_before_ns = observe::process::process_cpu_ns();
        look_after(&crew, stop, &mut on_second);
        let process_cpu_ns = observe::process::process_cpu_ns() - cpu_before_ns;
        let mut workers = Vec::with_capacity(crew.len());
        let mut failure = None;
        for member in crew {
            match member.thread.join() {
                Ok(Ok(Some(report))) => workers.push(report),
                Ok(Ok(None)) => {}
                Ok(Err(error)) => failure = failure.or(Some(error)),
                Err(cause) => panic::resume_unwind(cause),
            }
        }
        match failure {
            Some(error) => Err(error),
            None => Ok(Run {
                levels: levels(&workers),
                workers,
                start_ns,
                record_ns: start_ns + warmup_ns,
                process_cpu_ns,
            }),
        }
    })
}

/// What all workers recorded of each level of a hold; nothing of another load.
fn levels(workers: &[Report]) -> Vec<hold::LevelStats> {
    let mut levels: Vec<hold::LevelStats> = Vec::new();
    for report in workers {
        levels.resize_with(report.outcome.levels.len().max(levels.len()), Default::default);
        for (level, own) in levels.iter_mut().zip(&report.outcome.levels) {
            level.merge(own);
        }
    }
    levels
}

type Worked = Result<Option<Report>, EngineError>;

/// A worker as the control thread sees it.
struct Member<'scope> {
    thread: ScopedJoinHandle<'scope, Worked>,
    is_ready: Receiver<Receiver<Second>>,
    start: Sender<Nanos>,
    seconds: Option<Receiver<Second>>,
}

/// Hands the seconds on until all workers have ended.
fn look_after(crew: &[Member<'_>], stop: &StopFlag, on_second: &mut impl FnMut(usize, Second)) {
    loop {
        let ended = crew.iter().filter(|member| member.thread.is_finished()).count();
        for (number, member) in crew.iter().enumerate() {
            let Some(seconds) = &member.seconds else { continue };
            while let Ok(second) = seconds.try_recv() {
                on_second(number, second);
            }
        }
        if ended == crew.len() {
            return;
        }
        // A worker that failed takes the others with it.
        let failed = crew.iter().any(|member| member.seconds.is_none());
        if failed {
            stop.store(2, Ordering::Relaxed);
        }
        thread::sleep(CONTROL_TICK);
    }
}

/// A worker's thread.
fn work(
    job: Job,
    features: Features,
    clock: Monotonic,
    stop: &StopFlag,
    ready: &Sender<Receiver<Second>>,
    start: &Receiver<Nanos>,
) -> Worked {
    if let Some(id) = job.cpu {
        // Where it is refused (a changed affinity mask) the kernel places the thread.
        core_affinity::set_for_current(core_affinity::CoreId { id });
    }
    // Without it a wait ends up to 50 µs late; where it is refused the lag shows it.
    let _ = observe::process::set_timer_slack_1ns();
    let plan = job.assignment;
    let limits = Limits {
        slots: plan.slots,
        buffers: BUFFERS,
        buffer_len: BUFFER_LEN,
        scratch_len: SCRATCH_LEN,
    };
    let ring = KernelRing::new(limits, features).map_err(EngineError::Ring)?;
    let settings = Settings {
        pages: plan.pages.len(),
        start_ns: clock.now(),
        end_ns: None,
        open_model: matches!(plan.demand, assignment::Demand::Open { .. }),
    };
    let (recorder, seconds) = Recorder::new(settings);
    let mut worker = Worker::new(plan, ring, clock, stop, recorder);
    worker.set_contended(Box::new(contention()));
    worker.preconnect().map_err(EngineError::Enter)?;
    let _ = ready.send(seconds);
    let Ok(start_ns) = start.recv() else { return Ok(None) };
    let (cpu_before_ns, began_ns) = (observe::process::thread_cpu_ns(), clock.now());
    let waited_before_ns = waited_ns();
    let (outcome, _ring) = worker.run(start_ns).map_err(EngineError::Enter)?;
    Ok(Some(Report {
        outcome,
        cpu: job.cpu,
        cpu_ns: observe::process::thread_cpu_ns() - cpu_before_ns,
        waited_ns: waited_ns().zip(waited_before_ns).map(|(after, before)| after - before),
        elapsed_ns: clock.now() - began_ns,
    }))
}

fn waited_ns() -> Option<Nanos> {
    observe::process::thread_schedstat().map(|time| time.waited_ns)
}

/// Tells whether other threads want this thread's CPU: whether it was ready and did not run for
/// more than half a percent of the last interval. Where the kernel does not tell, they may.
fn contention() -> impl FnMut(Nanos) -> bool {
    let mut looked_ns = 0;
    let mut waited_before_ns = None;
    let mut contended_until_ns = Nanos::MAX;
    move |now| {
        if now >= looked_ns + CONTENTION_INTERVAL_NS {
            let waited_now_ns = waited_ns();
            contended_until_ns = match (waited_before_ns, waited_now_ns) {
                (Some(before), Some(after))
                    if after - before > (now - looked_ns) / CONTENTION_SHARE =>
                {
                    now + CONTENTION_PAUSE_NS
                }
                (Some(_), Some(_)) if contended_until_ns == Nanos::MAX => now,
                (_, None) => Nanos::MAX,
                (None, Some(_)) => now,
                _ => contended_until_ns,
            };
            waited_before_ns = waited_now_ns;
            looked_ns = now;
        }
        now < contended_until_ns
    }
}
