//! What a watched machine showed: the `watch` key of a result, and a line of `ringload watch`.

use serde::{Deserialize, Serialize};

/// All samples of one `--watch`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WatchRow {
    /// The source as it was typed: `name:nginx`.
    pub source: String,
    /// Its samples, in the order of time.
    pub samples: Vec<Sample>,
    /// Our clock less the source's, by the sample that was delivered the fastest; null where it
    /// cannot be known (a file) or where both are one (this machine). Samples are corrected by it
    /// only where `gaps` says so.
    pub clock_offset_s: Option<f64>,
    /// What was missing, for people: processes that went and came, a command that ended, a clock
    /// that differed.
    pub gaps: Vec<String>,
}

/// One look at a machine. What the source does not know is null.
///
/// `cpu_*` are means since the sample before and null in a source's first sample. Counters are the
/// kernel's totals since boot: what happened in between is the difference of two samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sample {
    /// When: seconds since the start of recorded time (negative before it); in a line of
    /// `ringload watch`, since that was started.
    pub t_s: f64,
    /// CPUs that are switched on; null where the source does not say (`vmstat`), and then `cpu_*`
    /// are shares of the whole machine.
    pub cpus: Option<u32>,
    /// CPUs in user mode, 2.0 being two whole ones.
    pub cpu_user: Option<f64>,
    /// CPUs in the kernel, interrupts included.
    pub cpu_system: Option<f64>,
    /// CPUs idle while a disk was waited for.
    pub cpu_iowait: Option<f64>,
    /// CPUs that the hypervisor gave to others.
    pub cpu_steal: Option<f64>,
    /// Threads on a CPU or waiting for one at that moment, the observer not counted.
    pub run_queue: Option<u64>,
    /// Bytes that can be had without swapping: `MemAvailable`; before Linux 3.14, and of `vmstat`,
    /// what is free, in buffers and in the cache, which is a little more.
    pub mem_available: Option<u64>,
    /// Bytes of swap in use.
    pub swap_used: Option<u64>,
    /// Bytes of memory of the kernel's caches that cannot be reclaimed, where sockets' own
    /// structures are (`SUnreclaim`).
    pub slab_bytes: Option<u64>,
    /// Bytes in the buffers of TCP sockets, IPv4 and IPv6.
    pub tcp_mem_bytes: Option<u64>,
    /// Times that TCP came under memory pressure, since boot.
    pub tcp_pressures: Option<u64>,
    /// Milliseconds that TCP was under memory pressure, since boot (Linux 4.15).
    pub tcp_pressure_ms: Option<u64>,
    /// Connections that were accepted by the kernel, since boot.
    pub passive_opens: Option<u64>,
    /// Connections that found the listener's queue full, since boot.
    pub listen_overflows: Option<u64>,
    /// SYNs that a listener dropped, `listen_overflows` included, since boot.
    pub listen_drops: Option<u64>,
    /// SYNs and SYN-ACKs that were sent again, since boot.
    pub syn_retransmits: Option<u64>,
    /// Bytes that came in through the network's interfaces, since boot.
    pub net_received_bytes: Option<u64>,
    /// Bytes that went out through them, since boot.
    pub net_sent_bytes: Option<u64>,
    /// Packets that they dropped, either way, since boot.
    pub net_drops: Option<u64>,
    /// Processes that were killed for want of memory, since boot (Linux 4.13).
    pub oom_kills: Option<u64>,
    /// The processes that were asked for; of a control group one row for all of it.
    pub processes: Vec<ProcessSample>,
}

/// One look at a process, or at a control group. What is not known is null.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessSample {
    /// Its number; 0 for a control group.
    pub pid: u32,
    /// Its name as the kernel has it; of a control group its path.
    pub name: String,
    /// Bytes resident, shared ones included. Of a control group what is charged to it, less the
    /// inactive part of its file cache.
    pub rss: Option<u64>,
    /// Bytes resident, shared ones divided by their users. Only where it was asked for: the kernel
    /// walks all pages for it.
    pub pss: Option<u64>,
    /// Bytes in swap.
    pub swap: Option<u64>,
    /// Threads; of a control group its tasks.
    pub threads: Option<u64>,
    /// Open descriptors.
    pub fds: Option<u64>,
    /// CPUs in use since the sample before, 1.0 being one whole.
    pub cpu: Option<f64>,
}

impl WatchRow {
    /// Whether it is of the machine that it was taken on, the one on which the load is made.
    #[must_use]
    pub fn is_local(&self) -> bool {
        !self.source.starts_with("cmd:") && !self.source.starts_with("file:")
    }

    /// The first row of this machine, and those of others: all rows of this machine show the same.
    pub fn one_per_machine(rows: &[Self]) -> impl Iterator<Item = &Self> {
        let local = rows.iter().find(|row| row.is_local());
        local.into_iter().chain(rows.iter().filter(|row| !row.is_local()))
    }

    /// By how much a counter grew over all samples.
    pub fn growth(&self, counter: impl Fn(&Sample) -> Option<u64>) -> u64 {
        let mut values = self.samples.iter().filter_map(counter);
        let Some(first) = values.next() else { return 0 };
        // It begins anew where the machine was restarted.
        values.next_back().unwrap_or(first).saturating_sub(first)
    }
}

impl Sample {
    /// The unit of `cpu_*`: the machine's CPUs, or 1 where they are shares of it.
    #[must_use]
    pub fn whole_cpus(&self) -> f64 {
        self.cpus.map_or(1.0, f64::from)
    }

    /// CPUs at work, in user mode and in the kernel.
    #[must_use]
    pub fn used_cpus(&self) -> Option<f64> {
        Some(self.cpu_user? + self.cpu_system?)
    }

    /// CPUs that the watched processes used; `None` where there are none.
    #[must_use]
    pub fn process_cpus(&self) -> Option<f64> {
        let known: Vec<f64> = self.processes.iter().filter_map(|process| process.cpu).collect();
        (!known.is_empty()).then(|| known.iter().sum())
    }
}
