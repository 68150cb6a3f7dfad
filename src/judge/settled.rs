//! The server's figures at one level, out of the samples of what was watched.

use std::collections::BTreeSet;

use crate::stats::result::{ProcessSample, Sample, ServerMemory, WatchRow};

/// When a level was reached and held, in the samples' seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// It was asked for.
    pub began_s: f64,
    /// The dwell began.
    pub dwelled_s: f64,
    /// Figures count as settled from here on.
    pub settled_s: f64,
    /// It was left.
    pub left_s: f64,
}

/// The figures of one level but its PSS, which is in no sample. Those of several sources are added;
/// a process that two sources of this machine show counts once.
#[must_use]
pub fn read(rows: &[WatchRow], span: Span) -> ServerMemory {
    let mut memory = ServerMemory::default();
    let mut claimed = BTreeSet::new();
    for row in rows {
        let own = if is_of_this_machine(row) { Some(&mut claimed) } else { None };
        let processes = Processes::of(row, own);
        let settled = |figure: fn(&ProcessSample) -> Option<u64>| {
            processes.median(&row.samples, span, figure)
        };
        add(&mut memory.rss, settled(|process| process.rss));
        add(&mut memory.swap, settled(|process| process.swap));
        add(&mut memory.rss_peak, processes.peak(&row.samples, span));
        if let Some(cpu) = processes.mean_cpu(&row.samples, span) {
            *memory.cpu.get_or_insert(0.0) += cpu;
        }
    }
    if let Some(row) = machine(rows) {
        memory.kernel = median(&row.samples, span, kernel_bytes);
        memory.mem_available = median(&row.samples, span, |sample| sample.mem_available);
    }
    memory
}

/// The row of the machine that the server runs on: the first one that shows processes, else the
/// first one that shows a machine at all.
#[must_use]
pub fn machine(rows: &[WatchRow]) -> Option<&WatchRow> {
    let with_processes =
        |row: &&WatchRow| row.samples.iter().any(|sample| !sample.processes.is_empty());
    let with_memory =
        |row: &&WatchRow| row.samples.iter().any(|sample| sample.mem_available.is_some());
    rows.iter().find(with_processes).or_else(|| rows.iter().find(with_memory))
}

/// Whether a row's processes have the numbers of this machine.
#[must_use]
pub fn is_of_this_machine(row: &WatchRow) -> bool {
    !row.source.starts_with("cmd:") && !row.source.starts_with("file:")
}

/// How the processes changed from the first sample to the last, in words; `None` where they did
/// not. A process that was started later has not the memory of the one before.
#[must_use]
pub fn changed(rows: &[WatchRow]) -> Option<String> {
    let pids = |sample: &Sample| -> BTreeSet<u32> {
        sample.processes.iter().map(|process| process.pid).collect()
    };
    let (mut gone, mut new) = (0, 0);
    for row in rows {
        let mut seen = row.samples.iter().map(pids).filter(|pids| !pids.is_empty());
        let Some(first) = seen.next() else { continue };
        let last = seen.next_back().unwrap_or_else(|| first.clone());
        gone += first.difference(&last).count();
        new += last.difference(&first).count();
    }
    (gone + new > 0).then(|| {
        format!(
            "the server's processes changed meanwhile ({gone} went, {new} came), and with them \
             their memory: do not trust the slope; run it again"
        )
    })
}

/// TCP's buffers, and the caches that cannot be reclaimed, where sockets are.
fn kernel_bytes(sample: &Sample) -> Option<u64> {
    match (sample.tcp_mem_bytes, sample.slab_bytes) {
        (None, None) => None,
        (buffers, slab) => Some(buffers.unwrap_or(0) + slab.unwrap_or(0)),
    }
}

/// The processes of a row that no earlier row has shown.
struct Processes {
    not_ours: BTreeSet<u32>,
}

impl Processes {
    fn of(row: &WatchRow, claimed: Option<&mut BTreeSet<u32>>) -> Self {
        let Some(claimed) = claimed else { return Self { not_ours: BTreeSet::new() } };
        let not_ours = claimed.clone();
        let pids = row.samples.iter().flat_map(|sample| &sample.processes).map(|p| p.pid);
        // Control groups have no number, and each is its own.
        claimed.extend(pids.filter(|&pid| pid != 0));
        Self { not_ours }
    }

    /// The sum over the processes of a sample; `None` where none has the figure.
    fn sum(&self, sample: &Sample, figure: fn(&ProcessSample) -> Option<u64>) -> Option<u64> {
        let ours = sample.processes.iter().filter(|p| !self.not_ours.contains(&p.pid));
        ours.filter_map(figure).fold(None, |sum, bytes| Some(sum.unwrap_or(0) + bytes))
    }

    fn median(
        &self,
        samples: &[Sample],
        span: Span,
        figure: fn(&ProcessSample) -> Option<u64>,
    ) -> Option<u64> {
        median(samples, span, |sample| self.sum(sample, figure))
    }

    /// The most that was resident at once since the level began.
    fn peak(&self, samples: &[Sample], span: Span) -> Option<u64> {
        let during = samples.iter().filter(|s| (span.began_s..=span.left_s).contains(&s.t_s));
        during.filter_map(|sample| self.sum(sample, |process| process.rss)).max()
    }

    /// The mean of the CPUs in use during the dwell. A sample's figure is of the time before it.
    fn mean_cpu(&self, samples: &[Sample], span: Span) -> Option<f64> {
        let mut sums = Vec::new();
        for sample in samples.iter().filter(|s| s.t_s > span.dwelled_s && s.t_s <= span.left_s) {
            let ours = sample.processes.iter().filter(|p| !self.not_ours.contains(&p.pid));
            let known: Vec<f64> = ours.filter_map(|process| process.cpu).collect();
            if !known.is_empty() {
                sums.push(known.iter().sum::<f64>());
            }
        }
        (!sums.is_empty()).then(|| sums.iter().sum::<f64>() / sums.len() as f64)
    }
}

/// The median of the samples in which figures count as settled; where none was taken then, the last
/// one of the level.
fn median(samples: &[Sample], span: Span, figure: impl Fn(&Sample) -> Option<u64>) -> Option<u64> {
    let within = |from: f64| {
        let during = samples.iter().filter(move |s| (from..=span.left_s).contains(&s.t_s));
        during.filter_map(&figure).collect::<Vec<u64>>()
    };
    let mut settled = within(span.settled_s);
    settled.sort_unstable();
    match settled.len() {
        0 => within(span.began_s).last().copied(),
        // Of an even number the lower one of the middle two: a figure that was really there.
        len => Some(settled[(len - 1) / 2]),
    }
}

fn add(sum: &mut Option<u64>, bytes: Option<u64>) {
    if let Some(bytes) = bytes {
        *sum = Some(sum.unwrap_or(0) + bytes);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SPAN: Span = Span { began_s: 0.0, dwelled_s: 4.0, settled_s: 8.0, left_s: 10.0 };

    fn process(pid: u32, rss: u64) -> ProcessSample {
        let cpu = Some(0.25);
        ProcessSample { pid, rss: Some(rss), swap: Some(rss / 10), cpu, ..Default::default() }
    }

    fn sample(t_s: f64, processes: Vec<ProcessSample>) -> Sample {
        Sample {
            t_s,
            mem_available: Some(1_000_000),
            tcp_mem_bytes: Some(4_096),
            slab_bytes: Some(1_000),
            processes,
            ..Sample::default()
        }
    }

    fn row(source: &str, samples: Vec<Sample>) -> WatchRow {
        WatchRow { source: source.into(), samples, ..WatchRow::default() }
    }

    #[test]
    fn settled_is_the_median_of_the_end_and_peak_the_most_since_the_beginning() {
        let rss = [900, 5_000, 300, 400, 500, 600, 700, 800, 100, 300, 200, 9_000];
        let samples = (0_u8..).zip(rss).map(|(t, rss)| sample(t.into(), vec![process(1, rss)]));
        let memory = read(&[row("pid:1", samples.collect())], SPAN);
        assert_eq!(memory.rss, Some(200), "of 100, 300 and 200");
        assert_eq!((memory.swap, memory.rss_peak), (Some(20), Some(5_000)));
        assert_eq!((memory.kernel, memory.mem_available), (Some(5_096), Some(1_000_000)));
        assert_eq!((memory.cpu, memory.pss), (Some(0.25), None));
    }

    #[test]
    fn workers_are_added_and_counted_once() {
        let workers = || vec![sample(9.0, vec![process(7, 100), process(8, 30)])];
        let rows = [row("name:nginx", workers()), row("port:80", workers())];
        assert_eq!(read(&rows, SPAN).rss, Some(130));
        let rows =
            [row("name:nginx", workers()), row("pid:9", vec![sample(9.0, vec![process(9, 5)])])];
        assert_eq!(read(&rows, SPAN).rss, Some(135));
        // The same number on another machine is another process.
        let rows = [row("name:nginx", workers()), row("cmd:ssh h", workers())];
        let memory = read(&rows, SPAN);
        assert_eq!((memory.rss, memory.cpu), (Some(260), Some(1.0)));
    }

    #[test]
    fn a_short_dwell_takes_the_last_sample_there_is() {
        let samples = vec![sample(1.0, vec![process(1, 10)]), sample(3.0, vec![process(1, 20)])];
        let memory = read(&[row("pid:1", samples)], SPAN);
        assert_eq!((memory.rss, memory.rss_peak, memory.cpu), (Some(20), Some(20), None));
    }

    #[test]
    fn what_is_not_known_stays_unknown() {
        assert_eq!(read(&[], SPAN), ServerMemory::default());
        let vmstat = Sample { t_s: 9.0, mem_available: Some(5), ..Sample::default() };
        let memory = read(&[row("file:vmstat.log", vec![vmstat])], SPAN);
        assert_eq!((memory.mem_available, memory.rss, memory.kernel), (Some(5), None, None));
    }

    #[test]
    fn the_machine_is_the_servers() {
        let here = row("system", vec![sample(9.0, vec![])]);
        let there = row(
            "cmd:ssh h",
            vec![Sample { mem_available: Some(7), ..sample(9.0, vec![process(1, 10)]) }],
        );
        assert_eq!(read(&[here.clone(), there], SPAN).mem_available, Some(7));
        assert_eq!(read(&[here], SPAN).mem_available, Some(1_000_000));
    }

    #[test]
    fn a_restart_is_told() {
        let looks = |pids: &[u32]| {
            let samples = pids.iter().map(|&pid| sample(1.0, vec![process(pid, 1)])).collect();
            changed(&[row("name:nginx", samples)])
        };
        assert_eq!((looks(&[]), looks(&[1]), looks(&[1, 1])), (None, None, None));
        assert!(looks(&[1, 2]).unwrap().contains("1 went, 1 came"));
    }

    proptest! {
        #[test]
        fn the_settled_figure_was_really_there(
            samples in proptest::collection::vec((0.0..12.0_f64, 1_u64..1_000), 0..30),
        ) {
            let taken: Vec<Sample> =
                samples.iter().map(|&(t, rss)| sample(t, vec![process(1, rss)])).collect();
            let memory = read(&[row("pid:1", taken)], SPAN);
            let during = || samples.iter().filter(|(t, _)| *t <= 10.0).map(|(_, rss)| *rss);
            prop_assert_eq!(memory.rss.is_some(), during().next().is_some());
            if let Some(rss) = memory.rss {
                prop_assert!(during().any(|taken| taken == rss));
                prop_assert_eq!(memory.rss_peak, during().max());
            }
        }
    }
}
