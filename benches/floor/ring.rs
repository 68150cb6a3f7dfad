//! The ring, its provided buffers, and what is submitted to it.

use std::alloc::{self, Layout};
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use io_uring::types::{BufRingEntry, SubmitArgs, Timespec};
use io_uring::{CompletionQueue, EnterFlags, IoUring, Submitter, squeue, types};

use crate::Common;

/// The one group of provided buffers.
pub const GROUP: u16 = 0;

/// Most operations that a connection queues in one pass: a close, then a chain with its options.
const OPERATIONS_PER_PASS: u32 = 8;

/// Makes the ring as the engine makes it.
pub fn build(connections: u32) -> io::Result<IoUring> {
    let entries = (connections * OPERATIONS_PER_PASS).next_power_of_two();
    let ring = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_coop_taskrun()
        .setup_submit_all()
        .setup_no_sqarray()
        .setup_clamp()
        .setup_cqsize(entries * 2)
        .build(entries)?;
    ring.submitter().register_files_sparse(connections)?;
    Ok(ring)
}

/// How a pass enters the ring.
pub struct Enter {
    want: usize,
    args: SubmitArgs<'static, 'static>,
    flags: EnterFlags,
}

impl Enter {
    pub fn new(common: &Common) -> Self {
        // Leaked once, so that the arguments can be built once.
        let limit: &'static Timespec =
            Box::leak(Box::new(Timespec::from(Duration::from_millis(100))));
        Self {
            want: common.want as usize,
            args: SubmitArgs::new().timespec(limit).min_wait_usec(common.min_wait),
            flags: if common.no_iowait { EnterFlags::NO_IOWAIT } else { EnterFlags::empty() },
        }
    }

    /// Submits what is queued and waits.
    pub fn enter(&self, submitter: &Submitter<'_>) -> io::Result<()> {
        match submitter.submit_with_args_and_flags(self.want, &self.args, self.flags) {
            Ok(_) => Ok(()),
            Err(e) if matches!(e.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EBUSY)) => {
                Ok(())
            }
            Err(e) => Err(e),
        }
    }
}

/// A ring of provided buffers.
pub struct Buffers {
    entries: *mut BufRingEntry,
    memory: *mut u8,
    len: u32,
    mask: u16,
    tail: u16,
    incremental: bool,
}

impl Buffers {
    pub fn new(submitter: &Submitter<'_>, common: &Common) -> io::Result<Self> {
        let (count, len) = (common.buffers, common.buffer);
        assert!(count.is_power_of_two(), "the number of buffers is not a power of two");
        let page = |bytes: usize| Layout::from_size_align(bytes, 4096).expect("a valid layout");
        // SAFETY: neither size is zero. Both live as long as the process.
        let (entries, memory) = unsafe {
            (
                alloc::alloc_zeroed(page(usize::from(count) * size_of::<BufRingEntry>()))
                    .cast::<BufRingEntry>(),
                alloc::alloc_zeroed(page(usize::from(count) * len as usize)),
            )
        };
        let flags = if common.incremental { types::IOU_PBUF_RING_INC as u16 } else { 0 };
        // SAFETY: the memory is page-aligned, large enough, and never freed.
        unsafe {
            submitter.register_buf_ring_with_flags(entries as u64, count, GROUP, flags)?;
        }
        let mut buffers = Self {
            entries,
            memory,
            len,
            mask: count - 1,
            tail: 0,
            incremental: common.incremental,
        };
        (0..count).for_each(|id| buffers.recycle(id));
        buffers.publish();
        Ok(buffers)
    }

    /// Takes back what a completion of `result` bytes used.
    pub fn take_back(&mut self, result: i32, flags: u32, bundle: bool) {
        let Some(id) = io_uring::cqueue::buffer_select(flags) else { return };
        if self.incremental && io_uring::cqueue::buffer_more(flags) {
            return;
        }
        self.recycle(id);
        if bundle {
            // A bundle fills buffers in the order of the ring, which is that of their ids, as they
            // always come back in the order in which they were handed out.
            for i in 1..(result.max(1) as u32).div_ceil(self.len) {
                self.recycle((id + i as u16) & self.mask);
            }
        }
    }

    fn recycle(&mut self, id: u16) {
        // SAFETY: the index is masked to the ring, the address is inside `memory`.
        unsafe {
            let entry = &mut *self.entries.add(usize::from(self.tail & self.mask));
            entry.set_addr(self.memory.add(usize::from(id) * self.len as usize) as u64);
            entry.set_len(self.len);
            entry.set_bid(id);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    /// Shows the kernel what came back.
    pub fn publish(&self) {
        // SAFETY: the ring is page-aligned and initialised; its tail is shared with the kernel,
        // which only reads it.
        unsafe {
            let tail = BufRingEntry::tail(self.entries).cast::<AtomicU16>();
            (*tail).store(self.tail, Ordering::Release);
        }
    }
}

/// Queues an operation.
pub fn push(ring: &mut squeue::SubmissionQueue<'_>, entry: squeue::Entry) {
    // SAFETY: all that the entries point to (request, address, scratch) is leaked.
    unsafe { ring.push(&entry).expect("the submission queue has room for a pass") };
}

/// Moves the completions that have arrived into `into`, so that the queues are free again.
pub fn drain(queue: &mut CompletionQueue<'_>, into: &mut Vec<(u64, i32, u32)>) {
    into.clear();
    into.extend(queue.map(|c| (c.user_data(), c.result(), c.flags())));
}

/// Page-aligned memory that nobody reads and that lives as long as the process.
pub fn scratch(len: usize) -> *mut u8 {
    let layout = Layout::from_size_align(len.max(4096), 4096).expect("a valid layout");
    // SAFETY: the size is not zero.
    let memory = unsafe { alloc::alloc_zeroed(layout) };
    assert_ne!(memory, ptr::null_mut(), "no memory");
    memory
}
