//! `ringload run`: one load.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::cli::{Color, Output, Progress, RunCommand, Sink};
use crate::clock::Monotonic;
use crate::command::Exit;
use crate::engine::prepare::{self, Endpoint, PrepareError};
use crate::engine::{self, EngineError, Job};
use crate::judge;
use crate::net;
use crate::observe::environment::Environment;
use crate::observe::limits::raise_nofile;
use crate::pace;
use crate::plan::describe::describe;
use crate::plan::{Arrive, Load, Plan, Target};
use crate::report;
use crate::report::progress::{Mode, Planned, Progress as Shown};
use crate::ring::Features;
use crate::ring::kernel::KernelRing;
use crate::serve::Server;
use crate::stats::assemble::{RunFacts, WorkerFigures, WorkerOutcome, assemble};
use crate::stats::live::Live;
use crate::stats::result::RunResult;

/// Carries it out and says how it ended.
///
/// # Errors
/// Where it could not be carried out: see [`Exit`].
pub fn run(command: &RunCommand) -> Result<Exit, Exit> {
    if command.dry_run {
        return dry_run(&command.plan);
    }
    // Before anything is sent: an output that cannot be written would lose the result.
    let sinks = Sinks::open(&command.output)?;
    let result = load(&command.plan, &command.output)?;
    sinks.write(&result, &command.output)?;
    Ok(exit_of(&result))
}

/// Prints the plan and sends nothing.
fn dry_run(plan: &Plan) -> Result<Exit, Exit> {
    let text = crate::plan::describe::dry_run(plan);
    io::stdout().write_all(text.as_bytes()).map_err(|error| Exit::output("stdout", &error))?;
    Ok(Exit::Done)
}

/// Makes the load and gives its result.
fn load(plan: &Plan, output: &Output) -> Result<RunResult, Exit> {
    let descriptors = raise_nofile();
    let features = KernelRing::probe().map_err(|error| Exit::ring(&error))?;
    let server = embedded(plan)?;
    let address = server.as_ref().map(Server::address);
    let endpoint = prepare::endpoint(plan, address).map_err(Exit::from)?;
    let ports = net::local_ports();
    let jobs = prepare::jobs(plan, &endpoint, descriptors, ports).map_err(Exit::from)?;
    let cap = jobs.first().map(|job| job.assignment.most_connections());
    let mut shown = Shown::new(mode(output), planned(plan), color(output, &io::stderr()));
    let stop = Arc::new(AtomicU8::new(0));
    let signals = Signals::catch(&stop).map_err(|error| Exit::Internal(error.to_string()))?;
    let started_at = jiff::Timestamp::now();
    let run = measure(jobs, features, &stop, &mut shown)?;
    signals.release();
    shown.finish();
    let facts = facts(plan, &endpoint, features, &run, started_at, cap);
    let (mut result, circumstances) = assemble(facts, run.workers, run.live);
    result.verdict = judge::verdict::verdict(&result, &circumstances);
    result.signal = signals.caught();
    Ok(result)
}

/// What the engine left, in the form that results are made of.
struct Measured {
    workers: Vec<WorkerOutcome>,
    live: Live,
    record_ns: u64,
    ended_ns: u64,
    start_ns: u64,
    end_ns: u64,
    interrupted: bool,
}
