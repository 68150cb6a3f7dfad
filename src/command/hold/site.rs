//! One target, made ready: where it is, from where it is reached, and who does the work.

use super::super::Failure;
use super::super::beside;
use super::super::run::addresses;
use super::super::secure;
use super::child::Served;
use crate::engine::assignment::Demand;
use crate::engine::hold::Control;
use crate::engine::prepare::{self, Endpoint};
use crate::engine::{Job, sources};
use crate::net;
use crate::observe::limits::Limits;
use crate::observe::watch::Source;
use crate::plan::{HoldPlan, MAX_THREADS, Plan, Target, hold};
use crate::ring::Features;
use crate::tls::RootsOrigin;
use crate::units::format_count;

use std::net::SocketAddr;
use std::sync::Arc;

/// A target that is ready to be loaded.
pub(super) struct Site {
    /// As it was asked for, and resolved.
    pub(super) plan: Plan,
    /// Where it is.
    pub(super) addresses: Vec<SocketAddr>,
    /// What the ring can do.
    pub(super) features: Features,
    /// Where the authorities come from that are trusted, over TLS.
    pub(super) roots: Option<RootsOrigin>,
    /// The workers' jobs.
    pub(super) jobs: Vec<Job>,
    /// What they are told.
    pub(super) control: Arc<Control>,
    /// What was decided for the user, in words.
    pub(super) notes: Vec<String>,
    /// The embedded server, which lives as long as this.
    pub(super) served: Option<Served>,
}

impl Site {
    /// Makes it ready. Nothing is opened to the target, but what finds out which of a name's
    /// families answers.
    ///
    /// # Errors
    /// Where it cannot be done on this machine, or as asked.
    pub(super) fn prepare(
        plan: &Plan,
        whole: &HoldPlan,
        descriptors: Limits,
        features: Features,
    ) -> Result<Self, Failure> {
        let mut plan = plan.clone();
        let most: u64 = hold::levels(&plan).last().copied().unwrap_or(0).into();
        let mut notes = Vec::new();
        if whole.base_added {
            notes.push(
                "a level of 0 connections was put in front: without it what a server needs anyway \
                 cannot be told from what its connections need"
                    .to_owned(),
            );
        }
        notes.extend(enough_threads(&mut plan, most, whole.threads_asked, descriptors)?);
        let served = serve(&mut plan, most, descriptors)?;
        let endpoint: Endpoint = prepare::endpoint(&plan, served.as_ref().map(Served::address))?;
        let addresses = addresses(&endpoint);
        let ports = net::local_ports();
        let sources = sources::sources(&plan.dial.sources, &addresses, most, ports)
            .map_err(|error| Failure::Machine(error.to_string()))?;
        if let (true, [first, .., last]) = (plan.dial.sources.is_empty(), &sources[..]) {
            notes.push(format!(
                "connections come from {} addresses, {first} to {last}: one has no more than {} \
                 ports",
                sources.len(),
                format_count(ports.usable().into()),
            ));
        }
        plan.dial.sources = sources;
        beside::add_default(&mut plan.watching, &plan.target, &addresses);
        let tls = secure::tls(&plan, served.as_ref().and_then(Served::certificate))?;
        let roots = tls.as_ref().map(|tls| tls.roots.origin());
        notes.extend(roots.and_then(RootsOrigin::note).map(str::to_owned));
        let jobs = prepare::jobs(&plan, &endpoint, features, descriptors, ports, tls)?;
        let control = match jobs.first().map(|job| &job.assignment.demand) {
            Some(Demand::Hold { control, .. }) => Arc::clone(control),
            _ => unreachable!("the plan of a hold makes jobs that hold"),
        };
        Ok(Self { plan, addresses, features, roots, jobs, control, notes, served })
    }
}

/// As many threads as rings are needed for so many connections; says so where they are more than
/// there would be otherwise.
fn enough_threads(
    plan: &mut Plan,
    most: u64,
    asked: bool,
    descriptors: Limits,
) -> Result<Option<String>, Failure> {
    let needed = prepare::fewest_threads(most, descriptors);
    if needed <= plan.threads {
        return Ok(None);
    }
    let most = format_count(most);
    if needed > MAX_THREADS {
        return Err(too_many(&most, needed, descriptors));
    }
    if asked {
        let typed = plan.threads;
        return Err(Failure::Machine(format!(
            "{most} connections need {needed} threads, because a ring holds no more than the limit \
             of descriptors, {}; give -t {needed} instead of -t {typed}, or leave it out, or raise \
             `ulimit -n`",
            format_count(descriptors.soft)
        )));
    }
    let cpus = std::mem::take(&mut plan.cpus);
    plan.cpus = cpus.iter().copied().cycle().take(needed).collect();
    plan.threads = needed;
    Ok(Some(format!(
        "{needed} threads hold {most} connections: a ring holds no more than the limit of \
         descriptors, {}",
        format_count(descriptors.soft)
    )))
}

fn too_many(connections: &str, threads: usize, descriptors: Limits) -> Failure {
    Failure::Machine(format!(
        "{connections} connections need {} threads, because a ring holds no more than the limit of \
         descriptors, {}, and there are at most {MAX_THREADS}; ask for fewer (--levels), or raise \
         `ulimit -n`",
        format_count(threads as u64),
        format_count(descriptors.soft)
    ))
}

/// The embedded server, where it is the target, which then is an address like others.
fn serve(plan: &mut Plan, most: u64, descriptors: Limits) -> Result<Option<Served>, Failure> {
    let Target::Embedded { cpus, tls } = &plan.target else { return Ok(None) };
    // Its rings are limited as ours are, and the kernel deals connections out unevenly.
    let threads = prepare::fewest_threads(most + most / 4, descriptors).max(cpus.len());
    if threads > MAX_THREADS {
        return Err(too_many(&format_count(most), threads, descriptors));
    }
    let served = Served::start(threads, cpus, *tls)?;
    if plan.watching.sources.is_empty() {
        plan.watching.sources.push(Source::Pid(served.pid()));
    }
    Ok(Some(served))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{self, Command};

    fn plan(levels: &str, more: &[&str]) -> (Plan, bool) {
        let words = [&["ringload", "hold", "127.0.0.1:9", "--levels", levels], more].concat();
        match cli::parse(words.into_iter().map(Into::into)) {
            Ok(Command::Hold(hold)) => (hold.plan.targets[0].clone(), hold.plan.threads_asked),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn rings_that_are_too_small_become_more() {
        let limits = Limits { soft: 1_064, hard: 1_064 };
        let (mut held, asked) = plan("0,5k", &["--cpus", "0"]);
        let note = enough_threads(&mut held, 5_000, asked, limits).unwrap().unwrap();
        assert!(note.contains("5 threads hold 5,000") && note.contains("1,064"), "{note}");
        assert_eq!((held.threads, &held.cpus[..]), (5, &[0; 5][..]));
        assert_eq!(enough_threads(&mut held, 5_000, asked, limits).unwrap(), None);
    }

    #[test]
    fn more_threads_than_there_may_be_are_refused() {
        let limits = Limits { soft: 1_064, hard: 1_064 };
        for levels in ["0,2M", "0,4G"] {
            let (mut held, asked) = plan(levels, &[]);
            let most = (*hold::levels(&held).last().unwrap()).into();
            let failure = enough_threads(&mut held, most, asked, limits).unwrap_err();
            assert_eq!(failure.code(), 3);
            let text = failure.to_string();
            assert!(text.contains("at most 1024") && text.contains("ulimit -n"), "{text}");
        }
    }

    #[test]
    fn a_number_of_threads_that_was_asked_for_is_kept_or_refused() {
        let limits = Limits { soft: 1_064, hard: 1_064 };
        let (mut held, asked) = plan("0,5k", &["-t", "2"]);
        let failure = enough_threads(&mut held, 5_000, asked, limits).unwrap_err();
        assert_eq!(failure.code(), 3);
        let text = failure.to_string();
        assert!(text.contains("give -t 5 instead of -t 2"), "{text}");
        assert_eq!(enough_threads(&mut held, 2_000, asked, limits).unwrap(), None);
    }
}
