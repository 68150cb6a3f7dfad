//! Which processes belong to a source, from sample to sample: they come, go, and are restarted.

use std::fmt;
use std::fs;
use std::time::Instant;

use rustix::process::geteuid;

use super::listeners::{self, Listeners};
use super::process::{Process, Stat};
use super::text::Buffer;
use crate::stats::result::ProcessSample;

/// Bytes of a name that the kernel keeps (`TASK_COMM_LEN` less its end).
const NAME_BYTES: usize = 15;

/// Where listeners were found whose process could not be seen, it is looked for again after so
/// many samples: looking reads every descriptor of the machine.
const SAMPLES_BETWEEN_SEARCHES: u32 = 10;

/// Processes to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// All of a name.
    Name(String),
    /// One, and its descendants.
    Pid(u32),
    /// Those that listen on a port, and their descendants.
    Port(u16),
}

/// "no process named nginx".
impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "no process named {name}"),
            Self::Pid(pid) => write!(f, "no process {pid}"),
            Self::Port(port) => write!(f, "nobody listening on port {port}"),
        }
    }
}

/// Follows what is wanted.
#[derive(Debug)]
pub(super) struct Follower {
    wanted: Wanted,
    members: Vec<Process>,
    /// Those that were there at the last look and are no descendants, ascending: a process does not
    /// become one later.
    strangers: Vec<u32>,
    looks: u32,
    /// The look from which on the port's listeners may be looked for.
    next_search: u32,
    /// Whether it was told that the listener cannot be seen, or one was seen.
    told_hidden: bool,
}

impl Follower {
    pub(super) fn new(wanted: Wanted) -> Self {
        Self {
            wanted,
            members: Vec::new(),
            strangers: Vec::new(),
            looks: 0,
            next_search: 0,
            told_hidden: false,
        }
    }

    /// Samples the processes, those that are new included. `pids` are all of the machine,
    /// ascending. What has changed is told in `notes`.
    pub(super) fn sample(
        &mut self,
        now: Instant,
        ticks_per_second: u64,
        pids: &[u32],
        buffer: &mut Buffer,
        samples: &mut Vec<ProcessSample>,
        notes: &mut Vec<String>,
    ) {
        let had_some = !self.members.is_empty();
        let first_of_ours = samples.len();
        let mut gone = Vec::new();
        self.members.retain_mut(|process| {
            let sample = process.sample(now, ticks_per_second, buffer);
            let stays = sample.is_some();
            samples.extend(sample);
            if !stays {
                gone.push((process.pid, std::mem::take(&mut process.name)));
            }
            stays
        });
        let old = self.members.len();
        self.find_new(pids, buffer, notes);
        let mut at = 0;
        self.members.retain_mut(|process| {
            at += 1;
            if at <= old {
                return true;
            }
            // One that has gone again within a moment was never seen.
            let sample = process.sample(now, ticks_per_second, buffer);
            let stays = sample.is_some();
            samples.extend(sample);
            stays
        });
        samples[first_of_ours..].sort_unstable_by_key(|sample| sample.pid);
        self.tell(&gone, old, had_some, notes);
        self.looks = self.looks.saturating_add(1);
    }

    /// Tells who went, who came, and where nobody is left.
    fn tell(&self, gone: &[(u32, String)], old: usize, had_some: bool, notes: &mut Vec<String>) {
        match gone {
            [] => {}
            [(pid, name)] => notes.push(format!("{name} (pid {pid}) went")),
            [(_, name), ..] => notes.push(format!("{} processes ({name}) went", gone.len())),
        }
        let is_empty = self.members.is_empty();
        if is_empty && (had_some || self.looks == 0) {
            notes.push(self.wanted.to_string());
        }
        // Those that were there from the start are no news.
        match &self.members[old.min(self.members.len())..] {
            _ if self.looks == 0 => {}
            [] => {}
            [process] => notes.push(format!("{} (pid {}) came", process.name, process.pid)),
            [first, ..] => {
                let count = self.members.len() - old;
                notes.push(format!("{count} new processes ({}) came", first.name));
            }
        }
    }

    fn find_new(&mut self, pids: &[u32], buffer: &mut Buffer, notes: &mut Vec<String>) {
        match &self.wanted {
            Wanted::Name(name) => {
                let name = name.as_bytes();
                let name = &name[..name.len().min(NAME_BYTES)];
                for &pid in pids {
                    if self.members.iter().any(|process| process.pid == pid) {
                        continue;
                    }
                    let comm = buffer.read_named(format_args!("/proc/{pid}/comm"));
                    if comm.is_ok_and(|comm| comm.strip_suffix(b"\n").unwrap_or(comm) == name) {
                        add(&mut self.members, pid, buffer);
                    }
                }
            }
            Wanted::Pid(pid) => {
                let pid = *pid;
                if self.members.is_empty() && pids.binary_search(&pid).is_ok() {
                    self.add_roots(&[pid], buffer);
                }
                self.add_descendants(pids, buffer);
            }
            Wanted::Port(port) => {
                if self.members.is_empty() && self.looks >= self.next_search {
                    let found = listeners::find(*port, pids);
                    self.take_listeners(found, buffer, notes);
                }
                self.add_descendants(pids, buffer);
            }
        }
    }

    fn take_listeners(&mut self, found: Listeners, buffer: &mut Buffer, notes: &mut Vec<String>) {
        match found {
            Listeners::None => {}
            Listeners::Some(pids) => {
                // Should it be hidden later, it is about to end: its socket outlives it a little.
                self.told_hidden = true;
                self.add_roots(&pids, buffer);
            }
            Listeners::Hidden => {
                self.next_search = self.looks.saturating_add(SAMPLES_BETWEEN_SEARCHES);
                if !std::mem::replace(&mut self.told_hidden, true) {
                    let who = match geteuid().is_root() {
                        true => "cannot be seen from here: watch from where it runs",
                        false => "only root can see: run as root",
                    };
                    notes.push(format!(
                        "somebody listens there, but who it is {who}, or name the process in \
                         place of its port ({})",
                        self.wanted
                    ));
                }
            }
        }
    }

    fn add_roots(&mut self, pids: &[u32], buffer: &mut Buffer) {
        // Whoever was a stranger may be a descendant of these.
        self.strangers.clear();
        for &pid in pids {
            add(&mut self.members, pid, buffer);
        }
    }

    /// Adds the children of members, their children, and so on.
    fn add_descendants(&mut self, pids: &[u32], buffer: &mut Buffer) {
        if self.members.is_empty() {
            self.strangers.clear();
            return;
        }
        let mut unknown: Vec<(u32, u32)> = pids
            .iter()
            .filter(|pid| self.strangers.binary_search(pid).is_err())
            .filter(|pid| !self.members.iter().any(|process| process.pid == **pid))
            .filter_map(|&pid| Some((pid, Stat::read(pid, buffer)?.parent)))
            .collect();
        // A child may have a lower number than its parent, where the numbers began anew.
        loop {
            let is_member = |pid| self.members.iter().any(|process| process.pid == pid);
            let Some(at) = unknown.iter().position(|&(_, parent)| is_member(parent)) else { break };
            let (pid, _) = unknown.swap_remove(at);
            add(&mut self.members, pid, buffer);
        }
        self.strangers.retain(|pid| pids.binary_search(pid).is_ok());
        self.strangers.extend(unknown.into_iter().map(|(pid, _)| pid));
        self.strangers.sort_unstable();
    }
}

/// Takes a process in, if it is still there.
fn add(members: &mut Vec<Process>, pid: u32, buffer: &mut Buffer) {
    if let Some(stat) = Stat::read(pid, buffer).filter(|stat| !stat.ended) {
        members.push(Process::new(pid, &stat));
    }
}

/// All processes of the machine, ascending, into `pids`.
pub(super) fn list_processes(pids: &mut Vec<u32>) {
    pids.clear();
    if let Ok(entries) = fs::read_dir("/proc") {
        let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
        pids.extend(entries.flatten().filter_map(number));
    }
    pids.sort_unstable();
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::process::{Child, Command, Stdio};
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// One look; gives the numbers of the processes and what was told.
    fn look(follower: &mut Follower) -> (Vec<u32>, Vec<String>) {
        let (mut pids, mut samples, mut notes) = (Vec::new(), Vec::new(), Vec::new());
        list_processes(&mut pids);
        let mut buffer = Buffer::new();
        follower.sample(Instant::now(), 100, &pids, &mut buffer, &mut samples, &mut notes);
        (samples.iter().map(|sample| sample.pid).collect(), notes)
    }

    /// A shell with a child, which ends with the test that started it.
    struct Family(Child);

    impl Family {
        fn start(script: &str) -> Self {
            let mut command = Command::new("sh");
            command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::null());
            Self(command.spawn().unwrap())
        }

        fn end(&mut self) {
            drop(self.0.stdin.take());
            self.0.wait().unwrap();
        }
    }

    impl Drop for Family {
        fn drop(&mut self) {
            self.end();
        }
    }

    /// Looks until what it sees is as expected.
    fn look_until(follower: &mut Follower, count: usize) -> (Vec<u32>, Vec<String>) {
        let mut all_notes = Vec::new();
        for _ in 0..500 {
            let (pids, notes) = look(follower);
            all_notes.extend(notes);
            if pids.len() == count {
                return (pids, all_notes);
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("there were never {count} processes; {all_notes:?}");
    }

    #[test]
    fn descendants_are_followed_and_their_end_is_told() {
        let mut family = Family::start("cat & cat; wait");
        let pid = family.0.id();
        let mut follower = Follower::new(Wanted::Pid(pid));
        // `cat &` reads /dev/null and may have gone already.
        let (pids, _) = look(&mut follower);
        assert!(pids.contains(&pid), "{pids:?}");
        look_until(&mut follower, 2);
        family.end();
        let (pids, notes) = look(&mut follower);
        assert!(pids.is_empty());
        assert!(notes[0].contains("went"), "{notes:?}");
        assert_eq!(notes[1], format!("no process {pid}"));
        assert!(look(&mut follower).1.is_empty(), "it is told once");
    }

    #[test]
    fn who_is_not_there_is_told_at_once_and_only_once() {
        let mut follower = Follower::new(Wanted::Name("no-such-process".into()));
        assert_eq!(look(&mut follower).1, ["no process named no-such-process"]);
        assert_eq!(look(&mut follower), (Vec::new(), Vec::new()));
    }

    #[test]
    fn listener_is_found_when_it_comes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let mut follower = Follower::new(Wanted::Port(port));
        let (pids, notes) = look(&mut follower);
        assert_eq!((pids.len(), &notes[0][..7]), (0, "nobody "));
        let _listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let (pids, notes) = look(&mut follower);
        let own = std::process::id();
        assert!(pids.contains(&own), "{pids:?}");
        assert!(notes.iter().any(|note| note.contains("came")), "{notes:?}");
    }

    #[test]
    fn another_process_of_the_same_number_is_not_taken_for_it() {
        let mut family = Family::start("exec cat");
        let pid = family.0.id();
        let mut follower = Follower::new(Wanted::Pid(pid));
        look(&mut follower);
        follower.members[0].started += 1;
        let (pids, notes) = look(&mut follower);
        assert_eq!(pids, [pid]);
        assert!(notes[0].contains(&format!("(pid {pid}) went")), "{notes:?}");
        assert!(notes[1].contains(&format!("(pid {pid}) came")), "{notes:?}");
        family.end();
    }
}
