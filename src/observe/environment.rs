//! What a result says about the machine it came from.

use serde::Serialize;

use super::limits::Limits;
use super::{cgroup, cpus, limits, machine};
use crate::net;

/// The machine and its limits, at the start of a run. What could not be read is `None`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Environment {
    /// The kernel's release.
    pub kernel: Option<String>,
    /// The processor's name.
    pub cpu: Option<String>,
    /// CPUs that are switched on.
    pub cores: Option<usize>,
    /// The CPUs in the affinity mask of this process.
    pub affinity: Vec<usize>,
    /// CPUs that the control group pays for.
    pub cpu_quota: Option<f64>,
    /// The limits of this process.
    pub limits: ProcessLimits,
    /// First and last port for outgoing connections.
    pub local_ports: (u16, u16),
    /// The congestion control of new connections.
    pub congestion_control: Option<String>,
    /// What the kernel reads the time from.
    pub clock_source: Option<String>,
    /// Features of the ring that are in use.
    pub ring_features: Vec<&'static str>,
}

/// The limits of this process, soft ones as they count during the run. `None` is unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessLimits {
    /// Open descriptors.
    pub open_files: Option<u64>,
    /// Open descriptors, hard limit.
    pub open_files_hard: Option<u64>,
    /// Bytes of locked memory.
    pub locked_memory_bytes: Option<u64>,
}

impl Environment {
    /// Reads it all; `ring_features` are what [`crate::ring::Features::names`] gives.
    #[must_use]
    pub fn read(ring_features: Vec<&'static str>) -> Self {
        let ports = net::local_ports();
        Self {
            kernel: machine::kernel_release(),
            cpu: machine::cpu_model(),
            cores: machine::online_cpus(),
            affinity: cpus::affinity(),
            cpu_quota: cgroup::cpu_quota().map(|quota| quota.cpus),
            limits: ProcessLimits::of(limits::nofile(), limits::memlock()),
            local_ports: (ports.first, ports.last),
            congestion_control: machine::congestion_control(),
            clock_source: machine::clock_source(),
            ring_features,
        }
    }
}

impl ProcessLimits {
    fn of(nofile: Limits, memlock: Limits) -> Self {
        let finite = |limit| (limit != u64::MAX).then_some(limit);
        Self {
            open_files: finite(nofile.soft),
            open_files_hard: finite(nofile.hard),
            locked_memory_bytes: finite(memlock.soft),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unlimited_is_no_number() {
        let unlimited = Limits { soft: u64::MAX, hard: u64::MAX };
        let limits = ProcessLimits::of(Limits { soft: 1_024, hard: 4_096 }, unlimited);
        assert_eq!(limits.open_files, Some(1_024));
        assert_eq!(limits.open_files_hard, Some(4_096));
        assert_eq!(limits.locked_memory_bytes, None);
    }

    #[test]
    fn this_machine_is_described() {
        let environment = Environment::read(vec!["min-wait"]);
        assert!(environment.kernel.is_some());
        assert!(!environment.affinity.is_empty());
        let json = serde_json::to_value(&environment).unwrap();
        assert_eq!(json["ring_features"][0], "min-wait");
        assert!(json["limits"]["open_files"].is_u64() || json["limits"]["open_files"].is_null());
    }
}
