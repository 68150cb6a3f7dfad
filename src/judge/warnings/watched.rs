//! What went wrong on the watched machine, and with the probe.

use crate::judge::server::{during, generator_cpus};
use crate::judge::words::{percent, time};
use crate::stats::assemble::Circumstances;
use crate::stats::result::{ProbeResult, RunResult, Sample, WatchRow};
use crate::units::{format_bytes, format_count, format_counted};

/// What a hypervisor takes from a machine is noticed from this share on (field practice: at most
/// 2 % was taken for undisturbed).
const STEAL_SHARE: f64 = 0.02;
/// Swap that grows by less is what a machine does with memory that nobody touches.
const SWAP_LEAST: u64 = 16 << 20;
/// A machine whose CPUs are used for a larger share is full.
const FULL_SHARE: f64 = 0.9;
/// CPUs that something else than server and generator uses, of a full machine, to be named.
const OTHERS_SHARE: f64 = 0.25;

/// All warnings of what was watched, once for each machine.
pub(super) fn warnings(result: &RunResult, circumstances: &Circumstances) -> Vec<String> {
    let mut told = Vec::new();
    for row in WatchRow::one_per_machine(&result.watch) {
        let samples = during(row, circumstances.recorded_s);
        let parts = [
            oom_kills(row),
            swap(row),
            tcp_pressure(row),
            listen_queue(row),
            steal(&samples),
            others(&samples, if row.is_local() { generator_cpus(result) } else { 0.0 }),
        ];
        told.extend(parts.into_iter().flatten());
    }
    told.extend(result.probe.as_ref().and_then(probe));
    told
}

/// Whether a watched process works on the machine on which the load is made.
pub(super) fn server_here(result: &RunResult) -> bool {
    let works = |sample: &Sample| sample.process_cpus().is_some_and(|cpus| cpus > 0.0);
    result.watch.iter().any(|row| row.is_local() && row.samples.iter().any(works))
}

fn oom_kills(row: &WatchRow) -> Option<String> {
    let kills = row.growth(|sample| sample.oom_kills);
    (kills > 0).then(|| {
        let killed = if kills == 1 { "process was" } else { "processes were" };
        format!(
            "{} {killed} killed for want of memory on the server's machine (see its dmesg): offer \
             less, or give it more memory",
            format_count(kills),
        )
    })
}

fn swap(row: &WatchRow) -> Option<String> {
    let mut swap = row.samples.iter().filter_map(|sample| sample.swap_used);
    let first = swap.next()?;
    let grown = swap.max()?.saturating_sub(first);
    (grown >= SWAP_LEAST).then(|| {
        format!(
            "the server's machine went into swap, by {}: what it answers then takes as long as its \
             disk; use fewer connections, or give it more memory",
            format_bytes(grown),
        )
    })
}

fn tcp_pressure(row: &WatchRow) -> Option<String> {
    let times = row.growth(|sample| sample.tcp_pressures);
    let ms = row.growth(|sample| sample.tcp_pressure_ms);
    (times + ms > 0).then(|| {
        let long = if ms > 0 { format!(" for {}", time(ms as f64 * 1e3)) } else { String::new() };
        format!(
            "TCP on the server's machine was under memory pressure{long}, and shrinks the buffers \
             of all connections then: raise net.ipv4.tcp_mem there, or use fewer connections",
        )
    })
}

fn listen_queue(row: &WatchRow) -> Option<String> {
    let overflows = row.growth(|sample| sample.listen_overflows);
    let drops = row.growth(|sample| sample.listen_drops).max(overflows);
    (drops > 0).then(|| {
        let full = match overflows {
            0 => String::new(),
            overflows => format!(", {} because its queue was full", format_count(overflows)),
        };
        format!(
            "a listener on the server's machine dropped {}{full}: raise the server's \
             backlog and net.core.somaxconn there, or open connections more slowly (--open-rate)",
            format_counted(drops, "connect"),
        )
    })
}

fn steal(samples: &[&Sample]) -> Option<String> {
    let steal = mean(samples.iter().filter_map(|s| Some(s.cpu_steal? / s.whole_cpus())))?;
    (steal > STEAL_SHARE).then(|| {
        format!(
            "the hypervisor gave {} of the CPU of the server's machine to others (steal): repeat \
             the run, or use a machine whose CPUs are its own",
            percent(steal),
        )
    })
}

/// A full machine, and neither the server nor the generator fills it.
fn others(samples: &[&Sample], generator: f64) -> Option<String> {
    let processes = mean(samples.iter().filter_map(|s| s.process_cpus()))?;
    let used = mean(samples.iter().filter_map(|s| s.used_cpus()))?;
    let cpus = samples.last()?.whole_cpus();
    let others = used - processes - generator;
    (used >= FULL_SHARE * cpus && others >= OTHERS_SHARE * cpus).then(|| {
        format!(
            "the CPUs of the server's machine are full, and {others:.1} of {cpus:.0} are used by \
             something that is not watched: end it, or watch it too (--watch)",
        )
    })
}

fn probe(probe: &ProbeResult) -> Option<String> {
    (probe.failed > 0).then(|| {
        let most = probe.failures.iter().max_by_key(|(_, count)| **count);
        format!(
            "{} of {} failed (most often: {}): somebody who came anew got no answer within \
             1 s; offer less, or see what the server does with new connections then",
            format_count(probe.failed),
            format_counted(probe.sent, "probe"),
            most.map_or("", |(failure, _)| failure),
        )
    })
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::warnings::warnings as all;
    use crate::stats::samples::{closed_run, open_run, watched};

    /// What is said of a run beside which this was watched, where it is one thing.
    fn told(row: WatchRow) -> Vec<String> {
        let (mut result, circumstances) = open_run();
        result.watch = vec![row];
        all(&result, &circumstances)
    }

    /// The only warning where the later half of the samples is spoilt.
    #[track_caller]
    fn check(spoil: fn(&mut Sample), wanted: &str) {
        let mut row = watched(&[0.5]);
        row.samples[5..].iter_mut().for_each(spoil);
        let told = told(row);
        assert_eq!(told.len(), 1, "{wanted}: {told:?}");
        assert!(told[0].contains(wanted), "{wanted}: {told:?}");
    }

    #[test]
    fn a_healthy_server_is_not_warned_about() {
        assert_eq!(told(watched(&[0.5, 0.4])), Vec::<String>::new());
        assert_eq!(told(WatchRow::default()), Vec::<String>::new());
    }

    #[test]
    fn what_grew_is_told_with_a_remedy() {
        check(|s| s.oom_kills = Some(3), "1 process");
        check(|s| s.swap_used = Some(200 << 20), "by 200MiB");
        check(|s| s.tcp_pressures = Some(8), "under memory pressure, and");
        check(|s| s.tcp_pressure_ms = Some(122_000), "under memory pressure for 1m1s");
        check(|s| s.listen_drops = Some(17), "dropped 12 connects: raise");
        check(|s| s.listen_overflows = Some(9), "dropped 6 connects, 6 because its queue was full");
        check(|s| s.cpu_steal = Some(0.4), "(steal)");
    }

    #[test]
    fn little_is_nothing() {
        let mut row = watched(&[0.5]);
        for sample in &mut row.samples[5..] {
            (sample.swap_used, sample.cpu_steal) = (Some(1 << 20), Some(0.05));
        }
        assert_eq!(told(row), Vec::<String>::new());
    }

    #[test]
    fn a_machine_that_something_else_fills_is_told() {
        let mut row = watched(&[0.5]);
        for sample in &mut row.samples {
            (sample.cpu_user, sample.cpu_system) = (Some(3.0), Some(0.9));
        }
        let all = told(row);
        assert!(all[0].contains("3.3 of 4 are used by something"), "{all:?}");
    }

    #[test]
    fn one_machine_is_told_of_once() {
        let mut row = watched(&[0.5]);
        row.samples[5..].iter_mut().for_each(|sample| sample.oom_kills = Some(3));
        let other = WatchRow { source: "system".into(), ..row.clone() };
        let remote = WatchRow { source: "cmd:ssh h ringload watch".into(), ..row.clone() };
        let (mut result, circumstances) = closed_run();
        result.watch = vec![row, other, remote];
        assert_eq!(all(&result, &circumstances).len(), 2);
    }

    #[test]
    fn probes_that_failed_are_told() {
        let (mut result, circumstances) = closed_run();
        let failures = [("connect refused".to_owned(), 1), ("head timeout".to_owned(), 2)].into();
        result.probe = Some(ProbeResult { sent: 10, failed: 3, failures, ..Default::default() });
        let told = all(&result, &circumstances);
        assert!(
            told[0].starts_with("3 of 10 probes failed (most often: head timeout)"),
            "{told:?}"
        );
    }
}
