//! A plan as it is shown: in a result's `plan` and by `--dry-run`. Secrets are not in it.

use std::fmt;
use std::net::SocketAddr;

use serde::Serialize;

use super::{
    Arrive, Close, Header, IpFamily, Lifetime, Load, Pick, Plan, Profile, Ratio, Spacing, Spin,
    Target,
};
use crate::clock::{Nanos, SECOND};
use crate::http1::request::{RequestError, encode};
use crate::units::{format_bytes, format_count, format_duration_exactly};

/// What stands in place of a value that nobody may see.
const HIDDEN: &str = "***";
/// The most pages that are listed.
const MAX_LISTED: usize = 20;

/// A plan's content, resolved, with the keys of a result's `plan`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Description {
    /// `closed` or `open`.
    pub model: &'static str,
    /// Arrivals per second, as a profile; of the open model.
    pub rate: Option<String>,
    /// Connections at once, as a profile; in the open model the most, where there is a limit.
    pub connections: Option<String>,
    /// `even` or `poisson`; of the open model.
    pub arrivals: Option<&'static str>,
    /// `requests` or `clients`; of the open model.
    pub arrive: Option<&'static str>,
    /// The end by what is started.
    pub requests: Option<u64>,
    /// The end by the clock, seconds.
    pub duration_s: Option<f64>,
    /// As `--requests-per-connection` is written.
    pub requests_per_connection: String,
    /// Opened before the clock starts.
    pub preconnect: u32,
    /// Connections opened per second at most.
    pub open_rate: Option<f64>,
    /// As `--think` is written.
    pub think: Option<String>,
    /// Seconds.
    pub drop_after_s: Option<f64>,
    /// Seconds.
    pub warmup_s: f64,
    /// Seconds.
    pub timeout_s: f64,
    /// Seconds.
    pub connect_timeout_s: f64,
    /// Seconds.
    pub grace_s: f64,
    /// The pages, at most 20 of them.
    pub urls: Vec<Asked>,
    /// How many pages there are.
    pub pages: usize,
    /// `random` or `in-order`.
    pub pick: &'static str,
    /// The addresses that are connected to, as far as they are known; a path for a unix socket.
    pub addresses: Vec<String>,
    /// As `--connect-to` is written.
    pub connect_to: Option<String>,
    /// `4` or `6`.
    pub family: Option<&'static str>,
    /// How many source addresses are used in turn; 0: the kernel chooses.
    pub sources: usize,
    /// `fin` or `rst`.
    pub close: &'static str,
    /// As they are sent, `Name: value`, secrets as `***`.
    pub headers: Vec<String>,
    /// Length of each request's body, bytes.
    pub body_bytes: usize,
    /// Null: this version speaks plain HTTP.
    pub tls: Option<&'static str>,
    /// Of every random choice.
    pub seed: u64,
    /// Worker threads.
    pub threads: usize,
    /// The CPU of each thread; empty: not pinned.
    pub cpus: Vec<usize>,
    /// The CPUs of the embedded server.
    pub server_cpus: Vec<usize>,
    /// `auto`, `never` or `always`.
    pub spin: &'static str,
    /// The first page's request as it is sent, secrets as `***`; not in results.
    #[serde(skip)]
    pub first_request: String,
}

/// A page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Asked {
    /// The method.
    pub method: String,
    /// Without credentials.
    pub url: String,
    /// How often, against the others.
    pub weight: u32,
}

impl Description {
    /// Describes a plan whose name resolved to `addresses`; none where it was not asked.
    #[must_use]
    pub fn new(plan: &Plan, addresses: &[SocketAddr]) -> Self {
        let load = LoadWords::of(&plan.load);
        let listed = plan.pages.iter().take(MAX_LISTED);
        let unix = plan.dial.unix_socket.iter().map(|path| path.display().to_string());
        Self {
            model: load.model,
            rate: load.rate.map(profile),
            connections: load.connections.map(profile),
            arrivals: load.arrivals,
            arrive: load.arrive,
            requests: plan.end.requests,
            duration_s: plan.end.duration_ns.map(seconds),
            requests_per_connection: lifetime(plan.lifetime),
            preconnect: load.preconnect,
            open_rate: load.open_rate.map(Ratio::as_f64),
            think: plan.think_ns.map(think),
            drop_after_s: load.drop_after_ns.map(seconds),
            warmup_s: seconds(plan.warmup_ns),
            timeout_s: seconds(plan.timeout_ns),
            connect_timeout_s: seconds(plan.connect_timeout_ns),
            grace_s: seconds(plan.grace_ns),
            urls: listed
                .map(|page| Asked {
                    method: page.method.clone(),
                    url: page.url.clone(),
                    weight: page.weight,
                })
                .collect(),
            pages: plan.pages.len(),
            pick: match plan.pick {
                Pick::Random => "random",
                Pick::InOrder => "in-order",
            },
            addresses: unix.chain(addresses.iter().map(ToString::to_string)).collect(),
            connect_to: plan.dial.connect_to.as_ref().map(connect_to),
            family: plan.dial.family.map(|family| match family {
                IpFamily::V4 => "4",
                IpFamily::V6 => "6",
            }),
            sources: plan.dial.sources.len(),
            close: match plan.dial.close {
                Close::Fin => "fin",
                Close::Rst => "rst",
            },
            headers: plan.headers.iter().map(header).collect(),
            body_bytes: plan.body.as_ref().map_or(0, Vec::len),
            tls: None,
            seed: plan.seed,
            threads: plan.threads,
            cpus: plan.cpus.clone(),
            server_cpus: match &plan.target {
                Target::Embedded { cpus } => cpus.clone(),
                Target::Origin { .. } => Vec::new(),
            },
            spin: match plan.spin {
                Spin::Auto => "auto",
                Spin::Never => "never",
                Spin::Always => "always",
            },
            first_request: first_request(plan).unwrap_or_else(|error| error.to_string()),
        }
    }
}
