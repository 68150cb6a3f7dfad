//! A hold: a row a level with a bar, what a connection costs, and how many would fit.

use super::super::page::{Page, Style};
use super::{connections, errors, generator, requests, statuses, verdict};
use crate::judge::hold::first_failed;
use crate::judge::objective::Objective;
use crate::judge::words::time;
use crate::stats::result::{
    Aborted, Capacity, HoldResult, LevelResult, PerConnection, ProbeResult, RunResult,
};
use crate::units::{format_bytes, format_count, format_counted};

/// Columns of a bar.
const BAR: usize = 13;
/// Columns of a figure in the table of what a connection costs.
const COST: usize = 24;

/// All below what was asked.
pub(super) fn render(page: &mut Page, result: &RunResult, hold: &HoldResult) {
    let targets = targets(result, hold);
    let most = targets.iter().flat_map(|target| target.levels).filter_map(peak).max().unwrap_or(0);
    for target in &targets {
        memory(page, target, most);
        times(page, target);
        notes(page, target.levels);
    }
    page.gap();
    costs(page, &targets);
    if let Some(sentence) = &hold.sentence {
        page.entry("Room", sentence, Style::Bold);
    }
    if let Some(aborted) = &hold.aborted {
        page.entry("Ended by", &ended_by(aborted), Style::Bad);
    }
    for target in &targets {
        probe(page, target, targets.len() > 1);
    }
    own_memory(page, &targets);
    requests(page, result);
    statuses(page, result);
    errors(page, result);
    connections(page, result);
    generator(page, result);
    verdict(page, result);
    for (number, note) in hold.notes.iter().enumerate() {
        page.entry(if number == 0 { "Notes" } else { "" }, note, Style::Plain);
    }
}

/// The expression that ended it, and the figure that it held of.
fn ended_by(aborted: &Aborted) -> String {
    let Aborted { expression, value, at_s } = aborted;
    let figure = match expression.parse::<Objective>() {
        Ok(objective) => objective.metric.format(*value),
        // A result of a later version, which knows more figures.
        Err(_) => value.to_string(),
    };
    format!("{expression}: it was {figure}, {at_s:.1} s after the start")
}

/// One target, as it is shown.
struct Shown<'a> {
    url: &'a str,
    levels: &'a [LevelResult],
    cost: &'a PerConnection,
    capacity: Option<&'a Capacity>,
    probe: Option<&'a ProbeResult>,
}

fn targets<'a>(result: &'a RunResult, hold: &'a HoldResult) -> Vec<Shown<'a>> {
    match &hold.targets {
        Some(targets) => targets
            .iter()
            .map(|target| Shown {
                url: &target.url,
                levels: &target.levels,
                cost: &target.per_connection,
                capacity: target.capacity.as_ref(),
                probe: target.probe.as_ref(),
            })
            .collect(),
        None => vec![Shown {
            url: result.plan["urls"][0]["url"].as_str().unwrap_or("?"),
            levels: &hold.levels,
            cost: &hold.per_connection,
            capacity: hold.capacity.as_ref(),
            probe: result.probe.as_ref(),
        }],
    }
}

/// The server's memory, a level a row.
fn memory(page: &mut Page, target: &Shown<'_>, most: u64) {
    let line = |cells: [&str; 7], bar: &str| {
        let [wanted, open, rss, peak, pss, each, kernel] = cells;
        format!("{wanted:>11}{open:>9}{rss:>10}{peak:>9}{pss:>9}{each:>9}{kernel:>9} {bar}")
    };
    page.gap();
    page.line(target.url, Style::Bold);
    let head = ["connections", "open", "memory", "peak", "PSS", "each", "kernel"];
    page.line(&line(head, ""), Style::Bold);
    let bytes = |bytes: Option<u64>| bytes.map_or("-".to_owned(), format_bytes);
    for level in target.levels {
        let server = &level.server;
        let each = each_so_far(target.levels, level).map_or("-".to_owned(), signed_bytes);
        let cells = [
            &format_count(level.connections),
            &format_count(level.open),
            &bytes(server.rss),
            &bytes(server.rss_peak),
            &bytes(server.pss),
            &each,
            &bytes(server.kernel),
        ];
        let style = if level.notes.is_empty() { Style::Plain } else { Style::Caution };
        page.line(&line(cells.map(|cell| &**cell), &bar(peak(level), most)), style);
    }
}

fn peak(level: &LevelResult) -> Option<u64> {
    level.server.rss_peak.max(level.server.rss)
}

/// What a connection has cost up to this level, by this one and the lowest alone.
fn each_so_far(levels: &[LevelResult], level: &LevelResult) -> Option<f64> {
    let user = |level: &LevelResult| Some(level.server.rss? + level.server.swap.unwrap_or(0));
    let base = levels.first()?;
    let connections = level.open.checked_sub(base.open).filter(|&more| more > 0)?;
    Some((user(level)? as f64 - user(base)? as f64) / connections as f64)
}

/// A bar of this part of the most, to an eighth of a column.
fn bar(value: Option<u64>, most: u64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let Some(value) = value.filter(|_| most > 0) else { return String::new() };
    let eighths = (value as f64 / most as f64 * (BAR * 8) as f64).round() as usize;
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

/// One column of the table of times.
struct Column {
    name: &'static str,
    cell: fn(&LevelResult) -> Option<String>,
}

/// Handshakes and the probe, a level a row, as far as there are any.
fn times(page: &mut Page, target: &Shown<'_>) {
    let columns: Vec<Column> = [
        Column { name: "connect p95", cell: |level| level.connect.p95_us.map(time) },
        Column { name: "TLS p95", cell: |level| level.tls.p95_us.map(time) },
        Column { name: "resumed p95", cell: |level| level.tls_resumed.p95_us.map(time) },
        Column { name: "probe p50", cell: |level| level.probe.as_ref()?.p50_us.map(time) },
        Column { name: "probe max", cell: |level| level.probe.as_ref()?.max_us.map(time) },
        Column { name: "failed", cell: |level| Some(failed_of(level.probe.as_ref()?)) },
    ]
    .into_iter()
    .filter(|column| target.levels.iter().any(|level| (column.cell)(level).is_some()))
    .collect();
    if columns.is_empty() {
        return;
    }
    let line = |first: &str, cells: Vec<String>| {
        let cells: String = cells.iter().map(|cell| format!("{cell:>12}")).collect();
        format!("{first:>11}{cells}")
    };
    let names = columns.iter().map(|column| column.name.to_owned()).collect();
    page.line(&line("connections", names), Style::Bold);
    for level in target.levels {
        let cells = columns
            .iter()
            .map(|column| (column.cell)(level).unwrap_or_else(|| "-".to_owned()))
            .collect();
        let failed = level.probe.as_ref().is_some_and(|probe| probe.failed > 0);
        let style = if failed { Style::Caution } else { Style::Plain };
        page.line(&line(&format_count(level.connections), cells), style);
    }
}

fn failed_of(probe: &ProbeResult) -> String {
    format!("{} of {}", format_count(probe.failed), format_count(probe.sent))
}

fn notes(page: &mut Page, levels: &[LevelResult]) {
    for level in levels.iter().filter(|level| !level.notes.is_empty()) {
        let label = format!("at {}", format_count(level.connections));
        page.entry(&label, &level.notes.join("; "), Style::Caution);
    }
}

/// What a connection costs, side by side.
fn costs(page: &mut Page, targets: &[Shown<'_>]) {
    let line = |first: &str, cells: &mut dyn Iterator<Item = String>| {
        let cells: String = cells.map(|cell| format!("{cell:>COST$}")).collect();
        format!("{first:<18}{cells}")
    };
    page.line(&line("A connection costs", &mut names(targets).into_iter()), Style::Bold);
    let figure = |bytes: Option<f64>, stderr: Option<f64>| match (bytes, stderr) {
        (None, _) => "-".to_owned(),
        (Some(bytes), None) => signed_bytes(bytes),
        (Some(bytes), Some(stderr)) => {
            format!("{} ± {}", signed_bytes(bytes), signed_bytes(stderr))
        }
    };
    let user = |target: &Shown<'_>| figure(target.cost.user_bytes, target.cost.stderr);
    let kernel = |target: &Shown<'_>| figure(target.cost.kernel_bytes, target.cost.kernel_stderr);
    page.line(&line("  the server", &mut targets.iter().map(user)), Style::Bold);
    page.line(&line("  its kernel", &mut targets.iter().map(kernel)), Style::Plain);
    let fit = |target: &Shown<'_>| match target.capacity {
        Some(capacity) => format_count(capacity.connections),
        None => "cannot be told".to_owned(),
    };
    page.line(&line("  would fit", &mut targets.iter().map(fit)), Style::Plain);
    page.gap();
}

/// What tells the targets apart: the scheme, if that does.
fn names(targets: &[Shown<'_>]) -> Vec<String> {
    let schemes: Vec<String> = targets.iter().map(|target| scheme(target.url)).collect();
    match &schemes[..] {
        [one, other] if one == other => {
            targets.iter().map(|target| shortened(target.url)).collect()
        }
        _ => schemes,
    }
}

/// `HTTPS` of an `https` URL.
fn scheme(url: &str) -> String {
    url.split("://").next().unwrap_or_default().to_ascii_uppercase()
}

/// The end of it, which tells URLs apart.
fn shortened(url: &str) -> String {
    let length = url.chars().count();
    if length < COST {
        return url.to_owned();
    }
    format!("…{}", url.chars().skip(length - (COST - 2)).collect::<String>())
}

/// The probe, and at which level it first failed.
fn probe(page: &mut Page, target: &Shown<'_>, is_one_of_two: bool) {
    let Some(probe) = target.probe else { return };
    let of = if is_one_of_two { format!("{}: ", target.url) } else { String::new() };
    let Some((level, at_s)) = first_failed(target.levels) else {
        let text = format!("{of}{} answered in time", format_counted(probe.sent, "probe"));
        return page.entry("Probe", &text, Style::Good);
    };
    let why = probe.failures.iter().max_by_key(|(_, count)| **count);
    let why = why.map_or(String::new(), |(name, _)| format!(", mostly {name}"));
    let text = format!(
        "{of}first failed at {} connections, {at_s:.1} s after the start; {} failed{why}",
        format_count(level.connections),
        failed_of(probe),
    );
    page.entry("Probe", &text, Style::Bad);
}

/// What the generator itself needs for a connection.
fn own_memory(page: &mut Page, targets: &[Shown<'_>]) {
    let parts: Vec<String> = targets
        .iter()
        .zip(names(targets))
        .filter_map(|(target, name)| {
            let (base, top) = (target.levels.first()?, target.levels.last()?);
            let (base_rss, top_rss) = (base.generator.rss?, top.generator.rss?);
            let more = top.open.checked_sub(base.open).filter(|&more| more > 0)?;
            let each = (top_rss as f64 - base_rss as f64) / more as f64;
            Some(format!(
                "{} at {} connections over {name}, {} each",
                format_bytes(top_rss),
                format_count(top.open),
                signed_bytes(each)
            ))
        })
        .collect();
    if !parts.is_empty() {
        page.entry("Own memory", &parts.join("; "), Style::Plain);
    }
}

/// Bytes that may be below 0: a slope may be noise.
fn signed_bytes(bytes: f64) -> String {
    let sign = if bytes <= -0.5 { "-" } else { "" };
    format!("{sign}{}", format_bytes(bytes.abs().round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::text;
    use crate::stats::Summary;
    use crate::stats::result::{OwnMemory, ServerMemory, TargetResult};
    use crate::stats::samples::closed_run;

    fn level(connections: u64, rss: u64) -> LevelResult {
        LevelResult {
            connections,
            open: connections,
            server: ServerMemory {
                rss: Some(rss),
                pss: Some(rss / 2),
                swap: Some(0),
                kernel: Some(2 << 20),
                rss_peak: Some(rss + 4096),
                ..ServerMemory::default()
            },
            probe: Some(ProbeResult {
                sent: 12,
                failed: connections / 5_000,
                p50_us: Some(300.0),
                max_us: Some(1_200.0),
                first_failed_s: (connections >= 5_000).then_some(23.4),
                ..ProbeResult::default()
            }),
            connect: Summary { count: 1, p95_us: Some(150.0), ..Summary::default() },
            generator: OwnMemory { rss: Some((8 << 20) + connections * 1_024) },
            fitted: true,
            ..LevelResult::default()
        }
    }

    fn levels(each: u64) -> Vec<LevelResult> {
        [0, 1_000, 5_000].map(|count| level(count, (4 << 20) + count * each)).to_vec()
    }

    fn cost(bytes: f64) -> PerConnection {
        PerConnection {
            user_bytes: Some(bytes),
            stderr: Some(12.0),
            kernel_bytes: Some(-3.0),
            levels: 3,
            ..PerConnection::default()
        }
    }

    fn held() -> (RunResult, HoldResult) {
        let (mut result, _) = closed_run();
        result.plan =
            serde_json::json!({ "urls": [{ "url": "http://h:8080/" }], "levels": [0, 1] });
        let probe = ProbeResult {
            sent: 36,
            failed: 1,
            failures: [("connect timeout".to_owned(), 1)].into(),
            ..ProbeResult::default()
        };
        result.probe = Some(probe);
        let hold = HoldResult {
            levels: levels(600),
            per_connection: cost(600.0),
            sentence: Some("With the 1MiB that this machine had free: about 7".into()),
            notes: vec!["a note".into()],
            ..HoldResult::default()
        };
        (result, hold)
    }

    fn page(mut result: RunResult, hold: HoldResult) -> String {
        result.hold = Some(hold);
        text::render(&result, false)
    }

    #[test]
    fn a_level_is_a_row_with_a_bar() {
        let (result, mut hold) = held();
        hold.levels[2].notes.push("server closed 7 of them".into());
        let text = page(result, hold);
        for part in [
            "connections     open    memory     peak      PSS     each   kernel",
            "      5,000    5,000   6.86MiB  6.86MiB  3.43MiB     600B     2MiB █████████████",
            "          0        0      4MiB  4.00MiB     2MiB        -     2MiB ███████▋",
            "connections connect p95   probe p50   probe max      failed",
            "      5,000       150µs       300µs      1.20ms     1 of 12",
            "at 5,000     server closed 7 of them",
            "  the server                    600B ± 12B",
            "  its kernel                           -3B",
            "  would fit                 cannot be told",
            "Room         With the 1MiB",
            "Probe        first failed at 5,000 connections, 23.4 s after the start; 1 of 36",
            "mostly connect timeout",
            "Own memory   12.9MiB at 5,000 connections over HTTP, 1KiB each",
            "Notes        a note",
        ] {
            assert!(text.contains(part), "no \"{part}\" in:\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(!text.contains("TLS p95"), "{text}");
    }

    #[test]
    fn two_targets_stand_side_by_side() {
        let (result, mut hold) = held();
        let target = |url: &str, each: u64| TargetResult {
            url: url.into(),
            levels: levels(each),
            per_connection: cost(each as f64),
            capacity: Some(Capacity { mem_available: 1, reserve: 0, connections: 18_000 }),
            counts: Default::default(),
            connections: Default::default(),
            errors: Vec::new(),
            probe: None,
            watch: Vec::new(),
            notes: Vec::new(),
        };
        hold.targets = Some(vec![target("http://h/", 600), target("https://h/", 46_000)]);
        hold.aborted = Some(Aborted { expression: "failed>1%".into(), value: 0.5, at_s: 12.0 });
        let text = page(result.clone(), hold.clone());
        for part in [
            "A connection costs                    HTTP                   HTTPS",
            "  the server                    600B ± 12B           44.9KiB ± 12B",
            "  would fit                         18,000                  18,000",
            "Ended by     failed>1%: it was 50 %, 12.0 s after the start",
        ] {
            assert!(text.contains(part), "no \"{part}\" in:\n{text}");
        }
        hold.targets = Some(vec![target("http://h:8080/", 1), target("http://h:8081/", 1)]);
        let text = page(result, hold);
        assert!(text.contains("http://h:8080/          http://h:8081/"), "{text}");
    }

    #[test]
    fn what_is_not_known_is_a_dash() {
        let (mut result, mut hold) = held();
        result.probe = None;
        let bare = |connections| LevelResult { connections, ..LevelResult::default() };
        hold.levels = vec![bare(0), bare(10)];
        (hold.per_connection, hold.sentence) = (PerConnection::default(), None);
        let text = page(result, hold);
        assert!(text.contains("         10        0         -        -"), "{text}");
        assert!(!text.contains("Room") && !text.contains("Probe"), "{text}");
    }

    #[test]
    fn a_bar_is_as_long_as_its_part() {
        assert_eq!(bar(Some(0), 100), "");
        assert_eq!(bar(Some(100), 100), "█".repeat(BAR));
        assert_eq!(bar(Some(50), 100), format!("{}▌", "█".repeat(6)));
        assert_eq!((bar(None, 100), bar(Some(1), 0)), (String::new(), String::new()));
    }
}
