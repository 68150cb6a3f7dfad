//! Addresses: a name is resolved once, sources are checked before the start, ports are counted.

use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// An IP family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IpFamily {
    /// IPv4, `-4`.
    V4,
    /// IPv6, `-6`.
    V6,
}

impl IpFamily {
    /// The family of an address.
    #[must_use]
    pub fn of(ip: IpAddr) -> Self {
        if ip.is_ipv4() { Self::V4 } else { Self::V6 }
    }
}

impl fmt::Display for IpFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

/// Why a name gave no address.
#[derive(Debug)]
pub enum ResolveError {
    /// The resolver knows no such name, or could not be asked.
    Unknown {
        /// What was asked for.
        host: String,
        /// What the resolver said.
        reason: io::Error,
    },
    /// It has addresses, but none of the family that was asked for.
    NoneOfFamily {
        /// What was asked for.
        host: String,
        /// The family.
        family: IpFamily,
    },
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { host, reason } => write!(
                f,
                "{host} has no address: {reason}; check the name, or give an address with --connect-to"
            ),
            Self::NoneOfFamily { host, family } => {
                let flag = if *family == IpFamily::V4 { "-4" } else { "-6" };
                write!(f, "{host} has no {family} address; leave {flag} out, or name another host")
            }
        }
    }
}

impl std::error::Error for ResolveError {}

/// All addresses of `host`, an address with or without brackets or a name, in the resolver's
/// order and without duplicates. Asks the resolver once and waits for it.
///
/// # Errors
/// Where there is no address, or none of `family`.
pub fn resolve(
    host: &str,
    port: u16,
    family: Option<IpFamily>,
) -> Result<Vec<SocketAddr>, ResolveError> {
    let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    let unknown = |reason| ResolveError::Unknown { host: host.to_owned(), reason };
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for address in (bare, port).to_socket_addrs().map_err(unknown)? {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() {
        return Err(unknown(io::Error::other("the resolver gave none")));
    }
    if bare.eq_ignore_ascii_case("localhost") {
        // Both loopback addresses are localhost (RFC 6761, 6.3), also where the hosts file names
        // only one of them.
        for ip in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
            let address = SocketAddr::new(ip, port);
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
    }
    if let Some(family) = family {
        addresses.retain(|address| IpFamily::of(address.ip()) == family);
        if addresses.is_empty() {
            return Err(ResolveError::NoneOfFamily { host: host.to_owned(), family });
        }
    }
    Ok(addresses)
}

/// What [`answering`] chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answering {
    /// All addresses of the family that answers.
    pub addresses: Vec<SocketAddr>,
    /// Connections that were opened to find out, and closed again without a request.
    pub opened: u32,
}

/// How long the first family is waited for before the second is tried as well: the Connection
/// Attempt Delay that RFC 8305, section 5, recommends.
const HEAD_START: Duration = Duration::from_millis(250);

/// The addresses of the family that answers, out of those that [`resolve`] gave.
///
/// Addresses of one family are taken as they are, and nothing is sent. Where there are both, as
/// for `localhost`, a connection is tried: the resolver's first family goes first, so that the
/// choice is the same in every run, the other follows when that one fails or has not answered
/// within 250 ms. If none answers within `timeout` the first family is kept; the run then shows
/// the errors.
#[must_use]
pub fn answering(addresses: Vec<SocketAddr>, timeout: Duration) -> Answering {
    let Some(first) = addresses.first().map(|address| address.is_ipv4()) else {
        return Answering { addresses, opened: 0 };
    };
    let (preferred, other): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|address| address.is_ipv4() == first);
    if other.is_empty() {
        return Answering { addresses: preferred, opened: 0 };
    }

    let deadline = Instant::now() + timeout;
    let (report, reports) = mpsc::channel();
    try_family(preferred.clone(), timeout, true, report.clone());
    let early = reports.recv_timeout(HEAD_START.min(timeout));
    if let Ok((_, true)) = early {
        return Answering { addresses: preferred, opened: 1 };
    }
    try_family(other.clone(), timeout, false, report);
    let left = if early.is_ok() { 1 } else { 2 };
    for _ in 0..left {
        let wait = deadline.saturating_duration_since(Instant::now());
        match reports.recv_timeout(wait) {
            Ok((is_preferred, true)) => {
                let addresses = if is_preferred { preferred } else { other };
                return Answering { addresses, opened: 1 };
            }
            Ok((_, false)) => {}
            Err(_) => break,
        }
    }
    Answering { addresses: preferred, opened: 0 }
}

/// Tries the addresses in turn, on a thread of its own, and reports whether one answered.
/// The thread ends within `timeout`, whether or not it is still listened to.
fn try_family(
    addresses: Vec<SocketAddr>,
    timeout: Duration,
    is_preferred: bool,
    report: mpsc::Sender<(bool, bool)>,
) {
    let count = u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let each = (timeout / count).max(Duration::from_millis(1));
    thread::spawn(move || {
        let answered =
            addresses.iter().any(|address| TcpStream::connect_timeout(address, each).is_ok());
        // Nobody listens any more where the other family has answered.
        let _ = report.send((is_preferred, answered));
    });
}

/// Whether an address is this machine's own loopback, IPv4 in IPv6 included.
#[must_use]
pub fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

/// Why a source address cannot be used.
#[derive(Debug)]
pub enum SourceError {
    /// It cannot be bound.
    NotOurs {
        /// The source.
        source: IpAddr,
        /// What the kernel said.
        reason: io::Error,
    },
    /// No target is of its family.
    OtherFamily {
        /// The source.
        source: IpAddr,
    },
    /// The target cannot be reached from it.
    NoRoute {
        /// The source.
        source: IpAddr,
        /// The target.
        target: IpAddr,
        /// What the kernel said.
        reason: io::Error,
    },
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOurs { source, reason } => {
                let len = if source.is_ipv4() { 32 } else { 128 };
                write!(
                    f,
                    "--source {source} cannot be used: {reason}; add it with \
                     `ip address add {source}/{len} dev INTERFACE`, or leave it out"
                )
            }
            Self::OtherFamily { source } => {
                let family = IpFamily::of(*source);
                let flag = if source.is_ipv4() { "-4" } else { "-6" };
                write!(
                    f,
                    "--source {source} is {family}, but the target has no {family} address in \
                     use; add {flag}, or give sources of the target's family"
                )
            }
            Self::NoRoute { source, target, reason } => write!(
                f,
                "{target} cannot be reached from --source {source}: {reason}; give an address \
                 of the interface that leads there (`ip route get {target}`)"
            ),
        }
    }
}

impl std::error::Error for SourceError {}

/// Checks that each source can be bound and leads to a target of its family.
///
/// Binds and connects a datagram socket, which asks the kernel for the route and sends nothing.
///
/// # Errors
/// For the first source that cannot be used.
pub fn check_sources(sources: &[IpAddr], targets: &[SocketAddr]) -> Result<(), SourceError> {
    for &source in sources {
        let target = targets
            .iter()
            .find(|target| target.is_ipv4() == source.is_ipv4())
            .ok_or(SourceError::OtherFamily { source })?;
        let socket = UdpSocket::bind((source, 0))
            .map_err(|reason| SourceError::NotOurs { source, reason })?;
        socket.connect(target).map_err(|reason| SourceError::NoRoute {
            source,
            target: target.ip(),
            reason,
        })?;
    }
    Ok(())
}

/// The ports that the kernel gives to outgoing connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalPorts {
    /// The first of the range.
    pub first: u16,
    /// The last of the range.
    pub last: u16,
    /// How many of the range are reserved for others (`ip_local_reserved_ports`).
    pub reserved: u32,
}

impl LocalPorts {
    /// Linux's default (Documentation/networking/ip-sysctl.rst), for where it cannot be read.
    pub const DEFAULT: Self = Self { first: 32_768, last: 60_999, reserved: 0 };

    /// Ports that can be used between one source and one destination.
    #[must_use]
    pub fn usable(self) -> u32 {
        (u32::from(self.last.saturating_sub(self.first)) + 1).saturating_sub(self.reserved)
    }
}

/// The range of this network namespace.
#[must_use]
pub fn local_ports() -> LocalPorts {
    let read = |name| fs::read_to_string(format!("/proc/sys/net/ipv4/{name}"));
    read("ip_local_port_range")
        .ok()
        .and_then(|range| {
            parse_local_ports(&range, &read("ip_local_reserved_ports").unwrap_or_default())
        })
        .unwrap_or(LocalPorts::DEFAULT)
}

/// Reads `ip_local_port_range` ("32768 60999") and `ip_local_reserved_ports` ("8080,9000-9100").
fn parse_local_ports(range: &str, reserved: &str) -> Option<LocalPorts> {
    let mut bounds = range.split_whitespace().map(str::parse::<u16>);
    let (first, last) = (bounds.next()?.ok()?, bounds.next()?.ok()?);
    if first > last {
        return None;
    }
    let reserved = reserved
        .split([',', '\n'])
        .filter_map(|part| {
            let (from, to) = part.trim().split_once('-').unwrap_or((part.trim(), part.trim()));
            let (from, to) =
                (from.parse::<u16>().ok()?.max(first), to.parse::<u16>().ok()?.min(last));
            (from <= to).then(|| u32::from(to - from) + 1)
        })
        .sum();
    Some(LocalPorts { first, last, reserved })
}

/// How many connections can be open at once, by ports: each pair of a source and a destination
/// has the whole range to itself. Without sources the kernel chooses one per destination.
///
/// An estimate: ports of other programs, of sockets in `TIME_WAIT` and of listeners are not
/// taken off.
#[must_use]
pub fn available_ports(ports: LocalPorts, sources: &[IpAddr], targets: &[SocketAddr]) -> u64 {
    let pairs: usize = if sources.is_empty() {
        targets.len()
    } else {
        targets
            .iter()
            .map(|target| sources.iter().filter(|s| s.is_ipv4() == target.is_ipv4()).count())
            .sum()
    };
    u64::from(ports.usable()) * pairs as u64
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use proptest::prelude::*;

    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn literal_addresses_need_no_resolver() {
        assert_eq!(resolve("127.0.0.1", 80, None).unwrap(), [address("127.0.0.1:80")]);
        assert_eq!(resolve("::1", 80, None).unwrap(), [address("[::1]:80")]);
        assert_eq!(resolve("[::1]", 80, Some(IpFamily::V6)).unwrap(), [address("[::1]:80")]);
    }

    #[test]
    fn family_that_the_host_lacks_is_named() {
        let error = resolve("127.0.0.1", 80, Some(IpFamily::V6)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "127.0.0.1 has no IPv6 address; leave -6 out, or name another host"
        );
    }

    #[test]
    fn name_that_does_not_resolve_is_named() {
        // RFC 6761: no name under `invalid` exists.
        let error = resolve("no-such-host.invalid", 80, None).unwrap_err();
        assert!(error.to_string().starts_with("no-such-host.invalid has no address: "), "{error}");
    }

    #[test]
    fn localhost_has_no_duplicates() {
        let addresses = resolve("localhost", 80, None).unwrap();
        let mut unique = addresses.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), addresses.len());
    }

    #[test]
    fn one_family_is_taken_without_a_connection() {
        // Nobody listens there: a trial would show as a listener's pending connection.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let addresses = vec![listener.local_addr().unwrap()];
        let chosen = answering(addresses.clone(), Duration::from_secs(1));
        assert_eq!(chosen, Answering { addresses, opened: 0 });
        assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn family_that_listens_is_chosen() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let v4 = listener.local_addr().unwrap();
        let v6 = SocketAddr::new(ip("::1"), v4.port());
        for order in [vec![v6, v4], vec![v4, v6]] {
            let chosen = answering(order, Duration::from_secs(2));
            assert_eq!(chosen, Answering { addresses: vec![v4], opened: 1 });
        }
    }

    #[test]
    fn first_family_is_kept_where_none_answers() {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let v4 = SocketAddr::new(ip("127.0.0.1"), port);
        let v6 = SocketAddr::new(ip("::1"), port);
        let chosen = answering(vec![v6, v4], Duration::from_secs(2));
        assert_eq!(chosen, Answering { addresses: vec![v6], opened: 0 });
    }

    #[test]
    fn loopback_is_known_in_every_writing() {
        assert!(is_loopback(ip("127.3.2.1")));
        assert!(is_loopback(ip("::1")));
        assert!(is_loopback(ip("::ffff:127.0.0.1")));
        assert!(!is_loopback(ip("128.0.0.1")));
    }

    #[test]
    fn sources_are_checked() {
        let targets = [address("127.0.0.1:80")];
        check_sources(&[ip("127.0.0.1"), ip("127.77.0.9")], &targets).unwrap();
        // 192.0.2.0/24 is for documentation (RFC 5737): no machine has it.
        let error = check_sources(&[ip("192.0.2.7")], &targets).unwrap_err().to_string();
        assert!(error.starts_with("--source 192.0.2.7 cannot be used: "), "{error}");
        assert!(error.contains("ip address add 192.0.2.7/32"), "{error}");
        let error = check_sources(&[ip("::1")], &targets).unwrap_err().to_string();
        assert!(error.contains("is IPv6, but the target has no IPv6 address"), "{error}");
    }

    #[test]
    fn loopback_does_not_lead_outside() {
        let result = check_sources(&[ip("127.0.0.1")], &[address("192.0.2.1:80")]);
        assert!(matches!(result, Err(SourceError::NoRoute { .. })), "{result:?}");
    }

    #[test]
    fn port_range_is_read() {
        let ports = parse_local_ports("32768\t60999\n", "\n").unwrap();
        assert_eq!(ports, LocalPorts::DEFAULT);
        assert_eq!(ports.usable(), 28_232);
        let ports = parse_local_ports("1024 2023", "80,1024,1100-1199,2020-3000\n").unwrap();
        assert_eq!(ports.reserved, 1 + 100 + 4);
        assert_eq!(ports.usable(), 1000 - 105);
        assert_eq!(parse_local_ports("60999 32768", ""), None);
        assert_eq!(parse_local_ports("", ""), None);
    }

    #[test]
    fn ports_grow_with_pairs() {
        let ports = LocalPorts { first: 1000, last: 1999, reserved: 0 };
        let targets = [address("10.0.0.1:80"), address("10.0.0.2:80")];
        assert_eq!(available_ports(ports, &[], &targets), 2_000);
        let sources = [ip("10.0.0.3"), ip("10.0.0.4"), ip("10.0.0.5"), ip("::1")];
        assert_eq!(available_ports(ports, &sources, &targets), 6_000);
    }

    proptest! {
        #[test]
        fn any_port_text_is_survived(range in ".*", reserved in "[0-9,\\-\n ]*") {
            if let Some(ports) = parse_local_ports(&range, &reserved) {
                prop_assert!(ports.first <= ports.last);
            }
            let whole = parse_local_ports("0 65535", &reserved).unwrap();
            prop_assert!(whole.usable() <= 65_536);
        }
    }
}
