//! Checks of the kernel, its ring and the limits of this process.

use std::io;

use super::{Check, Facts, grouped};
use crate::observe::machine::kernel_version;
use crate::ring::Features;

/// The oldest kernel that runs ringload: the first long-term one with single-issuer rings,
/// deferred task work (6.1) and multishot receives (6.0).
const OLDEST_KERNEL: (u32, u32) = (6, 1);

/// Descriptors beyond which no run of a usual size is refused.
const ENOUGH_DESCRIPTORS: u64 = 10_000;

pub(super) fn checks(facts: &Facts) -> Vec<Check> {
    let mut checks = vec![kernel(facts), io_uring(facts)];
    if let Ok(features) = &facts.ring {
        checks.push(ring_features(*features));
    }
    checks.extend([descriptors(facts), locked_memory(facts)]);
    checks
}

fn kernel(facts: &Facts) -> Check {
    let (name, needed) = ("kernel", "Linux 6.1 or newer");
    let Some(release) = &facts.kernel else {
        return Check::unknown(name, needed);
    };
    let check = Check::ok(name, release, needed);
    match kernel_version(release) {
        Some(version) if version < OLDEST_KERNEL => check
            .missing("boot a kernel of 6.1 or newer; in WSL: `wsl --update`, or another machine"),
        _ => check,
    }
}

fn io_uring(facts: &Facts) -> Check {
    let (name, needed) = ("io_uring", "allowed");
    let error = match &facts.ring {
        Ok(_) => return Check::ok(name, "works", needed),
        Err(error) => error,
    };
    Check::ok(name, format!("refused: {error}"), needed).missing(io_uring_remedy(facts, error))
}

fn io_uring_remedy(facts: &Facts, error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => match (facts.io_uring_disabled, facts.seccomp_filter) {
            (Some(2), _) => "it is switched off for all: `sysctl -w kernel.io_uring_disabled=0`",
            (Some(1), _) => {
                "it is switched off for the unprivileged: `sysctl -w kernel.io_uring_disabled=0`, \
                 or put your group's number into kernel.io_uring_group"
            }
            (_, Some(true)) => {
                "a seccomp filter refuses it, as container runtimes do: \
                 `docker run --security-opt seccomp=docs/seccomp.json` (docs/containers.md)"
            }
            _ => {
                "a security policy refuses it: look for io_uring in its log (seccomp, SELinux, \
                 AppArmor; docs/containers.md)"
            }
        },
        Some(libc::ENOSYS) => {
            "this kernel has none, or a sandbox such as gVisor hides it: use another kernel \
             (CONFIG_IO_URING=y), or run outside of the sandbox"
        }
        Some(libc::ENOMEM) => {
            "memory for it cannot be had: raise the memory limit of the control group, or the \
             limit of locked memory (`ulimit -l`)"
        }
        Some(libc::EMFILE | libc::ENFILE) => "raise the limit of open descriptors (`ulimit -n`)",
        Some(libc::EINVAL) => {
            "this kernel lacks a flag that ringload needs: boot a kernel of 6.1 or newer"
        }
        _ => "see docs/containers.md for what can refuse it",
    }
    .to_owned()
}

fn ring_features(features: Features) -> Check {
    let (name, needed) = ("ring features", "none of them; each saves work");
    let missing: Vec<&str> = [
        (features.no_sqarray, "no-sqarray (6.6)"),
        (features.socket_options, "setsockopt (6.7)"),
        (features.bind, "bind (6.11)"),
        (features.min_wait, "min-wait (6.12)"),
        (features.no_iowait, "no-iowait (6.15)"),
    ]
    .into_iter()
    .filter_map(|(has, feature)| (!has).then_some(feature))
    .collect();
    let names = features.names();
    let found = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    Check::ok(name, found, needed).warn_if(
        !missing.is_empty(),
        format!("works without; a newer kernel brings {}", missing.join(", ")),
    )
}

fn descriptors(facts: &Facts) -> Check {
    let limits = facts.nofile;
    let found = if limits.hard == u64::MAX {
        "unlimited".to_owned()
    } else {
        format!(
            "{} (soft {}): the most connections of a worker",
            grouped(limits.hard),
            grouped(limits.soft)
        )
    };
    // The soft limit is raised to the hard one by every run.
    Check::ok("open descriptors", found, "10,000, and one per connection").warn_if(
        limits.hard < ENOUGH_DESCRIPTORS,
        "raise the hard limit: `ulimit -Hn 1048576` as root, LimitNOFILE=1048576 in a systemd \
         unit, `docker run --ulimit nofile=1048576`",
    )
}

fn locked_memory(facts: &Facts) -> Check {
    let found = match facts.memlock.soft {
        u64::MAX => "unlimited".to_owned(),
        bytes => format!("{} KiB", grouped(bytes / 1024)),
    };
    // Since Linux 5.12 rings are charged to the control group's memory instead (io_uring_setup(2),
    // notes); ringload registers no buffers of its own memory, which still are.
    Check::ok("locked memory", found, "nothing: rings are not charged to it")
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::super::tests::check_of;
    use super::*;

    fn refused(errno: i32, disabled: Option<u32>, seccomp: bool) -> Check {
        let facts = Facts {
            ring: Err(io::Error::from_raw_os_error(errno)),
            io_uring_disabled: disabled,
            seccomp_filter: Some(seccomp),
            ..Facts::good()
        };
        let check = check_of(&facts, "io_uring");
        assert_eq!(check.level, Level::Missing);
        check
    }

    #[test]
    fn old_kernel_is_missing() {
        for (release, level) in [
            ("5.15.0-1", Level::Missing),
            ("6.0.19", Level::Missing),
            ("6.1.0", Level::Ok),
            ("7.0-rc1", Level::Ok),
            ("odd", Level::Ok),
        ] {
            let facts = Facts { kernel: Some(release.to_owned()), ..Facts::good() };
            assert_eq!(check_of(&facts, "kernel").level, level, "{release}");
        }
    }

    #[test]
    fn who_refuses_io_uring_is_named() {
        let remedy = |check: Check| check.remedy.unwrap();
        assert!(remedy(refused(libc::EPERM, Some(2), true)).contains("switched off for all"));
        assert!(remedy(refused(libc::EPERM, Some(1), true)).contains("kernel.io_uring_group"));
        assert!(remedy(refused(libc::EPERM, Some(0), true)).contains("seccomp=docs/seccomp.json"));
        assert!(remedy(refused(libc::EPERM, None, false)).contains("security policy"));
        assert!(remedy(refused(libc::ENOSYS, None, false)).contains("gVisor"));
        let check = refused(libc::EPERM, Some(2), false);
        assert!(check.found.starts_with("refused: Operation not permitted"), "{check:?}");
    }

    #[test]
    fn floor_of_features_works() {
        let facts = Facts { ring: Ok(Features::default()), ..Facts::good() };
        let check = check_of(&facts, "ring features");
        assert_eq!((check.level, check.found.as_str()), (Level::Warn, "none"));
        assert!(check.remedy.unwrap().contains("min-wait (6.12)"));
    }

    #[test]
    fn descriptors_are_judged_by_the_hard_limit() {
        let check = check_of(&Facts::good(), "open descriptors");
        assert_eq!(check.level, Level::Ok);
        assert!(check.found.starts_with("1,048,576 (soft 1,024)"));
        assert_eq!(check_of(&Facts::bad(), "open descriptors").level, Level::Warn);
    }
}
