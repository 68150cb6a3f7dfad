//! From a plan to what each worker is to do.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use socket2::SockAddr;

use super::Job;
use super::assignment::{Assignment, Demand, EncodedPage};
use super::hold::Control;
use super::secure::Tls;
use crate::http1::request::{self, RequestError};
use crate::net::{self, LocalPorts};
use crate::observe::limits::{Limits, NotEnoughDescriptors};
use crate::plan::{Close, Lifetime, Load, Plan, Profile, Ratio, Target, hold};
use crate::ring::{Family, Features, SocketOption};
use crate::tls::{Client, ClientError};

/// Descriptors that a process needs beside its connections: files, rings, listeners.
const DESCRIPTORS_SPARE: u64 = 64;
/// The most slots that a ring takes, `IORING_MAX_FIXED_FILES` in io_uring/rsrc.h.
const MAX_SLOTS: u64 = 1 << 20;
/// A request longer than this leaves in several segments, of which Nagle's algorithm would hold
/// the last back (an Ethernet frame carries 1,460 bytes over IPv4).
const SEGMENT_LEN: usize = 1_400;

/// Where the connections go.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Addresses, of one family, used in turn.
    pub addresses: Vec<SockAddr>,
    /// Their family.
    pub family: Family,
    /// Connections that were opened and closed to find the family that answers.
    pub tried: u32,
}

/// Why a plan cannot be carried out here.
#[derive(Debug)]
pub enum PrepareError {
    /// The name does not resolve.
    Resolve(net::ResolveError),
    /// The path of a unix socket is too long for one.
    UnixPath(String),
    /// A source address cannot be used.
    Source(net::SourceError),
    /// Too few descriptors.
    Descriptors(NotEnoughDescriptors),
    /// A request that cannot be encoded.
    Request(RequestError),
    /// TLS cannot be set up as asked.
    Tls(ClientError),
}

impl fmt::Display for PrepareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resolve(error) => error.fmt(f),
            Self::UnixPath(path) => write!(
                f,
                "{path:?} is too long for a unix socket (at most 107 bytes): use a shorter path, \
                 or a relative one"
            ),
            Self::Source(error) => error.fmt(f),
            Self::Descriptors(error) => error.fmt(f),
            Self::Request(error) => error.fmt(f),
            Self::Tls(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PrepareError {}

/// Resolves where the connections go, once. `embedded` is where the embedded server listens.
///
/// # Errors
/// Where the name does not resolve, or a source address is not ours.
pub fn endpoint(plan: &Plan, embedded: Option<SocketAddr>) -> Result<Endpoint, PrepareError> {
    if let Some(path) = &plan.dial.unix_socket {
        return unix_endpoint(path);
    }
    let (addresses, tried) = match (&plan.target, embedded) {
        (Target::Origin { host, port }, _) => {
            let (host, port) = match &plan.dial.connect_to {
                Some((other, other_port)) => (other, other_port.unwrap_or(*port)),
                None => (host, *port),
            };
            let found =
                net::resolve(host, port, plan.dial.family).map_err(PrepareError::Resolve)?;
            let wait = Duration::from_nanos(plan.connect_timeout_ns);
            let answering = net::answering(found, wait);
            (answering.addresses, answering.opened)
        }
        (Target::Embedded { .. }, Some(address)) => (vec![address], 0),
        (Target::Embedded { .. }, None) => {
            unreachable!("the embedded server runs before it is loaded")
        }
    };
    net::check_sources(&plan.dial.sources, &addresses).map_err(PrepareError::Source)?;
    let family = if addresses.iter().all(SocketAddr::is_ipv4) { Family::V4 } else { Family::V6 };
    Ok(Endpoint { addresses: addresses.into_iter().map(SockAddr::from).collect(), family, tried })
}

fn unix_endpoint(path: &Path) -> Result<Endpoint, PrepareError> {
    let address =
        SockAddr::unix(path).map_err(|_| PrepareError::UnixPath(path.display().to_string()))?;
    Ok(Endpoint { addresses: vec![address], family: Family::Unix, tried: 0 })
}

/// The workers' jobs. There are as many as the plan has threads, but no more than places.
///
/// # Errors
/// Where descriptors are too few or a request cannot be encoded.
pub fn jobs(
    plan: &Plan,
    endpoint: &Endpoint,
    features: Features,
    descriptors: Limits,
    ports: LocalPorts,
    tls: Option<Tls>,
) -> Result<Vec<Job>, PrepareError> {
    if let Some(tls) = &tls {
        // Each worker makes its own; what is wrong with it shows here.
        Client::new(&tls.settings, &tls.roots).map_err(PrepareError::Tls)?;
    }
    let demand = demand(plan, endpoint, descriptors, ports);
    let most = match &demand {
        Demand::Closed { places } => places.max().ceil() as u64,
        Demand::Open { max_connections, .. } => max_connections.max().ceil() as u64,
        Demand::Hold { .. } => most_held(plan),
    };
    let threads = threads(plan, most);
    let slots = most.div_ceil(u64::from(threads)).max(1);
    // Slots of a ring are limited by RLIMIT_NOFILE, for each ring anew.
    descriptors.check_descriptors(slots, most).map_err(PrepareError::Descriptors)?;
    let pages = encode_pages(plan).map_err(PrepareError::Request)?;
    let template = Assignment {
        thread: 0,
        threads,
        options: socket_options(plan, endpoint.family, features, &pages),
        pages,
        pick: plan.pick,
        addresses: endpoint.addresses.clone(),
        family: endpoint.family,
        sources: plan.dial.sources.iter().map(|&ip| SocketAddr::new(ip, 0).into()).collect(),
        reset_on_close: plan.dial.close == Close::Rst,
        tls,
        demand,
        open_rate: match plan.load {
            Load::Closed { open_rate, .. }
            | Load::Open { open_rate, .. }
            | Load::Hold { open_rate, .. } => open_rate,
        },
        requests: plan.end.requests,
        duration_ns: plan.end.duration_ns,
        warmup_ns: plan.warmup_ns,
        timeout_ns: plan.timeout_ns,
        connect_timeout_ns: plan.connect_timeout_ns,
        grace_ns: plan.grace_ns,
        lifetime: plan.lifetime,
        think_ns: plan.think_ns,
        spin: plan.spin,
        batch: true,
        seed: plan.seed,
        slots: u32::try_from(slots).unwrap_or(u32::MAX),
    };
    Ok((0..threads)
        .map(|thread| Job {
            assignment: Assignment { thread, ..template.clone() },
            cpu: plan.cpus.get(thread as usize % plan.cpus.len().max(1)).copied(),
        })
        .collect())
}

fn demand(plan: &Plan, endpoint: &Endpoint, descriptors: Limits, ports: LocalPorts) -> Demand {
    match &plan.load {
        Load::Closed { places, .. } => Demand::Closed { places: places.clone() },
        Load::Open {
            rate, spacing, arrive, max_connections, preconnect, drop_after_ns, ..
        } => Demand::Open {
            rate: rate.clone(),
            spacing: *spacing,
            arrive: *arrive,
            max_connections: max_connections.clone().unwrap_or_else(|| {
                let most = most_connections(plan, endpoint, descriptors, ports);
                Profile::constant(Ratio::whole(most))
            }),
            preconnect: *preconnect,
            drop_after_ns: *drop_after_ns,
        },
        Load::Hold { levels, traffic, first_request, .. } => Demand::Hold {
            control: Control::new(levels.len(), threads(plan, most_held(plan)) as usize),
            traffic: *traffic,
            first_request: *first_request,
        },
    }
}

/// As many threads as the plan has, but no more than places.
fn threads(plan: &Plan, places: u64) -> u32 {
    (plan.threads as u64).clamp(1, places.max(1)) as u32
}

/// The most connections that are ever held.
fn most_held(plan: &Plan) -> u64 {
    hold::levels(plan).iter().copied().max().unwrap_or(0).into()
}

/// The fewest threads whose rings hold so many connections: slots of a ring are limited by
/// `RLIMIT_NOFILE`, for each ring anew.
#[must_use]
pub fn fewest_threads(connections: u64, descriptors: Limits) -> usize {
    let a_ring = descriptors.soft.saturating_sub(DESCRIPTORS_SPARE).clamp(1, MAX_SLOTS);
    usize::try_from(connections.div_ceil(a_ring)).unwrap_or(usize::MAX).max(1)
}

/// As many connections as descriptors and ports allow.
#[must_use]
pub fn most_connections(
    plan: &Plan,
    endpoint: &Endpoint,
    descriptors: Limits,
    ports: LocalPorts,
) -> u64 {
    let a_ring = descriptors.soft.saturating_sub(DESCRIPTORS_SPARE).min(MAX_SLOTS);
    let by_descriptors = a_ring.saturating_mul(plan.threads as u64);
    let targets: Vec<SocketAddr> =
        endpoint.addresses.iter().filter_map(SockAddr::as_socket).collect();
    if targets.is_empty() {
        return by_descriptors.max(1);
    }
    by_descriptors.min(net::available_ports(ports, &plan.dial.sources, &targets)).max(1)
}

fn encode_pages(plan: &Plan) -> Result<Vec<EncodedPage>, RequestError> {
    plan.pages
        .iter()
        .map(|page| {
            let encode = |close| {
                let headers =
                    plan.headers.iter().map(|header| (header.name.as_str(), &header.value[..]));
                request::encode(&page.method, &page.target, headers, plan.body.as_deref(), close)
            };
            Ok(EncodedPage {
                keep: encode(false)?,
                close: encode(true)?,
                head: request::is_head(&page.method),
                idempotent: request::is_idempotent(&page.method),
                weight: page.weight,
            })
        })
        .collect()
}

fn socket_options(
    plan: &Plan,
    family: Family,
    features: Features,
    pages: &[EncodedPage],
) -> Vec<SocketOption> {
    if family == Family::Unix {
        return Vec::new();
    }
    // The ACK of the SYN-ACK then travels with the request. It is worth an operation where each
    // connection carries few requests.
    let saves_ack = features.socket_options && plan.lifetime != Lifetime::All;
    let long = pages.iter().any(|page| page.keep.len() > SEGMENT_LEN);
    [
        (saves_ack, SocketOption::NoQuickAck),
        (long, SocketOption::NoDelay),
        (plan.dial.close == Close::Rst, SocketOption::ResetOnClose),
        (!plan.dial.sources.is_empty(), SocketOption::BindAddressNoPort),
    ]
    .into_iter()
    .filter_map(|(wanted, option)| wanted.then_some(option))
    .collect()
}
