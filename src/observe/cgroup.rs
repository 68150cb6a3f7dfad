//! The CPU quota of the control group, version 1 and 2.
//!
//! A container with `--cpus 1.5` sees all CPUs of its host and may use one and a half of them; the
//! rest of each period its threads stand still. The quota of every level counts, up to the root.

use std::fs;
use std::path::{Path, PathBuf};

use procfs::FromBufRead;
use procfs::ProcessCGroups;
use procfs::process::{MountInfo, MountInfos};

/// A quota of CPU time.
#[derive(Clone, Debug, PartialEq)]
pub struct Quota {
    /// CPUs per second of time; 1.5 is one and a half.
    pub cpus: f64,
    /// The directory of the level that says so.
    pub directory: PathBuf,
}

/// The version of a hierarchy, which decides the files' names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

/// The smallest quota that this process is under; `None` where there is none, or none to be seen.
#[must_use]
pub fn cpu_quota() -> Option<Quota> {
    let cgroups = fs::read("/proc/self/cgroup").ok()?;
    let mounts = fs::read("/proc/self/mountinfo").ok()?;
    let cgroups = ProcessCGroups::from_buf_read(cgroups.as_slice()).ok()?;
    let mounts = MountInfos::from_buf_read(mounts.as_slice()).ok()?;
    smallest_quota(&levels(&cgroups, &mounts), |path| fs::read_to_string(path).ok())
}

/// The directories of this process's groups that may hold a quota, from the leaf up.
fn levels(cgroups: &ProcessCGroups, mounts: &MountInfos) -> Vec<(Version, PathBuf)> {
    let mut levels = Vec::new();
    for group in &cgroups.0 {
        let version = if group.hierarchy == 0 { Version::V2 } else { Version::V1 };
        if version == Version::V1 && !group.controllers.iter().any(|name| name == "cpu") {
            continue;
        }
        let mount = mounts.0.iter().find(|mount| match version {
            Version::V2 => mount.fs_type == "cgroup2",
            Version::V1 => mount.fs_type == "cgroup" && mount.super_options.contains_key("cpu"),
        });
        if let Some(mount) = mount {
            levels.extend(directories(mount, &group.pathname).map(|dir| (version, dir)));
        }
    }
    levels
}

/// The directories from a group's own up to the mount point.
///
/// The path is as seen from the hierarchy's root and the mount may show only a part of it; a
/// group outside that part is looked for from the mount point.
fn directories(mount: &MountInfo, path: &str) -> impl Iterator<Item = PathBuf> + use<> {
    let below = Path::new(path).strip_prefix(&mount.root).unwrap_or(Path::new(""));
    let below =
        if below.components().any(|part| part.as_os_str() == "..") { Path::new("") } else { below };
    let mut leaf = mount.mount_point.clone();
    leaf.extend(below);
    let depth = below.components().count();
    std::iter::successors(Some(leaf), |dir| dir.parent().map(Path::to_owned)).take(depth + 1)
}

/// The smallest quota of `levels`; the first of them where several are equal.
fn smallest_quota(
    levels: &[(Version, PathBuf)],
    read: impl Fn(&Path) -> Option<String>,
) -> Option<Quota> {
    let quota_of = |version, dir: &Path| match version {
        Version::V2 => parse_cpu_max(&read(&dir.join("cpu.max"))?),
        Version::V1 => {
            let quota = read(&dir.join("cpu.cfs_quota_us"))?;
            let period = read(&dir.join("cpu.cfs_period_us"))?;
            parse_cpu_max(&format!("{} {}", quota.trim(), period.trim()))
        }
    };
    levels
        .iter()
        .filter_map(|(version, dir)| {
            Some(Quota { cpus: quota_of(*version, dir)?, directory: dir.clone() })
        })
        .min_by(|a, b| a.cpus.total_cmp(&b.cpus))
}

/// Reads "QUOTA PERIOD", both in microseconds. A quota of `max` (version 2) or -1 (version 1) is
/// none.
fn parse_cpu_max(text: &str) -> Option<f64> {
    let mut words = text.split_whitespace();
    let quota: u64 = words.next()?.parse().ok()?;
    let period: u64 = words.next()?.parse().ok()?;
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn levels_of(cgroup: &str, mountinfo: &str) -> Vec<(Version, PathBuf)> {
        levels(
            &ProcessCGroups::from_buf_read(cgroup.as_bytes()).unwrap(),
            &MountInfos::from_buf_read(mountinfo.as_bytes()).unwrap(),
        )
    }

    fn quota_in(levels: &[(Version, PathBuf)], files: &[(&str, &str)]) -> Option<(f64, String)> {
        let files: HashMap<PathBuf, String> =
            files.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect();
        smallest_quota(levels, |path| files.get(path).cloned())
            .map(|quota| (quota.cpus, quota.directory.display().to_string()))
    }

    const V2_HOST: &str =
        "35 24 0:30 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime - cgroup2 cgroup2 rw\n";

    #[test]
    fn whole_path_is_looked_at() {
        let levels = levels_of("0::/user.slice/user-1000.slice/app.scope\n", V2_HOST);
        assert_eq!(levels.len(), 4);
        let quota = quota_in(
            &levels,
            &[
                ("/sys/fs/cgroup/user.slice/user-1000.slice/app.scope/cpu.max", "max 100000\n"),
                ("/sys/fs/cgroup/user.slice/user-1000.slice/cpu.max", "400000 100000\n"),
                ("/sys/fs/cgroup/user.slice/cpu.max", "150000 100000\n"),
            ],
        );
        assert_eq!(quota, Some((1.5, "/sys/fs/cgroup/user.slice".to_owned())));
    }

    #[test]
    fn no_quota_is_none() {
        let levels = levels_of("0::/\n", V2_HOST);
        assert_eq!(levels, [(Version::V2, PathBuf::from("/sys/fs/cgroup"))]);
        assert_eq!(quota_in(&levels, &[]), None);
        assert_eq!(quota_in(&levels, &[("/sys/fs/cgroup/cpu.max", "max 100000\n")]), None);
    }

    #[test]
    fn container_with_its_own_namespace() {
        let mounts = "600 590 0:30 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw,nsdelegate\n";
        let levels = levels_of("0::/\n", mounts);
        let quota = quota_in(&levels, &[("/sys/fs/cgroup/cpu.max", "50000 100000\n")]);
        assert_eq!(quota, Some((0.5, "/sys/fs/cgroup".to_owned())));
    }

    #[test]
    fn version_1_container_sees_only_its_own_part() {
        let cgroup =
            "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n";
        let mounts = "\
            700 690 0:31 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n\
            701 690 0:32 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n";
        let levels = levels_of(cgroup, mounts);
        assert_eq!(levels, [(Version::V1, PathBuf::from("/sys/fs/cgroup/cpu,cpuacct"))]);
        let files = |quota| {
            [
                ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", quota),
                ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
            ]
        };
        assert_eq!(
            quota_in(&levels, &files("200000\n")),
            Some((2.0, "/sys/fs/cgroup/cpu,cpuacct".to_owned()))
        );
        assert_eq!(quota_in(&levels, &files("-1\n")), None);
    }

    #[test]
    fn group_outside_the_mount_is_looked_for_at_its_top() {
        let levels = levels_of("0::/../other\n", V2_HOST);
        assert_eq!(levels, [(Version::V2, PathBuf::from("/sys/fs/cgroup"))]);
    }

    #[test]
    fn rubbish_is_no_quota() {
        for text in ["", "max", "100000", "0 100000", "100000 0", "-1 100000", "a b"] {
            assert_eq!(parse_cpu_max(text), None, "{text:?}");
        }
    }
}
