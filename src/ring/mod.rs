//! The ring: every operation that touches a socket, behind one trait.
//!
//! [`Ring`] has two implementations: [`kernel::KernelRing`], io_uring, and
//! [`sim::SimRing`], a seeded simulation in virtual time. All `unsafe` of the
//! crate lives below this module.
//!
//! Sockets are *direct descriptors*: an operation names a `slot`, an index
//! into the ring's table of registered files.

mod buffers;
pub mod kernel;
pub mod sim;
mod token;

use std::io;

use socket2::SockAddr;

pub use token::{Kind, Token};

use crate::clock::Nanos;

/// Index into the ring's table of registered files.
pub type Slot = u32;

/// Bytes that the ring owns, so that the kernel may read them at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BytesId(pub u32);

/// An address that the ring owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressId(pub u32);

/// A receive buffer that the kernel has filled; ours until it is recycled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BufferId(pub u16);

/// The family of a socket to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// TCP over IPv4.
    V4,
    /// TCP over IPv6.
    V6,
    /// A stream socket in the file system.
    Unix,
}

/// A socket option that is set before `CONNECT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SocketOption {
    /// `TCP_NODELAY` on.
    NoDelay,
    /// `TCP_QUICKACK` off: the ACK of the SYN-ACK travels with the request.
    NoQuickAck,
    /// `SO_LINGER` with zero seconds: closing sends RST.
    ResetOnClose,
    /// `IP_BIND_ADDRESS_NO_PORT`: the port is chosen at connect, by the pair.
    BindAddressNoPort,
}

/// What is made for a new connection before it connects.
#[derive(Clone, Debug, Default)]
pub struct SocketSpec {
    /// The options to set, in this order.
    pub options: Vec<SocketOption>,
    /// Addresses to bind to, in turn; empty: the kernel chooses.
    pub sources: Vec<AddressId>,
}

/// One operation on the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Makes a socket in `slot`.
    Socket { slot: Slot, family: Family },
    /// Sets an option. Needs [`Features::socket_options`].
    SetOption { slot: Slot, option: SocketOption },
    /// Binds to a source address. Needs [`Features::bind`].
    Bind { slot: Slot, source: AddressId },
    /// Connects; completes with 0 or the error.
    Connect { slot: Slot, address: AddressId },
    /// Sends `from..to` of the ring's bytes, whole (`MSG_WAITALL | MSG_NOSIGNAL`); completes with
    /// the number of bytes.
    Send { slot: Slot, bytes: BytesId, from: u32, to: u32 },
    /// Sends what of `from..to` the socket takes at once and never waits
    /// (`MSG_WAITALL | MSG_DONTWAIT | MSG_NOSIGNAL`); completes with the number of bytes, or with
    /// `EAGAIN` where it took none. Fewer than all is a failure to [`Flags`]: with `skip_success`
    /// a completion names what was sent, and none says that all was. It runs while it is
    /// submitted, so that its completion comes before all that arrive later.
    SendNow { slot: Slot, bytes: BytesId, from: u32, to: u32 },
    /// Receives into provided buffers until the end of the stream or an error: many completions,
    /// all but the last with `more`.
    ReceiveMulti { slot: Slot },
    /// Receives once into a provided buffer, at most `len` bytes of it; 0: all of it.
    Receive { slot: Slot, len: u32 },
    /// Takes what is there off the stream, at least one byte and at most `len`, which is at most
    /// [`Ring::scratch_len`], and throws it away: over TCP the kernel copies none of it
    /// (`MSG_TRUNC`, tcp(7)). Completes with the number of bytes, 0 at the end of the stream.
    Discard { slot: Slot, len: u32 },
    /// Cancels the operation with this token; completes with 0, `ENOENT` or `EALREADY`.
    Cancel { token: Token },
    /// Shuts both directions down, which ends a pending receive with 0.
    Shutdown { slot: Slot },
    /// Shuts the sending direction down: the peer gets FIN and may still send.
    ShutdownWrite { slot: Slot },
    /// Empties the slot. Operations that are pending on it keep the socket alive.
    Close { slot: Slot },
    /// Accepts into free slots until an error: many completions, each with the slot as its result.
    AcceptMulti { listener: Slot },
}

/// How an operation is submitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// The next operation waits for this one and is cancelled if it fails.
    pub link: bool,
    /// No completion where it succeeds. A failure gives one, and then silences every later link;
    /// the failure of an operation without this flag gives each later link, skipped or not, a
    /// completion with `ECANCELED`.
    pub skip_success: bool,
}

/// One completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// What the operation was submitted under.
    pub token: Token,
    /// The operation's result, or a negative errno.
    pub result: i32,
    /// More completions of this operation will follow.
    pub more: bool,
    /// The provided buffer that holds `result` bytes. It must be recycled, also where the
    /// completion itself is ignored.
    pub buffer: Option<BufferId>,
}

/// How [`Ring::enter`] waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Completions to wait for; 0: submit, run what is due in the kernel, do not wait.
    pub want: u32,
    /// Nanoseconds after which to return all the same; `None`: no limit.
    pub timeout_ns: Option<Nanos>,
    /// Nanoseconds for which to wait for all of `want`; after them, one completion is enough.
    /// 0: wait for `want` until the timeout.
    pub min_wait_ns: Nanos,
}

impl Wait {
    /// Submit and look, without waiting.
    pub const POLL: Self = Self { want: 0, timeout_ns: None, min_wait_ns: 0 };
}

/// What the ring of this machine can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// `setsockopt` as a ring operation (Linux 6.7).
    pub socket_options: bool,
    /// `bind` as a ring operation (Linux 6.11).
    pub bind: bool,
    /// A minimal wait for batches (Linux 6.12).
    pub min_wait: bool,
    /// No submission array (Linux 6.6).
    pub no_sqarray: bool,
    /// Waiting is not accounted as I/O wait (Linux 6.15).
    pub no_iowait: bool,
}

impl Features {
    /// The names of what is in use, for results.
    #[must_use]
    pub fn names(self) -> Vec<&'static str> {
        [
            (self.socket_options, "setsockopt"),
            (self.bind, "bind"),
            (self.min_wait, "min-wait"),
            (self.no_sqarray, "no-sqarray"),
            (self.no_iowait, "no-iowait"),
        ]
        .into_iter()
        .filter_map(|(on, name)| on.then_some(name))
        .collect()
    }
}

/// What the ring counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// System calls made to enter the ring.
    pub enters: u64,
    /// Completions that did not fit the completion queue. Must stay 0.
    pub cq_overflows: u64,
}

/// How large a ring is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Slots in the table of registered files.
    pub slots: u32,
    /// Provided buffers; rounded up to a power of two.
    pub buffers: u16,
    /// Bytes in a provided buffer.
    pub buffer_len: u32,
    /// Bytes of the scratch buffer behind [`Op::Discard`]; 0: none.
    pub scratch_len: u32,
}

/// Submission and completion of operations.
///
/// The order of calls in a pass: any number of `reserve` and `push`, one `enter`, `next` until it
/// gives `None` (with `received` and `recycle` between), `publish`.
pub trait Ring {
    /// What this ring can do.
    fn features(&self) -> Features;
    /// What this ring counted so far.
    fn counters(&self) -> Counters;
    /// Bytes of the scratch buffer.
    fn scratch_len(&self) -> u32;

    /// Gives bytes to the ring for as long as it lives.
    fn add_bytes(&mut self, bytes: Vec<u8>) -> BytesId;
    /// The bytes, to change them. The caller changes none that a pending send still reads; one
    /// that does sends a mixture, no more.
    fn bytes_mut(&mut self, id: BytesId) -> &mut [u8];
    /// Gives an address to the ring for as long as it lives.
    fn add_address(&mut self, address: &SockAddr) -> AddressId;

    /// Makes room for `n` operations, at most [`Ring::sq_len`], submitting what is queued if need be.
    ///
    /// # Errors
    /// What `io_uring_enter` returned.
    fn reserve(&mut self, n: u32) -> io::Result<()>;
    /// Operations that were pushed and not submitted yet. An enter may leave some where the kernel
    /// is short of memory.
    fn queued(&self) -> u32;
    /// The longest chain that can be reserved.
    fn sq_len(&self) -> u32;
    /// Queues an operation.
    ///
    /// # Panics
    /// Where the room was not reserved.
    fn push(&mut self, op: Op, token: Token, flags: Flags);
    /// Installs a socket that was made elsewhere into `slot`, for kernels that lack
    /// [`Features::socket_options`] or [`Features::bind`]. `spec` says what is set on it.
    ///
    /// # Errors
    /// What the kernel returned.
    fn install(
        &mut self,
        slot: Slot,
        family: Family,
        options: &[SocketOption],
        source: Option<AddressId>,
    ) -> io::Result<()>;

    /// Submits what is queued and waits. A signal or the timeout ends the wait without error.
    ///
    /// # Errors
    /// What `io_uring_enter` returned.
    fn enter(&mut self, wait: Wait) -> io::Result<()>;
    /// The next completion that has arrived.
    fn next(&mut self) -> Option<Completion>;
    /// The first `len` bytes of a buffer that a completion named and that was not recycled.
    fn received(&self, buffer: BufferId, len: usize) -> &[u8];
    /// The same, to be changed in place.
    fn received_mut(&mut self, buffer: BufferId, len: usize) -> &mut [u8];
    /// Gives a buffer back; the kernel sees it after the next `publish`.
    ///
    /// # Panics
    /// Where the buffer is not ours.
    fn recycle(&mut self, buffer: BufferId);
    /// Shows the recycled buffers to the kernel.
    fn publish(&mut self);
}
