//! The watched server: whether its CPU is full.

use std::collections::BTreeMap;

use super::words::percent;
use crate::stats::result::{RunResult, Sample, WatchRow};

/// A CPU that is used for a larger share is full: the rest is lost to the scheduler, and to the
/// edges of the samples.
const FULL_SHARE: f64 = 0.9;
/// A server that uses less than this of what it could idles.
const IDLE_SHARE: f64 = 0.5;
/// A process that uses less is not one that does the work.
const WORKING_CPUS: f64 = 0.1;
/// The watched processes are what fills a machine where they use so much of what is used.
const MOSTLY: f64 = 0.5;
/// Seconds that a load needs to get going, where it lasts longer than [`LONG_S`].
const SETTLING_S: f64 = 1.0;
const LONG_S: f64 = 5.0;
/// A sample is the mean of the second before it; half a second of that may lie outside.
const EDGE_S: f64 = 0.5;

/// For how much of the load a CPU has to be full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stretch {
    /// Half of it.
    Half,
    /// A quarter: a load that grows fills it at its end alone.
    Quarter,
}

/// How much of a server's CPU was used.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CpuUse {
    /// What that means.
    pub(super) state: CpuState,
    /// Of what it could use.
    share: f64,
    /// In words, with figures.
    words: String,
}

/// What the use of a CPU means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CpuState {
    /// Most of it is unused.
    Idle,
    /// More is to be had.
    Free,
    /// A process of several threads used as much as one of them can, and may wait for that one.
    OneThread,
    /// The server may wait for a CPU: something else fills its machine.
    Crowded,
    /// Nothing more is to be had.
    Full,
}

impl CpuUse {
    /// A reason for a verdict.
    pub(super) fn reason(&self) -> String {
        let words = &self.words;
        match self.state {
            CpuState::Full => format!("the server's CPU is full: {words}"),
            CpuState::Crowded => format!("the server may wait for a CPU: {words}"),
            CpuState::OneThread => format!("one thread of the server may be full: {words}"),
            CpuState::Free | CpuState::Idle => format!("the server's CPU is not full: {words}"),
        }
    }
}

impl CpuState {
    fn of(share: f64) -> Self {
        match share {
            share if share >= FULL_SHARE => Self::Full,
            share if share >= IDLE_SHARE => Self::Free,
            _ => Self::Idle,
        }
    }
}

/// The CPU of the server, out of everything that was watched the fullest; `None` where nothing was
/// watched, or not for long enough.
pub(super) fn cpu_use(result: &RunResult, recorded_s: f64, stretch: Stretch) -> Option<CpuUse> {
    let uses = result.watch.iter().filter_map(|row| {
        let samples = during(row, recorded_s);
        let generator = if row.is_local() { generator_cpus(result) } else { 0.0 };
        let processes = by_processes(&samples, stretch);
        let machine = by_machine(&samples, generator, stretch);
        match (processes, machine) {
            // The processes say more than the machine does, unless that one is full.
            (Some(own), Some(all)) if own.state < all.state && all.state >= CpuState::Crowded => {
                Some(all)
            }
            (own, all) => own.or(all),
        }
    });
    uses.max_by(|a, b| a.state.cmp(&b.state).then(a.share.total_cmp(&b.share)))
}

/// The samples whose second lies within the load, and after what it needs to get going.
pub(super) fn during(row: &WatchRow, recorded_s: f64) -> Vec<&Sample> {
    let from = if recorded_s > LONG_S { SETTLING_S + EDGE_S } else { EDGE_S };
    let inside = |sample: &&Sample| (from..=recorded_s + EDGE_S).contains(&sample.t_s);
    row.samples.iter().filter(inside).collect()
}

/// CPUs that the generator used.
pub(super) fn generator_cpus(result: &RunResult) -> f64 {
    result.generator.workers.iter().map(|worker| worker.cpu).sum()
}

/// The processes that do the work: each can use as many CPUs as it has threads, and all of them no
/// more than the machine has.
fn by_processes(samples: &[&Sample], stretch: Stretch) -> Option<CpuUse> {
    let machine = samples.last()?.cpus.map_or(f64::INFINITY, f64::from);
    let mut processes: BTreeMap<u32, Process> = BTreeMap::new();
    for watched in samples.iter().flat_map(|sample| &sample.processes) {
        let (Some(cpu), Some(threads)) = (watched.cpu, watched.threads) else { continue };
        let process = processes.entry(watched.pid).or_default();
        process.name = &watched.name;
        process.limit = process.limit.max((threads as f64).min(machine));
        process.cpus.push(cpu);
    }
    let first = processes.values().next()?.name;
    let mut working = Vec::new();
    for Process { name, limit, cpus } in processes.into_values() {
        let used = stretch.of(cpus);
        if used >= WORKING_CPUS {
            working.push((name, used, limit.max(1.0)));
        }
    }
    let used: f64 = working.iter().map(|(_, used, _)| used).sum();
    let limit: f64 = working.iter().map(|(.., limit)| limit).sum();
    let limit = limit.min(machine).max(1.0);
    let full = working.iter().filter(|(_, used, limit)| used / limit >= FULL_SHARE).count();
    let one_thread = working.iter().any(|(_, used, limit)| *used >= FULL_SHARE && *limit > 1.0);
    let state = match CpuState::of(used / limit) {
        // One worker of two that is full holds up what is given to it.
        _ if full > 0 && 2 * full >= working.len() => CpuState::Full,
        CpuState::Full => CpuState::Full,
        _ if one_thread => CpuState::OneThread,
        state => state,
    };
    let words = match &working[..] {
        [] => format!("{first} used almost nothing"),
        [(name, ..)] => {
            format!("{name} used {used:.2} of {limit:.0} CPUs that its threads can use")
        }
        [(name, ..), ..] => format!(
            "{} processes of {name} used {used:.2} of {limit:.0} CPUs that their threads can use",
            working.len()
        ),
    };
    Some(CpuUse { state, share: used / limit, words })
}

#[derive(Default)]
struct Process<'a> {
    name: &'a str,
    /// CPUs that it can use.
    limit: f64,
    /// CPUs that it used, sample by sample.
    cpus: Vec<f64>,
}

/// The machine as a whole.
fn by_machine(samples: &[&Sample], generator: f64, stretch: Stretch) -> Option<CpuUse> {
    let all = samples.iter().filter_map(|sample| Some((sample.used_cpus()?, sample.whole_cpus())));
    let share = stretch.of(all.map(|(used, cpus)| used / cpus).collect());
    let last = samples.last()?;
    if !share.is_finite() {
        return None;
    }
    let servers: Vec<f64> = samples.iter().filter_map(|sample| sample.process_cpus()).collect();
    let elsewhere = (share * last.whole_cpus() - generator).max(f64::MIN_POSITIVE);
    let by_others = !servers.is_empty() && stretch.of(servers) / elsewhere < MOSTLY;
    let state = match CpuState::of(share) {
        CpuState::Full if by_others => CpuState::Crowded,
        state => state,
    };
    let mut words = match last.cpus {
        Some(cpus) => format!("its machine used {:.2} of {cpus} CPUs", share * f64::from(cpus)),
        None => format!("its machine used {} of its CPUs", percent(share)),
    };
    if state == CpuState::Crowded {
        words += ", for the most part not in the watched processes";
    }
    Some(CpuUse { state, share, words })
}

impl Stretch {
    /// What was reached or exceeded for so long; not a number where there is nothing.
    fn of(self, mut values: Vec<f64>) -> f64 {
        values.sort_by(|a, b| b.total_cmp(a));
        let at = match self {
            Self::Half => values.len() / 2,
            Self::Quarter => values.len() / 4,
        };
        values.get(at).copied().unwrap_or(f64::NAN)
    }
}

#[cfg(test)]
mod tests;
