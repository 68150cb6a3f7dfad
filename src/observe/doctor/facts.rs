//! What the checks are made of.

use std::fs;
use std::io;

use procfs::FromRead;
use procfs::process::Status;

use crate::net::{self, LocalPorts};
use crate::observe::limits::{self, Limits};
use crate::observe::machine::{self, read_line, sysctl, sysctl_number};
use crate::observe::{cgroup, cpus, process};
use crate::ring::Features;

/// What was read from this machine. `None`: it does not show it, or does not have it.
#[derive(Debug)]
pub struct Facts {
    /// The kernel's release.
    pub kernel: Option<String>,
    /// What the ring can do, or why none can be made.
    pub ring: io::Result<Features>,
    /// `kernel.io_uring_disabled`: 0 for all, 1 for the privileged and a group, 2 for none.
    pub io_uring_disabled: Option<u32>,
    /// Whether a seccomp filter is on this process.
    pub seccomp_filter: Option<bool>,
    /// Open descriptors.
    pub nofile: Limits,
    /// Locked memory, bytes.
    pub memlock: Limits,
    /// Ports for outgoing connections.
    pub ports: LocalPorts,
    /// `net.ipv4.tcp_tw_reuse`: 0 off, 1 on, 2 on loopback.
    pub tw_reuse: Option<u32>,
    /// `net.core.somaxconn`, the longest queue of a listener.
    pub somaxconn: Option<u32>,
    /// `net.ipv4.tcp_max_syn_backlog`, connections half open.
    pub syn_backlog: Option<u32>,
    /// The congestion control of new connections.
    pub congestion_control: Option<String>,
    /// The table of tracked connections; `None` where the kernel does not track.
    pub conntrack: Option<Conntrack>,
    /// CPUs that are switched on.
    pub online_cpus: Option<usize>,
    /// CPUs in the affinity mask.
    pub affinity: usize,
    /// The control group's quota, in CPUs.
    pub cpu_quota: Option<f64>,
    /// The frequency governor; `None` in most virtual machines.
    pub governor: Option<String>,
    /// Whether the clock may rise above its base for a while.
    pub turbo: Option<bool>,
    /// How often the first CPU was slowed down for its heat.
    pub throttled: Option<u64>,
    /// What the kernel reads the time from.
    pub clock_source: Option<String>,
    /// The timer slack that a thread can set itself to, nanoseconds.
    pub timer_slack_ns: Option<u64>,
}

/// The table of tracked connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conntrack {
    /// Entries in it.
    pub count: u64,
    /// Entries that fit.
    pub max: u64,
    /// Seconds for which a closed connection keeps its entry.
    pub time_wait_s: u64,
}

impl Facts {
    /// Reads them all; `ring` is what the probe of the kernel's ring gave.
    #[must_use]
    pub fn read(ring: io::Result<Features>) -> Self {
        Self {
            kernel: machine::kernel_release(),
            ring,
            io_uring_disabled: sysctl_number("kernel/io_uring_disabled"),
            seccomp_filter: seccomp_filter(),
            nofile: limits::nofile(),
            memlock: limits::memlock(),
            ports: net::local_ports(),
            tw_reuse: sysctl_number("net/ipv4/tcp_tw_reuse"),
            somaxconn: sysctl_number("net/core/somaxconn"),
            syn_backlog: sysctl_number("net/ipv4/tcp_max_syn_backlog"),
            congestion_control: machine::congestion_control(),
            conntrack: conntrack(),
            online_cpus: machine::online_cpus(),
            affinity: cpus::affinity().len(),
            cpu_quota: cgroup::cpu_quota().map(|quota| quota.cpus),
            governor: read_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            turbo: turbo(),
            throttled: read_line(
                "/sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count",
            )
            .and_then(|count| count.parse().ok()),
            clock_source: machine::clock_source(),
            timer_slack_ns: settable_timer_slack_ns(),
        }
    }
}

/// Whether system calls of this process are filtered (`Seccomp: 2`, proc(5)).
fn seccomp_filter() -> Option<bool> {
    let status = Status::from_read(fs::read("/proc/self/status").ok()?.as_slice()).ok()?;
    Some(status.seccomp? == 2)
}

fn conntrack() -> Option<Conntrack> {
    let number = |name: &str| sysctl(format!("net/netfilter/{name}"))?.parse().ok();
    Some(Conntrack {
        count: number("nf_conntrack_count")?,
        max: number("nf_conntrack_max")?,
        time_wait_s: number("nf_conntrack_tcp_timeout_time_wait").unwrap_or(120),
    })
}

/// Intel's driver says it the other way round than the others do.
fn turbo() -> Option<bool> {
    let cpu = "/sys/devices/system/cpu";
    read_line(&format!("{cpu}/intel_pstate/no_turbo"))
        .map(|no_turbo| no_turbo == "0")
        .or_else(|| read_line(&format!("{cpu}/cpufreq/boost")).map(|boost| boost == "1"))
}

/// Sets the slack as a worker does, on a thread that then ends, and reads what came of it.
fn settable_timer_slack_ns() -> Option<u64> {
    std::thread::spawn(|| {
        process::set_timer_slack_1ns().ok()?;
        process::timer_slack_ns().ok()
    })
    .join()
    .ok()?
}

#[cfg(test)]
impl Facts {
    /// A machine without any finding.
    pub(super) fn good() -> Self {
        Self {
            kernel: Some("6.18.1".to_owned()),
            ring: Ok(Features {
                socket_options: true,
                bind: true,
                min_wait: true,
                no_sqarray: true,
                no_iowait: true,
            }),
            io_uring_disabled: Some(0),
            seccomp_filter: Some(false),
            nofile: Limits { soft: 1_024, hard: 1_048_576 },
            memlock: Limits { soft: 8 << 20, hard: 8 << 20 },
            ports: LocalPorts::DEFAULT,
            tw_reuse: Some(2),
            somaxconn: Some(4_096),
            syn_backlog: Some(2_048),
            congestion_control: Some("cubic".to_owned()),
            conntrack: Some(Conntrack { count: 12, max: 262_144, time_wait_s: 120 }),
            online_cpus: Some(4),
            affinity: 4,
            cpu_quota: None,
            governor: Some("performance".to_owned()),
            turbo: Some(true),
            throttled: Some(0),
            clock_source: Some("tsc".to_owned()),
            timer_slack_ns: Some(1),
        }
    }

    /// A machine that shows nothing but its ring.
    pub(super) fn unreadable() -> Self {
        Self {
            kernel: None,
            io_uring_disabled: None,
            seccomp_filter: None,
            tw_reuse: None,
            somaxconn: None,
            syn_backlog: None,
            congestion_control: None,
            conntrack: None,
            online_cpus: None,
            cpu_quota: None,
            governor: None,
            turbo: None,
            throttled: None,
            clock_source: None,
            timer_slack_ns: None,
            ..Self::good()
        }
    }

    /// A machine with every finding.
    pub(super) fn bad() -> Self {
        Self {
            kernel: Some("5.15.0-1-generic".to_owned()),
            ring: Err(io::Error::from_raw_os_error(libc::EPERM)),
            io_uring_disabled: Some(2),
            seccomp_filter: Some(true),
            nofile: Limits { soft: 256, hard: 256 },
            memlock: Limits { soft: 0, hard: 0 },
            ports: LocalPorts { first: 60_000, last: 60_999, reserved: 200 },
            tw_reuse: Some(0),
            somaxconn: Some(128),
            syn_backlog: Some(128),
            congestion_control: Some("bbr".to_owned()),
            conntrack: Some(Conntrack { count: 7_000, max: 8_192, time_wait_s: 120 }),
            online_cpus: Some(8),
            affinity: 1,
            cpu_quota: Some(0.5),
            governor: Some("powersave".to_owned()),
            turbo: Some(true),
            throttled: Some(17),
            clock_source: Some("hpet".to_owned()),
            timer_slack_ns: Some(50_000),
        }
    }
}
