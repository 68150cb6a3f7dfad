//! What this process and its threads use: CPU time and memory.

use std::fs;
use std::io;
use std::num::NonZeroU64;

use procfs::FromRead;
use procfs::process::{Schedstat, Stat, Status};
use rustix::thread::{current_timer_slack, set_current_timer_slack};
use rustix::time::{ClockId, clock_gettime};

/// How the scheduler has treated a thread since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadTime {
    /// Nanoseconds on a CPU.
    pub run_ns: u64,
    /// Nanoseconds ready to run, waiting for a CPU.
    pub waited_ns: u64,
}

/// CPU time of a process since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// Nanoseconds in user mode.
    pub user_ns: u64,
    /// Nanoseconds in the kernel.
    pub system_ns: u64,
}

/// Memory of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Bytes resident now.
    pub rss_bytes: u64,
    /// The most bytes that were resident at once.
    pub peak_bytes: u64,
}

/// The calling thread's [`ThreadTime`]; `None` where the kernel keeps no such account
/// (`CONFIG_SCHED_INFO`) or `/proc` is not mounted.
#[must_use]
pub fn thread_schedstat() -> Option<ThreadTime> {
    parse_schedstat(&fs::read("/proc/thread-self/schedstat").ok()?)
}

fn parse_schedstat(text: &[u8]) -> Option<ThreadTime> {
    let stat = Schedstat::from_read(text).ok()?;
    Some(ThreadTime { run_ns: stat.sum_exec_runtime, waited_ns: stat.run_delay })
}

/// CPU time of the calling thread, nanoseconds.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    read_clock_ns(ClockId::ThreadCPUTime)
}

/// CPU time of all threads of this process, nanoseconds.
#[must_use]
pub fn process_cpu_ns() -> u64 {
    read_clock_ns(ClockId::ProcessCPUTime)
}

fn read_clock_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// CPU time of this process by mode, to the kernel's tick, mostly 10 ms; see [`process_cpu_ns`]
/// for an exact sum.
#[must_use]
pub fn process_cpu() -> Option<CpuTime> {
    parse_stat(&fs::read("/proc/self/stat").ok()?, procfs::ticks_per_second())
}

fn parse_stat(text: &[u8], ticks_per_second: u64) -> Option<CpuTime> {
    let stat = Stat::from_read(text).ok()?;
    let tick_ns = 1_000_000_000_u64.checked_div(ticks_per_second)?;
    Some(CpuTime { user_ns: stat.utime * tick_ns, system_ns: stat.stime * tick_ns })
}

/// Memory of this process.
#[must_use]
pub fn memory() -> Option<Memory> {
    parse_status(&fs::read("/proc/self/status").ok()?)
}

fn parse_status(text: &[u8]) -> Option<Memory> {
    // The file says "kB" and means KiB (proc(5)).
    let status = Status::from_read(text).ok()?;
    Some(Memory { rss_bytes: status.vmrss? * 1024, peak_bytes: status.vmhwm? * 1024 })
}

/// Sets the calling thread's timer slack to 1 ns, so that a wait ends when it is due and not up to
/// 50 us later (prctl(2), `PR_SET_TIMERSLACK`).
///
/// # Errors
/// What the kernel returned.
pub fn set_timer_slack_1ns() -> io::Result<()> {
    Ok(set_current_timer_slack(NonZeroU64::new(1))?)
}

/// The calling thread's timer slack, nanoseconds.
///
/// # Errors
/// What the kernel returned.
pub fn timer_slack_ns() -> io::Result<u64> {
    Ok(current_timer_slack()?)
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::thread;

    use super::*;

    #[test]
    fn schedstat_is_read() {
        let time = parse_schedstat(b"123456789 4567 89\n");
        assert_eq!(time, Some(ThreadTime { run_ns: 123_456_789, waited_ns: 4_567 }));
        assert_eq!(parse_schedstat(b""), None);
    }

    #[test]
    fn stat_is_read_past_a_name_with_blanks() {
        let stat = b"1234 (a (odd) name) S 1 1234 1234 0 -1 4194560 1 2 3 4 250 75 5 6 20 0 1 0 \
            100 1000000 250 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 \
            0 0 0\n";
        let time = parse_stat(stat, 100);
        assert_eq!(time, Some(CpuTime { user_ns: 2_500_000_000, system_ns: 750_000_000 }));
    }

    #[test]
    fn own_figures_can_be_read() {
        let memory = memory().unwrap();
        assert!(memory.rss_bytes > 100_000);
        assert!(memory.peak_bytes >= memory.rss_bytes / 2);
        assert!(process_cpu().is_some());
        assert!(thread_schedstat().is_some());
    }

    #[test]
    fn work_shows_in_cpu_time() {
        // In this order the thread's interval lies within the process's.
        let process_before = process_cpu_ns();
        let thread_before = thread_cpu_ns();
        let mut sum = 0_u64;
        while thread_cpu_ns() - thread_before < 2_000_000 {
            sum = black_box(sum.wrapping_add(1));
        }
        assert!(process_cpu_ns() - process_before >= 2_000_000);
    }

    #[test]
    fn timer_slack_is_the_threads_own() {
        let before = timer_slack_ns().unwrap();
        thread::spawn(|| {
            set_timer_slack_1ns().unwrap();
            assert_eq!(timer_slack_ns().unwrap(), 1);
        })
        .join()
        .unwrap();
        assert_eq!(timer_slack_ns().unwrap(), before);
    }
}
