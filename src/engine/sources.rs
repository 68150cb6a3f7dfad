//! Whether there are ports for so many connections at once, and from which addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::net::{LocalPorts, available_ports};
use crate::units::format_count;

/// The first source address that is taken on loopback where one is not enough: 127.0.0.1 is
/// everybody's.
const FIRST_OWN: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Of an address's ports, nine of ten are counted on: others have some, and the kernel tries long
/// for the last of them.
const COUNTED_ON: (u64, u64) = (9, 10);

/// More connections at once than there are ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooFewPorts {
    /// Connections wanted.
    pub connections: u64,
    /// Ports that there are for them.
    pub ports: u64,
    /// Source addresses of the targets' family that would be enough.
    pub enough: u64,
    /// Where the connections go.
    pub target: SocketAddr,
}

impl fmt::Display for TooFewPorts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { connections, ports, enough, target } = self;
        let example = match target {
            SocketAddr::V4(_) => "10.0.0.2-10.0.0.9",
            SocketAddr::V6(_) => "fd00::2-fd00::9",
        };
        write!(
            f,
            "{} connections at once need as many ports, and from here to {target} there are {}; \
             give {} addresses of this machine to connect from, as in --source {example}, or \
             widen net.ipv4.ip_local_port_range",
            format_count(*connections),
            format_count(*ports),
            format_count(*enough),
        )
    }
}

impl std::error::Error for TooFewPorts {}

/// The source addresses for so many connections at once: those that were asked for; where there are
/// none and the targets are in 127.0.0.0/8, all of which is this machine's, as many of it as are
/// needed. Empty: the kernel chooses.
///
/// # Errors
/// Where the ports are too few.
pub fn sources(
    asked: &[IpAddr],
    targets: &[SocketAddr],
    connections: u64,
    ports: LocalPorts,
) -> Result<Vec<IpAddr>, TooFewPorts> {
    // A socket in the file system has no port.
    let Some(&target) = targets.first() else { return Ok(asked.to_vec()) };
    let is_loopback =
        targets.iter().all(|target| matches!(target.ip(), IpAddr::V4(ip) if ip.is_loopback()));
    let available = available_ports(ports, asked, targets);
    let each = u64::from(ports.usable()) * targets.len() as u64;
    let counted_on = each * COUNTED_ON.0 / COUNTED_ON.1;
    if asked.is_empty() && is_loopback {
        let count = connections.div_ceil(counted_on.max(1));
        return Ok(if count <= 1 { Vec::new() } else { loopback(count) });
    }
    if connections <= available {
        return Ok(asked.to_vec());
    }
    let enough = connections.div_ceil(counted_on.max(1));
    Err(TooFewPorts { connections, ports: available, enough, target })
}

/// So many addresses of 127.0.0.0/8.
fn loopback(count: u64) -> Vec<IpAddr> {
    let first = u64::from(FIRST_OWN.to_bits());
    // The block has 2^24 addresses, more than there can be connections for.
    let last = (first + count).min(u64::from(Ipv4Addr::new(127, 255, 255, 254).to_bits()));
    (first..last).map(|number| IpAddr::V4(Ipv4Addr::from_bits(number as u32))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PORTS: LocalPorts = LocalPorts::DEFAULT;

    fn targets(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn loopback_has_as_many_as_are_needed() {
        let here = targets(&["127.0.0.1:80"]);
        assert_eq!(sources(&[], &here, 25_000, PORTS), Ok(vec![]));
        let two: Vec<IpAddr> = vec!["127.0.0.2".parse().unwrap(), "127.0.0.3".parse().unwrap()];
        assert_eq!(sources(&[], &here, 28_000, PORTS), Ok(two.clone()));
        assert_eq!(sources(&[], &here, 50_000, PORTS), Ok(two));
        assert_eq!(sources(&[], &here, 400_000, PORTS).unwrap().len(), 16);
    }

    #[test]
    fn asked_for_they_are_taken_or_refused() {
        let here = targets(&["127.0.0.1:80"]);
        let own: Vec<IpAddr> = vec!["127.0.0.9".parse().unwrap()];
        assert_eq!(sources(&own, &here, 28_000, PORTS), Ok(own.clone()));
        let error = sources(&own, &here, 28_233, PORTS).unwrap_err();
        assert_eq!((error.ports, error.enough), (28_232, 2));
    }

    #[test]
    fn elsewhere_they_have_to_be_given() {
        let there = targets(&["192.0.2.1:80"]);
        assert_eq!(sources(&[], &there, 28_232, PORTS), Ok(vec![]));
        let error = sources(&[], &there, 100_000, PORTS).unwrap_err().to_string();
        for part in ["100,000 connections", "28,232", "192.0.2.1:80", "4 addresses", "--source 10."]
        {
            assert!(error.contains(part), "no {part} in: {error}");
        }
        // Several addresses of a target have ports each.
        let three = targets(&["192.0.2.1:80", "192.0.2.2:80", "192.0.2.3:80"]);
        assert_eq!(sources(&[], &three, 80_000, PORTS), Ok(vec![]));
        let error = sources(&[], &targets(&["[::1]:80"]), 100_000, PORTS).unwrap_err();
        assert!(error.to_string().contains("--source fd00::2"), "{error}");
    }

    #[test]
    fn a_socket_in_the_file_system_needs_none() {
        assert_eq!(sources(&[], &[], 1_000_000, PORTS), Ok(vec![]));
    }

    proptest! {
        #[test]
        fn what_is_given_is_enough(connections in 0_u64..2_000_000, first in 1_u16..60_000) {
            let ports = LocalPorts { first, last: 60_999, reserved: 0 };
            let here = targets(&["127.0.0.1:80"]);
            let given = sources(&[], &here, connections, ports).unwrap();
            prop_assert!(available_ports(ports, &given, &here) >= connections);
        }
    }
}
