//! How single values are written, beyond what `units` and `plan` already read.
//!
//! Each function is a value parser of [`super::typed`]; its error is what stands behind
//! "invalid value 'X' for '--flag': ", so it says what would be right.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

use ipnet::IpNet;

use super::Sink;
use crate::clock::{MILLISECOND, Nanos};
use crate::observe::watch::{Source, SourceError};
use crate::plan::serve::Stall;
use crate::plan::{Lifetime, MAX_THREADS, Ratio, Traffic};
use crate::units;

/// The largest CPU number that is taken, as in the kernel's largest `NR_CPUS` (8192).
const MAX_CPU: usize = 8191;

/// The most source addresses that are taken: a whole IPv4 /16.
pub(super) const MAX_SOURCES: u128 = 65_536;

/// The kernel's tick, as programs see it (`USER_HZ` is 100).
const MIN_WATCH_INTERVAL: Nanos = 10 * MILLISECOND;

/// CPUs from one number to another, inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CpuRange {
    pub(super) first: usize,
    pub(super) last: usize,
}

/// Addresses of one family from one to another, inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AddressRange {
    pub(super) first: IpAddr,
    pub(super) last: IpAddr,
}

impl AddressRange {
    /// How many addresses it holds; saturates for `::/0`.
    pub(super) fn len(self) -> u128 {
        (number(self.last) - number(self.first)).saturating_add(1)
    }

    /// The addresses, ascending.
    pub(super) fn addresses(self) -> impl Iterator<Item = IpAddr> {
        let is_v4 = self.first.is_ipv4();
        (number(self.first)..=number(self.last)).map(move |n| {
            if is_v4 {
                // An IPv4 address's number fits 32 bits.
                IpAddr::V4(Ipv4Addr::from_bits(n as u32))
            } else {
                IpAddr::V6(Ipv6Addr::from_bits(n))
            }
        })
    }
}

/// The address as a number.
fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_bits().into(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// A count of at least 1.
pub(super) fn positive_count(text: &str) -> Result<u64, String> {
    match units::parse_count(text).map_err(|error| error.to_string())? {
        0 => Err("it must be at least 1".into()),
        count => Ok(count),
    }
}

/// A count of at least 1 that fits 32 bits.
pub(super) fn positive_u32(text: &str) -> Result<u32, String> {
    u32::try_from(positive_count(text)?).map_err(|_| format!("at most {}", u32::MAX))
}

/// A count that fits 32 bits, 0 included.
pub(super) fn count_u32(text: &str) -> Result<u32, String> {
    let count = units::parse_count(text).map_err(|error| error.to_string())?;
    u32::try_from(count).map_err(|_| format!("at most {}", u32::MAX))
}

/// What goes over connections that are held.
pub(super) fn traffic(text: &str) -> Result<Traffic, String> {
    match text {
        "idle" => Ok(Traffic::Idle),
        "busy" => Ok(Traffic::Busy),
        rate => positive_rate(rate)
            .map(Traffic::Rate)
            .map_err(|_| "write idle, busy or requests per second: 100/s".into()),
    }
}

/// A number of threads.
pub(super) fn threads(text: &str) -> Result<usize, String> {
    match units::parse_count(text).map_err(|error| error.to_string())? {
        0 => Err("somebody has to do the work; give at least 1, or leave it out".into()),
        count if count > MAX_THREADS as u64 => Err(format!("at most {MAX_THREADS}")),
        count => Ok(count as usize),
    }
}

/// A single rate above 0.
pub(super) fn positive_rate(text: &str) -> Result<Ratio, String> {
    let rate = units::parse_rate(text).map_err(|error| error.to_string())?;
    if rate.is_zero() { Err("it must be above 0".into()) } else { Ok(rate) }
}

/// A transfer rate above 0, bits per second.
pub(super) fn bits(text: &str) -> Result<u64, String> {
    match units::parse_bits(text).map_err(|error| error.to_string())? {
        0 => Err("it must be above 0".into()),
        bits => Ok(bits),
    }
}

/// A duration, 0 included.
pub(super) fn duration(text: &str) -> Result<Nanos, String> {
    units::parse_duration(text).map_err(|error| error.to_string())
}

/// A duration above 0.
pub(super) fn positive_duration(text: &str) -> Result<Nanos, String> {
    match duration(text)? {
        0 => Err("it must be longer than 0".into()),
        duration_ns => Ok(duration_ns),
    }
}

/// How long a run lasts: a duration above 0.
pub(super) fn run_duration(text: &str) -> Result<Nanos, String> {
    positive_duration(text).map_err(|error| match text.trim().parse::<u64>() {
        Ok(count) if count > 0 => {
            let requests = units::format_counted(count, "request");
            format!("the unit is missing; write {count}s for seconds, or -n {count} for {requests}")
        }
        _ => error,
    })
}

/// A think time, `T` or `T..T`.
pub(super) fn think(text: &str) -> Result<(Nanos, Nanos), String> {
    let Some((from, to)) = text.split_once("..") else {
        let each = duration(text)?;
        return Ok((each, each));
    };
    let (from, to) = (duration(from)?, duration(to)?);
    if from <= to { Ok((from, to)) } else { Err("the shorter one comes first: 1s..3s".into()) }
}

/// `all`, `N`, `A..B` or `mean:X`.
pub(super) fn lifetime(text: &str) -> Result<Lifetime, String> {
    let remedy = "write all, a number (1), a range (1..20) or a mean (mean:7.6)";
    let count = |text: &str| match units::parse_count(text) {
        Ok(0) => Err("a connection carries at least 1 request".to_owned()),
        Ok(count) => Ok(count),
        Err(error) => Err(format!("{error}; or {remedy}")),
    };
    if text == "all" {
        return Ok(Lifetime::All);
    }
    if let Some(mean) = text.strip_prefix("mean:") {
        return match mean.parse::<f64>() {
            Ok(mean) if mean >= 1.0 && mean.is_finite() => Ok(Lifetime::Geometric(mean)),
            Ok(_) => Err("a mean is at least 1".into()),
            Err(_) => Err(format!("\"{mean}\" is not a number; {remedy}")),
        };
    }
    let Some((from, to)) = text.split_once("..") else {
        return Ok(Lifetime::Exactly(count(text)?));
    };
    match (count(from)?, count(to)?) {
        (from, to) if from < to => Ok(Lifetime::Uniform(from, to)),
        (from, to) if from == to => Ok(Lifetime::Exactly(from)),
        _ => Err("the smaller one comes first: 1..20".into()),
    }
}

/// A method: a token of RFC 9110, section 5.6.2.
pub(super) fn method(text: &str) -> Result<String, String> {
    if text == "CONNECT" {
        return Err("CONNECT makes a tunnel, which is not a request that can be repeated".into());
    }
    if is_token(text) {
        Ok(text.to_owned())
    } else {
        Err("a method is letters, digits and a few signs, without blanks: GET, POST, PURGE".into())
    }
}

/// Whether `text` is a token of RFC 9110, section 5.6.2.
pub(super) fn is_token(text: &str) -> bool {
    let is_token_byte = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !text.is_empty() && text.bytes().all(is_token_byte)
}

/// `HOST`, `HOST:PORT`; an IPv6 address with or without brackets, with them if a port follows.
pub(super) fn host_port(text: &str) -> Result<(String, Option<u16>), String> {
    let remedy = "write HOST, HOST:PORT or [IPV6]:PORT";
    if text.parse::<Ipv6Addr>().is_ok() {
        return Ok((text.to_owned(), None));
    }
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, tail) =
            rest.split_once(']').ok_or_else(|| format!("a bracket is not closed; {remedy}"))?;
        host.parse::<Ipv6Addr>().map_err(|_| format!("\"{host}\" is not an IPv6 address"))?;
        match (tail.strip_prefix(':'), tail) {
            (Some(port), _) => (host, Some(port)),
            (None, "") => (host, None),
            (None, _) => return Err(format!("\"{tail}\" does not belong there; {remedy}")),
        }
    } else {
        text.rsplit_once(':').map_or((text, None), |(host, port)| (host, Some(port)))
    };
    if host.is_empty() {
        return Err(format!("the host is missing; {remedy}"));
    }
    let is_odd = |c: char| c.is_whitespace() || "/?#@[]".contains(c);
    if host.contains(is_odd) || (host.contains(':') && !text.starts_with('[')) {
        return Err(format!("\"{host}\" is not a host; {remedy}"));
    }
    let port = match port.map(str::parse::<u16>) {
        None => None,
        Some(Ok(port)) if port > 0 => Some(port),
        Some(_) => return Err(format!("the port is a number from 1 to 65535; {remedy}")),
    };
    Ok((host.to_owned(), port))
}

/// Source addresses: `ADDR`, `A-B` or a network in CIDR notation (of an IPv4 network its hosts).
pub(super) fn source(text: &str) -> Result<AddressRange, String> {
    let address = |text: &str| {
        text.parse::<IpAddr>().map_err(|_| {
            format!(
                "\"{text}\" is not an IP address; write 10.0.0.1, 10.0.0.1-10.0.0.9 or 10.0.0.0/24"
            )
        })
    };
    let range = if text.contains('/') {
        let net: IpNet = text
            .parse()
            .map_err(|_| format!("\"{text}\" is not a network; write it as in 10.0.0.0/24"))?;
        network_hosts(net)
    } else if let Some((first, last)) = text.split_once('-') {
        AddressRange { first: address(first)?, last: address(last)? }
    } else {
        let first = address(text)?;
        AddressRange { first, last: first }
    };
    if range.first.is_ipv4() != range.last.is_ipv4() {
        return Err("a range is of one family, IPv4 or IPv6".into());
    }
    if range.first > range.last {
        return Err("the lower address comes first".into());
    }
    if range.len() > MAX_SOURCES {
        let len = range.len();
        return Err(format!("that is {len} addresses, and at most {MAX_SOURCES} are taken"));
    }
    Ok(range)
}

/// The addresses of a network that a host can have: of IPv4 neither the network's own nor the
/// broadcast address, unless it is a /31 (RFC 3021) or a /32.
fn network_hosts(net: IpNet) -> AddressRange {
    let (first, last) = (net.network(), net.broadcast());
    match net {
        IpNet::V4(v4) if v4.prefix_len() < 31 => AddressRange {
            first: Ipv4Addr::from_bits(v4.network().to_bits() + 1).into(),
            last: Ipv4Addr::from_bits(v4.broadcast().to_bits() - 1).into(),
        },
        _ => AddressRange { first, last },
    }
}

/// A CPU number or a range of them.
pub(super) fn cpu_range(text: &str) -> Result<CpuRange, String> {
    let cpu = |text: &str| match text.trim().parse::<usize>() {
        Ok(cpu) if cpu <= MAX_CPU => Ok(cpu),
        _ => Err(format!("\"{text}\" is not a CPU's number; write a list such as 0,2-5")),
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range = CpuRange { first: cpu(first)?, last: cpu(last)? };
    if range.first <= range.last {
        Ok(range)
    } else {
        Err("the lower number comes first: 2-5".into())
    }
}

/// Where an output goes.
pub(super) fn sink(text: &str) -> Result<Sink, String> {
    match text {
        "" => Err("give a file's name, or - for stdout".into()),
        "-" => Ok(Sink::Stdout),
        path => Ok(Sink::File(path.into())),
    }
}

/// Where to listen: `ADDR:PORT`, `localhost:PORT`, `:PORT` and `PORT` (both on loopback).
pub(super) fn listen(text: &str) -> Result<SocketAddr, String> {
    let bare = text.strip_prefix(':').unwrap_or(text);
    if let Ok(port) = bare.parse::<u16>() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    if let Some(port) = text.strip_prefix("localhost:").and_then(|port| port.parse::<u16>().ok()) {
        let mut addresses = ("localhost", port).to_socket_addrs().map_err(|e| e.to_string())?;
        return addresses.next().ok_or_else(|| "localhost has no address here".into());
    }
    text.parse().map_err(|_| "write ADDR:PORT, as in 127.0.0.1:8080 or [::1]:8080".into())
}

/// `T@T`: how long, and when after the start.
pub(super) fn stall(text: &str) -> Result<Stall, String> {
    let (length, at) =
        text.split_once('@').ok_or("write how long @ when after the start, as in 1s@5s")?;
    Ok(Stall { duration_ns: positive_duration(length)?, at_ns: duration(at)? })
}

/// `--name` of `watch`.
pub(super) fn watched_name(text: &str) -> Result<Source, String> {
    watched("name", text)
}

/// `--pid` of `watch`.
pub(super) fn watched_pid(text: &str) -> Result<Source, String> {
    watched("pid", text)
}

/// `--port` of `watch`.
pub(super) fn watched_port(text: &str) -> Result<Source, String> {
    watched("port", text)
}

/// `--cgroup` of `watch`.
pub(super) fn watched_group(text: &str) -> Result<Source, String> {
    watched("cgroup", text)
}

/// A selection of `watch`, as `--watch` reads it behind its kind.
fn watched(kind: &str, text: &str) -> Result<Source, String> {
    format!("{kind}:{text}").parse().map_err(|error: SourceError| error.to_string())
}

/// How often samples are taken.
pub(super) fn watch_interval(text: &str) -> Result<Nanos, String> {
    match duration(text)? {
        interval if interval < MIN_WATCH_INTERVAL => {
            Err("at least 10ms: the kernel counts CPU time in steps of that".into())
        }
        interval => Ok(interval),
    }
}

#[cfg(test)]
mod tests;
