//! What the kernel itself holds for sockets.

use super::machine::tcp_pages;
use super::text::{Buffer, lines, number, words};

/// The kernel's memory for sockets, of the whole machine: on loopback both ends of a connection are
/// in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelMemory {
    /// Bytes in the buffers of TCP sockets, IPv4 and IPv6: `mem` of `/proc/net/sockstat` (that of
    /// IPv6 is the same number, and `sockstat6` has none).
    pub tcp_mem_bytes: u64,
    /// Bytes of the caches that sockets are made of, in use or kept for the next one:
    /// `/proc/slabinfo`, which only root may read.
    pub slab_bytes: Option<u64>,
}

/// Caches that an open TCP connection takes something from, or its place in a poll does. A socket's
/// `dentry` (192 bytes) is left out: that cache grows with every file that somebody looks at.
/// Where the kernel merges caches of one size, some of these are in others' and not counted.
const CACHES: [&[u8]; 14] = [
    b"TCP",
    b"TCPv6",
    b"sock_inode_cache",
    b"filp",
    b"eventpoll_epi",
    b"eventpoll_pwq",
    b"request_sock_TCP",
    b"request_sock_TCPv6",
    b"tw_sock_TCP",
    b"tw_sock_TCPv6",
    b"skbuff_head_cache",
    b"skbuff_fclone_cache",
    b"skbuff_small_head",
    b"tcp_bind_bucket",
];

/// Reads it; `None` where even the buffers cannot be seen.
#[must_use]
pub fn kernel_socket_memory() -> Option<KernelMemory> {
    let mut buffer = Buffer::new();
    let page_bytes = procfs::page_size();
    let sockstat = buffer.read_named(format_args!("/proc/net/sockstat")).ok()?;
    let tcp_mem_bytes = tcp_pages(sockstat)?.checked_mul(page_bytes)?;
    let slabinfo = buffer.read_named(format_args!("/proc/slabinfo"));
    let slab_bytes = slabinfo.ok().and_then(|text| cache_bytes(text, page_bytes));
    Some(KernelMemory { tcp_mem_bytes, slab_bytes })
}

/// The bytes of all [`CACHES`]; `None` where there is none of them.
fn cache_bytes(text: &[u8], page_bytes: u64) -> Option<u64> {
    let mut sum = None;
    for line in lines(text) {
        if let Some(pages) = cache_pages(line) {
            sum = Some(sum.unwrap_or(0_u64).saturating_add(pages.saturating_mul(page_bytes)));
        }
    }
    sum
}

/// Pages of a cache, if it is one of ours: `name active_objs num_objs objsize objperslab
/// pagesperslab : tunables ... : slabdata active_slabs num_slabs sharedavail` (slabinfo(5)).
fn cache_pages(line: &[u8]) -> Option<u64> {
    let mut fields = words(line);
    if !CACHES.contains(&fields.next()?) {
        return None;
    }
    let pages_per_slab = number(fields.nth(4)?)?;
    let slabs = number(fields.skip_while(|&word| word != b"slabdata").nth(2)?)?;
    pages_per_slab.checked_mul(slabs)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SLABINFO: &[u8] = b"slabinfo - version: 2.1\n\
        # name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : \
        tunables <limit> <batchcount> <sharedfactor> : slabdata <active_slabs> <num_slabs> <sharedavail>\n\
        TCPv6                 26     26   2496   13    8 : tunables    0    0    0 : slabdata      2      2      0\n\
        TCP                 4010   4032   2304   14    8 : tunables    0    0    0 : slabdata    287    288      0\n\
        dentry             90000  90000    192   21    1 : tunables    0    0    0 : slabdata   4285   4286      0\n\
        filp                5000   5120    256   16    1 : tunables    0    0    0 : slabdata    320    320      0\n";

    #[test]
    fn caches_of_sockets_are_summed() {
        assert_eq!(cache_bytes(SLABINFO, 4096), Some((8 * 2 + 8 * 288 + 320) * 4096));
        assert_eq!(cache_bytes(b"slabinfo - version: 2.1\nvma 1 1 1 1 1 :", 4096), None);
    }

    #[test]
    fn this_machines_can_be_read() {
        assert!(kernel_socket_memory().is_some());
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "(TCP|filp|x)?( [0-9]{1,20}){0,6}( : slabdata)?( [0-9]{1,20}){0,3}\n?") {
            let _ = cache_bytes(text.as_bytes(), 4096);
        }
    }
}
