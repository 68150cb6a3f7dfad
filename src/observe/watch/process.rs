//! One process, out of `/proc/PID`.

use std::fs;
use std::time::Instant;

use super::round;
use super::text::{Buffer, lines, number, value_of, words};
use crate::stats::result::ProcessSample;

/// A process with a table of more descriptors than this is not counted through by listing them:
/// the listing would cost milliseconds a second, and its directory entries would fill the memory
/// that is watched. Since Linux 6.2 the number is there without it.
const MAX_LISTED_FDS: u64 = 4096;

/// What `/proc/PID/stat` says (proc(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stat<'t> {
    /// Up to 15 bytes, as they are.
    pub(super) name: &'t [u8],
    pub(super) parent: u32,
    /// CPU time, user and system, in ticks.
    pub(super) ticks: u64,
    /// When it was started, in ticks since boot: it tells a process from a later one of the same
    /// number.
    pub(super) started: u64,
    /// Whether it has ended, and only its parent has not noticed.
    pub(super) ended: bool,
}

impl<'t> Stat<'t> {
    /// Reads `pid (name) state ppid ...`. The name may hold anything, brackets too, so it ends at
    /// the last one.
    pub(super) fn parse(text: &'t [u8]) -> Option<Self> {
        let open = text.iter().position(|&byte| byte == b'(')?;
        let close = text.iter().rposition(|&byte| byte == b')')?;
        let name = text.get(open + 1..close)?;
        // Fields are numbered from 1 in proc(5), and these begin with the third.
        let mut fields = words(&text[close + 1..]);
        let state = fields.next()?;
        let parent = number(fields.next()?)?.try_into().ok()?;
        let mut fields = fields.skip(14 - 5);
        let (user, system) = (number(fields.next()?)?, number(fields.next()?)?);
        let started = number(fields.nth(22 - 16)?)?;
        Some(Self {
            name,
            parent,
            ticks: user.saturating_add(system),
            started,
            ended: matches!(state, b"Z" | b"X" | b"x"),
        })
    }

    pub(super) fn read(pid: u32, buffer: &'t mut Buffer) -> Option<Self> {
        Self::parse(buffer.read_named(format_args!("/proc/{pid}/stat")).ok()?)
    }
}

/// A process that is followed from sample to sample.
#[derive(Clone, Debug)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) name: String,
    pub(super) started: u64,
    /// CPU time at the last sample, and when that was.
    last: Option<(u64, Instant)>,
}

impl Process {
    pub(super) fn new(pid: u32, stat: &Stat<'_>) -> Self {
        let name = String::from_utf8_lossy(stat.name).into_owned();
        Self { pid, name, started: stat.started, last: None }
    }

    /// Samples it; `None` where it has gone.
    pub(super) fn sample(
        &mut self,
        now: Instant,
        ticks_per_second: u64,
        buffer: &mut Buffer,
    ) -> Option<ProcessSample> {
        let stat = Stat::read(self.pid, buffer)?;
        if stat.ended || stat.started != self.started {
            return None;
        }
        let ticks = stat.ticks;
        // It may have changed its name: nginx's children do, and so does what follows a fork.
        if stat.name != self.name.as_bytes() {
            self.name = String::from_utf8_lossy(stat.name).into_owned();
        }
        let cpu = self.last.and_then(|(before, then)| {
            let elapsed_s = now.checked_duration_since(then)?.as_secs_f64();
            let used_s = ticks.saturating_sub(before) as f64 / ticks_per_second as f64;
            (elapsed_s > 0.0).then(|| round(used_s / elapsed_s, 4))
        });
        self.last = Some((ticks, now));
        let status = buffer.read_named(format_args!("/proc/{}/status", self.pid)).ok()?;
        let mut sample = ProcessSample { cpu, ..parse_status(status) };
        let table = value_of(status, "FDSize:");
        sample.pid = self.pid;
        sample.name.clone_from(&self.name);
        sample.fds = count_fds(self.pid, table);
        Some(sample)
    }
}

/// Memory and threads out of `/proc/PID/status`. It is preferred to `stat` and `statm`, whose
/// numbers of pages are rough (proc(5)).
fn parse_status(text: &[u8]) -> ProcessSample {
    // The file says "kB" and means KiB (proc(5)).
    let bytes = |key| value_of(text, key).and_then(|kib| kib.checked_mul(1024));
    ProcessSample {
        rss: bytes("VmRSS:"),
        swap: bytes("VmSwap:"),
        threads: value_of(text, "Threads:"),
        ..ProcessSample::default()
    }
}

/// How many descriptors are open; `table` is for how many there is room.
fn count_fds(pid: u32, table: Option<u64>) -> Option<u64> {
    let path = format!("/proc/{pid}/fd");
    // Since Linux 6.2 the directory's size is the number, for everybody to see.
    if let Some(count) = fs::metadata(&path).ok().map(|dir| dir.len()).filter(|&count| count > 0) {
        return Some(count);
    }
    if table.is_none_or(|table| table > MAX_LISTED_FDS) {
        return None;
    }
    Some(fs::read_dir(path).ok()?.count() as u64)
}

/// Bytes resident, each shared one divided by its users: `None` where the process is not ours to
/// look into, or has gone.
///
/// The kernel walks all pages of the process for it, which takes milliseconds a gigabyte and
/// blocks its memory map meanwhile.
pub(super) fn read_pss(pid: u32, buffer: &mut Buffer) -> Option<u64> {
    let rollup = buffer.read_named(format_args!("/proc/{pid}/smaps_rollup"));
    if let Ok(text) = rollup {
        return sum_pss(text);
    }
    // Before Linux 4.14 the sum is for the reader to make.
    sum_pss(buffer.read_named(format_args!("/proc/{pid}/smaps")).ok()?)
}

/// The sum of all lines `Pss:   409 kB`.
fn sum_pss(text: &[u8]) -> Option<u64> {
    lines(text)
        .filter_map(|line| line.strip_prefix(b"Pss:"))
        .map(|rest| number(words(rest).next()?)?.checked_mul(1024))
        .try_fold(None, |sum: Option<u64>, bytes| Some(Some(sum.unwrap_or(0).checked_add(bytes?)?)))
        .flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Of 3.10: 44 fields; later kernels have 52.
    const STAT: &[u8] = b"731 (php-fpm: (odd) ) S 1 731 731 0 -1 4202816 1204 2211 0 3 250 75 5 6 \
        20 0 4 0 9021 126000000 2501 18446744073709551615 1 1 0 0 0 0 0 4096 81967 0 0 0 17 0 0 0 \
        7 0 0\n";

    #[test]
    fn stat_is_read_past_a_name_with_brackets() {
        let stat = Stat::parse(STAT).unwrap();
        assert_eq!(stat.name, b"php-fpm: (odd) ");
        assert_eq!((stat.parent, stat.ticks, stat.started), (1, 325, 9_021));
        assert!(!stat.ended);
        let zombie =
            Stat::parse(b"8 (x) Z 7 8 8 0 -1 4 0 0 0 0 1 2 0 0 20 0 1 0 55 0 0\n").unwrap();
        assert!(zombie.ended && zombie.started == 55);
    }

    #[test]
    fn status_is_in_kib() {
        let text = b"Name:\tnginx\nState:\tS (sleeping)\nPid:\t731\nFDSize:\t256\n\
            VmPeak:\t  126000 kB\nVmRSS:\t   10004 kB\nVmSwap:\t       8 kB\nThreads:\t4\n";
        let sample = parse_status(text);
        assert_eq!(sample.rss, Some(10_004 * 1024));
        assert_eq!((sample.swap, sample.threads), (Some(8 * 1024), Some(4)));
        // A thread of the kernel has no memory of its own.
        assert_eq!(parse_status(b"Name:\tkthreadd\nThreads:\t1\n").rss, None);
    }

    #[test]
    fn shares_of_all_mappings_are_summed() {
        let smaps = b"00400000-0040b000 r-xp 00000000 fd:00 1 /bin/cat\nRss: 32 kB\nPss: 12 kB\n\
            0060a000-0060b000 rw-p 0000a000 fd:00 1 /bin/cat\nRss: 4 kB\nPss: 4 kB\n";
        assert_eq!(sum_pss(smaps), Some(16 * 1024));
        let rollup = b"55e0-7ffc ---p 00000000 00:00 0 [rollup]\nRss: 1640 kB\nPss: 521 kB\n\
            Pss_Anon: 112 kB\nSwapPss: 3 kB\n";
        assert_eq!(sum_pss(rollup), Some(521 * 1024));
        assert_eq!(sum_pss(b""), None);
        assert_eq!(sum_pss(b"Pss: x kB\n"), None);
    }

    #[test]
    fn this_process_is_sampled() {
        let mut buffer = Buffer::new();
        let pid = std::process::id();
        let stat = Stat::read(pid, &mut buffer).unwrap();
        let mut process = Process::new(pid, &stat);
        let first = process.sample(Instant::now(), 100, &mut buffer).unwrap();
        assert_eq!((first.pid, first.cpu), (pid, None));
        assert!(first.rss.unwrap() > 100_000 && first.threads.unwrap() >= 1);
        assert!(first.fds.unwrap() >= 3);
        assert!(process.sample(Instant::now(), 100, &mut buffer).unwrap().cpu.unwrap() >= 0.0);
        let pss = read_pss(pid, &mut buffer).unwrap();
        assert!(pss > 0 && pss <= first.rss.unwrap() * 2, "{pss}");

        // A later process of the same number is another one.
        process.started += 1;
        assert_eq!(process.sample(Instant::now(), 100, &mut buffer), None);
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "[0-9]{0,3} ?\\(?[a-z)( ]{0,9}\\)?( [SZ0-9-]{1,4}){0,30}") {
            let _ = Stat::parse(text.as_bytes());
            let _ = parse_status(text.as_bytes());
            let _ = sum_pss(text.as_bytes());
        }
    }
}
