//! Samples of this machine and of what is wanted of it.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::follow::{Follower, Wanted, list_processes};
use super::group::Group;
use super::machine::Machine;
use super::source::Source;
use super::text::Buffer;
use crate::stats::result::Sample;

/// There is no such control group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoSuchGroup(pub(super) PathBuf);

impl fmt::Display for NoSuchGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "there is no control group {}; give its directory below /sys/fs/cgroup, or its path as \
             /proc/PID/cgroup shows it",
            self.0.display()
        )
    }
}

impl std::error::Error for NoSuchGroup {}

/// Looks at this machine again and again, with one buffer for all texts.
#[derive(Debug)]
pub struct Sampler {
    machine: Machine,
    followers: Vec<Follower>,
    groups: Vec<Group>,
    buffer: Buffer,
    /// All processes at the last look.
    pids: Vec<u32>,
    ticks_per_second: u64,
}

impl Sampler {
    /// A sampler of the machine, and of the processes and control groups that `sources` name. Files
    /// and commands are no part of this machine and are passed over.
    ///
    /// # Errors
    /// A control group that is not there.
    pub fn new<'s>(sources: impl IntoIterator<Item = &'s Source>) -> Result<Self, NoSuchGroup> {
        let (mut followers, mut groups) = (Vec::new(), Vec::new());
        let mut follow = |wanted| followers.push(Follower::new(wanted));
        for source in sources {
            match source {
                Source::Name(name) => follow(Wanted::Name(name.clone())),
                Source::Pid(pid) => follow(Wanted::Pid(*pid)),
                Source::Port(port) => follow(Wanted::Port(*port)),
                Source::Cgroup(path) => {
                    groups.push(Group::find(path).ok_or_else(|| NoSuchGroup(path.clone()))?);
                }
                Source::System | Source::File(_) | Source::Command(_) => {}
            }
        }
        Ok(Self {
            machine: Machine::new(),
            followers,
            groups,
            buffer: Buffer::new(),
            pids: Vec::new(),
            ticks_per_second: procfs::ticks_per_second(),
        })
    }

    /// Takes one sample, whose `t_s` is left as it is, and gives the moment at which it was taken.
    /// What went and came since the last one is added to `notes`.
    pub fn sample(&mut self, sample: &mut Sample, notes: &mut Vec<String>) -> Instant {
        let now = Instant::now();
        self.machine.sample(&mut self.buffer, sample);
        sample.processes.clear();
        for group in &mut self.groups {
            sample.processes.push(group.sample(now, &mut self.buffer, notes));
        }
        if self.followers.is_empty() {
            return now;
        }
        list_processes(&mut self.pids);
        for follower in &mut self.followers {
            // The moment is each process's own: reading hundreds of them takes milliseconds.
            follower.sample(
                Instant::now(),
                self.ticks_per_second,
                &self.pids,
                &mut self.buffer,
                &mut sample.processes,
                notes,
            );
        }
        if self.followers.len() > 1 {
            sample.processes.sort_by_key(|process| process.pid);
            // Control groups have no number, and each is its own.
            sample.processes.dedup_by(|later, first| first.pid != 0 && later.pid == first.pid);
        }
        now
    }
}

/// The moments at which samples are due: multiples of an interval since the start. Those that were
/// slept through are left out.
#[derive(Clone, Copy, Debug)]
pub struct Ticker {
    next: Instant,
    interval: Duration,
}

impl Ticker {
    /// The first is now.
    #[must_use]
    pub fn start(interval: Duration) -> Self {
        Self { next: Instant::now(), interval }
    }

    /// How long to wait for the next, at the moment `now`.
    pub fn wait(&mut self, now: Instant) -> Duration {
        self.next += self.interval;
        if self.next < now {
            let late = now.duration_since(self.next).as_nanos();
            let missed = late.div_ceil(self.interval.as_nanos().max(1));
            self.next += self.interval * u32::try_from(missed).unwrap_or(u32::MAX);
        }
        self.next.saturating_duration_since(now)
    }
}
