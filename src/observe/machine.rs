//! The machine: its kernel, its processors, its settings.

use std::fmt::Display;
use std::fs;
use std::str::FromStr;

use procfs::{CpuInfo, FromBufRead};

/// The kernel's release as `uname -r` shows it: `6.18.44-generic`.
#[must_use]
pub fn kernel_release() -> Option<String> {
    sysctl("kernel/osrelease")
}

/// Major and minor number of a kernel's release.
#[must_use]
pub fn kernel_version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// The processor's name, as far as `/proc/cpuinfo` has one.
#[must_use]
pub fn cpu_model() -> Option<String> {
    parse_cpu_model(&fs::read("/proc/cpuinfo").ok()?)
}

fn parse_cpu_model(text: &[u8]) -> Option<String> {
    let info = CpuInfo::from_buf_read(text).ok()?;
    let field = |name| info.get_field(0, name).filter(|value| !value.is_empty());
    if let Some(name) = field("model name") {
        return Some(name.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    // arm64 gives numbers in place of a name; lscpu(1) has the table for them.
    Some(format!("ARM implementer {} part {}", field("CPU implementer")?, field("CPU part")?))
}

/// CPUs that are switched on, whether or not this process may use them.
#[must_use]
pub fn online_cpus() -> Option<usize> {
    count_cpu_list(&read_line("/sys/devices/system/cpu/online")?)
}

/// How many CPUs a list such as `0-3,8,10-11` names.
fn count_cpu_list(list: &str) -> Option<usize> {
    list.split(',')
        .map(|part| {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            let (from, to): (usize, usize) = (from.parse().ok()?, to.parse().ok()?);
            to.checked_sub(from)?.checked_add(1)
        })
        .sum()
}

/// A kernel setting, named by its path below `/proc/sys`: `net/core/somaxconn`.
#[must_use]
pub fn sysctl(name: impl Display) -> Option<String> {
    read_line(&format!("/proc/sys/{name}"))
}

/// A kernel setting that is a number.
#[must_use]
pub fn sysctl_number<T: FromStr>(name: impl Display) -> Option<T> {
    sysctl(name)?.parse().ok()
}

/// The congestion control that new connections get.
#[must_use]
pub fn congestion_control() -> Option<String> {
    sysctl("net/ipv4/tcp_congestion_control")
}

/// What the kernel reads the time from: `tsc` where that is cheap.
#[must_use]
pub fn clock_source() -> Option<String> {
    read_line("/sys/devices/system/clocksource/clocksource0/current_clocksource")
}

/// The content of a one-line file, without blanks around it.
pub(super) fn read_line(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn version_is_read() {
        assert_eq!(kernel_version("6.18.44-fc-v657"), Some((6, 18)));
        assert_eq!(kernel_version("6.1.0-28-amd64"), Some((6, 1)));
        assert_eq!(kernel_version("7.0-rc1"), Some((7, 0)));
        assert_eq!(kernel_version("linux"), None);
        assert_eq!(kernel_version("6"), None);
    }

    #[test]
    fn model_is_read() {
        let x86 = b"processor\t: 0\nmodel name\t: Some  CPU @ 2.00GHz\nflags\t\t: fpu\n\n\
            processor\t: 1\nmodel name\t: Some CPU @ 2.00GHz\nflags\t\t: fpu\n";
        assert_eq!(parse_cpu_model(x86).as_deref(), Some("Some CPU @ 2.00GHz"));
        let arm = b"processor\t: 0\nBogoMIPS\t: 50.00\nCPU implementer\t: 0x41\n\
            CPU part\t: 0xd0c\n\n";
        assert_eq!(parse_cpu_model(arm).as_deref(), Some("ARM implementer 0x41 part 0xd0c"));
        assert_eq!(parse_cpu_model(b""), None);
    }

    #[test]
    fn cpu_list_is_counted() {
        assert_eq!(count_cpu_list("0"), Some(1));
        assert_eq!(count_cpu_list("0-3,8,10-11"), Some(7));
        assert_eq!(count_cpu_list(""), None);
        assert_eq!(count_cpu_list("3-0"), None);
    }

    #[test]
    fn this_machine_can_be_read() {
        assert!(kernel_version(&kernel_release().unwrap()).unwrap() >= (3, 0));
        assert!(online_cpus().unwrap() >= 1);
        assert!(sysctl_number::<u32>("net/core/somaxconn").unwrap() >= 1);
        assert_eq!(sysctl("net/no/such/setting"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in ".*", list in "[0-9,-]*") {
            let _ = kernel_version(&text);
            let _ = count_cpu_list(&list);
            let _ = parse_cpu_model(text.as_bytes());
        }
    }
}
