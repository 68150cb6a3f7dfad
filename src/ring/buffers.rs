//! The provided-buffer ring: memory that the kernel fills and we give back.

#![allow(unsafe_code)]

use std::io;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;

use super::BufferId;

/// Buffers of one size and the ring that lends them to the kernel.
pub(super) struct BufferRing {
    ring: Mapping,
    memory: Mapping,
    entries: u16,
    buffer_len: usize,
    /// Which buffers are ours just now.
    ours: Box<[bool]>,
    tail: u16,
}

impl BufferRing {
    /// `entries` buffers, rounded up to a power of two, all lent to the kernel.
    pub(super) fn new(entries: u16, buffer_len: u32) -> io::Result<Self> {
        let entries = entries.next_power_of_two().min(1 << 15);
        let buffer_len = buffer_len as usize;
        let mut buffers = Self {
            ring: Mapping::new(usize::from(entries) * size_of::<BufRingEntry>())?,
            memory: Mapping::new(usize::from(entries) * buffer_len)?,
            entries,
            buffer_len,
            ours: vec![true; usize::from(entries)].into_boxed_slice(),
            tail: 0,
        };
        for index in 0..entries {
            buffers.recycle(BufferId(index));
        }
        buffers.publish();
        Ok(buffers)
    }

    pub(super) fn ring_address(&self) -> u64 {
        self.ring.start as u64
    }

    pub(super) fn entries(&self) -> u16 {
        self.entries
    }

    /// A completion named this buffer: it is ours.
    #[inline]
    pub(super) fn taken(&mut self, buffer: BufferId) {
        let ours = &mut self.ours[usize::from(buffer.0)];
        assert!(!*ours, "the kernel filled a buffer that it did not have");
        *ours = true;
    }

    #[inline]
    pub(super) fn bytes(&self, buffer: BufferId, len: usize) -> &[u8] {
        let index = usize::from(buffer.0);
        assert!(self.ours[index] && len <= self.buffer_len, "a buffer that is not ours");
        // SAFETY: the buffer lies inside the mapping, is initialised (anonymous memory is zero),
        // and the kernel does not write to it until `recycle`, which takes `&mut self`.
        unsafe { std::slice::from_raw_parts(self.memory.start.add(index * self.buffer_len), len) }
    }

    #[inline]
    pub(super) fn bytes_mut(&mut self, buffer: BufferId, len: usize) -> &mut [u8] {
        let index = usize::from(buffer.0);
        assert!(self.ours[index] && len <= self.buffer_len, "a buffer that is not ours");
        // SAFETY: as in `bytes`; `&mut self` keeps every other reference to the mapping away.
        unsafe {
            std::slice::from_raw_parts_mut(self.memory.start.add(index * self.buffer_len), len)
        }
    }

    #[inline]
    pub(super) fn recycle(&mut self, buffer: BufferId) {
        let index = usize::from(buffer.0);
        assert!(self.ours[index], "a buffer given back twice");
        self.ours[index] = false;
        let position = usize::from(self.tail & (self.entries - 1));
        // SAFETY: the position lies inside the ring's mapping, and the kernel reads an entry only
        // below the published tail. Only fields other than the overlaid tail are written.
        unsafe {
            let entry = &mut *self.ring.start.cast::<BufRingEntry>().add(position);
            entry.set_addr(self.memory.start.add(index * self.buffer_len) as u64);
            entry.set_len(self.buffer_len as u32);
            entry.set_bid(buffer.0);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    #[inline]
    pub(super) fn publish(&mut self) {
        // SAFETY: the tail is a u16 inside the first entry of the mapping, aligned, and shared
        // with the kernel, which only reads it.
        unsafe {
            let tail = BufRingEntry::tail(self.ring.start.cast()).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }
}

/// Anonymous memory, page aligned, touched only where it is used.
struct Mapping {
    start: *mut u8,
    len: usize,
}

impl Mapping {
    fn new(len: usize) -> io::Result<Self> {
        // SAFETY: a new private mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { start: start.cast(), len })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this mapping was made by `new` and nothing refers to it any more.
        unsafe {
            libc::munmap(self.start.cast(), self.len);
        }
    }
}
