//! A plan as it is shown: in a result's `plan` and by `--dry-run`. Secrets are not in it.

mod text;
mod tls;

pub use tls::TlsDescription;

use std::net::SocketAddr;

use serde::Serialize;

use super::{
    Arrive, Close, Header, IpFamily, Lifetime, Load, Pick, Plan, Profile, Ratio, Spacing, Spin,
    Target,
};
use crate::clock::{Nanos, SECOND};
use crate::http1::request::encode;
use crate::tls::RootsOrigin;
use crate::units::format_bits;

/// What stands in place of a value that nobody may see.
const HIDDEN: &str = "***";
/// The most pages, and addresses, that are listed.
const MAX_LISTED: usize = 20;

/// A plan, resolved, with the keys of a result's `plan`. Its `Display` is what `--dry-run` prints.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Description {
    /// How much, for how long.
    #[serde(flatten)]
    pub amount: Amount,
    /// The pages, at most 20 of them.
    pub urls: Vec<AskedPage>,
    /// How many pages there are.
    pub pages: usize,
    /// `random` or `in-order`.
    pub pick: &'static str,
    /// As they are sent, `Name: value`, secrets as `***`.
    pub headers: Vec<String>,
    /// Length of each request's body, bytes.
    pub body_bytes: usize,
    /// Where and how to connect.
    #[serde(flatten)]
    pub network: Network,
    /// What is looked at beside the load.
    #[serde(flatten)]
    pub watching: Watched,
    /// Of every random choice.
    pub seed: u64,
    /// Worker threads.
    pub threads: usize,
    /// The CPU of each thread; empty: not pinned.
    pub cpus: Vec<usize>,
    /// The CPUs of the embedded server's threads.
    pub server_cpus: Vec<usize>,
    /// `auto`, `never` or `always`.
    pub spin: &'static str,
    /// The head of the first page's request as it is sent, secrets as `***`; not in a result.
    #[serde(skip)]
    pub first_request: String,
}

/// How much, for how long; durations in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Amount {
    /// `closed`, `open` or `hold`.
    pub model: &'static str,
    /// Arrivals per second; of the open model.
    pub rate: Option<Quantity>,
    /// Connections at once; in the open model the most, where there is a limit.
    pub connections: Option<Quantity>,
    /// `even` or `poisson`; of the open model.
    pub arrivals: Option<&'static str>,
    /// `requests` or `clients`; of the open model.
    pub arrive: Option<&'static str>,
    /// Connections at each level; of `hold`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub levels: Option<Vec<u32>>,
    /// How long a level is held; of `hold`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dwell_s: Option<f64>,
    /// What goes over the connections, as it is typed; of `hold`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic: Option<String>,
    /// Whether each connection makes a request when it is open; of `hold`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_request: Option<bool>,
    /// The end, by what is started.
    pub requests: Option<u64>,
    /// The end, by the clock.
    pub duration_s: Option<f64>,
    /// `all`, a number, or as it is typed.
    pub requests_per_connection: Quantity,
    /// Connections opened before the clock starts.
    pub preconnect: u32,
    /// Connections opened per second, at most.
    pub open_rate: Option<Quantity>,
    /// Shortest and longest wait before a next request.
    pub think_s: Option<(f64, f64)>,
    /// How long an arrival waits for a place before it is dropped.
    pub drop_after_s: Option<f64>,
    /// Load before anything is recorded.
    pub warmup_s: f64,
    /// Of a request.
    pub timeout_s: f64,
    /// Of a connection.
    pub connect_timeout_s: f64,
    /// After the end, for what is in flight.
    pub grace_s: f64,
}

/// Where and how to connect.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Network {
    /// What is connected to, as far as it is known, at most 20; a path for a unix socket.
    pub addresses: Vec<String>,
    /// As it is typed.
    pub connect_to: Option<String>,
    /// `IPv4` or `IPv6` where only one was asked for.
    pub family: Option<String>,
    /// The first source addresses, at most 20; empty: the kernel chooses.
    pub source: Vec<String>,
    /// How many source addresses there are.
    pub sources: usize,
    /// `fin` or `rst`.
    pub close: &'static str,
    /// Null on plain HTTP.
    pub tls: Option<TlsDescription>,
}

/// What is looked at beside the load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Watched {
    /// The sources as they are typed.
    pub watch: Vec<String>,
    /// The URL of the probe, without credentials.
    pub probe: Option<String>,
    /// What the line carries, as it is typed; null where nobody said.
    pub link: Option<String>,
}

/// A page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AskedPage {
    /// The method.
    pub method: String,
    /// Without credentials.
    pub url: String,
    /// How often, against the others.
    pub weight: u32,
}

/// A number, or what is no single number in the form in which it is typed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Quantity {
    /// A whole number.
    Whole(u64),
    /// Another number.
    Number(f64),
    /// A profile, a range.
    Words(String),
}

/// Describes a plan whose name resolved to `addresses`; none where nobody was asked.
#[must_use]
pub fn describe(plan: &Plan, addresses: &[SocketAddr]) -> Description {
    let page = |page: &super::Page| AskedPage {
        method: page.method.clone(),
        url: page.url.clone(),
        weight: page.weight,
    };
    Description {
        amount: Amount::of(plan),
        urls: plan.pages.iter().take(MAX_LISTED).map(page).collect(),
        pages: plan.pages.len(),
        pick: match plan.pick {
            Pick::Random => "random",
            Pick::InOrder => "in-order",
        },
        headers: plan.headers.iter().map(header_line).collect(),
        body_bytes: plan.body.as_ref().map_or(0, Vec::len),
        network: Network::of(plan, addresses),
        watching: Watched {
            watch: plan.watching.sources.iter().map(ToString::to_string).collect(),
            probe: plan.watching.probe.as_ref().map(ToString::to_string),
            link: plan.watching.link_bits.map(format_bits),
        },
        seed: plan.seed,
        threads: plan.threads,
        cpus: plan.cpus.clone(),
        server_cpus: match &plan.target {
            Target::Embedded { cpus, .. } => cpus.clone(),
            Target::Origin { .. } => Vec::new(),
        },
        spin: match plan.spin {
            Spin::Auto => "auto",
            Spin::Never => "never",
            Spin::Always => "always",
        },
        first_request: first_request(plan),
    }
}

impl Description {
    /// With where the authorities came from that are trusted, once they are read: whether the
    /// system has any is not known before.
    #[must_use]
    pub fn with_roots(mut self, origin: RootsOrigin) -> Self {
        if let Some(tls) = &mut self.network.tls
            && origin == RootsOrigin::BuiltIn
        {
            tls.roots = origin.name();
        }
        self
    }
}

impl Amount {
    fn of(plan: &Plan) -> Self {
        let mut amount = Self {
            model: "closed",
            rate: None,
            connections: None,
            arrivals: None,
            arrive: None,
            levels: None,
            dwell_s: None,
            traffic: None,
            first_request: None,
            requests: plan.end.requests,
            duration_s: plan.end.duration_ns.map(seconds),
            requests_per_connection: match plan.lifetime {
                Lifetime::All => Quantity::Words("all".into()),
                Lifetime::Exactly(count) => Quantity::Whole(count),
                Lifetime::Uniform(from, to) => Quantity::Words(format!("{from}..{to}")),
                Lifetime::Geometric(mean) => Quantity::Words(format!("mean:{mean}")),
            },
            preconnect: 0,
            open_rate: None,
            think_s: plan.think_ns.map(|(from, to)| (seconds(from), seconds(to))),
            drop_after_s: None,
            warmup_s: seconds(plan.warmup_ns),
            timeout_s: seconds(plan.timeout_ns),
            connect_timeout_s: seconds(plan.connect_timeout_ns),
            grace_s: seconds(plan.grace_ns),
        };
        match &plan.load {
            Load::Closed { places, open_rate } => {
                amount.connections = Some(Quantity::of_profile(places));
                amount.open_rate = open_rate.map(Quantity::of_ratio);
            }
            Load::Open {
                rate,
                spacing,
                arrive,
                max_connections,
                preconnect,
                drop_after_ns,
                open_rate,
            } => {
                amount.model = "open";
                amount.rate = Some(Quantity::of_profile(rate));
                amount.connections = max_connections.as_ref().map(Quantity::of_profile);
                amount.arrivals = Some(match spacing {
                    Spacing::Even => "even",
                    Spacing::Poisson => "poisson",
                });
                amount.arrive = Some(match arrive {
                    Arrive::Requests => "requests",
                    Arrive::Clients => "clients",
                });
                amount.preconnect = *preconnect;
                amount.drop_after_s = drop_after_ns.map(seconds);
                amount.open_rate = open_rate.map(Quantity::of_ratio);
            }
            Load::Hold { levels, dwell_ns, traffic, first_request, open_rate } => {
                amount.model = "hold";
                amount.connections = levels.last().map(|&most| Quantity::Whole(most.into()));
                amount.levels = Some(levels.clone());
                amount.dwell_s = Some(seconds(*dwell_ns));
                amount.traffic = Some(traffic.to_string());
                amount.first_request = Some(*first_request);
                amount.open_rate = open_rate.map(Quantity::of_ratio);
            }
        }
        amount
    }
}

impl Network {
    fn of(plan: &Plan, addresses: &[SocketAddr]) -> Self {
        let dial = &plan.dial;
        let unix = dial.unix_socket.iter().map(|path| path.display().to_string());
        Self {
            addresses: unix
                .chain(addresses.iter().map(ToString::to_string))
                .take(MAX_LISTED)
                .collect(),
            connect_to: dial.connect_to.as_ref().map(|(host, port)| match port {
                Some(port) if host.contains(':') => format!("[{host}]:{port}"),
                Some(port) => format!("{host}:{port}"),
                None => host.clone(),
            }),
            family: dial.family.as_ref().map(IpFamily::to_string),
            source: dial.sources.iter().take(MAX_LISTED).map(ToString::to_string).collect(),
            sources: dial.sources.len(),
            close: match dial.close {
                Close::Fin => "fin",
                Close::Rst => "rst",
            },
            tls: TlsDescription::of(plan),
        }
    }
}

impl Quantity {
    /// A constant is a number, anything else as it is typed.
    fn of_profile(profile: &Profile) -> Self {
        match &profile.segments[..] {
            [only] if only.duration_ns.is_none() => Self::of_ratio(only.from),
            _ => Self::Words(profile.to_string()),
        }
    }

    fn of_ratio(ratio: Ratio) -> Self {
        if ratio.den == 1 { Self::Whole(ratio.num) } else { Self::Number(ratio.as_f64()) }
    }
}

/// A header as it is sent; a secret one without its value.
fn header_line(header: &Header) -> String {
    format!("{}: {}", header.name, String::from_utf8_lossy(shown(header)).escape_debug())
}

/// The value that may be shown.
fn shown(header: &Header) -> &[u8] {
    if header.secret { HIDDEN.as_bytes() } else { &header.value }
}

/// The head of the first page's request. The body is not in it: it may be long, or a secret.
fn first_request(plan: &Plan) -> String {
    let headers = plan.headers.iter().map(|header| (header.name.as_str(), shown(header)));
    let close = plan.lifetime == Lifetime::Exactly(1);
    let Some(page) = plan.pages.first() else { return String::new() };
    match encode(&page.method, &page.target, headers, plan.body.as_deref(), close) {
        Ok(bytes) => {
            let head = bytes.len() - plan.body.as_ref().map_or(0, Vec::len);
            let text = String::from_utf8_lossy(&bytes[..head]);
            // What a terminal would act on is shown instead.
            text.lines().map(|line| format!("{}\n", line.escape_debug())).collect()
        }
        Err(error) => error.to_string(),
    }
}

fn seconds(ns: Nanos) -> f64 {
    ns as f64 / SECOND as f64
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::pki_types::PrivatePkcs8KeyDer;

    use super::*;
    use crate::plan::{Dial, End, Page, Tls, Watching};
    use crate::tls::{Identity, Settings, Versions};

    fn plan(load: Load) -> Plan {
        let page = |target: &str, weight| Page {
            method: "POST".into(),
            target: target.into(),
            url: format!("http://h{target}"),
            weight,
        };
        Plan {
            label: None,
            target: Target::Origin { host: "h".into(), port: 80 },
            dial: Dial { sources: vec![[10, 0, 0, 1].into(); 30], ..Dial::default() },
            tls: None,
            pages: (0..25).map(|n| page(&format!("/{n}"), n + 1)).collect(),
            pick: Pick::InOrder,
            headers: vec![
                Header { name: "Host".into(), value: b"h".to_vec(), secret: false },
                Header { name: "X-Bell".into(), value: b"\x07\xff".to_vec(), secret: false },
                Header { name: "X-Api-Key".into(), value: b"hush".to_vec(), secret: true },
            ],
            body: Some(b"hush\r\n\r\nhush".to_vec()),
            load,
            end: End { requests: Some(1000), duration_ns: Some(1_500_000_000) },
            warmup_ns: 0,
            timeout_ns: 10 * SECOND,
            connect_timeout_ns: 5 * SECOND,
            grace_ns: 5 * SECOND,
            lifetime: Lifetime::Exactly(1),
            think_ns: None,
            threads: 2,
            cpus: vec![0, 1],
            spin: Spin::Auto,
            seed: 7,
            watching: Watching::default(),
        }
    }

    fn closed() -> Load {
        let places = Profile::parse_count("0..10@30s").unwrap();
        Load::Closed { places, open_rate: Some(Ratio::new(1, 2)) }
    }

    fn open() -> Load {
        Load::Open {
            rate: Profile::constant(Ratio::whole(500)),
            spacing: Spacing::Poisson,
            arrive: Arrive::Clients,
            max_connections: None,
            preconnect: 3,
            drop_after_ns: Some(SECOND),
            open_rate: None,
        }
    }

    #[test]
    fn a_results_plan_has_the_contracts_keys() {
        let address: SocketAddr = "[::1]:80".parse().unwrap();
        let json = serde_json::to_value(describe(&plan(open()), &[address])).unwrap();
        for key in [
            "model",
            "rate",
            "connections",
            "urls",
            "addresses",
            "headers",
            "tls",
            "seed",
            "threads",
            "cpus",
        ] {
            assert!(json.get(key).is_some(), "no {key} in {json}");
        }
        assert_eq!((&json["model"], &json["rate"]), (&"open".into(), &500.into()));
        assert_eq!(json["connections"], serde_json::Value::Null);
        assert_eq!(json["addresses"], serde_json::json!(["[::1]:80"]));
        assert_eq!(json["requests_per_connection"], 1);
        assert_eq!((&json["requests"], &json["duration_s"]), (&1000.into(), &1.5.into()));
        assert!(json.get("first_request").is_none());
    }

    #[test]
    fn what_changes_with_time_is_written_as_it_is_typed() {
        let json = serde_json::to_value(describe(&plan(closed()), &[])).unwrap();
        assert_eq!((&json["model"], &json["rate"]), (&"closed".into(), &serde_json::Value::Null));
        assert_eq!((&json["connections"], &json["open_rate"]), (&"0..10@30s".into(), &0.5.into()));
    }

    #[test]
    fn tls_is_described_without_its_secrets() {
        let identity = Identity {
            chain: vec![b"the chain".to_vec().into()],
            key: Arc::new(PrivatePkcs8KeyDer::from(b"hush".to_vec()).into()),
        };
        let mut settings = Settings { versions: Versions::Tls13, ..Settings::new("h.example") };
        let describe = |settings: &Settings, resume| {
            let tls = Some(Tls { settings: settings.clone(), resume });
            describe(&Plan { tls, ..plan(open()) }, &[])
        };
        let json = serde_json::to_value(describe(&settings, 0.2)).unwrap();
        assert_eq!(
            json["tls"],
            serde_json::json!({
                "server_name": "h.example",
                "verified": true,
                "roots": "system",
                "versions": ["1.3"],
                "resume": 0.2,
                "groups": ["x25519", "secp256r1", "secp384r1"],
                "client_certificate": false,
                "cacert": false,
            })
        );
        let text = describe(&settings, 0.0).to_string();
        let line = "1.3, h.example verified against the system's roots, no resumption, x25519 ";
        assert!(text.contains(line), "{text}");
        let text = describe(&settings, 0.2).with_roots(RootsOrigin::BuiltIn).to_string();
        assert!(text.contains("webpki-roots") && text.contains("20 % of the sessions"), "{text}");

        settings.identity = Some(identity);
        settings.insecure = true;
        let text = describe(&settings, 1.0).to_string();
        assert!(text.contains("not verified, client certificate, sessions resumed"), "{text}");
        let json = serde_json::to_string(&describe(&settings, 1.0)).unwrap();
        assert!(!json.contains("chain") && json.contains("\"client_certificate\":true"), "{json}");
    }

    #[test]
    fn long_lists_are_cut_and_counted() {
        let description = describe(&plan(closed()), &[]);
        assert_eq!((description.urls.len(), description.pages), (20, 25));
        assert_eq!((description.network.source.len(), description.network.sources), (20, 30));
        let text = description.to_string();
        assert!(text.contains("and 5 more") && text.contains("10.0.0.1 and 29 more"), "{text}");
        assert!(text.contains("POST http://h/1  weight 2"), "{text}");
    }

    #[test]
    fn first_request_is_shown_without_secrets_and_control_characters() {
        for load in [closed(), open()] {
            let text = describe(&plan(load), &[]).to_string();
            assert!(text.contains("  POST /0 HTTP/1.1\n  Host: h\n"), "{text}");
            assert!(text.contains("  X-Api-Key: ***\n"), "{text}");
            assert!(text.contains("  Connection: close\n"), "{text}");
            assert!(!text.contains("hush") && !text.contains('\x07'), "{text}");
        }
    }

    #[test]
    fn text_says_what_will_happen() {
        let text = describe(&plan(open()), &[]).to_string();
        for part in [
            "open model, 500 clients per second, poisson spacing",
            "after 1,000 clients or after 1.5 s; then up to 5 s",
            "as many as descriptors and ports allow, a new one for each request, 3 opened before",
            "request 10 s, connection 5 s, dropped after 1 s without a place",
            "2 on CPU 0, 1",
        ] {
            assert!(text.contains(part), "no \"{part}\" in: {text}");
        }
    }
}
