//! The provided buffers, as the kernel and the worker pass them to and fro.

use std::collections::VecDeque;

use super::super::BufferId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    Kernel,
    /// Filled so far; named by a completion.
    Worker(u32),
    /// Given back, not yet published.
    Staged,
}

pub(super) struct Buffers {
    memory: Vec<u8>,
    buffer_len: usize,
    holders: Vec<Holder>,
    /// What the kernel may fill, in this order.
    free: VecDeque<u16>,
    staged: Vec<u16>,
}

impl Buffers {
    pub(super) fn new(count: u16, buffer_len: u32) -> Self {
        let count = count.next_power_of_two().min(1 << 15);
        Self {
            memory: vec![0; usize::from(count) * buffer_len as usize],
            buffer_len: buffer_len as usize,
            holders: vec![Holder::Kernel; usize::from(count)],
            free: (0..count).collect(),
            staged: Vec::new(),
        }
    }

    /// The next buffer that the kernel would fill.
    pub(super) fn select(&mut self) -> Option<(BufferId, &mut [u8])> {
        let index = *self.free.front()?;
        let from = usize::from(index) * self.buffer_len;
        Some((BufferId(index), &mut self.memory[from..from + self.buffer_len]))
    }

    /// The selected buffer holds `len` bytes and belongs to the worker.
    pub(super) fn commit(&mut self, buffer: BufferId, len: u32) {
        let first = self.free.pop_front();
        assert_eq!(first, Some(buffer.0), "commit without select");
        self.holders[usize::from(buffer.0)] = Holder::Worker(len);
    }

    pub(super) fn bytes(&self, buffer: BufferId, len: usize) -> &[u8] {
        let index = usize::from(buffer.0);
        match self.holders[index] {
            Holder::Worker(filled) => assert!(
                len <= filled as usize,
                "worker bug: reads {len} bytes of buffer {index}, which holds {filled}"
            ),
            holder => panic!("worker bug: reads buffer {index}, which is with {holder:?}"),
        }
        &self.memory[index * self.buffer_len..][..len]
    }

    pub(super) fn bytes_mut(&mut self, buffer: BufferId, len: usize) -> &mut [u8] {
        // The same rules as for reading it.
        self.bytes(buffer, len);
        &mut self.memory[usize::from(buffer.0) * self.buffer_len..][..len]
    }

    pub(super) fn recycle(&mut self, buffer: BufferId) {
        let holder = &mut self.holders[usize::from(buffer.0)];
        assert!(
            matches!(holder, Holder::Worker(_)),
            "worker bug: gives back buffer {}, which is with {holder:?}",
            buffer.0
        );
        *holder = Holder::Staged;
        self.staged.push(buffer.0);
    }

    pub(super) fn publish(&mut self) {
        for index in self.staged.drain(..) {
            self.holders[usize::from(index)] = Holder::Kernel;
            self.free.push_back(index);
        }
    }

    /// Buffers that are not with the kernel, the unpublished ones included.
    pub(super) fn out(&self) -> u32 {
        (self.holders.len() - self.free.len()) as u32
    }
}
