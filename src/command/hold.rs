//! `ringload hold`: connections in levels, and what they cost the server.

mod child;
mod climb;
mod site;

use super::outputs::{Files, write_stdout};
use super::run::probe;
use super::signals::Caught;
use super::{Exit, Failure};
use crate::cli::HoldCommand;
use crate::judge;
use crate::judge::memory::{self, Whose};
use crate::observe::limits::raise_nofile;
use crate::plan::describe::describe;
use crate::plan::{HoldPlan, Load, Traffic};
use crate::stats::result::{Aborted, HoldResult, RunResult, TargetResult};

use climb::Climb;
use site::Site;

/// Carries it out and says how it ended.
///
/// # Errors
/// Where it could not be carried out.
pub fn run(command: &HoldCommand) -> Result<Exit, Failure> {
    if command.dry_run {
        let plans = command.plan.targets.iter();
        let texts: Vec<String> = plans.map(|plan| describe(plan, &[]).to_string()).collect();
        write_stdout(&texts.join("\n"))?;
        return Ok(Exit::Done);
    }
    let files = Files::open(&command.output)?;
    let caught = Caught::new().map_err(|error| Failure::output("signal handlers", &error))?;
    let held = hold(command, &caught)?;
    files.write(&held, &command.output)?;
    let is_aborted = held.hold.as_ref().is_some_and(|hold| hold.aborted.is_some());
    let answered = held.counts.completed > 0 || !held.status.is_empty();
    Ok(match caught.release() {
        Some(signal) if held.interrupted => Exit::Signal(signal),
        _ if !answered && asks(&command.plan) => Exit::Unanswered,
        _ if is_aborted => Exit::Aborted,
        _ => Exit::Done,
    })
}

/// Whether there is traffic that is to be answered: idle connections are none.
fn asks(plan: &HoldPlan) -> bool {
    let traffic =
        |load: &Load| matches!(load, Load::Hold { traffic, .. } if *traffic != Traffic::Idle);
    plan.targets.iter().any(|target| traffic(&target.load))
}

/// One target after the other, and one result of all.
fn hold(command: &HoldCommand, caught: &Caught) -> Result<RunResult, Failure> {
    let descriptors = raise_nofile();
    let features = probe().map_err(|error| Failure::ring(&error))?;
    // All of what may be refused, before anything is opened.
    let plans = command.plan.targets.iter();
    let sites = plans
        .map(|plan| Site::prepare(plan, &command.plan, descriptors, features))
        .collect::<Result<Vec<_>, _>>()?;
    let several = sites.len() > 1;
    let mut outcomes: Vec<Climb> = Vec::new();
    for site in sites {
        let outcome = climb::climb(site, &command.plan.abort_if, &command.output, caught)?;
        let is_over = outcome.result.interrupted || outcome.aborted.is_some();
        outcomes.push(outcome);
        if is_over {
            break;
        }
    }
    Ok(combine(outcomes, several))
}

/// The first target's result, with the others beside it where there were several.
fn combine(mut outcomes: Vec<Climb>, several: bool) -> RunResult {
    if let [first, second] = &mut outcomes[..]
        && first.shares_processes_with(second)
    {
        let kept = judge::hold::kept_memory(&first.held.levels, &second.held.levels);
        second.held.notes.extend(kept);
    }
    let interrupted = outcomes.iter().any(|outcome| outcome.result.interrupted);
    let aborted: Option<Aborted> = outcomes.iter().find_map(|outcome| outcome.aborted.clone());
    let fits: Vec<_> = outcomes.iter().filter_map(Climb::fit).collect();
    let whose =
        outcomes.first().map_or(Whose::Ours, |outcome| judge::hold::whose(&outcome.result.watch));
    let sentence = memory::sentence(&fits, whose);
    let mut notes: Vec<String> = Vec::new();
    for note in outcomes.iter().flat_map(|outcome| &outcome.held.notes) {
        if !notes.contains(note) {
            notes.push(note.clone());
        }
    }
    let targets = several.then(|| outcomes.iter().map(target).collect());
    let Climb { mut result, held, .. } = outcomes.swap_remove(0);
    result.interrupted = interrupted;
    result.hold = Some(HoldResult {
        levels: held.levels,
        per_connection: held.per_connection,
        capacity: held.capacity,
        targets,
        aborted,
        sentence,
        notes,
    });
    result
}

fn target(outcome: &Climb) -> TargetResult {
    let Climb { result, held, url, .. } = outcome;
    TargetResult {
        url: url.clone(),
        levels: held.levels.clone(),
        per_connection: held.per_connection.clone(),
        capacity: held.capacity.clone(),
        counts: result.counts.clone(),
        connections: result.connections.clone(),
        errors: result.errors.clone(),
        probe: result.probe.clone(),
        watch: result.watch.clone(),
        notes: held.notes.clone(),
    }
}
