//! Checks of ports, queues and what watches connections.

use super::{Check, Facts, grouped};

/// Seconds in which a closed connection keeps its port: `TCP_TIMEWAIT_LEN` (include/net/tcp.h).
const TIME_WAIT_S: u64 = 60;

/// Fewer ports than this are a range that somebody made smaller than Linux's default of 28,232.
const FEW_PORTS: u32 = 20_000;

/// Connects that a run may have under way at once, 256 per worker; a shorter queue loses some.
const SHORT_QUEUE: u32 = 512;

pub(super) fn checks(facts: &Facts) -> Vec<Check> {
    let mut checks = vec![
        local_ports(facts),
        tw_reuse(facts),
        queue("listen queue", "net.core.somaxconn", facts.somaxconn, "512 on the server's machine"),
        queue(
            "SYN backlog",
            "net.ipv4.tcp_max_syn_backlog",
            facts.syn_backlog,
            "512 on the server's machine",
        ),
        congestion_control(facts),
    ];
    checks.extend(conntrack(facts));
    checks
}

fn local_ports(facts: &Facts) -> Check {
    let ports = facts.ports;
    let usable = ports.usable();
    let mut found = format!(
        "{}-{}: {} ports, about {} new connections/s per pair of addresses",
        ports.first,
        ports.last,
        grouped(usable.into()),
        grouped(u64::from(usable) / TIME_WAIT_S),
    );
    if ports.reserved > 0 {
        found += &format!(" ({} reserved)", grouped(ports.reserved.into()));
    }
    Check::ok("local ports", found, "20,000; one per open connection").warn_if(
        usable < FEW_PORTS,
        "`sysctl -w net.ipv4.ip_local_port_range='1024 65535'`, fewer \
         net.ipv4.ip_local_reserved_ports, or several addresses with --source",
    )
}

fn tw_reuse(facts: &Facts) -> Check {
    let (name, needed) = ("TIME_WAIT reuse", "at least on loopback");
    let found = match facts.tw_reuse {
        Some(0) => "off",
        Some(1) => "on",
        Some(2) => "on loopback (the kernel's default)",
        Some(_) | None => return Check::unknown(name, needed),
    };
    Check::ok(name, found, needed).warn_if(
        facts.tw_reuse == Some(0),
        "ports of closed connections stay taken for 60 s: `sysctl -w net.ipv4.tcp_tw_reuse=2`",
    )
}

fn queue(name: &'static str, setting: &str, length: Option<u32>, needed: &'static str) -> Check {
    let Some(length) = length else {
        return Check::unknown(name, needed);
    };
    Check::ok(name, grouped(length.into()), needed).warn_if(
        length < SHORT_QUEUE,
        format!("a server here loses SYNs, which come again after 1 s: `sysctl -w {setting}=4096`"),
    )
}

fn congestion_control(facts: &Facts) -> Check {
    let (name, needed) = ("congestion control", "one that does not pace, on loopback");
    let Some(found) = &facts.congestion_control else {
        return Check::unknown(name, needed);
    };
    Check::ok(name, found, needed).warn_if(
        found.starts_with("bbr"),
        "it spaces packets by timers, which costs CPU and shows in latency; to measure a server on \
         this machine: `sysctl -w net.ipv4.tcp_congestion_control=cubic`",
    )
}

/// A table that is full drops packets of new connections, and the server seems to fail.
fn conntrack(facts: &Facts) -> Option<Check> {
    let table = facts.conntrack?;
    let found = format!(
        "{} of {}; if tracked, about {} new connections/s fit",
        grouped(table.count),
        grouped(table.max),
        grouped(table.max.saturating_sub(table.count) / table.time_wait_s.max(1)),
    );
    let is_small = table.max < 65_536 || table.count > table.max / 5 * 4;
    Some(Check::ok("connection tracking", found, "65,536 and not near full").warn_if(
        is_small,
        "`sysctl -w net.netfilter.nf_conntrack_max=1048576`, or leave the test's port out of \
         tracking (`notrack`)",
    ))
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::super::tests::check_of;
    use super::*;
    use crate::net::LocalPorts;
    use crate::observe::doctor::Conntrack;

    #[test]
    fn default_range_sustains_470_connections_a_second() {
        let check = check_of(&Facts::good(), "local ports");
        assert_eq!(
            check.found,
            "32768-60999: 28,232 ports, about 470 new connections/s per pair of addresses"
        );
    }

    #[test]
    fn reserved_ports_are_said() {
        let ports = LocalPorts { first: 32_768, last: 60_999, reserved: 10_000 };
        let check = check_of(&Facts { ports, ..Facts::good() }, "local ports");
        assert_eq!(check.level, Level::Warn);
        assert!(check.found.ends_with("(10,000 reserved)"), "{check:?}");
    }

    #[test]
    fn pacing_is_warned_about() {
        for (name, level) in [("bbr", Level::Warn), ("cubic", Level::Ok), ("reno", Level::Ok)] {
            let facts = Facts { congestion_control: Some(name.to_owned()), ..Facts::good() };
            assert_eq!(check_of(&facts, "congestion control").level, level, "{name}");
        }
    }

    #[test]
    fn machine_without_tracking_has_no_row_for_it() {
        let facts = Facts { conntrack: None, ..Facts::good() };
        assert!(!checks(&facts).iter().any(|check| check.name == "connection tracking"));
    }

    #[test]
    fn table_that_is_nearly_full_is_warned_about() {
        let table = Conntrack { count: 250_000, max: 262_144, time_wait_s: 120 };
        let facts = Facts { conntrack: Some(table), ..Facts::good() };
        let check = check_of(&facts, "connection tracking");
        assert_eq!(check.level, Level::Warn);
        assert!(check.found.contains("about 101 new connections/s"), "{check:?}");
    }
}
