//! What was watched beside the load, and what the probe saw.

use crate::judge::words::{percent, time};
use crate::report::page::{Page, Style};
use crate::stats::result::{ProbeResult, RunResult, Sample, WatchRow};
use crate::units::{format_bytes, format_count, format_counted};

/// Sources that are shown.
const SOURCES_SHOWN: usize = 3;
/// Remarks on one source that are shown.
const REMARKS_SHOWN: usize = 2;

/// The part of the page; nothing where there is nothing.
pub(super) fn watched(page: &mut Page, result: &RunResult) {
    for row in result.watch.iter().take(SOURCES_SHOWN) {
        let is_first = WatchRow::one_per_machine(&result.watch).any(|r| std::ptr::eq(r, row));
        let during = during(row, result.elapsed_s);
        let mut label = "Watched";
        let mut line = |page: &mut Page, text: &str, style| {
            page.entry(label, text, style);
            label = "";
        };
        let mut head = row.source.clone();
        head.extend(processes(row, &during).map(|text| format!(": {text}")));
        if row.samples.is_empty() {
            head += ": no sample";
        }
        line(page, &head, Style::Plain);
        let machine = if is_first { [machine(&during), troubles(row)] } else { [None, None] };
        for text in machine.iter().flatten() {
            line(page, text, Style::Plain);
        }
        for remark in row.gaps.iter().take(REMARKS_SHOWN) {
            line(page, remark, Style::Caution);
        }
    }
    if result.watch.len() > SOURCES_SHOWN {
        let more = result.watch.len() - SOURCES_SHOWN;
        page.entry("", &format!("and {more} more in the JSON"), Style::Plain);
    }
    if let Some(result) = &result.probe {
        let style = if result.failed > 0 { Style::Caution } else { Style::Plain };
        page.entry("Probe", &probe(result), style);
    }
}

/// The samples of the load; where there are none, all.
fn during(row: &WatchRow, elapsed_s: f64) -> Vec<&Sample> {
    let inside = |sample: &&Sample| (0.0..=elapsed_s + 1.0).contains(&sample.t_s);
    let samples: Vec<_> = row.samples.iter().filter(inside).collect();
    if samples.is_empty() { row.samples.iter().collect() } else { samples }
}

/// The watched processes: their number, CPU and memory.
fn processes(row: &WatchRow, during: &[&Sample]) -> Option<String> {
    let most = row.samples.iter().max_by_key(|sample| sample.processes.len())?;
    let name = &most.processes.first()?.name;
    let count = most.processes.len();
    let mut text = if count > 1 { format!("{count} × {name}") } else { name.clone() };
    if let Some((mean, peak)) = mean_and_peak(during.iter().filter_map(|s| s.process_cpus())) {
        text += &format!(", CPU {mean:.2} on average, {peak:.2} at most");
    }
    let memory = |of: fn(&crate::stats::result::ProcessSample) -> Option<u64>| {
        let all = row.samples.iter().filter(|sample| !sample.processes.is_empty());
        let sums: Vec<u64> =
            all.map(|sample| sample.processes.iter().filter_map(of).sum()).collect();
        sums.first().copied().zip(sums.into_iter().max())
    };
    if let Some((start, peak)) = memory(|process| process.rss).filter(|(_, peak)| *peak > 0) {
        text += &format!("; RSS {} at first, {} at most", format_bytes(start), format_bytes(peak));
    }
    if let Some((_, peak)) = memory(|process| process.swap).filter(|(_, peak)| *peak > 0) {
        text += &format!(", {} in swap", format_bytes(peak));
    }
    Some(text)
}

/// The machine: CPU, run queue, memory.
fn machine(during: &[&Sample]) -> Option<String> {
    let mut parts = Vec::new();
    let cpus = during.last()?.cpus;
    let share = |sample: &&Sample| Some(sample.used_cpus()? / sample.whole_cpus());
    if let Some((mean, peak)) = mean_and_peak(during.iter().filter_map(share)) {
        let whole =
            cpus.map_or(String::new(), |n| format!(" of {}", format_counted(n.into(), "CPU")));
        parts.push(format!("{}{whole} on average, {} at most", percent(mean), percent(peak)));
    }
    if let Some(longest) = during.iter().filter_map(|sample| sample.run_queue).max() {
        parts.push(format!("run queue up to {}", format_count(longest)));
    }
    if let Some(least) = during.iter().filter_map(|sample| sample.mem_available).min() {
        parts.push(format!("{} of memory free at least", format_bytes(least)));
    }
    if let Some(most) = during.iter().filter_map(|sample| sample.swap_used).max()
        && most > 0
    {
        parts.push(format!("{} in swap", format_bytes(most)));
    }
    (!parts.is_empty()).then(|| format!("machine: {}", parts.join("; ")))
}

/// What should not have happened.
fn troubles(row: &WatchRow) -> Option<String> {
    let mut parts = Vec::new();
    let drops = row.growth(|s| s.listen_drops).max(row.growth(|s| s.listen_overflows));
    if drops > 0 {
        parts.push(format!("{} dropped by listeners", format_counted(drops, "connect")));
    }
    let pressure_ms = row.growth(|s| s.tcp_pressure_ms);
    if pressure_ms > 0 {
        parts.push(format!("TCP under memory pressure for {}", time(pressure_ms as f64 * 1e3)));
    }
    let kills = row.growth(|s| s.oom_kills);
    if kills > 0 {
        parts.push(format!("{} for want of memory", format_counted(kills, "kill")));
    }
    let net_drops = row.growth(|s| s.net_drops);
    if net_drops > 0 {
        parts.push(format!("{} dropped by its interfaces", format_counted(net_drops, "packet")));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn probe(probe: &ProbeResult) -> String {
    let mut text = format!("{} sent", format_count(probe.sent));
    match probe.failed {
        0 => text += ", none failed",
        failed => {
            let by_name =
                |(name, count): (&String, &u64)| format!("{name}: {}", format_count(*count));
            let reasons: Vec<_> = probe.failures.iter().map(by_name).collect();
            text += &format!(", {} failed ({})", format_count(failed), reasons.join(", "));
            if let Some(first_s) = probe.first_failed_s {
                text += &format!(", the first at {first_s:.1} s");
            }
        }
    }
    if let Some((p50, max)) = probe.p50_us.zip(probe.max_us) {
        text += &format!("; p50 {}, max {}", time(p50), time(max));
    }
    text
}

fn mean_and_peak(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let values: Vec<f64> = values.collect();
    let sum: f64 = values.iter().sum();
    let peak = values.iter().copied().reduce(f64::max)?;
    Some((sum / values.len() as f64, peak))
}
