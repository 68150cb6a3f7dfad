//! A control group, version 1 and 2, as one row.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use procfs::FromBufRead;
use procfs::process::{MountInfo, MountInfos};

use super::round;
use super::text::{Buffer, number, value_of};
use crate::stats::result::ProcessSample;

/// A control group that is sampled.
#[derive(Debug)]
pub(super) struct Group {
    name: String,
    places: Places,
    /// CPU time at the last sample, seconds, and when that was.
    last: Option<(f64, Instant)>,
    there: bool,
}

/// Where the figures of a group are. A machine may have some controllers in version 1 and others in
/// version 2, or in none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Places {
    /// Version 2: everything.
    unified: Option<PathBuf>,
    /// Version 1: `cpuacct.usage`.
    cpu: Option<PathBuf>,
    /// Version 1: `memory.usage_in_bytes`.
    memory: Option<PathBuf>,
    /// Version 1: `pids.current`.
    pids: Option<PathBuf>,
}

impl Group {
    /// Finds a group by its directory, or by its path in the hierarchy as `/proc/PID/cgroup` has
    /// it; `None` where there is none.
    pub(super) fn find(path: &Path) -> Option<Self> {
        let mounts = fs::read("/proc/self/mountinfo").ok()?;
        let mounts = MountInfos::from_buf_read(mounts.as_slice()).ok()?;
        let places = Places::find(path, &mounts.0, Path::is_dir)?;
        let name = path.display().to_string();
        Some(Self { name, places, last: None, there: true })
    }

    /// Samples it; a group that has gone is a row without figures, and told.
    pub(super) fn sample(
        &mut self,
        now: Instant,
        buffer: &mut Buffer,
        notes: &mut Vec<String>,
    ) -> ProcessSample {
        let places = &self.places;
        let there = places.any().is_some_and(Path::is_dir);
        match (self.there, there) {
            (true, false) => notes.push(format!("control group {} went", self.name)),
            (false, true) => notes.push(format!("control group {} came", self.name)),
            _ => {}
        }
        self.there = there;
        let used_s = places.cpu_s(buffer);
        let cpu = used_s.zip(self.last).and_then(|(used_s, (before_s, then))| {
            let elapsed_s = now.checked_duration_since(then)?.as_secs_f64();
            // A group that was made anew counts from zero.
            let used_s = used_s - before_s;
            (elapsed_s > 0.0 && used_s >= 0.0).then(|| round(used_s / elapsed_s, 4))
        });
        self.last = used_s.map(|used_s| (used_s, now));
        let (rss, swap) = places.memory(buffer);
        ProcessSample {
            pid: 0,
            name: self.name.clone(),
            rss,
            swap,
            threads: places.tasks(buffer),
            cpu,
            ..ProcessSample::default()
        }
    }
}

impl Places {
    fn find(path: &Path, mounts: &[MountInfo], is_there: impl Fn(&Path) -> bool) -> Option<Self> {
        let of_cgroups = |mount: &&MountInfo| matches!(&mount.fs_type[..], "cgroup" | "cgroup2");
        // A directory below a mount names the group in all hierarchies.
        let below = mounts
            .iter()
            .filter(of_cgroups)
            .filter_map(|mount| path.strip_prefix(&mount.mount_point).ok())
            .min_by_key(|below| below.components().count())
            .unwrap_or_else(|| path.strip_prefix("/").unwrap_or(path));
        let place = |fs_type: &str, controller: &str| {
            mounts
                .iter()
                .filter(|mount| mount.fs_type == fs_type)
                .filter(|mount| {
                    controller.is_empty() || mount.super_options.contains_key(controller)
                })
                .map(|mount| mount.mount_point.join(below))
                .find(|directory| is_there(directory))
        };
        let places = Self {
            unified: place("cgroup2", ""),
            cpu: place("cgroup", "cpuacct"),
            memory: place("cgroup", "memory"),
            pids: place("cgroup", "pids"),
        };
        places.any().is_some().then_some(places)
    }

    fn any(&self) -> Option<&Path> {
        let all = [&self.unified, &self.memory, &self.cpu, &self.pids];
        all.into_iter().flatten().next().map(PathBuf::as_path)
    }

    /// CPU time since the group was made, seconds.
    fn cpu_s(&self, buffer: &mut Buffer) -> Option<f64> {
        let unified_us = self.unified.as_ref().and_then(|directory| {
            value_of(buffer.read_path(&directory.join("cpu.stat")).ok()?, "usage_usec ")
        });
        if let Some(us) = unified_us {
            return Some(us as f64 / 1e6);
        }
        let ns = read_number(&self.cpu, "cpuacct.usage", buffer)?;
        Some(ns as f64 / 1e9)
    }

    /// Bytes charged, less what of them is inactive file cache, as `docker stats` has it; and bytes
    /// in swap.
    fn memory(&self, buffer: &mut Buffer) -> (Option<u64>, Option<u64>) {
        if let Some(current) = read_number(&self.unified, "memory.current", buffer) {
            let cache = read_stat(&self.unified, "inactive_file ", buffer).unwrap_or(0);
            let swap = read_number(&self.unified, "memory.swap.current", buffer);
            return (Some(current.saturating_sub(cache)), swap);
        }
        let current = read_number(&self.memory, "memory.usage_in_bytes", buffer);
        let cache = read_stat(&self.memory, "total_inactive_file ", buffer).unwrap_or(0);
        let swap = read_stat(&self.memory, "total_swap ", buffer);
        (current.map(|current| current.saturating_sub(cache)), swap)
    }

    fn tasks(&self, buffer: &mut Buffer) -> Option<u64> {
        read_number(&self.unified, "pids.current", buffer)
            .or_else(|| read_number(&self.pids, "pids.current", buffer))
    }
}

/// A file with one number.
fn read_number(directory: &Option<PathBuf>, file: &str, buffer: &mut Buffer) -> Option<u64> {
    number(buffer.read_path(&directory.as_ref()?.join(file)).ok()?.trim_ascii())
}

/// A line of `memory.stat`.
fn read_stat(directory: &Option<PathBuf>, key: &str, buffer: &mut Buffer) -> Option<u64> {
    value_of(buffer.read_path(&directory.as_ref()?.join("memory.stat")).ok()?, key)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::time::Duration;

    use super::*;

    const HYBRID: &[u8] = b"\
        30 24 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
        31 24 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
        32 24 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

    fn find(path: &str, there: &[&str]) -> Option<Places> {
        let mounts = MountInfos::from_buf_read(HYBRID).unwrap();
        let there: HashSet<&Path> = there.iter().map(Path::new).collect();
        Places::find(Path::new(path), &mounts.0, |directory| there.contains(directory))
    }

    #[test]
    fn group_is_found_by_any_of_its_directories_and_by_its_path() {
        let there = ["/sys/fs/cgroup/cpu,cpuacct/web", "/sys/fs/cgroup/memory/web"];
        let places = Places {
            unified: None,
            cpu: Some(there[0].into()),
            memory: Some(there[1].into()),
            pids: None,
        };
        for path in [there[0], there[1], "/web", "web"] {
            assert_eq!(find(path, &there), Some(places.clone()), "{path}");
        }
        assert_eq!(find("/other", &there), None);
    }

    fn group(places: Places) -> Group {
        Group { name: "web".into(), places, last: None, there: true }
    }

    #[test]
    fn version_2_is_sampled() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
        write("cpu.stat", "usage_usec 5000000\nuser_usec 1\nsystem_usec 2\n");
        write("memory.current", "1000000\n");
        write("memory.swap.current", "4096\n");
        write("memory.stat", "anon 1\nfile 2\nactive_file 300\ninactive_file 200000\n");
        write("pids.current", "7\n");
        let places = Places { unified: Some(directory.path().into()), ..Places::default() };
        let (mut group, mut buffer, mut notes) = (group(places), Buffer::new(), Vec::new());
        let start = Instant::now();
        let first = group.sample(start, &mut buffer, &mut notes);
        assert_eq!((first.rss, first.swap, first.threads), (Some(800_000), Some(4_096), Some(7)));
        assert_eq!((first.pid, first.cpu), (0, None));
        write("cpu.stat", "usage_usec 8000000\n");
        let second = group.sample(start + Duration::from_secs(2), &mut buffer, &mut notes);
        assert_eq!(second.cpu, Some(1.5));
        assert!(notes.is_empty());

        directory.close().unwrap();
        let third = group.sample(start + Duration::from_secs(3), &mut buffer, &mut notes);
        assert_eq!((third.rss, third.cpu), (None, None));
        assert_eq!(notes, ["control group web went"]);
    }

    #[test]
    fn version_1_is_sampled() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
        write("cpuacct.usage", "1000000000\n");
        write("memory.usage_in_bytes", "500000\n");
        write("memory.stat", "inactive_file 1\ntotal_inactive_file 100000\ntotal_swap 8192\n");
        let place = Some(directory.path().to_owned());
        let places = Places { cpu: place.clone(), memory: place, ..Places::default() };
        let (mut group, mut buffer, mut notes) = (group(places), Buffer::new(), Vec::new());
        let start = Instant::now();
        let first = group.sample(start, &mut buffer, &mut notes);
        assert_eq!((first.rss, first.swap, first.threads), (Some(400_000), Some(8_192), None));
        write("cpuacct.usage", "1500000000\n");
        let second = group.sample(start + Duration::from_secs(1), &mut buffer, &mut notes);
        assert_eq!(second.cpu, Some(0.5));
    }
}
