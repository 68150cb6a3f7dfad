//! Who listens on a port: `/proc/net/tcp` has the sockets, `/proc/PID/fd` the processes.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};

use super::text::{number, words};

/// Who listens on a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Listeners {
    /// Nobody.
    None,
    /// These processes, ascending.
    Some(Vec<u32>),
    /// Somebody whose descriptors are not ours to read.
    Hidden,
}

/// Looks for those who listen on `port`, over IPv4 or IPv6; `pids` are all processes.
///
/// Reads every descriptor of every process, where somebody listens at all.
pub(super) fn find(port: u16, pids: &[u32]) -> Listeners {
    let mut sockets = Vec::new();
    for path in ["/proc/net/tcp", "/proc/net/tcp6"] {
        if let Ok(file) = File::open(path) {
            listening(&mut BufReader::new(file), port, &mut sockets);
        }
    }
    if sockets.is_empty() {
        return Listeners::None;
    }
    let owners: Vec<u32> = pids.iter().copied().filter(|&pid| has_one(pid, &sockets)).collect();
    if owners.is_empty() { Listeners::Hidden } else { Listeners::Some(owners) }
}

/// Adds the inodes of the sockets that listen on `port`.
///
/// The kernel lists those that listen before all others (`tcp_seq_start`), so reading stops at the
/// first that does not: a server with 20,000 connections has megabytes of them.
fn listening(text: &mut impl BufRead, port: u16, inodes: &mut Vec<u64>) {
    let mut line = Vec::new();
    // The first line names the columns.
    let mut is_heading = true;
    loop {
        line.clear();
        if !matches!(text.read_until(b'\n', &mut line), Ok(length) if length > 0) {
            return;
        }
        if std::mem::replace(&mut is_heading, false) {
            continue;
        }
        match Socket::parse(&line) {
            Some(socket) if !socket.listens => return,
            Some(socket) if socket.port == port => inodes.push(socket.inode),
            _ => {}
        }
    }
}

/// A line of `/proc/net/tcp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Socket {
    port: u16,
    listens: bool,
    inode: u64,
}

impl Socket {
    /// Reads `sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode`. Addresses,
    /// ports and states are hexadecimal; 0A is listening.
    fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = words(line).skip(1);
        let local = fields.next()?;
        let colon = local.iter().rposition(|&byte| byte == b':')?;
        let port = std::str::from_utf8(&local[colon + 1..]).ok()?;
        let state = fields.nth(1)?;
        let inode = number(fields.nth(5)?)?;
        Some(Self { port: u16::from_str_radix(port, 16).ok()?, listens: state == b"0A", inode })
    }
}

/// Whether a process has one of these sockets. `false` where it cannot be seen.
fn has_one(pid: u32, inodes: &[u64]) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    descriptors.flatten().any(|descriptor| {
        fs::read_link(descriptor.path()).is_ok_and(|target| {
            let inode = target
                .to_str()
                .and_then(|target| target.strip_prefix("socket:[")?.strip_suffix(']'))
                .and_then(|inode| inode.parse().ok());
            inode.is_some_and(|inode| inodes.contains(&inode))
        })
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use proptest::prelude::*;

    use super::*;

    const TCP: &[u8] = b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when \
        retrnsmt   uid  timeout inode\n   \
        0: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 \
        1663 1 0000000098d14e73 100 0 0 10 0\n   \
        1: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000    33        0 \
        1664 1 0000000098d14e73 100 0 0 10 0\n   \
        2: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 \
        1665 1 0000000098d14e73 100 0 0 10 0\n   \
        3: 0100007F:0050 0100007F:8DDC 01 00000000:00000000 00:00000000 00000000     0        0 \
        9999 1 0000000098d14e73 20 4 30 10 -1\n";

    fn inodes(text: &[u8], port: u16) -> Vec<u64> {
        let mut inodes = Vec::new();
        listening(&mut BufReader::with_capacity(16, text), port, &mut inodes);
        inodes
    }

    #[test]
    fn sockets_that_listen_are_found_and_no_others() {
        assert_eq!(inodes(TCP, 80), [1663, 1665]);
        assert_eq!(inodes(TCP, 8080), [1664]);
        assert!(inodes(TCP, 22).is_empty());
    }

    #[test]
    fn ipv6_is_read_as_well() {
        let tcp6 = b"  sl  local_address                         remote_address\n   \
            0: 00000000000000000000000000000000:01BB 00000000000000000000000000000000:0000 0A \
            00000000:00000000 00:00000000 00000000     0        0 18000 1 0 100 0 0 10 0\n";
        assert_eq!(inodes(tcp6, 443), [18_000]);
    }

    #[test]
    fn own_listener_is_found() {
        let mut pids = Vec::new();
        super::super::follow::list_processes(&mut pids);
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // A machine without IPv6 has only the first.
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let port = listener.local_addr().unwrap().port();
            let Listeners::Some(found) = find(port, &pids) else { panic!("nobody found") };
            assert!(found.contains(&std::process::id()), "{found:?}");
            drop(listener);
            assert_eq!(find(port, &pids), Listeners::None);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "x\n( ?[0-9A-F:]{0,9}){0,12}(\n[0-9A-F: ]{0,40}){0,3}") {
            let _ = inodes(text.as_bytes(), 80);
        }
    }
}
