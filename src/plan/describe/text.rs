//! A description as text, for a terminal.

use std::fmt::{self, Write};

use super::{Amount, Description, Network, Quantity, Watched};
use crate::units::{format_bytes, format_count, format_counted};

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(number) => f.write_str(&format_count(*number)),
            Self::Number(number) => number.fmt(f),
            Self::Words(words) => f.write_str(words),
        }
    }
}

/// Lines of a name and what it is, then the first request.
impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, text: &str| writeln!(f, "{name:<16}{text}");
        line("load", &self.amount.load())?;
        line("ends", &self.amount.ends())?;
        line("connections", &self.amount.connections())?;
        line("timeouts", &self.amount.timeouts())?;
        for (index, page) in self.urls.iter().enumerate() {
            let weight =
                if page.weight == 1 { String::new() } else { format!("  weight {}", page.weight) };
            let name = if index == 0 { "pages" } else { "" };
            line(name, &format!("{} {}{weight}", page.method, page.url))?;
        }
        if self.pages > self.urls.len() {
            line("", &format!("and {} more", format_count((self.pages - self.urls.len()) as u64)))?;
        }
        if self.pages > 1 {
            line("picked", if self.pick == "random" { "at random" } else { "in order" })?;
        }
        line("network", &self.network.to_string())?;
        if let Some(tls) = &self.network.tls {
            line("TLS", &tls.to_string())?;
        }
        line("threads", &format!("{} on CPU {}", self.threads, numbers(&self.cpus)))?;
        if !self.server_cpus.is_empty() {
            line("embedded server", &format!("on CPU {}", numbers(&self.server_cpus)))?;
        }
        line("polling", self.spin)?;
        let Watched { watch, probe, link } = &self.watching;
        if !watch.is_empty() {
            line("watched", &watch.join(", "))?;
        }
        if let Some(url) = probe {
            line("probe", &format!("GET {url} on a fresh connection each second"))?;
        }
        if let Some(link) = link {
            line("line", link)?;
        }
        line("seed", &self.seed.to_string())?;
        if self.body_bytes > 0 {
            line("body", &format_bytes(self.body_bytes as u64))?;
        }
        writeln!(f, "\nfirst request")?;
        for text in self.first_request.lines() {
            writeln!(f, "  {text}")?;
        }
        Ok(())
    }
}

impl Quantity {
    /// So many of something.
    fn of(&self, noun: &str) -> String {
        format!("{self} {noun}{}", if *self == Self::Whole(1) { "" } else { "s" })
    }
}

impl Amount {
    /// What an arrival starts.
    fn arrival(&self) -> &'static str {
        if self.arrive == Some("clients") { "client" } else { "request" }
    }

    /// The model and how much.
    fn load(&self) -> String {
        if let (Some(levels), Some(dwell_s)) = (&self.levels, self.dwell_s) {
            return self.held(levels, dwell_s);
        }
        let mut text = match (&self.rate, &self.connections) {
            (Some(rate), _) => {
                let spacing = self.arrivals.unwrap_or("even");
                format!("open model, {} per second, {spacing} spacing", rate.of(self.arrival()))
            }
            (None, Some(places)) => format!("closed model, {} kept busy", places.of("connection")),
            (None, None) => "closed model".to_owned(),
        };
        if let Some((from, to)) = self.think_s {
            let _ = match from == to {
                true => write!(text, ", {from} s between requests"),
                false => write!(text, ", {from} to {to} s between requests"),
            };
        }
        if self.warmup_s > 0.0 {
            let _ = write!(text, ", after {} s of warm-up", self.warmup_s);
        }
        text
    }

    /// The levels of connections, and what goes over them.
    fn held(&self, levels: &[u32], dwell_s: f64) -> String {
        let levels: Vec<String> = levels.iter().map(|&level| format_count(level.into())).collect();
        let traffic = self.traffic.as_deref().unwrap_or("idle");
        let first = if self.first_request == Some(true) { "one request each, then " } else { "" };
        format!(
            "{} connections, each level held for {dwell_s} s: {first}{traffic}",
            levels.join(" ")
        )
    }

    /// What ends it.
    fn ends(&self) -> String {
        if self.levels.is_some() {
            return "after the last level".to_owned();
        }
        let count = self.requests.map(|n| format!("after {}", format_counted(n, self.arrival())));
        let time = self.duration_s.map(|s| format!("after {s} s"));
        let both: Vec<String> = count.into_iter().chain(time).collect();
        format!("{}; then up to {} s for what is in flight", both.join(" or "), self.grace_s)
    }

    /// Their number and how long they live.
    fn connections(&self) -> String {
        let mut text = match (&self.rate, &self.connections) {
            (Some(_), Some(most)) => format!("at most {most}, "),
            (Some(_), None) => "as many as descriptors and ports allow, ".to_owned(),
            (None, _) => String::new(),
        };
        let _ = match &self.requests_per_connection {
            Quantity::Whole(1) => write!(text, "a new one for each request"),
            Quantity::Words(words) if words == "all" => write!(text, "kept open"),
            other => write!(text, "{other} requests on each"),
        };
        if self.preconnect > 0 {
            let _ = write!(text, ", {} opened before the start", self.preconnect);
        }
        if let Some(rate) = &self.open_rate {
            let _ = write!(text, ", {rate} opened per second");
        }
        text
    }

    /// What is given up, and when.
    fn timeouts(&self) -> String {
        let mut text =
            format!("request {} s, connection {} s", self.timeout_s, self.connect_timeout_s);
        if let Some(wait) = self.drop_after_s {
            let _ = write!(text, ", dropped after {wait} s without a place");
        }
        text
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.addresses[..] {
            [] => f.write_str("not resolved")?,
            addresses => f.write_str(&addresses.join(", "))?,
        }
        if let Some(connect_to) = &self.connect_to {
            write!(f, ", connected to {connect_to}")?;
        }
        if let Some(family) = &self.family {
            write!(f, ", {family} only")?;
        }
        if let Some(first) = self.source.first() {
            write!(f, ", from {first}")?;
            if self.sources > 1 {
                write!(f, " and {} more", format_count(self.sources as u64 - 1))?;
            }
        }
        if self.close == "rst" { f.write_str(", closed with RST") } else { Ok(()) }
    }
}

fn numbers(cpus: &[usize]) -> String {
    cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
