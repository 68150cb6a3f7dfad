//! The CPUs that this process may use.

use rustix::thread::{CpuSet, sched_getaffinity};

use super::cgroup;

/// The CPUs in this process's affinity mask, ascending; at least one.
#[must_use]
pub fn affinity() -> Vec<usize> {
    let mask = sched_getaffinity(None).unwrap_or_default();
    let mut cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| mask.is_set(cpu)).collect();
    if cpus.is_empty() {
        // More CPUs than the mask of the library can hold: the count is known all the same.
        let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        cpus.extend(0..count);
    }
    cpus
}

/// The CPUs worth a worker each: those of the affinity mask, and of them no more than the
/// quota of the control group pays for, rounded up (a quota of 1.5 CPUs: at most 2).
#[must_use]
pub fn usable_cpus() -> Vec<usize> {
    within_quota(affinity(), cgroup::cpu_quota().map(|quota| quota.cpus))
}

fn within_quota(mut cpus: Vec<usize>, quota: Option<f64>) -> Vec<usize> {
    if let Some(quota) = quota {
        cpus.truncate((quota.ceil() as usize).max(1));
    }
    cpus
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_cpu_can_be_used() {
        let all = affinity();
        let usable = usable_cpus();
        assert!(!usable.is_empty());
        assert!(all.starts_with(&usable));
        assert!(all.is_sorted());
    }

    #[test]
    fn quota_rounds_up() {
        let cpus = vec![2, 3, 6, 7];
        assert_eq!(within_quota(cpus.clone(), None), cpus);
        assert_eq!(within_quota(cpus.clone(), Some(0.2)), [2]);
        assert_eq!(within_quota(cpus.clone(), Some(1.5)), [2, 3]);
        assert_eq!(within_quota(cpus.clone(), Some(2.0)), [2, 3]);
        assert_eq!(within_quota(cpus.clone(), Some(16.0)), cpus);
    }
}
