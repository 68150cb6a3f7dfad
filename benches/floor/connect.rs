//! A new connection for each request.

use std::io;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use io_uring::types::{DestinationSlot, Fixed};
use io_uring::{opcode, squeue};
use socket2::SockAddr;

use crate::Common;
use crate::ring::{self, Buffers, Enter, GROUP, push};
use crate::work::Counts;

#[derive(Args, Clone)]
pub struct Options {
    /// What is linked.
    #[arg(long, value_enum, default_value_t = Chain::Whole)]
    chain: Chain,
    /// The SYN-ACK is acknowledged at once, and not by the request: no `TCP_QUICKACK` = 0 before
    /// `CONNECT`.
    #[arg(long)]
    quick_ack: bool,
    /// `TCP_DEFER_ACCEPT` before `CONNECT`, which also holds the first ACK back.
    #[arg(long)]
    defer_accept: bool,
    /// `CONNECT` gives no completion where it succeeds.
    #[arg(long)]
    skip_connect: bool,
    /// `CONNECT` is handed to a kernel worker (`IOSQE_ASYNC`).
    #[arg(long)]
    async_connect: bool,
    /// No `CLOSE`: the next `SOCKET` replaces what is in the slot.
    #[arg(long)]
    replace: bool,
    /// The receive is single and takes what is there; the next takes the end of the stream.
    #[arg(long)]
    single_receive: bool,
    /// `SO_LINGER` 0: closing sends RST.
    #[arg(long)]
    reset: bool,
    /// Most chains that are started per pass; 0: no limit.
    #[arg(long, default_value_t = 0)]
    chains_per_enter: usize,
}

/// What is linked to what.
#[derive(Clone, Copy, ValueEnum, PartialEq, Eq)]
enum Chain {
    /// SOCKET → CONNECT → SEND → RECV.
    Whole,
    /// SOCKET → CONNECT; on its completion SEND and RECV, unlinked.
    UpToConnect,
    /// SOCKET, then CONNECT → SEND → RECV.
    FromConnect,
}

const SOCKET: u64 = 1 << 32;
const CONNECT: u64 = 2 << 32;
const SEND: u64 = 3 << 32;
const RECEIVE: u64 = 4 << 32;
const OTHER: u64 = 5 << 32;
const KIND: u64 = 7 << 32;

/// What a pass needs to open and to ask.
struct Work {
    options: Options,
    request: &'static [u8],
    response_len: u64,
    address: &'static SockAddr,
    zero: &'static i32,
    one: &'static i32,
    linger: &'static libc::linger,
}

pub fn run(common: &Common, options: &Options) -> io::Result<Counts> {
    let request = common.work.request(true);
    let work = Work {
        options: options.clone(),
        request,
        response_len: common.work.response_len(request)?,
        address: Box::leak(Box::new(common.work.address.into())),
        zero: Box::leak(Box::new(0)),
        one: Box::leak(Box::new(1)),
        linger: Box::leak(Box::new(libc::linger { l_onoff: 1, l_linger: 0 })),
    };
    let mut io = ring::build(common.work.connections)?;
    let (mut submitter, mut sq, mut cq) = io.split();
    let mut buffers = Buffers::new(&submitter, common)?;
    submitter.register_ring_fd()?;

    let enter = Enter::new(common);
    let mut left = vec![work.response_len; common.work.connections as usize];
    let mut free: Vec<u32> = (0..common.work.connections).collect();
    let mut counts = Counts::default();
    let mut completions = Vec::with_capacity(4096);
    let end = Instant::now() + Duration::from_secs_f64(common.work.duration);
    while Instant::now() < end {
        let limit =
            if options.chains_per_enter == 0 { usize::MAX } else { options.chains_per_enter };
        for _ in 0..limit.min(free.len()) {
            work.open(&mut sq, free.pop().expect("as many as counted"));
        }
        sq.sync();
        enter.enter(&submitter)?;
        counts.enters += 1;
        cq.sync();
        ring::drain(&mut cq, &mut completions);
        cq.sync();
        sq.sync();
        counts.completions += completions.len() as u64;
        for &(token, result, flags) in &completions {
            let slot = token as u32;
            match token & KIND {
                CONNECT if result == 0 => {
                    if options.chain == Chain::UpToConnect {
                        push(&mut sq, work.send(slot));
                        push(&mut sq, work.receive(slot));
                    }
                }
                RECEIVE => {
                    buffers.take_back(result, flags, false);
                    let left = &mut left[slot as usize];
                    *left -= result.max(0) as u64;
                    let more = io_uring::cqueue::more(flags);
                    let over = result <= 0 && !more;
                    if over {
                        if *left == 0 {
                            counts.requests += 1;
                        } else {
                            counts.errors += 1;
                        }
                        *left = work.response_len;
                        if !options.replace {
                            push(&mut sq, work.close(slot));
                        }
                        free.push(slot);
                    } else if !more {
                        push(&mut sq, work.receive(slot));
                    }
                }
                _ => {
                    let kind = (token & KIND) >> 32;
                    return Err(io::Error::other(format!(
                        "operation {kind}: {}",
                        io::Error::from_raw_os_error(-result)
                    )));
                }
            }
        }
        buffers.publish();
    }
    Ok(counts)
}

impl Work {
    /// Queues what opens a connection in `slot` and asks over it.
    fn open(&self, sq: &mut squeue::SubmissionQueue<'_>, slot: u32) {
        let chain = self.options.chain;
        let socket = self.socket(slot);
        push(sq, if chain == Chain::FromConnect { socket } else { linked(socket) });
        if !self.options.quick_ack {
            let (level, name) = (libc::IPPROTO_TCP, libc::TCP_QUICKACK);
            push(sq, linked(set(slot, level, name, self.zero)));
        }
        if self.options.defer_accept {
            let (level, name) = (libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT);
            push(sq, linked(set(slot, level, name, self.one)));
        }
        if self.options.reset {
            push(sq, linked(set(slot, libc::SOL_SOCKET, libc::SO_LINGER, self.linger)));
        }
        let connect = self.connect(slot);
        match chain {
            Chain::UpToConnect => push(sq, connect),
            Chain::Whole | Chain::FromConnect => {
                push(sq, linked(connect));
                push(sq, linked(self.send(slot)));
                push(sq, self.receive(slot));
            }
        }
    }

    fn socket(&self, slot: u32) -> squeue::Entry {
        opcode::Socket::new(i32::from(self.address.family()), libc::SOCK_STREAM, 0)
            .file_index(Some(DestinationSlot::try_from_slot_target(slot).expect("a small slot")))
            .build()
            .flags(squeue::Flags::SKIP_SUCCESS)
            .user_data(SOCKET | u64::from(slot))
    }

    fn connect(&self, slot: u32) -> squeue::Entry {
        let mut flags = squeue::Flags::empty();
        if self.options.skip_connect {
            flags |= squeue::Flags::SKIP_SUCCESS;
        }
        if self.options.async_connect {
            flags |= squeue::Flags::ASYNC;
        }
        opcode::Connect::new(Fixed(slot), self.address.as_ptr().cast(), self.address.len())
            .build()
            .flags(flags)
            .user_data(CONNECT | u64::from(slot))
    }

    fn send(&self, slot: u32) -> squeue::Entry {
        opcode::Send::new(Fixed(slot), self.request.as_ptr(), self.request.len() as u32)
            .flags(libc::MSG_WAITALL | libc::MSG_NOSIGNAL)
            .build()
            .flags(squeue::Flags::SKIP_SUCCESS)
            .user_data(SEND | u64::from(slot))
    }

    fn receive(&self, slot: u32) -> squeue::Entry {
        if self.options.single_receive {
            opcode::Recv::new(Fixed(slot), std::ptr::null_mut(), 4096)
                .buf_group(GROUP)
                .build()
                .flags(squeue::Flags::BUFFER_SELECT)
        } else {
            opcode::RecvMulti::new(Fixed(slot), GROUP).build()
        }
        .user_data(RECEIVE | u64::from(slot))
    }

    fn close(&self, slot: u32) -> squeue::Entry {
        opcode::Close::new(Fixed(slot))
            .build()
            .flags(squeue::Flags::SKIP_SUCCESS)
            .user_data(OTHER | u64::from(slot))
    }
}

fn linked(entry: squeue::Entry) -> squeue::Entry {
    entry.flags(squeue::Flags::IO_LINK)
}

fn set<T>(slot: u32, level: i32, name: i32, value: &'static T) -> squeue::Entry {
    let value = std::ptr::from_ref(value);
    opcode::SetSockOpt::new(
        Fixed(slot),
        level as u32,
        name as u32,
        value.cast(),
        size_of::<T>() as u32,
    )
    .build()
    .flags(squeue::Flags::SKIP_SUCCESS)
    .user_data(OTHER | u64::from(slot))
}
