//! The kernel's ring: io_uring by way of the `io-uring` crate.
//!
//! The crate prepares the queues and the entries; entering the ring is done here, because the
//! crate's `Submitter` forgets a registered ring descriptor when it is dropped, and because
//! polling must run deferred work without waiting.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use io_uring::{IoUring, cqueue, opcode, squeue, types};
use socket2::{Domain, SockAddr, Socket, Type};

use super::buffers::BufferRing;
use super::{
    AddressId, BufferId, BytesId, Completion, Counters, Family, Features, Flags, Limits, Op, Ring,
    Slot, SocketOption, Token, Wait,
};
use crate::clock::SECOND;

/// Entries of the submission queue: four times the longest burst between two enters; a small
/// queue stays in the cache.
const SQ_ENTRIES: u32 = 256;
/// The kernel's limit for a completion queue (`IORING_MAX_CQ_ENTRIES`).
const CQ_ENTRIES_MAX: u32 = 65_536;
/// Completions that chains being opened may add, beyond one a slot and one a buffer.
const CQ_ENTRIES_SPARE: u32 = 2_048;
/// The group of our provided buffers.
const BUFFER_GROUP: u16 = 0;

// From `linux/io_uring.h`; the crate keeps its own private.
const ENTER_GETEVENTS: u32 = 1 << 0;
const ENTER_EXT_ARG: u32 = 1 << 3;
const ENTER_REGISTERED_RING: u32 = 1 << 4;
const ENTER_NO_IOWAIT: u32 = 1 << 7;
const REGISTER_RING_FDS: u32 = 20;
const UNREGISTER_RING_FDS: u32 = 21;
const RECVSEND_POLL_FIRST: u16 = 1 << 0;
const RECV_MULTISHOT: u16 = 1 << 1;

/// `struct io_uring_getevents_arg`
#[repr(C)]
struct GetEventsArg {
    sigmask: u64,
    sigmask_size: u32,
    min_wait_us: u32,
    timespec: u64,
}

/// `struct io_uring_rsrc_update`, as `IORING_REGISTER_RING_FDS` takes it.
#[repr(C)]
struct RingFdUpdate {
    offset: u32,
    reserved: u32,
    data: u64,
}

/// Values that `setsockopt` operations point at.
struct OptionValues {
    zero: libc::c_int,
    one: libc::c_int,
    linger: libc::linger,
}

static OPTION_VALUES: OptionValues =
    OptionValues { zero: 0, one: 1, linger: libc::linger { l_onoff: 1, l_linger: 0 } };

/// io_uring on this thread. It must be used on the thread that made it.
pub struct KernelRing {
    // First, so that it is dropped before the memory that the kernel knows of.
    uring: IoUring,
    buffers: BufferRing,
    scratch: Box<[u8]>,
    bytes: Vec<Box<[u8]>>,
    addresses: Vec<SockAddr>,
    features: Features,
    /// Index of the registered ring descriptor, or the descriptor itself.
    enter_fd: RawFd,
    enter_flags: u32,
    sq_entries: u32,
    /// Pushed and not yet taken by the kernel.
    queued: u32,
    enters: u64,
}

impl KernelRing {
    /// Makes a ring on this thread, with its table of slots and its buffers.
    ///
    /// # Errors
    /// What the kernel returned: `EPERM` where a sysctl or seccomp forbids io_uring, `ENOSYS` where
    /// it is not built in, `EINVAL` on a kernel older than 6.1, `EMFILE` where `limits.slots` is
    /// over `RLIMIT_NOFILE`, `ENOMEM` where memory may not be locked.
    pub fn new(limits: Limits, features: Features) -> io::Result<Self> {
        let cq_entries = (limits.slots.saturating_mul(2))
            .saturating_add(u32::from(limits.buffers))
            .saturating_add(CQ_ENTRIES_SPARE)
            .next_power_of_two()
            .min(CQ_ENTRIES_MAX);
        let mut builder = IoUring::builder();
        builder
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_coop_taskrun()
            .setup_taskrun_flag()
            .setup_submit_all()
            .setup_clamp()
            .setup_cqsize(cq_entries);
        if features.no_sqarray {
            builder.setup_no_sqarray();
        }
        let uring: IoUring = builder.build(SQ_ENTRIES)?;
        let buffers = BufferRing::new(limits.buffers, limits.buffer_len)?;
        // SAFETY: the memory lives in `buffers`, which is dropped after the ring and after every
        // operation has been cancelled.
        unsafe {
            uring.submitter().register_buf_ring_with_flags(
                buffers.ring_address(),
                buffers.entries(),
                BUFFER_GROUP,
                0,
            )?;
        }
        uring.submitter().register_files_sparse(limits.slots)?;
        let (enter_fd, registered) = register_ring_fd(&uring);
        let sq_entries = uring.params().sq_entries();
        Ok(Self {
            uring,
            buffers,
            scratch: vec![0; limits.scratch_len as usize].into_boxed_slice(),
            bytes: Vec::new(),
            addresses: Vec::new(),
            features,
            enter_fd,
            enter_flags: registered | if features.no_iowait { ENTER_NO_IOWAIT } else { 0 },
            sq_entries,
            queued: 0,
            enters: 0,
        })
    }

    /// Installs a listening socket, made elsewhere, into `slot`.
    ///
    /// # Errors
    /// What the kernel returned.
    pub fn install_listener(&mut self, slot: Slot, listener: OwnedFd) -> io::Result<()> {
        self.uring.submitter().register_files_update(slot, &[listener.as_raw_fd()])?;
        Ok(())
    }

    /// Two of the ring's bytes at once: those that are read, and those that are written. Of the
    /// second the same holds as in [`Ring::bytes_mut`].
    ///
    /// # Panics
    /// Where both are the same.
    pub fn bytes_between(&mut self, from: BytesId, to: BytesId) -> (&[u8], &mut [u8]) {
        let [from, to] = self
            .bytes
            .get_disjoint_mut([from.0 as usize, to.0 as usize])
            .expect("two different bytes of this ring");
        (from, to)
    }

    /// Makes a small ring and asks it what this machine can do.
    ///
    /// # Errors
    /// As [`KernelRing::new`].
    pub fn probe() -> io::Result<Features> {
        let limits = Limits { slots: 4, buffers: 8, buffer_len: 4096, scratch_len: 0 };
        let no_sqarray = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_no_sqarray()
            .build(8)
            .map(|_: IoUring| true)
            .or_else(|error| match error.raw_os_error() {
                Some(libc::EINVAL) => Ok(false),
                _ => Err(error),
            })?;
        let mut ring = Self::new(limits, Features { no_sqarray, ..Features::default() })?;
        let mut probe = io_uring::Probe::new();
        ring.uring.submitter().register_probe(&mut probe)?;
        let parameters = ring.uring.params();
        let mut features = Features {
            socket_options: false,
            bind: probe.is_supported(opcode::Bind::CODE),
            min_wait: parameters.is_feature_min_timeout(),
            no_sqarray,
            no_iowait: parameters.is_feature_no_iowait(),
        };
        features.socket_options = ring.tries_socket_option()?;
        Ok(features)
    }

    /// Whether `setsockopt` works as an operation; no probe of the kernel's tells.
    fn tries_socket_option(&mut self) -> io::Result<bool> {
        let token = Token::new(super::Kind::Socket, 0, 0);
        self.reserve(2)?;
        self.push(
            Op::Socket { slot: 0, family: Family::V4 },
            token,
            Flags { link: true, skip_success: true },
        );
        self.push(
            Op::SetOption { slot: 0, option: SocketOption::NoDelay },
            token,
            Flags::default(),
        );
        self.enter(Wait { want: 1, timeout_ns: Some(SECOND), min_wait_ns: 0 })?;
        Ok(self.next().is_some_and(|completion| completion.result == 0))
    }

    fn entry(&mut self, op: Op) -> squeue::Entry {
        match op {
            Op::Socket { slot, family } => {
                let slot = types::DestinationSlot::try_from_slot_target(slot)
                    .expect("slots are below the kernel's limit");
                // No SOCK_CLOEXEC: the kernel refuses it for a direct descriptor.
                opcode::Socket::new(domain(family).into(), libc::SOCK_STREAM, 0)
                    .file_index(Some(slot))
                    .build()
            }
            Op::SetOption { slot, option } => set_option(slot, option),
            Op::Bind { slot, source } => {
                let address = &self.addresses[source.0 as usize];
                opcode::Bind::new(types::Fixed(slot), address.as_ptr().cast(), address.len())
                    .build()
            }
            Op::Connect { slot, address } => {
                let address = &self.addresses[address.0 as usize];
                opcode::Connect::new(types::Fixed(slot), address.as_ptr().cast(), address.len())
                    .build()
            }
            Op::Send { slot, bytes, from, to } => {
                send(slot, &self.bytes[bytes.0 as usize][from as usize..to as usize], 0)
            }
            Op::SendNow { slot, bytes, from, to } => {
                let part = &self.bytes[bytes.0 as usize][from as usize..to as usize];
                send(slot, part, libc::MSG_DONTWAIT)
            }
            Op::ReceiveMulti { slot } => receive(slot, 0, RECV_MULTISHOT | RECVSEND_POLL_FIRST),
            Op::Receive { slot, len } => receive(slot, len, RECVSEND_POLL_FIRST),
            Op::Discard { slot, len } => {
                assert!(len as usize <= self.scratch.len(), "a discard larger than the scratch");
                // Only TCP leaves the bytes uncopied; for the others the scratch is there.
                opcode::Recv::new(types::Fixed(slot), self.scratch.as_mut_ptr(), len)
                    .flags(libc::MSG_TRUNC)
                    .build()
            }
            Op::Cancel { token } => opcode::AsyncCancel::new(token.bits()).build(),
            Op::Shutdown { slot } => {
                opcode::Shutdown::new(types::Fixed(slot), libc::SHUT_RDWR).build()
            }
            Op::ShutdownWrite { slot } => {
                opcode::Shutdown::new(types::Fixed(slot), libc::SHUT_WR).build()
            }
            Op::Close { slot } => opcode::Close::new(types::Fixed(slot)).build(),
            Op::AcceptMulti { listener } => {
                opcode::AcceptMulti::new(types::Fixed(listener)).allocate_file_index(true).build()
            }
        }
    }

    /// One `io_uring_enter`; what it submitted is no longer queued.
    fn enter_once(&mut self, want: u32, wait: Option<(Option<u64>, u64)>) -> io::Result<()> {
        let timespec = wait
            .and_then(|(timeout_ns, _)| timeout_ns)
            .map(|ns| types::Timespec::new().sec(ns / SECOND).nsec((ns % SECOND) as u32));
        let argument = GetEventsArg {
            sigmask: 0,
            sigmask_size: 0,
            min_wait_us: wait.map_or(0, |(_, min_wait_ns)| (min_wait_ns / 1_000) as u32),
            timespec: timespec.as_ref().map_or(0, |timespec| std::ptr::from_ref(timespec) as u64),
        };
        let flags = self.enter_flags | ENTER_GETEVENTS | ENTER_EXT_ARG;
        self.enters += 1;
        // SAFETY: the argument and the timespec in it outlive the call; every queued entry points
        // at memory that this ring owns until it is dropped.
        let submitted = unsafe {
            libc::syscall(
                libc::SYS_io_uring_enter,
                self.enter_fd,
                self.queued,
                want,
                flags,
                std::ptr::from_ref(&argument),
                size_of::<GetEventsArg>(),
            )
        };
        if submitted >= 0 {
            self.queued -= submitted as u32;
            return Ok(());
        }
        let error = io::Error::last_os_error();
        // With ETIME and EINTR the entries were taken before the wait began.
        match error.raw_os_error() {
            Some(libc::ETIME | libc::EINTR) => {
                self.queued = self.uring.submission().len() as u32;
                Ok(())
            }
            // The kernel wants its completions taken first, or has no memory just now.
            Some(libc::EAGAIN | libc::EBUSY) => Ok(()),
            _ => Err(error),
        }
    }
}

impl Drop for KernelRing {
    fn drop(&mut self) {
        // Nothing may write to our memory once it is freed.
        let all = types::CancelBuilder::any();
        let wait = types::Timespec::new().sec(1);
        let _ = self.uring.submitter().register_sync_cancel(Some(wait), all);
        let _ = self.uring.submitter().unregister_buf_ring(BUFFER_GROUP);
        if self.enter_flags & ENTER_REGISTERED_RING != 0 {
            // Else the ring, and with it every socket in its slots, lives on with the thread.
            let mut update = RingFdUpdate { offset: self.enter_fd as u32, reserved: 0, data: 0 };
            // SAFETY: the kernel reads one `update`, which outlives the call.
            unsafe {
                libc::syscall(
                    libc::SYS_io_uring_register,
                    self.uring.as_raw_fd(),
                    UNREGISTER_RING_FDS,
                    std::ptr::from_mut(&mut update),
                    1,
                );
            }
        }
    }
}

impl Ring for KernelRing {
    fn features(&self) -> Features {
        self.features
    }

    fn counters(&self) -> Counters {
        // SAFETY: this ring is used by one thread, and no other completion queue is held.
        let overflow = unsafe { self.uring.completion_shared() }.overflow();
        Counters { enters: self.enters, cq_overflows: u64::from(overflow) }
    }

    fn scratch_len(&self) -> u32 {
        self.scratch.len() as u32
    }

    fn add_bytes(&mut self, bytes: Vec<u8>) -> BytesId {
        self.bytes.push(bytes.into_boxed_slice());
        BytesId(self.bytes.len() as u32 - 1)
    }

    fn bytes_mut(&mut self, id: BytesId) -> &mut [u8] {
        &mut self.bytes[id.0 as usize]
    }

    fn add_address(&mut self, address: &SockAddr) -> AddressId {
        // The kernel reads an address when its entry is submitted or, in a chain, copies it then:
        // never after the enter that submits it, so that this vector may grow in between.
        assert_eq!(self.queued, 0, "addresses are given before operations are queued");
        self.addresses.push(address.clone());
        AddressId(self.addresses.len() as u32 - 1)
    }

    fn reserve(&mut self, n: u32) -> io::Result<()> {
        assert!(n <= self.sq_entries, "a chain longer than the submission queue");
        while self.queued + n > self.sq_entries {
            self.enter_once(0, None)?;
        }
        Ok(())
    }

    fn queued(&self) -> u32 {
        self.queued
    }

    fn sq_len(&self) -> u32 {
        self.sq_entries
    }

    #[inline]
    fn push(&mut self, op: Op, token: Token, flags: Flags) {
        let mut bits = squeue::Flags::empty();
        bits.set(squeue::Flags::IO_LINK, flags.link);
        bits.set(squeue::Flags::SKIP_SUCCESS, flags.skip_success);
        if matches!(op, Op::ReceiveMulti { .. } | Op::Receive { .. }) {
            bits.insert(squeue::Flags::BUFFER_SELECT);
        }
        let entry = self.entry(op).user_data(token.bits()).flags(bits);
        // SAFETY: everything that the entry points at is owned by this ring, which cancels and
        // drains all operations before it frees anything.
        let pushed = unsafe { self.uring.submission().push(&entry) };
        assert!(pushed.is_ok(), "pushed without room reserved");
        self.queued += 1;
    }

    fn install(
        &mut self,
        slot: Slot,
        family: Family,
        options: &[SocketOption],
        source: Option<AddressId>,
    ) -> io::Result<()> {
        let socket = Socket::new(domain(family), Type::STREAM, None)?;
        for option in options {
            match option {
                SocketOption::NoDelay => socket.set_tcp_nodelay(true)?,
                SocketOption::NoQuickAck => socket.set_tcp_quickack(false)?,
                SocketOption::ResetOnClose => socket.set_linger(Some(std::time::Duration::ZERO))?,
                SocketOption::BindAddressNoPort => set_bind_address_no_port(&socket)?,
            }
        }
        if let Some(source) = source {
            socket.bind(&self.addresses[source.0 as usize])?;
        }
        let socket = OwnedFd::from(socket);
        self.uring.submitter().register_files_update(slot, &[socket.as_raw_fd()])?;
        Ok(())
    }

    fn enter(&mut self, wait: Wait) -> io::Result<()> {
        if wait.want == 0 {
            // SAFETY: this ring is used by one thread, and no other submission queue is held.
            let queue = unsafe { self.uring.submission_shared() };
            if self.queued == 0 && !queue.taskrun() && !queue.cq_overflow() {
                return Ok(());
            }
            drop(queue);
            return self.enter_once(0, None);
        }
        let batch = wait.want > 1 && wait.min_wait_ns > 0;
        if batch && !self.features.min_wait {
            // Before 6.12: the wait's own timeout, and then one completion is enough.
            self.enter_once(wait.want, Some((Some(wait.min_wait_ns), 0)))?;
            if !self.uring.completion().is_empty() {
                return Ok(());
            }
            return self.enter_once(1, Some((wait.timeout_ns, 0)));
        }
        let min_wait_ns = if batch { wait.min_wait_ns } else { 0 };
        self.enter_once(wait.want, Some((wait.timeout_ns, min_wait_ns)))
    }

    #[inline]
    fn next(&mut self) -> Option<Completion> {
        let entry = self.uring.completion().next()?;
        let flags = entry.flags();
        let buffer = cqueue::buffer_select(flags).map(BufferId);
        if let Some(buffer) = buffer {
            self.buffers.taken(buffer);
        }
        Some(Completion {
            token: Token::from_bits(entry.user_data()),
            result: entry.result(),
            more: cqueue::more(flags),
            buffer,
        })
    }

    #[inline]
    fn received(&self, buffer: BufferId, len: usize) -> &[u8] {
        self.buffers.bytes(buffer, len)
    }

    #[inline]
    fn received_mut(&mut self, buffer: BufferId, len: usize) -> &mut [u8] {
        self.buffers.bytes_mut(buffer, len)
    }

    #[inline]
    fn recycle(&mut self, buffer: BufferId) {
        self.buffers.recycle(buffer);
    }

    #[inline]
    fn publish(&mut self) {
        self.buffers.publish();
    }
}

/// Registers the ring's own descriptor, which saves a look-up a call; where that is refused the
/// plain descriptor does.
fn register_ring_fd(uring: &IoUring) -> (RawFd, u32) {
    let fd = uring.as_raw_fd();
    let mut update = RingFdUpdate { offset: u32::MAX, reserved: 0, data: fd as u64 };
    // SAFETY: the kernel reads and writes one `update`, which outlives the call.
    let registered = unsafe {
        libc::syscall(
            libc::SYS_io_uring_register,
            fd,
            REGISTER_RING_FDS,
            std::ptr::from_mut(&mut update),
            1,
        )
    };
    if registered == 1 { (update.offset as RawFd, ENTER_REGISTERED_RING) } else { (fd, 0) }
}

fn domain(family: Family) -> Domain {
    match family {
        Family::V4 => Domain::IPV4,
        Family::V6 => Domain::IPV6,
        Family::Unix => Domain::UNIX,
    }
}

/// The receive of a slot into our buffers. `RecvMulti` of the crate cannot carry `POLL_FIRST`.
fn receive(slot: Slot, len: u32, priority: u16) -> squeue::Entry {
    opcode::Recv::new(types::Fixed(slot), std::ptr::null_mut(), len)
        .ioprio(priority)
        .buf_group(BUFFER_GROUP)
        .build()
}

/// The send of a part of our bytes, which stay where they are for as long as the ring lives.
fn send(slot: Slot, part: &[u8], flags: libc::c_int) -> squeue::Entry {
    opcode::Send::new(types::Fixed(slot), part.as_ptr(), part.len() as u32)
        .flags(libc::MSG_WAITALL | libc::MSG_NOSIGNAL | flags)
        .build()
}

fn set_option(slot: Slot, option: SocketOption) -> squeue::Entry {
    let int = size_of::<libc::c_int>() as u32;
    let one = std::ptr::from_ref(&OPTION_VALUES.one).cast();
    let zero = std::ptr::from_ref(&OPTION_VALUES.zero).cast();
    let linger = std::ptr::from_ref(&OPTION_VALUES.linger).cast();
    let (level, name, value, len) = match option {
        SocketOption::NoDelay => (libc::IPPROTO_TCP, libc::TCP_NODELAY, one, int),
        SocketOption::NoQuickAck => (libc::IPPROTO_TCP, libc::TCP_QUICKACK, zero, int),
        SocketOption::ResetOnClose => {
            (libc::SOL_SOCKET, libc::SO_LINGER, linger, size_of::<libc::linger>() as u32)
        }
        SocketOption::BindAddressNoPort => {
            (libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, one, int)
        }
    };
    opcode::SetSockOpt::new(types::Fixed(slot), level as u32, name as u32, value, len).build()
}

/// `IP_BIND_ADDRESS_NO_PORT`, which socket2 does not know.
fn set_bind_address_no_port(socket: &Socket) -> io::Result<()> {
    // SAFETY: the value is an int that outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            std::ptr::from_ref(&OPTION_VALUES.one).cast(),
            size_of::<libc::c_int>() as u32,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests;
