//! The network interface that leads to an address, and how fast it is.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;

use procfs::FromBufRead;
use procfs::net::{RouteEntries, RouteEntry};

/// Whether an address is one of this machine's own.
#[must_use]
pub fn is_ours(ip: IpAddr) -> bool {
    // The kernel binds to nothing else, unless net.ipv4.ip_nonlocal_bind is set.
    UdpSocket::bind((ip, 0)).is_ok()
}

/// What the interface that leads to `target` carries each way, bits per second. `None` for
/// loopback, for virtual interfaces, which have no speed of their own, and where it cannot be told.
#[must_use]
pub fn speed_bits(target: IpAddr) -> Option<u64> {
    if is_ours(target) {
        return None;
    }
    let name = match target.to_canonical() {
        IpAddr::V4(target) => {
            let routes = fs::read("/proc/net/route").ok()?;
            let RouteEntries(routes) = RouteEntries::from_buf_read(&routes[..]).ok()?;
            interface_v4(&routes, target)?.to_owned()
        }
        IpAddr::V6(target) => {
            let own = own_address_towards(target)?;
            interface_v6(&fs::read_to_string("/proc/net/if_inet6").ok()?, own)?.to_owned()
        }
    };
    let directory = Path::new("/sys/class/net").join(name);
    // Only what stands for hardware has a device; a bridge, a tunnel or a veth claims any speed.
    if !directory.join("device").exists() {
        return None;
    }
    parse_speed(&fs::read_to_string(directory.join("speed")).ok()?)
}

/// The file has Mbit/s, and -1 where the device does not know (sysfs-class-net).
fn parse_speed(text: &str) -> Option<u64> {
    let mbits = text.trim().parse::<u64>().ok().filter(|&mbits| mbits > 0)?;
    mbits.checked_mul(1_000_000)
}

/// The interface of the most specific route.
fn interface_v4(routes: &[RouteEntry], target: Ipv4Addr) -> Option<&str> {
    let leads = |route: &&RouteEntry| {
        target.to_bits() & route.mask.to_bits() == route.destination.to_bits()
    };
    // Among equals the first, which has the lowest metric: so the kernel lists them.
    let best = routes.iter().filter(leads).rev().max_by_key(|route| route.mask.to_bits())?;
    Some(&best.iface)
}

/// The address that the kernel would send from; asks for the route and sends nothing.
fn own_address_towards(target: Ipv6Addr) -> Option<Ipv6Addr> {
    let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((target, 9)).ok()?;
    match socket.local_addr().ok()? {
        SocketAddr::V6(own) => Some(*own.ip()),
        SocketAddr::V4(_) => None,
    }
}

/// The interface that has an address, out of `/proc/net/if_inet6`: the address in hexadecimal,
/// four numbers, and the interface's name.
fn interface_v6(table: &str, own: Ipv6Addr) -> Option<&str> {
    table.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        let address = u128::from_str_radix(fields.next()?, 16).ok()?;
        (Ipv6Addr::from_bits(address) == own).then(|| fields.nth(4))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_route_leads() {
        let table = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\t\
            IRTT\n\
            eth0\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n\
            wlan0\t00000000\t010200C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n\
            eth1\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
        let RouteEntries(routes) = RouteEntries::from_buf_read(table.as_bytes()).unwrap();
        let to = |ip: [u8; 4]| interface_v4(&routes, ip.into());
        assert_eq!(to([192, 0, 2, 77]), Some("eth1"));
        assert_eq!(to([192, 0, 3, 1]), Some("eth0"));
        assert_eq!(interface_v4(&[], [192, 0, 3, 1].into()), None);
    }

    #[test]
    fn an_address_has_its_interface() {
        let table = "fd000000000000000000000000000002 04 40 00 82     eth0\n\
            00000000000000000000000000000001 01 80 10 80       lo\n";
        assert_eq!(interface_v6(table, "fd00::2".parse().unwrap()), Some("eth0"));
        assert_eq!(interface_v6(table, Ipv6Addr::LOCALHOST), Some("lo"));
        assert_eq!(interface_v6(table, "fd00::3".parse().unwrap()), None);
        assert_eq!(interface_v6("odd\n", Ipv6Addr::LOCALHOST), None);
    }

    #[test]
    fn a_device_that_does_not_know_its_speed_has_none() {
        assert_eq!(parse_speed("1000\n"), Some(1_000_000_000));
        for unknown in ["-1\n", "0\n", "", "fast"] {
            assert_eq!(parse_speed(unknown), None, "{unknown:?}");
        }
    }

    #[test]
    fn loopback_is_ours_and_has_no_speed() {
        assert!(is_ours([127, 0, 0, 1].into()));
        // RFC 5737: an address of documentation, which nobody has.
        assert!(!is_ours([192, 0, 2, 77].into()));
        assert_eq!(speed_bits([127, 0, 0, 1].into()), None);
    }
}
