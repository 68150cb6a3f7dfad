//! The way through the levels of one target: the engine on a thread of its own, and here who tells
//! it the next level, reads the server's memory and watches for the end.

use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::super::Failure;
use super::super::beside::{self, Beside};
use super::super::outputs::mode;
use super::super::run::{cap, facts, outcome};
use super::super::secure;
use super::super::signals::Caught;
use super::site::Site;
use crate::cli::Output;
use crate::clock::{Clock, Monotonic, Nanos, SECOND};
use crate::engine::hold::{Held, LevelStats};
use crate::engine::{self, EngineError, Run};
use crate::judge::hold::{Circumstances, Conclusion, Level, Reading, conclude, verdict};
use crate::judge::levels::{Ascent, Course, LOOK_INTERVAL_NS, Seen, Stay};
use crate::judge::objective::Objective;
use crate::judge::recent::Recent;
use crate::observe::process;
use crate::observe::watch::kernel_socket_memory;
use crate::plan::{Load, Plan, Ratio, Traffic, hold};
use crate::probe::{self, ProbeOutcome};
use crate::report::Progress;
use crate::report::progress::{Climbing, Planned};
use crate::stats::Live;
use crate::stats::assemble::assemble;
use crate::stats::result::{Aborted, Capacity, RunResult};

/// Beyond what a connection may take, for workers that are late themselves.
const SLACK_NS: Nanos = SECOND;
/// In a dwell there are at least so many samples.
const SAMPLES_IN_DWELL: u32 = 9;
/// The longest and the shortest time from one sample to the next.
const SAMPLE_INTERVALS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// What came of one target.
pub(super) struct Climb {
    /// Its URL as shown.
    pub(super) url: String,
    /// All but what is about levels.
    pub(super) result: RunResult,
    /// What is about levels.
    pub(super) held: Conclusion,
    /// What `--abort-if` ended it, if one did.
    pub(super) aborted: Option<Aborted>,
}

impl Climb {
    /// What it is called in a sentence, and how many would fit.
    pub(super) fn fit(&self) -> Option<(String, Capacity)> {
        let scheme = self.url.split("://").next().unwrap_or_default().to_ascii_uppercase();
        Some((scheme, self.held.capacity.clone()?))
    }

    /// Whether both watched a process that is the same.
    pub(super) fn shares_processes_with(&self, other: &Self) -> bool {
        let pids = |climb: &Self| -> Vec<u32> {
            let samples = climb.result.watch.iter().filter_map(|row| row.samples.last());
            samples.flat_map(|sample| &sample.processes).map(|process| process.pid).collect()
        };
        let theirs = pids(other);
        pids(self).iter().any(|pid| theirs.contains(pid))
    }
}

/// Goes through the levels.
///
/// # Errors
/// Where the engine cannot be started or fails, or something cannot be watched.
pub(super) fn climb(
    mut site: Site,
    abort_if: &[Objective],
    output: &Output,
    caught: &Caught,
) -> Result<Climb, Failure> {
    let clock = Monotonic::start();
    let course = course(&site.plan);
    let planned = Planned { duration_ns: Some(course.length_ns()), ..Planned::default() };
    let shown = Progress::new(mode(output), planned);
    let beside = Beside::start(&site.plan.watching, sample_interval(&site.plan))?;
    let started_at = Timestamp::now();
    let cap = site.jobs.first().map(cap);
    let jobs = std::mem::take(&mut site.jobs);
    let mut live = Live::new(jobs.len());
    let stop = AtomicU8::new(0);
    let mut driver = Driver {
        site: &site,
        beside: &beside,
        abort_if,
        caught,
        clock,
        stop: &stop,
        shown: &shown,
    };
    let (run, driven) = thread::scope(|scope| {
        let engine = scope.spawn(|| {
            engine::run(jobs, site.features, clock, &stop, |worker, second| {
                live.push(worker, second);
            })
        });
        let driven = driver.drive(course, &engine);
        let run = engine.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause));
        (run, driven)
    });
    shown.finish();
    let run = run?;
    let ended_ns = clock.now();
    let zero = clock.instant(run.record_ns);
    let (watch, outcomes) = beside.finish(zero);
    // Its memory is read, and its processor time is not for what follows.
    drop(site.served.take());
    let mut facts = facts(&site.plan, &site.addresses, site.roots, site.features, started_at);
    facts.command = "hold".into();
    facts.elapsed_ns = ended_ns - run.start_ns;
    facts.start_ns = run.record_ns;
    facts.interrupted = driven.interrupted;
    facts.recorded_until_ns = run.workers.iter().map(|report| report.outcome.ended_ns).max();
    facts.cap = cap;
    facts.tls = secure::figures(&site.plan, &run.workers);
    facts.link_bits = beside::link_bits(&site.plan.watching, &site.addresses);
    let Run { workers, levels: stats, record_ns, .. } = run;
    let workers = workers.into_iter().map(outcome).collect();
    let (mut result, _) = assemble(facts, workers, live);
    result.probe = outcomes.as_ref().map(|outcomes| probe::summary(outcomes, zero));
    result.watch = watch;
    let around = circumstances(&site.plan, record_ns);
    let levels = levels(&driven, &stats, outcomes.as_deref(), (clock, zero));
    let mut held = conclude(levels, &result.watch, around);
    held.notes.splice(0..0, site.notes);
    result.verdict = verdict(&result, &held.levels);
    let aborted = driven.aborted.map(|(expression, value, at_ns)| Aborted {
        expression,
        value,
        at_s: at_ns.saturating_sub(record_ns) as f64 / SECOND as f64,
    });
    let url = site.plan.pages[0].url.clone();
    Ok(Climb { url, result, held, aborted })
}

fn course(plan: &Plan) -> Course {
    let Load::Hold { levels, dwell_ns, first_request, open_rate, .. } = &plan.load else {
        unreachable!("the plan of a hold")
    };
    let request_ns = if *first_request { plan.timeout_ns } else { 0 };
    Course {
        levels: levels.iter().map(|&level| level.into()).collect(),
        dwell_ns: *dwell_ns,
        patience_ns: plan.connect_timeout_ns + request_ns + SLACK_NS,
        open_interval_ns: open_rate.map_or(0, interval_ns),
    }
}

/// From one to the next of so many a second.
fn interval_ns(rate: Ratio) -> Nanos {
    let ns = u128::from(SECOND) * u128::from(rate.den) / u128::from(rate.num.max(1));
    Nanos::try_from(ns).unwrap_or(Nanos::MAX)
}

fn circumstances(plan: &Plan, zero_ns: Nanos) -> Circumstances {
    let (idle, first_request) = match plan.load {
        Load::Hold { traffic, first_request, .. } => (traffic == Traffic::Idle, first_request),
        Load::Closed { .. } | Load::Open { .. } => (false, true),
    };
    Circumstances { zero_ns, idle, first_request }
}

fn sample_interval(plan: &Plan) -> Duration {
    let Load::Hold { dwell_ns, .. } = plan.load else { return SAMPLE_INTERVALS.1 };
    let interval = Duration::from_nanos(dwell_ns) / SAMPLES_IN_DWELL;
    interval.clamp(SAMPLE_INTERVALS.0, SAMPLE_INTERVALS.1)
}

/// Who goes through the levels while the engine runs.
struct Driver<'a> {
    site: &'a Site,
    beside: &'a Beside,
    abort_if: &'a [Objective],
    caught: &'a Caught,
    clock: Monotonic,
    stop: &'a AtomicU8,
    shown: &'a Progress,
}

/// What came of it.
#[derive(Default)]
struct Driven {
    stays: Vec<Stay>,
    /// What was read when each was left.
    readings: Vec<Reading>,
    interrupted: bool,
    /// The expression, the figure it held of, and when.
    aborted: Option<(String, f64, Nanos)>,
}

impl Driver<'_> {
    fn drive(
        &mut self,
        course: Course,
        engine: &ScopedJoinHandle<'_, Result<Run, EngineError>>,
    ) -> Driven {
        let levels = course.levels.len();
        let control = &self.site.control;
        let began_ns = self.clock.now();
        let mut ascent = Ascent::begin(course, began_ns);
        self.ask_for(0);
        let mut driven = Driven::default();
        let (mut recent, mut probes, mut shown_s) = (Recent::default(), 0, 0);
        while !engine.is_finished() {
            thread::sleep(Duration::from_nanos(LOOK_INTERVAL_NS));
            let now = self.clock.now();
            let seen = seen(control.held());
            probes = self.look_beside(&mut recent, probes, now, &seen);
            driven.interrupted = self.caught.count() > 0;
            if driven.aborted.is_none() {
                let held = recent.first_held(self.abort_if, now);
                driven.aborted = held.map(|(objective, value)| (objective.to_string(), value, now));
            }
            let is_over = driven.interrupted || driven.aborted.is_some();
            if ascent.look(now, &seen) || is_over {
                driven.readings.push(self.read());
                match ascent.leave(self.clock.now(), &self::seen(control.held())) {
                    Some(level) if !is_over => self.ask_for(level),
                    _ => break,
                }
            }
            let second = (now - began_ns) / SECOND;
            if second > shown_s {
                shown_s = second;
                self.shown.held(now - began_ns, &climbing(&ascent, levels, &seen));
            }
        }
        control.end();
        // While the connections are closed: a second signal ends that at once.
        while !engine.is_finished() {
            if self.caught.count() > 1 {
                self.stop.store(2, Ordering::Relaxed);
            }
            thread::sleep(Duration::from_nanos(LOOK_INTERVAL_NS));
        }
        driven.stays = ascent.into_stays();
        driven
    }

    fn ask_for(&self, level: usize) {
        let wanted = hold::levels(&self.site.plan)[level];
        self.site.control.set_level(level, wanted);
    }

    /// Notes what there is to be asked about; gives how many probes were seen.
    fn look_beside(&self, recent: &mut Recent, probes: usize, now: Nanos, seen: &Seen) -> usize {
        recent.connections(now, seen.opened, seen.failed);
        if self.abort_if.is_empty() {
            return probes;
        }
        recent.mem_available(self.beside.mem_available());
        let new = self.beside.probes_since(probes);
        for outcome in &new {
            recent.probe(since(self.clock, outcome.sent_at), outcome.failure.is_some());
        }
        probes + new.len()
    }

    /// Reads what is in no sample.
    fn read(&self) -> Reading {
        Reading {
            pss: self.beside.pss(),
            kernel: kernel_socket_memory()
                .and_then(|memory| Some(memory.tcp_mem_bytes + memory.slab_bytes?)),
            own_rss: process::memory().map(|memory| memory.rss_bytes),
        }
    }
}

fn seen(held: Held) -> Seen {
    Seen {
        open: held.open,
        opening: held.opening,
        attempted: held.attempted,
        opened: held.opened,
        failed: held.failed,
        closed_by_server: held.closed_by_server,
    }
}

fn climbing(ascent: &Ascent, levels: usize, seen: &Seen) -> Climbing {
    Climbing {
        level: (ascent.level() + 1, levels),
        wanted: ascent.wanted(),
        open: seen.open,
        opening: seen.opening,
        failed: seen.failed,
        closed_by_server: seen.closed_by_server,
        is_held: ascent.is_dwelling(),
    }
}

/// A moment as nanoseconds of a clock.
fn since(clock: Monotonic, at: Instant) -> Nanos {
    let ns = at.saturating_duration_since(clock.instant(0)).as_nanos();
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// Each level with what was recorded and probed of it.
fn levels(
    driven: &Driven,
    stats: &[LevelStats],
    outcomes: Option<&[ProbeOutcome]>,
    (clock, zero): (Monotonic, Instant),
) -> Vec<Level> {
    let level = |(number, (stay, reading)): (usize, (&Stay, &Reading))| {
        let during = |outcome: &&ProbeOutcome| {
            (stay.began_ns..stay.left_ns).contains(&since(clock, outcome.sent_at))
        };
        let probe = outcomes.map(|outcomes| {
            let during: Vec<_> = outcomes.iter().filter(during).cloned().collect();
            probe::summary(&during, zero)
        });
        let mut level = Level { stay: stay.clone(), reading: *reading, probe, ..Level::default() };
        if let Some(stats) = stats.get(number) {
            level.connect = stats.connect.summary();
            level.tls = stats.tls.summary();
            level.tls_resumed = stats.tls_resumed.summary();
        }
        level
    };
    driven.stays.iter().zip(&driven.readings).enumerate().map(level).collect()
}
