//! `ringload run`: one load.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU8, Ordering};
use std::thread;

use jiff::Timestamp;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use socket2::SockAddr;

use super::{Exit, Failure};
use crate::cli::{Color, Output, Progress, RunCommand, Sink};
use crate::clock::{Clock, Monotonic, Nanos};
use crate::engine::assignment::Demand;
use crate::engine::prepare::{self, Endpoint};
use crate::engine::{self, Job, Report};
use crate::observe::Environment;
use crate::observe::limits::raise_nofile;
use crate::plan::describe::describe;
use crate::plan::serve::ServePlan;
use crate::plan::{Arrive, Load, Plan, Target};
use crate::report::progress::{Mode, Planned};
use crate::report::{self, Progress as Shown};
use crate::ring::Features;
use crate::ring::kernel::KernelRing;
use crate::serve::Server;
use crate::stats::Live;
use crate::stats::assemble::{RunFacts, WorkerFigures, WorkerOutcome, assemble};
use crate::stats::result::RunResult;
use crate::{judge, net, pace};

/// Carries it out and says how it ended.
///
/// # Errors
/// Where it could not be carried out.
pub fn run(command: &RunCommand) -> Result<Exit, Failure> {
    if command.dry_run {
        let text = describe(&command.plan, &[]).to_string();
        write_stdout(&text)?;
        return Ok(Exit::Done);
    }
    // Before anything is sent: an output that cannot be written would lose the result.
    let files = Files::open(&command.output)?;
    let (result, signal) = load(&command.plan, &command.output)?;
    files.write(&result, &command.output)?;
    Ok(match signal {
        Some(signal) if result.interrupted => Exit::Signal(signal),
        _ if result.counts.completed == 0 && result.status.is_empty() => Exit::Unanswered,
        _ => Exit::Done,
    })
}

/// Makes the load; gives its result, and the signal that came, if one did.
fn load(plan: &Plan, output: &Output) -> Result<(RunResult, Option<i32>), Failure> {
    let descriptors = raise_nofile();
    let features = probe().map_err(|error| Failure::ring(&error))?;
    let server = embedded(plan)?;
    let endpoint = prepare::endpoint(plan, server.as_ref().map(Server::address))?;
    let jobs = prepare::jobs(plan, &endpoint, features, descriptors, net::local_ports(), None)?;
    let cap = jobs.first().map(cap);
    let stop = Arc::new(AtomicU8::new(0));
    let signals = Caught::new(&stop).map_err(|error| Failure::output("signal handlers", &error))?;
    let clock = Monotonic::start();
    let mut live = Live::new(jobs.len());
    let mut shown = Shown::new(mode(output), planned(plan));
    let started_at = Timestamp::now();
    let run = engine::run(jobs, features, clock, &stop, |worker, second| {
        live.push(worker, second);
        while let Some(second) = live.next_ready() {
            shown.second(&second);
        }
    })?;
    let ended_ns = clock.now();
    shown.finish();
    let signal = signals.release();
    let mut facts = facts(plan, &endpoint, features, started_at);
    facts.elapsed_ns = ended_ns - run.start_ns;
    facts.start_ns = run.record_ns;
    facts.interrupted = run.workers.iter().any(|report| report.outcome.interrupted);
    let limited_by_number = run.workers.iter().all(|report| report.outcome.fulfilled);
    facts.recorded_until_ns = (!limited_by_number)
        .then(|| run.workers.iter().map(|report| report.outcome.ended_ns).max())
        .flatten();
    facts.arrivals_span_ns = arrivals_span_ns(plan).filter(|_| limited_by_number);
    facts.cap = cap;
    let workers = run.workers.into_iter().map(outcome).collect();
    let (mut result, circumstances) = assemble(facts, workers, live);
    result.verdict = judge::judge(&result, &circumstances);
    Ok((result, signal))
}

/// What the ring can do. On a thread of its own: a ring that is dropped may later interrupt its
/// thread's system calls.
fn probe() -> io::Result<Features> {
    thread::spawn(KernelRing::probe).join().unwrap_or_else(|cause| std::panic::resume_unwind(cause))
}

/// The embedded server, where it is the target.
fn embedded(plan: &Plan) -> Result<Option<Server>, Failure> {
    let Target::Embedded { cpus } = &plan.target else { return Ok(None) };
    let plan = ServePlan {
        http: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
        https: None,
        identity: None,
        threads: cpus.len().max(1),
        cpus: cpus.clone(),
        stall: None,
    };
    let server = Server::start(&plan)
        .map_err(|error| Failure::Machine(format!("the embedded server cannot start: {error}")))?;
    Ok(Some(server))
}

/// The most connections over all workers, at the plan's highest.
fn cap(job: &Job) -> u64 {
    let profile = match &job.assignment.demand {
        Demand::Closed { places } => places,
        Demand::Open { max_connections, .. } => max_connections,
    };
    profile.max().ceil() as u64
}

/// How long the arrivals of an open model take that ends by their number.
fn arrivals_span_ns(plan: &Plan) -> Option<Nanos> {
    let Load::Open { rate, .. } = &plan.load else { return None };
    pace::due(rate, plan.end.requests?)
}

fn facts(plan: &Plan, endpoint: &Endpoint, features: Features, started_at: Timestamp) -> RunFacts {
    let addresses: Vec<SocketAddr> =
        endpoint.addresses.iter().filter_map(SockAddr::as_socket).collect();
    let (open_model, clients) = match plan.load {
        Load::Closed { .. } => (false, false),
        Load::Open { arrive, .. } => (true, arrive == Arrive::Clients),
    };
    let server_on_our_cpus = match &plan.target {
        Target::Embedded { cpus } => cpus.iter().any(|cpu| plan.cpus.contains(cpu)),
        Target::Origin { .. } => false,
    };
    RunFacts {
        command: "run".into(),
        label: plan.label.clone(),
        started_at: started_at.to_string(),
        plan: value(&describe(plan, &addresses)),
        environment: value(&Environment::read(features.names())),
        open_model,
        clients,
        page_urls: plan.pages.iter().map(|page| page.url.clone()).collect(),
        server_on_our_cpus,
        ..RunFacts::default()
    }
}

fn value(described: &impl serde::Serialize) -> serde_json::Value {
    serde_json::to_value(described).expect("names and numbers are JSON")
}

fn outcome(report: Report) -> WorkerOutcome {
    let Report { outcome, cpu, cpu_ns, waited_ns, elapsed_ns } = report;
    WorkerOutcome {
        figures: WorkerFigures {
            pinned_to: cpu,
            elapsed_ns,
            cpu_ns,
            polled_ns: outcome.idle_poll_ns.min(cpu_ns),
            waited_ns: waited_ns.unwrap_or(0),
            passes: outcome.passes,
            requests: outcome.begun,
            cq_overflows: outcome.ring.cq_overflows,
            no_buffers: outcome.no_buffers,
            batch_want: outcome.batch_want,
            batch_wait_ns: outcome.batch_wait_ns,
        },
        stats: outcome.stats,
    }
}

fn mode(output: &Output) -> Mode {
    match output.progress {
        Progress::Auto => Mode::Auto,
        Progress::Bar => Mode::Bar,
        Progress::Line => Mode::Line,
        Progress::None => Mode::None,
    }
}

fn planned(plan: &Plan) -> Planned {
    Planned {
        duration_ns: plan.end.duration_ns,
        requests: plan.end.requests,
        open_model: matches!(plan.load, Load::Open { .. }),
    }
}

/// Signals while the load runs: the first stops sending, the second ends at once.
struct Caught {
    handle: Handle,
    signal: Arc<AtomicI32>,
}

impl Caught {
    fn new(stop: &Arc<AtomicU8>) -> io::Result<Self> {
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let handle = signals.handle();
        let signal = Arc::new(AtomicI32::new(0));
        let (stop, first) = (Arc::clone(stop), Arc::clone(&signal));
        thread::spawn(move || {
            for signal in signals.forever() {
                let _ = first.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed);
                let before = stop.load(Ordering::Relaxed);
                stop.store(before.saturating_add(1), Ordering::Relaxed);
            }
        });
        Ok(Self { handle, signal })
    }

    /// The first signal that came, if any.
    fn release(self) -> Option<i32> {
        self.handle.close();
        Some(self.signal.load(Ordering::Relaxed)).filter(|&signal| signal != 0)
    }
}

/// The outputs that are files, opened.
struct Files {
    json: Option<File>,
    csv: Option<File>,
    hgrm: Option<File>,
}

impl Files {
    fn open(output: &Output) -> Result<Self, Failure> {
        let open = |sink: &Option<Sink>| match sink {
            Some(Sink::File(path)) => File::create(path)
                .map(Some)
                .map_err(|error| Failure::Use(format!("cannot write {}: {error}", path.display()))),
            _ => Ok(None),
        };
        Ok(Self { json: open(&output.json)?, csv: open(&output.csv)?, hgrm: open(&output.hgrm)? })
    }

    /// Writes every output; one that fails does not keep the others from being written.
    fn write(self, result: &RunResult, output: &Output) -> Result<(), Failure> {
        let json = report::json::render as fn(&RunResult) -> String;
        let parts = [
            ("the JSON result", self.json, &output.json, json),
            ("the CSV series", self.csv, &output.csv, report::csv::render),
            ("the percentile table", self.hgrm, &output.hgrm, report::hgrm::render),
        ];
        let mut outcome = Ok(());
        for (what, file, sink, render) in parts {
            let written = match (file, sink) {
                (Some(mut file), _) => file
                    .write_all(render(result).as_bytes())
                    .map_err(|error| Failure::output(what, &error)),
                (None, Some(_)) => write_stdout(&render(result)),
                (None, None) => Ok(()),
            };
            outcome = outcome.and(written);
        }
        if !output.takes_stdout() {
            let text = report::text::render(result, colored(output, &io::stdout()));
            outcome = outcome.and(write_stdout(&text));
        }
        outcome
    }
}

fn write_stdout(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(|error| Failure::output("standard output", &error))
}

/// Whether to colour: as asked; else on a terminal, unless `NO_COLOR` is set and not empty
/// (no-color.org).
fn colored(output: &Output, terminal: &impl IsTerminal) -> bool {
    match output.color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => {
            terminal.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
        }
    }
}
