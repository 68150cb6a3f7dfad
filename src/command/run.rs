//! `ringload run`: one load.

use std::io;
use std::net::SocketAddr;
use std::thread;

use jiff::Timestamp;
use socket2::SockAddr;

use super::beside::{self, Beside};
use super::outputs::{Files, mode, write_stdout};
use super::secure;
use super::signals::Caught;
use super::{Exit, Failure};
use crate::cli::{Output, RunCommand};
use crate::clock::{Clock, Monotonic, Nanos};
use crate::engine::assignment::Demand;
use crate::engine::prepare::{self, Endpoint};
use crate::engine::{self, Job, Report};
use crate::observe::Environment;
use crate::observe::limits::raise_nofile;
use crate::plan::describe::describe;
use crate::plan::serve::ServePlan;
use crate::plan::{Arrive, Load, Plan, Target};
use crate::report::Progress as Shown;
use crate::report::progress::Planned;
use crate::ring::Features;
use crate::ring::kernel::KernelRing;
use crate::serve::Server;
use crate::stats::Live;
use crate::stats::assemble::{RunFacts, WorkerFigures, WorkerOutcome, assemble};
use crate::stats::result::RunResult;
use crate::tls::RootsOrigin;
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
    let files = Files::open(&command.output)?;
    let (result, signal) = load(command.plan.clone(), &command.output)?;
    files.write(&result, &command.output)?;
    Ok(match signal {
        Some(signal) if result.interrupted => Exit::Signal(signal),
        _ if result.counts.completed == 0 && result.status.is_empty() => Exit::Unanswered,
        _ => Exit::Done,
    })
}

/// Makes the load; gives its result, and the signal that came, if one did.
fn load(mut plan: Plan, output: &Output) -> Result<(RunResult, Option<i32>), Failure> {
    let descriptors = raise_nofile();
    let features = probe().map_err(|error| Failure::ring(&error))?;
    let server = embedded(&plan)?;
    let endpoint = prepare::endpoint(&plan, server.as_ref().map(Server::address))?;
    let addresses = addresses(&endpoint);
    beside::add_default(&mut plan.watching, &plan.target, &addresses);
    let tls = secure::tls(&plan, server.as_ref().and_then(Server::certificate))?;
    let roots = tls.as_ref().map(|tls| tls.roots.origin());
    let jobs = prepare::jobs(&plan, &endpoint, features, descriptors, net::local_ports(), tls)?;
    let cap = jobs.first().map(cap);
    let signals = Caught::new().map_err(|error| Failure::output("signal handlers", &error))?;
    let clock = Monotonic::start();
    let mut live = Live::new(jobs.len());
    let mut shown = Shown::new(mode(output), planned(&plan));
    let beside = Beside::start(&plan.watching, beside::INTERVAL)?;
    let started_at = Timestamp::now();
    let run = engine::run(jobs, features, clock, signals.counter(), |worker, second| {
        live.push(worker, second);
        while let Some(second) = live.next_ready() {
            shown.second(&second);
        }
    })?;
    let ended_ns = clock.now();
    shown.finish();
    let (watch, probe) = beside.stop(clock.instant(run.record_ns), plan.warmup_ns > 0);
    let signal = signals.release();
    let mut facts = facts(&plan, &addresses, roots, features, started_at);
    facts.elapsed_ns = ended_ns - run.start_ns;
    facts.start_ns = run.record_ns;
    facts.interrupted = run.workers.iter().any(|report| report.outcome.interrupted);
    let limited_by_number = run.workers.iter().all(|report| report.outcome.fulfilled);
    facts.recorded_until_ns = (!limited_by_number)
        .then(|| run.workers.iter().map(|report| report.outcome.ended_ns).max())
        .flatten();
    facts.arrivals_span_ns = arrivals_span_ns(&plan).filter(|_| limited_by_number);
    facts.cap = cap;
    facts.tls = secure::figures(&plan, &run.workers);
    facts.link_bits = beside::link_bits(&plan.watching, &addresses);
    let workers = run.workers.into_iter().map(outcome).collect();
    let (mut result, circumstances) = assemble(facts, workers, live);
    (result.watch, result.probe) = (watch, probe);
    result.verdict = judge::judge(&result, &circumstances);
    let note = roots.and_then(RootsOrigin::note);
    result.verdict.warnings.extend(note.map(str::to_owned));
    Ok((result, signal))
}

/// What the ring can do. On a thread of its own: a ring that is dropped may later interrupt its
/// thread's system calls.
pub(super) fn probe() -> io::Result<Features> {
    thread::spawn(KernelRing::probe).join().unwrap_or_else(|cause| std::panic::resume_unwind(cause))
}

/// The embedded server, where it is the target.
fn embedded(plan: &Plan) -> Result<Option<Server>, Failure> {
    let Target::Embedded { cpus, tls } = &plan.target else { return Ok(None) };
    let address = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let (http, https) = if *tls { (None, address) } else { (address, None) };
    let plan = ServePlan {
        http,
        https,
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
pub(super) fn cap(job: &Job) -> u64 {
    let profile = match &job.assignment.demand {
        Demand::Closed { places } => places,
        Demand::Open { max_connections, .. } => max_connections,
        Demand::Hold { .. } => {
            return u64::from(job.assignment.slots) * u64::from(job.assignment.threads);
        }
    };
    profile.max().ceil() as u64
}

/// How long the arrivals of an open model take that ends by their number.
fn arrivals_span_ns(plan: &Plan) -> Option<Nanos> {
    let Load::Open { rate, .. } = &plan.load else { return None };
    pace::due(rate, plan.end.requests?)
}

/// Where the connections go; nothing for a unix socket.
pub(super) fn addresses(endpoint: &Endpoint) -> Vec<SocketAddr> {
    endpoint.addresses.iter().filter_map(SockAddr::as_socket).collect()
}

pub(super) fn facts(
    plan: &Plan,
    addresses: &[SocketAddr],
    roots: Option<RootsOrigin>,
    features: Features,
    started_at: Timestamp,
) -> RunFacts {
    let described = describe(plan, addresses).with_roots(roots.unwrap_or(RootsOrigin::None));
    let (open_model, clients) = match plan.load {
        Load::Closed { .. } | Load::Hold { .. } => (false, false),
        Load::Open { arrive, .. } => (true, arrive == Arrive::Clients),
    };
    let server_on_our_cpus = match &plan.target {
        Target::Embedded { cpus, .. } => cpus.iter().any(|cpu| plan.cpus.contains(cpu)),
        Target::Origin { .. } => false,
    };
    RunFacts {
        command: "run".into(),
        label: plan.label.clone(),
        started_at: started_at.to_string(),
        plan: value(&described),
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

pub(super) fn outcome(report: Report) -> WorkerOutcome {
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

fn planned(plan: &Plan) -> Planned {
    Planned {
        duration_ns: plan.end.duration_ns,
        requests: plan.end.requests,
        open_model: matches!(plan.load, Load::Open { .. }),
    }
}
