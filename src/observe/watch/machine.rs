//! The machine as a whole: its CPUs, memory, TCP and interfaces.
//!
//! Fields that a kernel lacks (3.10 has neither `MemAvailable` nor `oom_kill`), and files that a
//! container hides, leave nulls behind and nothing else.

use std::fs::File;
use std::path::Path;

use super::round;
use super::text::{Buffer, lines, number, value_of, words};
use crate::stats::result::Sample;

/// The files of `/proc`, kept open, and what the last look at them gave.
#[derive(Debug)]
pub(super) struct Machine {
    stat: Option<File>,
    meminfo: Option<File>,
    vmstat: Option<File>,
    sockstat: Option<File>,
    netstat: Option<File>,
    snmp: Option<File>,
    interfaces: Option<File>,
    page_bytes: u64,
    /// The CPUs' ticks at the last look.
    ticks: Option<Ticks>,
    /// The names of all interfaces at the last look, and which of them count.
    names: Vec<(Vec<u8>, bool)>,
}

impl Machine {
    pub(super) fn new() -> Self {
        let open = |path: &str| File::open(path).ok();
        Self {
            stat: open("/proc/stat"),
            meminfo: open("/proc/meminfo"),
            vmstat: open("/proc/vmstat"),
            sockstat: open("/proc/net/sockstat"),
            netstat: open("/proc/net/netstat"),
            snmp: open("/proc/net/snmp"),
            interfaces: open("/proc/net/dev"),
            page_bytes: procfs::page_size(),
            ticks: None,
            names: Vec::new(),
        }
    }

    /// Fills in all that is not about processes.
    pub(super) fn sample(&mut self, buffer: &mut Buffer, sample: &mut Sample) {
        let mut read = |file: &Option<File>, fill: &mut dyn FnMut(&[u8], &mut Sample)| {
            if let Some(text) = file.as_ref().and_then(|file| buffer.read(file).ok()) {
                fill(text, sample);
            }
        };
        let (ticks, names, page_bytes) = (&mut self.ticks, &mut self.names, self.page_bytes);
        read(&self.stat, &mut |text, sample| fill_cpus(text, ticks, sample));
        read(&self.meminfo, &mut fill_memory);
        read(&self.vmstat, &mut |text, sample| sample.oom_kills = value_of(text, "oom_kill "));
        read(&self.sockstat, &mut |text, sample| {
            sample.tcp_mem_bytes = tcp_pages(text).and_then(|pages| pages.checked_mul(page_bytes));
        });
        read(&self.netstat, &mut fill_netstat);
        read(&self.snmp, &mut |text, sample| {
            for_each_pair(text, "Tcp:", |name, value| {
                if name == b"PassiveOpens" {
                    sample.passive_opens = Some(value);
                }
            });
        });
        read(&self.interfaces, &mut |text, sample| fill_interfaces(text, names, sample));
    }
}

/// What the CPUs have done since boot, in ticks, over all of them (proc(5), `/proc/stat`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ticks {
    user: u64,
    system: u64,
    idle: u64,
    iowait: u64,
    steal: u64,
}

impl Ticks {
    /// Reads the line `cpu  user nice system idle iowait irq softirq steal guest guest_nice`. Time of
    /// guests is in `user` and `nice`.
    fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = words(line).skip(1).map_while(number);
        let mut next = || fields.next();
        let (user, nice, system, idle) = (next()?, next()?, next()?, next()?);
        // Later fields came one after the other; all are there since 2.6.33.
        let mut next = || fields.next().unwrap_or(0);
        let (iowait, irq, softirq, steal) = (next(), next(), next(), next());
        Some(Self {
            user: user.saturating_add(nice),
            system: system.saturating_add(irq).saturating_add(softirq),
            idle,
            iowait,
            steal,
        })
    }

    /// What was done since `before`. Idle and iowait are known to go back a little; that is
    /// nothing done.
    fn since(self, before: Self) -> Self {
        Self {
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
            idle: self.idle.saturating_sub(before.idle),
            iowait: self.iowait.saturating_sub(before.iowait),
            steal: self.steal.saturating_sub(before.steal),
        }
    }
}

/// CPUs, what they did since the last look, and the run queue.
fn fill_cpus(text: &[u8], last: &mut Option<Ticks>, sample: &mut Sample) {
    let mut cpus = 0_u32;
    let mut now = None;
    for line in lines(text) {
        if line.starts_with(b"cpu ") {
            now = Ticks::parse(line);
        } else if line.starts_with(b"cpu") {
            cpus += 1;
        } else if let Some(running) = line.strip_prefix(b"procs_running ") {
            // Whoever reads this is running; vmstat(8) leaves itself out as well.
            sample.run_queue = number(running).map(|threads| threads.saturating_sub(1));
        }
    }
    sample.cpus = (cpus > 0).then_some(cpus);
    if let (Some(now), Some(before)) = (now, *last) {
        fill_shares(now.since(before), cpus, sample);
    }
    *last = now.or(*last);
}

/// Shares of the elapsed ticks, and not of the elapsed time: the kernel's account of both ends at
/// the same moment.
fn fill_shares(done: Ticks, cpus: u32, sample: &mut Sample) {
    let all = [done.user, done.system, done.idle, done.iowait, done.steal];
    let all: f64 = all.into_iter().map(|ticks| ticks as f64).sum();
    if all == 0.0 || cpus == 0 {
        return;
    }
    let share = |ticks: u64| Some(round(ticks as f64 / all * f64::from(cpus), 4));
    sample.cpu_user = share(done.user);
    sample.cpu_system = share(done.system);
    sample.cpu_iowait = share(done.iowait);
    sample.cpu_steal = share(done.steal);
}

/// Memory, in KiB in the text.
fn fill_memory(text: &[u8], sample: &mut Sample) {
    let bytes = |key| value_of(text, key).and_then(|kib| kib.checked_mul(1024));
    let cached = || {
        let sum = bytes("MemFree:")?.saturating_add(bytes("Buffers:")?);
        Some(sum.saturating_add(bytes("Cached:")?))
    };
    sample.mem_available = bytes("MemAvailable:").or_else(cached);
    sample.swap_used =
        bytes("SwapTotal:").and_then(|total| Some(total.saturating_sub(bytes("SwapFree:")?)));
    sample.slab_bytes = bytes("SUnreclaim:");
}

/// The pages in TCP's buffers: `TCP: inuse 9 orphan 0 tw 3 alloc 11 mem 2`. The number is that of
/// IPv4 and IPv6 together: both count into one.
pub(super) fn tcp_pages(text: &[u8]) -> Option<u64> {
    let line = lines(text).find_map(|line| line.strip_prefix(b"TCP:"))?;
    number(words(line).skip_while(|&word| word != b"mem").nth(1)?)
}

fn fill_netstat(text: &[u8], sample: &mut Sample) {
    for_each_pair(text, "TcpExt:", |name, value| {
        let field = match name {
            b"TCPMemoryPressures" => &mut sample.tcp_pressures,
            b"TCPMemoryPressuresChrono" => &mut sample.tcp_pressure_ms,
            b"ListenOverflows" => &mut sample.listen_overflows,
            b"ListenDrops" => &mut sample.listen_drops,
            b"TCPSynRetrans" => &mut sample.syn_retransmits,
            _ => return,
        };
        *field = Some(value);
    });
}

/// The counters of `/proc/net/snmp` and `/proc/net/netstat`: a line of names, then one of values,
/// both behind the same prefix. Values that are no counts (`MaxConn` is -1) are left out.
fn for_each_pair(text: &[u8], prefix: &str, mut each: impl FnMut(&[u8], u64)) {
    let mut rows = lines(text).filter_map(|line| line.strip_prefix(prefix.as_bytes()));
    while let (Some(names), Some(values)) = (rows.next(), rows.next()) {
        for (name, value) in words(names).zip(words(values)) {
            if let Some(value) = number(value) {
                each(name, value);
            }
        }
    }
}

/// One line of `/proc/net/dev`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interface<'t> {
    name: &'t [u8],
    received_bytes: u64,
    sent_bytes: u64,
    drops: u64,
}

impl<'t> Interface<'t> {
    /// Reads `name: bytes packets errs drop fifo frame compressed multicast`, and the same number
    /// of fields for what was sent. Before the first blank there may be none: `eth0:1234`.
    fn parse(line: &'t [u8]) -> Option<Self> {
        let colon = line.iter().position(|&byte| byte == b':')?;
        let mut fields = [0; 16];
        let mut values = words(&line[colon + 1..]).map_while(number);
        for field in &mut fields {
            *field = values.next()?;
        }
        Some(Self {
            name: line[..colon].trim_ascii(),
            received_bytes: fields[0],
            sent_bytes: fields[8],
            // What found no room in the card is in fifo, what found none behind it in drop.
            drops: [3, 4, 11, 12].iter().fold(0, |sum: u64, &at| sum.saturating_add(fields[at])),
        })
    }
}

/// Sums the interfaces that count. `names` is remembered between calls: which interfaces count is
/// only asked where they have changed.
fn fill_interfaces(text: &[u8], names: &mut Vec<(Vec<u8>, bool)>, sample: &mut Sample) {
    let interfaces = || lines(text).filter_map(Interface::parse);
    if !interfaces().map(|interface| interface.name).eq(names.iter().map(|(name, _)| &name[..])) {
        *names = counted(interfaces().map(|interface| interface.name), has_device);
    }
    let (mut received, mut sent, mut drops) = (0_u64, 0_u64, 0_u64);
    for (interface, _) in interfaces().zip(names.iter()).filter(|(_, (_, counts))| *counts) {
        received = received.saturating_add(interface.received_bytes);
        sent = sent.saturating_add(interface.sent_bytes);
        drops = drops.saturating_add(interface.drops);
    }
    if !names.is_empty() {
        sample.net_received_bytes = Some(received);
        sample.net_sent_bytes = Some(sent);
        sample.net_drops = Some(drops);
    }
}

/// Which interfaces count: those with a device behind them, so that what passes a bridge or a
/// tunnel is not counted twice; where none has one, as in a container, all but loopback.
fn counted<'t>(
    names: impl Iterator<Item = &'t [u8]>,
    has_device: impl Fn(&[u8]) -> bool,
) -> Vec<(Vec<u8>, bool)> {
    let mut names: Vec<_> = names.map(|name| (name.to_vec(), has_device(name))).collect();
    if !names.iter().any(|(_, counts)| *counts) {
        for (name, counts) in &mut names {
            *counts = name != b"lo";
        }
    }
    names
}

fn has_device(name: &[u8]) -> bool {
    std::str::from_utf8(name)
        .is_ok_and(|name| Path::new("/sys/class/net").join(name).join("device").exists())
}

#[cfg(test)]
mod tests;
