//! The result as a page for a terminal, to be read from the top: what was asked, what came of it,
//! how long it took, what went wrong, who was the limit.

mod hold;
mod watched;

use serde_json::Value;

use super::page::{Page, Style};
use crate::judge::remedy::remedy;
use crate::judge::words::{percent, time};
use crate::stats::Summary;
use crate::stats::result::{LimitedBy, PageRow, RunResult, Sure};
use crate::units::{format_bytes, format_count, format_counted, format_rate};

/// Kinds of failures that are shown.
const ERRORS_SHOWN: usize = 5;
/// Statuses that are shown.
const STATUSES_SHOWN: usize = 8;
/// Pages that are shown.
const PAGES_SHOWN: usize = 10;
/// Characters of a page's URL that are shown.
const URL_WIDTH: usize = 42;

/// The page, at most 80 columns wide but for colours.
#[must_use]
pub fn render(result: &RunResult, color: bool) -> String {
    let mut page = Page::new(color);
    asked(&mut page, result);
    if let Some(held) = &result.hold {
        hold::render(&mut page, result, held);
        return page.finish();
    }
    requests(&mut page, result);
    latency(&mut page, result);
    statuses(&mut page, result);
    errors(&mut page, result);
    pages(&mut page, result);
    connections(&mut page, result);
    watched::watched(&mut page, result);
    generator(&mut page, result);
    verdict(&mut page, result);
    page.finish()
}

fn asked(page: &mut Page, result: &RunResult) {
    let plan = &result.plan;
    let label = result.label.as_ref().map_or(String::new(), |label| format!(": {label}"));
    page.line(&format!("ringload {} {}{label}", result.version, result.command), Style::Bold);
    let urls = plan["urls"].as_array().into_iter().flatten();
    let urls: Vec<_> = urls.filter_map(|url| shown(url).or_else(|| shown(&url["url"]))).collect();
    let target = match urls.as_slice() {
        [] => None,
        [url] => Some(url.clone()),
        [first, ..] => Some(format!("{first} and {} more", urls.len() - 1)),
    };
    let requests = plan["requests"].as_u64();
    let requests = requests.map(|n| format!(", {}", format_counted(n, "request")));
    let duration = plan["duration_s"].as_f64();
    let duration = duration.map(|s| format!(", for {}", time(s * 1e6)));
    let (rate, connections) = (shown(&plan["rate"]), shown(&plan["connections"]));
    let load = match (result.rate.offered, connections) {
        _ if plan["levels"].is_array() => held(plan),
        (Some(_), connections) => {
            let at_most = connections.map(|c| format!(", at most {}", several(&c, "connection")));
            format!(
                "open model, {} per second{}",
                several(rate.as_deref().unwrap_or("?"), "arrival"),
                at_most.unwrap_or_default(),
            )
        }
        (None, Some(one)) if one == "1" => {
            "closed model, 1 connection that waits for its answer".to_owned()
        }
        (None, connections) => format!(
            "closed model, {} connections that wait for their answers",
            connections.as_deref().unwrap_or("?"),
        ),
    };
    let clients = (plan["arrive"] == "clients").then(|| ", each a client".to_owned());
    let life = shown(&plan["requests_per_connection"])
        .filter(|life| life != "all")
        .map(|life| format!(", {} per connection", several(&life, "request")));
    let parts = [Some(load), clients, life, requests, duration];
    page.entry("Asked", &parts.into_iter().flatten().collect::<String>(), Style::Plain);
    if let Some(target) = target {
        page.entry("", &target, Style::Plain);
    }
    let threads = result.generator.workers.len();
    let pinned: Vec<_> = result.generator.workers.iter().filter_map(|w| w.pinned_to).collect();
    let on_cpus = match pinned.as_slice() {
        [] => String::new(),
        pinned => format!(" on CPU {}", listed(pinned)),
    };
    // Without commas: it is typed again.
    let seed = plan["seed"].as_u64().map_or(String::new(), |seed| format!(", seed {seed}"));
    page.entry(
        "",
        &format!("{}{on_cpus}{seed}", format_counted(threads as u64, "thread")),
        Style::Plain,
    );
}

/// The levels of a hold.
fn held(plan: &Value) -> String {
    let levels: Vec<String> =
        plan["levels"].as_array().into_iter().flatten().filter_map(shown).collect();
    let first = if plan["first_request"] == true { "one request each, then " } else { "" };
    format!(
        "{} connections, each level held for {} s: {first}{}",
        levels.join(" "),
        plan["dwell_s"].as_f64().unwrap_or(0.0),
        shown(&plan["traffic"]).unwrap_or_default(),
    )
}

fn requests(page: &mut Page, result: &RunResult) {
    let c = &result.counts;
    let [scheduled, started, dropped, unstarted] =
        [c.scheduled, c.started, c.dropped, c.unstarted].map(format_count);
    let [completed, failed, unfinished] = [c.completed, c.failed, c.unfinished].map(format_count);
    page.entry(
        "Requests",
        &format!(
            "{scheduled} scheduled = {started} started + {dropped} dropped + {unstarted} unstarted"
        ),
        Style::Plain,
    );
    page.entry(
        "",
        &format!(
            "{started} started = {completed} completed + {failed} failed + {unfinished} unfinished"
        ),
        Style::Plain,
    );
    if c.clients.scheduled > 0 {
        let scheduled = format_counted(c.clients.scheduled, "client");
        let [started, finished] = [c.clients.started, c.clients.finished].map(format_count);
        let text = format!("{scheduled} arrived, {started} began, {finished} finished");
        page.entry("", &text, Style::Plain);
    }
    let answered = format_rate(result.rate.answered);
    let rate = match result.rate.offered {
        Some(offered) if c.clients.scheduled > 0 => {
            format!("{} clients offered, {answered} requests answered", format_rate(offered))
        }
        Some(offered) => format!("{} offered, {answered} answered", format_rate(offered)),
        None => format!("{answered} answered"),
    };
    page.entry("Rate", &rate, Style::Bold);
    let [sent, received, body] =
        [result.bytes.sent, result.bytes.received, result.bytes.body].map(format_bytes);
    let text = format!("{sent} sent, {received} received, {body} of that bodies");
    page.entry("Bytes", &text, Style::Plain);
}

/// One of a summary's figures.
type Figure = fn(&Summary) -> Option<f64>;

fn latency(page: &mut Page, result: &RunResult) {
    let all = &result.latency;
    let waited = all.wait.max_us.is_some_and(|us| us > 0.0);
    let columns: Vec<(&str, &Summary)> = [
        ("response", Some(&all.response)),
        ("service", Some(&all.service)),
        ("first byte", Some(&all.first_byte)),
        ("ok", (result.counts.http_errors > 0).then_some(&all.ok)),
        ("wait", waited.then_some(&all.wait)),
    ]
    .into_iter()
    .filter_map(|(name, summary)| Some((name, summary?)))
    .collect();
    let rows: [(&str, Figure); 10] = [
        ("min", |s| s.min_us),
        ("mean", |s| s.mean_us),
        ("p50", |s| s.p50_us),
        ("p75", |s| s.p75_us),
        ("p90", |s| s.p90_us),
        ("p95", |s| s.p95_us),
        ("p99", |s| s.p99_us),
        ("p99.9", |s| s.p99_9_us),
        ("p99.99", |s| s.p99_99_us),
        ("max", |s| s.max_us),
    ];
    let line = |label: &str, cells: Vec<String>| {
        let cells: String = cells.iter().map(|cell| format!("{cell:>12}")).collect();
        format!("{label:>9}{cells}")
    };
    page.gap();
    let names = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
    page.line(&line("time", names), Style::Bold);
    for (label, value) in rows {
        let cells = columns.iter().map(|(_, s)| value(s).map_or("-".to_owned(), time)).collect();
        page.line(&line(label, cells), Style::Plain);
    }
    page.gap();
}

fn statuses(page: &mut Page, result: &RunResult) {
    let mut statuses: Vec<_> = result.status.iter().collect();
    statuses.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let mut text: Vec<_> = statuses
        .iter()
        .take(STATUSES_SHOWN)
        .map(|(status, count)| format!("{status}: {}", format_count(**count)))
        .collect();
    if statuses.len() > STATUSES_SHOWN {
        text.push(format!("and {} more", statuses.len() - STATUSES_SHOWN));
    }
    let style = if result.counts.http_errors > 0 { Style::Caution } else { Style::Plain };
    let text = if text.is_empty() { "no answer".to_owned() } else { text.join(", ") };
    page.entry("Status", &text, style);
}

fn errors(page: &mut Page, result: &RunResult) {
    if result.errors.is_empty() {
        return page.entry("Errors", "none", Style::Plain);
    }
    for (number, error) in result.errors.iter().take(ERRORS_SHOWN).enumerate() {
        let detail =
            if error.detail.is_empty() { String::new() } else { format!(" ({})", error.detail) };
        let text = format!(
            "{} {}{detail}: {}, from {:.1} s to {:.1} s: {}",
            error.phase.name(),
            error.kind.name(),
            format_counted(error.count, "time"),
            error.first_s,
            error.last_s,
            error.example,
        );
        page.entry(if number == 0 { "Errors" } else { "" }, &text, Style::Bad);
        if let Some(remedy) = remedy(error.phase, error.kind, &error.detail) {
            page.entry("", &format!("  {remedy}"), Style::Plain);
        }
    }
    if result.errors.len() > ERRORS_SHOWN {
        let more = &result.errors[ERRORS_SHOWN..];
        let count = format_count(more.iter().map(|error| error.count).sum());
        page.entry("", &format!("and {count} of {} more kinds", more.len()), Style::Bad);
    }
}

/// The pages, where there are several.
fn pages(page: &mut Page, result: &RunResult) {
    if result.pages.len() < 2 {
        return;
    }
    page.gap();
    let line = |cells: [&str; 6]| {
        let [url, count, failed, errors, p50, p95] = cells;
        format!("{url:URL_WIDTH$}{count:>9}{failed:>7}{errors:>6}{p50:>8}{p95:>8}")
    };
    page.line(&line(["page", "answers", "failed", "4/5xx", "p50", "p95"]), Style::Bold);
    for row in result.pages.iter().take(PAGES_SHOWN) {
        let [count, failed, errors] = [row.count, row.failed, row.http_errors].map(format_count);
        let [p50, p95] = [row.p50_us, row.p95_us].map(|us| us.map_or("-".to_owned(), time));
        let style = if row.failed + row.http_errors > 0 { Style::Caution } else { Style::Plain };
        page.line(&line([&short_url(row), &count, &failed, &errors, &p50, &p95]), style);
    }
    if result.pages.len() > PAGES_SHOWN {
        let more = result.pages.len() - PAGES_SHOWN;
        page.line(&format!("and {more} more in the JSON"), Style::Plain);
    }
    page.gap();
}

/// The end of the URL, which tells pages apart.
fn short_url(row: &PageRow) -> String {
    let url = super::page::printable(&row.url);
    let length = url.chars().count();
    if length < URL_WIDTH {
        return url;
    }
    let tail: String = url.chars().skip(length - (URL_WIDTH - 2)).collect();
    format!("…{tail}")
}

fn connections(page: &mut Page, result: &RunResult) {
    let c = &result.connections;
    let per_connection = match c.requests_per_connection.mean {
        Some(mean) => format!(
            "; {mean:.1} requests each, at most {}",
            format_count(c.requests_per_connection.max)
        ),
        None => String::new(),
    };
    let [opened, attempted, peak] = [c.opened, c.attempted, c.peak_open].map(format_count);
    let text = format!("{opened} of {attempted} opened, at most {peak} at once{per_connection}");
    page.entry("Connections", &text, Style::Plain);
    let [server, us] = [c.closed_by_server, c.closed_by_us].map(format_count);
    let mut parts = vec![format!("closed by server {server}, by us {us}")];
    parts.extend((c.resent > 0).then(|| format!("requests sent again {}", format_count(c.resent))));
    parts.extend(
        (c.no_ports > 0).then(|| format!("held back without a port {}", format_count(c.no_ports))),
    );
    let connect = &result.latency.connect;
    parts.extend(connect.p50_us.zip(connect.p99_us).zip(connect.max_us).map(
        |((p50, p99), max)| {
            format!("connect p50 {}, p99 {}, max {}", time(p50), time(p99), time(max))
        },
    ));
    page.entry("", &parts.join("; "), Style::Plain);
    secured(page, result);
}

/// What TLS agreed on, and what the handshakes took.
fn secured(page: &mut Page, result: &RunResult) {
    let Some(tls) = &result.connections.tls else { return };
    let agreed = [&tls.version, &tls.suite, &tls.group].into_iter().flatten();
    let mut parts: Vec<&str> = agreed.map(String::as_str).collect();
    if parts.is_empty() {
        parts.push("no handshake was completed");
    }
    parts.push(if tls.verified { "certificate verified" } else { "certificate not verified" });
    page.entry("TLS", &parts.join(", "), Style::Plain);
    let kinds = [
        (tls.full, "full handshake", &result.latency.tls),
        (tls.resumed, "resumed handshake", &result.latency.tls_resumed),
    ];
    for (count, what, took) in kinds {
        let Some(((p50, p99), max)) = took.p50_us.zip(took.p99_us).zip(took.max_us) else {
            continue;
        };
        let count = format_counted(count, what);
        let text = format!("{count}: p50 {}, p99 {}, max {}", time(p50), time(p99), time(max));
        page.entry("", &text, Style::Plain);
    }
}

fn generator(page: &mut Page, result: &RunResult) {
    let workers = &result.generator.workers;
    let shares = |share: fn(&crate::stats::result::WorkerRow) -> f64| {
        listed(&workers.iter().map(|worker| percent(share(worker))).collect::<Vec<_>>())
    };
    let cpu = result.generator.cpu_us_per_request;
    let cpu = cpu.map_or(String::new(), |us| format!(", {} of CPU a request", time(us)));
    let text = format!(
        "busy {}, waited for its CPU {}{cpu}",
        shares(|worker| worker.busy),
        shares(|worker| worker.waited),
    );
    page.entry("Generator", &text, Style::Plain);
    let lag = &result.latency.lag;
    if let Some(((p50, p99), max)) = lag.p50_us.zip(lag.p99_us).zip(lag.max_us) {
        let text =
            format!("late by {} at p50, {} at p99, at most {}", time(p50), time(p99), time(max));
        page.entry("", &text, Style::Plain);
    }
    let batching = &result.generator.batching;
    if batching.want > 1 && batching.min_wait_us > 0.0 {
        let text = format!(
            "waited for up to {} answers at once, which may add {} to a response",
            batching.want,
            time(batching.min_wait_us),
        );
        page.entry("", &text, Style::Plain);
    }
}

fn verdict(page: &mut Page, result: &RunResult) {
    let verdict = &result.verdict;
    let who = match verdict.limited_by {
        LimitedBy::None => "nothing",
        LimitedBy::Server => "the server",
        LimitedBy::Generator => "the generator",
        LimitedBy::Ports => "the local ports",
        LimitedBy::Connections => "the connections",
        LimitedBy::Link => "the line",
        LimitedBy::Unknown => "not known",
    };
    let sure = match verdict.sure {
        Sure::High => "sure",
        Sure::Medium => "fairly sure",
        Sure::Low => "a guess",
    };
    let style = match verdict.limited_by {
        LimitedBy::None => Style::Good,
        LimitedBy::Generator | LimitedBy::Ports => Style::Bad,
        _ => Style::Bold,
    };
    let reasons = verdict.reasons.join("; ");
    let separator = if reasons.is_empty() { "" } else { ": " };
    let sure = match verdict.limited_by {
        LimitedBy::Unknown => String::new(),
        _ => format!(" ({sure})"),
    };
    page.entry("Limited by", &format!("{who}{sure}{separator}{reasons}"), style);
    if verdict.warnings.is_empty() {
        return page.entry("Measurement", "nothing wrong with it was noticed", Style::Good);
    }
    for (number, warning) in verdict.warnings.iter().enumerate() {
        page.entry(if number == 0 { "Measurement" } else { "" }, warning, Style::Caution);
    }
}

/// A value of the plan as it reads; `None` for what is not there.
fn shown(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => {
            Some(number.as_u64().map_or_else(|| number.to_string(), format_count))
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A quantity as it was asked for, of something.
fn several(quantity: &str, noun: &str) -> String {
    format!("{quantity} {noun}{}", if quantity == "1" { "" } else { "s" })
}

fn listed<T: ToString>(values: &[T]) -> String {
    values.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
