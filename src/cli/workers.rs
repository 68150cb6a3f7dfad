//! Threads and CPUs.

use std::fmt::Write;

use super::mistake::{Mistake, wrong};
use super::values::CpuRange;
use crate::observe::cpus::{affinity, usable_cpus};

/// The CPUs of a machine.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    /// Those that the process may run on.
    pub(super) allowed: Vec<usize>,
    /// Those worth a thread each: no more of them than a quota pays for.
    pub(super) usable: Vec<usize>,
}

impl Machine {
    /// This one.
    pub(super) fn this() -> Self {
        Self { allowed: affinity(), usable: usable_cpus() }
    }
}

/// Who runs where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Crew {
    /// Worker threads.
    pub(super) threads: usize,
    /// The CPU of each.
    pub(super) cpus: Vec<usize>,
    /// The CPUs of the embedded server's threads, one each; empty without it.
    pub(super) server_cpus: Vec<usize>,
}

/// The crew of a load.
///
/// `places` is the most connections that are ever open, where there is such a limit: a thread
/// without a place would hold back its arrivals for ever.
pub(super) fn crew(
    threads: Option<usize>,
    list: &[CpuRange],
    embedded: bool,
    places: Option<u64>,
    machine: &Machine,
) -> Result<Crew, Mistake> {
    let named = named_cpus(list, machine)?;
    let (own, server_cpus) = match (embedded, named) {
        (false, None) => (machine.usable.clone(), Vec::new()),
        (false, Some(named)) => (named, Vec::new()),
        (true, None) => halves(&machine.usable),
        (true, Some(named)) => {
            let rest: Vec<usize> =
                machine.usable.iter().copied().filter(|cpu| !named.contains(cpu)).collect();
            let server = if rest.is_empty() { named.clone() } else { rest };
            (named, server)
        }
    };
    let most = places.map_or(usize::MAX, |places| usize::try_from(places).unwrap_or(usize::MAX));
    let threads = match threads {
        Some(threads) if threads > most => wrong!(
            "-t {threads} is more threads than -c allows connections ({most}), and a thread \
             without one can send nothing; give -t {most} or a larger -c"
        ),
        Some(threads) => threads,
        None => own.len().min(most),
    };
    Ok(Crew { threads, cpus: in_turn(&own, threads), server_cpus })
}

/// The threads of the server on its own, and their CPUs.
pub(super) fn server(
    threads: Option<usize>,
    list: &[CpuRange],
    machine: &Machine,
) -> Result<(usize, Vec<usize>), Mistake> {
    let own = named_cpus(list, machine)?.unwrap_or_else(|| machine.usable.clone());
    let threads = threads.unwrap_or(own.len());
    Ok((threads, in_turn(&own, threads)))
}

/// The CPUs of `--cpus` in the order in which they were named; `None` without it.
fn named_cpus(list: &[CpuRange], machine: &Machine) -> Result<Option<Vec<usize>>, Mistake> {
    let mut named = Vec::new();
    for cpu in list.iter().flat_map(|range| range.first..=range.last) {
        if !machine.allowed.contains(&cpu) {
            wrong!(
                "--cpus: this process may not run on CPU {cpu}, or there is none; it may on {}",
                ranges(&machine.allowed)
            );
        }
        if named.contains(&cpu) {
            wrong!("--cpus names CPU {cpu} twice; name each once");
        }
        named.push(cpu);
    }
    Ok((!named.is_empty()).then_some(named))
}

/// Half of the CPUs each for the generator and the server, at least one; where the number is odd,
/// the server has one more, since it must not be what is measured.
fn halves(cpus: &[usize]) -> (Vec<usize>, Vec<usize>) {
    if cpus.len() < 2 {
        return (cpus.to_vec(), cpus.to_vec());
    }
    let (own, server) = cpus.split_at(cpus.len() / 2);
    (own.to_vec(), server.to_vec())
}

/// A CPU for each thread; they share where there are more threads.
fn in_turn(cpus: &[usize], threads: usize) -> Vec<usize> {
    cpus.iter().copied().cycle().take(threads).collect()
}

/// Ascending numbers as a list of ranges: `0,2-5`.
fn ranges(cpus: &[usize]) -> String {
    let mut text = String::new();
    let consecutive = |a: &usize, b: &usize| a + 1 == *b;
    for run in cpus.chunk_by(consecutive) {
        let comma = if text.is_empty() { "" } else { "," };
        // Writing to a string does not fail.
        let _ = match run {
            [one] => write!(text, "{comma}{one}"),
            _ => write!(text, "{comma}{}-{}", run[0], run[run.len() - 1]),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(usable: &[usize]) -> Machine {
        Machine { allowed: (0..8).collect(), usable: usable.to_vec() }
    }

    fn range(first: usize, last: usize) -> CpuRange {
        CpuRange { first, last }
    }

    #[test]
    fn one_thread_per_usable_cpu() {
        let crew = crew(None, &[], false, None, &machine(&[0, 1, 2])).unwrap();
        assert_eq!(crew, Crew { threads: 3, cpus: vec![0, 1, 2], server_cpus: vec![] });
    }

    #[test]
    fn more_threads_share_the_cpus() {
        let crew = crew(Some(5), &[], false, None, &machine(&[0, 1])).unwrap();
        assert_eq!(crew.cpus, [0, 1, 0, 1, 0]);
    }

    #[test]
    fn named_cpus_count_even_beyond_the_quota() {
        let crew = crew(None, &[range(6, 6), range(2, 3)], false, None, &machine(&[0])).unwrap();
        assert_eq!((crew.threads, crew.cpus), (3, vec![6, 2, 3]));
    }

    #[test]
    fn embedded_server_gets_its_half() {
        let split = |usable: &[usize], list: &[CpuRange]| {
            let crew = crew(None, list, true, None, &machine(usable)).unwrap();
            (crew.cpus, crew.server_cpus)
        };
        assert_eq!(split(&[0, 1, 2, 3], &[]), (vec![0, 1], vec![2, 3]));
        assert_eq!(split(&[0, 1, 2], &[]), (vec![0], vec![1, 2]));
        assert_eq!(split(&[5], &[]), (vec![5], vec![5]));
        assert_eq!(split(&[0, 1, 2], &[range(2, 2)]), (vec![2], vec![0, 1]));
        assert_eq!(split(&[0, 1], &[range(0, 1)]), (vec![0, 1], vec![0, 1]));
    }

    #[test]
    fn no_thread_is_without_a_place() {
        let few = crew(None, &[], false, Some(2), &machine(&[0, 1, 2, 3])).unwrap();
        assert_eq!((few.threads, few.cpus), (2, vec![0, 1]));
        let error = crew(Some(4), &[], false, Some(2), &machine(&[0])).unwrap_err().to_string();
        assert!(error.contains("-t 4") && error.contains("give -t 2"), "{error}");
    }

    #[test]
    fn unknown_and_repeated_cpus_are_refused() {
        let odd = Machine { allowed: vec![0, 2, 3, 4], usable: vec![0] };
        let error = named_cpus(&[range(0, 1)], &odd).unwrap_err().to_string();
        assert!(error.contains("CPU 1") && error.contains("0,2-4"), "{error}");
        let error = named_cpus(&[range(2, 3), range(3, 3)], &odd).unwrap_err().to_string();
        assert!(error.contains("CPU 3 twice"), "{error}");
    }
}
