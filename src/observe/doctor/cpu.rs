//! Checks of processors and time.

use super::{Check, Facts, grouped};

/// Clock sources that a program reads without a system call (arch/*/include/asm/vdso/).
const FAST_CLOCKS: [&str; 4] =
    ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"];

pub(super) fn checks(facts: &Facts) -> Vec<Check> {
    let mut checks = vec![cpus(facts), quota(facts)];
    checks.extend(governor(facts));
    checks.extend(turbo(facts));
    checks.extend(throttling(facts));
    checks.extend([clock_source(facts), timer_slack(facts)]);
    checks
}

fn cpus(facts: &Facts) -> Check {
    let found = match facts.online_cpus {
        Some(online) => format!("{} of {online} online", facts.affinity),
        None => facts.affinity.to_string(),
    };
    let restricted = facts.online_cpus.is_some_and(|online| facts.affinity < online);
    let check = Check::ok("CPUs", found, "2: one for a server on this machine");
    if facts.affinity < 2 {
        check.warn("a server on this machine shares it with the generator: test from another one")
    } else {
        check.warn_if(
            restricted,
            "the others are not used; `taskset`, a cpuset or a container's --cpuset-cpus says so",
        )
    }
}

fn quota(facts: &Facts) -> Check {
    let (name, needed) = ("CPU quota", "none");
    match facts.cpu_quota {
        None => Check::ok(name, "none", needed),
        Some(cpus) => Check::ok(name, format!("{cpus:.2} CPUs"), needed).warn(
            "threads stand still for the rest of each period, which shows as latency: take the \
             quota away (docker --cpus, systemd CPUQuota=) and bind to CPUs instead \
             (--cpuset-cpus, AllowedCPUs=)",
        ),
    }
}

fn governor(facts: &Facts) -> Option<Check> {
    let governor = facts.governor.as_ref()?;
    Some(Check::ok("frequency governor", governor, "performance").warn_if(
        governor != "performance",
        "the first requests of a load meet slow CPUs: `cpupower frequency-set -g performance`",
    ))
}

fn turbo(facts: &Facts) -> Option<Check> {
    let found = if facts.turbo? { "on: figures vary with load and heat" } else { "off" };
    Some(Check::ok("turbo", found, "off, to compare runs to the percent"))
}

fn throttling(facts: &Facts) -> Option<Check> {
    let count = facts.throttled?;
    Some(Check::ok("throttled for heat", format!("{} times", grouped(count)), "never").warn_if(
        count > 0,
        "the CPU was slowed down since the last boot: cool it, or lower its clock",
    ))
}

fn clock_source(facts: &Facts) -> Check {
    let (name, needed) = ("clock source", "one that is read without a system call");
    let Some(found) = &facts.clock_source else {
        return Check::unknown(name, needed);
    };
    Check::ok(name, found, needed).warn_if(
        !FAST_CLOCKS.contains(&found.as_str()),
        "reading the time is a system call; see which sources there are in \
         /sys/devices/system/clocksource/clocksource0/available_clocksource and boot with \
         clocksource=tsc where it is one",
    )
}

fn timer_slack(facts: &Facts) -> Check {
    let (name, needed) = ("timer slack", "1 ns, which workers set");
    let Some(slack_ns) = facts.timer_slack_ns else {
        return Check::unknown(name, needed);
    };
    Check::ok(name, format!("{} ns", grouped(slack_ns)), needed).warn_if(
        slack_ns > 1,
        "it cannot be set here, and arrivals of the open model come late by as much: use --spin \
         always",
    )
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::super::tests::check_of;
    use super::*;

    #[test]
    fn quota_is_warned_about() {
        let facts = Facts { cpu_quota: Some(1.5), ..Facts::good() };
        let check = check_of(&facts, "CPU quota");
        assert_eq!((check.level, check.found.as_str()), (Level::Warn, "1.50 CPUs"));
    }

    #[test]
    fn restricted_cpus_are_said() {
        let facts = Facts { affinity: 2, ..Facts::good() };
        let check = check_of(&facts, "CPUs");
        assert_eq!((check.level, check.found.as_str()), (Level::Warn, "2 of 4 online"));
        let facts = Facts { affinity: 1, online_cpus: Some(1), ..Facts::good() };
        let check = check_of(&facts, "CPUs");
        assert!(check.remedy.unwrap().contains("shares it with the generator"));
    }

    #[test]
    fn virtual_machine_has_no_row_for_what_it_hides() {
        let facts = Facts::unreadable();
        for name in ["frequency governor", "turbo", "throttled for heat"] {
            assert!(!checks(&facts).iter().any(|check| check.name == name), "{name}");
        }
    }

    #[test]
    fn slow_clocks_are_warned_about() {
        for (name, level) in [("tsc", Level::Ok), ("hpet", Level::Warn), ("acpi_pm", Level::Warn)] {
            let facts = Facts { clock_source: Some(name.to_owned()), ..Facts::good() };
            assert_eq!(check_of(&facts, "clock source").level, level, "{name}");
        }
    }
}
