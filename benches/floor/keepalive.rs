//! The same request again and again over connections that stay open.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use io_uring::{opcode, squeue, types};

use crate::Common;
use crate::ring::{self, Buffers, Enter, GROUP, push};
use crate::work::Counts;

/// `IORING_RECVSEND_POLL_FIRST`: do not try before there is something to receive.
const POLL_FIRST: u16 = 1;

#[derive(Args, Clone)]
pub struct Options {
    /// How a response is received; without it as is cheapest for its length.
    #[arg(long, value_enum)]
    receive: Option<Receive>,
    /// A completion may span several provided buffers (Linux 6.10).
    #[arg(long)]
    bundle: bool,
    /// Bytes are dropped in the kernel, not copied (`MSG_TRUNC` on every receive).
    #[arg(long)]
    trunc: bool,
    /// `SO_RCVLOWAT` as a ring operation: at most so much for the rest of a body, 1 for a head.
    #[arg(long, default_value_t = 0)]
    body_low_water: u64,
}

/// Ways to receive a response.
#[derive(Clone, Copy, ValueEnum, PartialEq, Eq)]
enum Receive {
    /// One multishot receive per connection into provided buffers.
    Multi,
    /// Single receives of `--buffer` bytes into one scratch buffer.
    Single,
    /// One receive of the whole response into the scratch buffer (`MSG_WAITALL`).
    Waitall,
    /// A head into a provided buffer, the rest in one receive into the scratch buffer.
    HeadWaitall,
    /// A head into a provided buffer, the rest by receives that drop the bytes.
    HeadTrunc,
    /// The same, with the rest linked to the head and not asked for after it has come.
    HeadTruncLinked,
}

/// Bytes of a response from which on it is cheaper to receive the head alone and to drop the rest
/// than to copy all of it (docs/trials-floor.md).
const DROP_FROM: u64 = 16 * 1024;

const RECEIVE: u64 = 1 << 32;
const OTHER: u64 = 2 << 32;

/// What a pass needs to ask and to receive.
struct Work {
    options: Options,
    receive: Receive,
    request: &'static [u8],
    response_len: u64,
    buffer: u32,
    scratch: *mut u8,
    one: &'static i32,
    body_low_water: &'static i32,
}

pub fn run(common: &Common, options: &Options) -> io::Result<Counts> {
    let request = common.work.request(false);
    let response_len = common.work.response_len(request)?;
    let by_length = if response_len < DROP_FROM { Receive::Multi } else { Receive::HeadTrunc };
    let work = Work {
        options: options.clone(),
        receive: options.receive.unwrap_or(by_length),
        request,
        response_len,
        buffer: common.buffer,
        scratch: ring::scratch(response_len as usize),
        one: Box::leak(Box::new(1)),
        body_low_water: Box::leak(Box::new(options.body_low_water as i32)),
    };
    let multi = work.receive == Receive::Multi;
    let linked = work.receive == Receive::HeadTruncLinked;
    let mut io = ring::build(common.work.connections)?;
    let (mut submitter, mut sq, mut cq) = io.split();
    let mut buffers = Buffers::new(&submitter, common)?;
    for slot in 0..common.work.connections {
        let stream = TcpStream::connect(common.work.address)?;
        stream.set_nodelay(true)?;
        submitter.register_files_update(slot, &[stream.as_raw_fd()])?;
        if multi {
            push(&mut sq, work.multishot(slot));
        }
        work.ask(&mut sq, slot);
    }
    submitter.register_ring_fd()?;

    let enter = Enter::new(common);
    let mut left = vec![response_len; common.work.connections as usize];
    let mut counts = Counts::default();
    let mut completions = Vec::with_capacity(4096);
    let end = Instant::now() + Duration::from_secs_f64(common.work.duration);
    while Instant::now() < end {
        sq.sync();
        enter.enter(&submitter)?;
        counts.enters += 1;
        cq.sync();
        ring::drain(&mut cq, &mut completions);
        cq.sync();
        sq.sync();
        counts.completions += completions.len() as u64;
        for &(token, result, flags) in &completions {
            if token & RECEIVE == 0 {
                return Err(io::Error::from_raw_os_error(-result));
            }
            buffers.take_back(result, flags, options.bundle);
            let slot = token as u32;
            if multi && !io_uring::cqueue::more(flags) {
                if result == -libc::ENOBUFS {
                    counts.no_buffers += 1;
                } else if result <= 0 {
                    return Err(io::Error::other(format!("receive: {result}")));
                }
                push(&mut sq, work.multishot(slot));
            }
            let left = &mut left[slot as usize];
            *left -= result.max(0) as u64;
            if *left == 0 {
                counts.requests += 1;
                *left = response_len;
                work.ask(&mut sq, slot);
            } else if !(multi || linked && flags & 1 != 0) {
                if result <= 0 {
                    return Err(io::Error::other(format!("receive: {result}")));
                }
                work.receive_rest(&mut sq, slot, *left);
            }
        }
        buffers.publish();
    }
    Ok(counts)
}

impl Work {
    /// Sends the request and, where receives are single, queues the first.
    fn ask(&self, sq: &mut squeue::SubmissionQueue<'_>, slot: u32) {
        if self.options.body_low_water > 0 {
            push(sq, set_low_water(slot, self.one));
        }
        let send =
            opcode::Send::new(types::Fixed(slot), self.request.as_ptr(), self.request.len() as u32)
                .flags(libc::MSG_WAITALL | libc::MSG_NOSIGNAL)
                .build()
                .flags(squeue::Flags::SKIP_SUCCESS)
                .user_data(OTHER | u64::from(slot));
        push(sq, send);
        let scratch_len = self.buffer.min(self.response_len as u32);
        let receive = match self.receive {
            Receive::Multi => return,
            Receive::Single => self.receive(slot, scratch_len, 0, POLL_FIRST),
            Receive::Waitall => {
                self.receive(slot, self.response_len as u32, libc::MSG_WAITALL, POLL_FIRST)
            }
            Receive::HeadWaitall | Receive::HeadTrunc | Receive::HeadTruncLinked => {
                opcode::Recv::new(types::Fixed(slot), std::ptr::null_mut(), self.buffer)
                    .buf_group(GROUP)
                    .ioprio(POLL_FIRST)
                    .build()
                    .flags(squeue::Flags::BUFFER_SELECT)
                    .user_data(RECEIVE | u64::from(slot))
            }
        };
        if self.receive == Receive::HeadTruncLinked {
            push(sq, receive.flags(squeue::Flags::IO_LINK));
            let rest = self.response_len as u32 - self.buffer;
            push(sq, self.receive(slot, rest, libc::MSG_TRUNC, 0));
        } else {
            push(sq, receive);
        }
    }

    /// Receives what is left of a response.
    fn receive_rest(&self, sq: &mut squeue::SubmissionQueue<'_>, slot: u32, left: u64) {
        if self.options.body_low_water > 0 && left > self.options.body_low_water {
            push(sq, set_low_water(slot, self.body_low_water));
        } else if self.options.body_low_water > 0 {
            push(sq, set_low_water(slot, self.one));
        }
        let left = left as u32;
        push(
            sq,
            match self.receive {
                Receive::Single => self.receive(slot, left.min(self.buffer), 0, 0),
                Receive::HeadTrunc | Receive::HeadTruncLinked => {
                    self.receive(slot, left, libc::MSG_TRUNC, 0)
                }
                _ => self.receive(slot, left, libc::MSG_WAITALL, 0),
            },
        );
    }

    fn receive(&self, slot: u32, len: u32, flags: i32, poll: u16) -> squeue::Entry {
        let trunc = if self.options.trunc { libc::MSG_TRUNC } else { 0 };
        opcode::Recv::new(types::Fixed(slot), self.scratch, len)
            .flags(flags | trunc)
            .ioprio(poll)
            .build()
            .user_data(RECEIVE | u64::from(slot))
    }

    fn multishot(&self, slot: u32) -> squeue::Entry {
        let trunc = if self.options.trunc { libc::MSG_TRUNC } else { 0 };
        if self.options.bundle {
            opcode::RecvMultiBundle::new(types::Fixed(slot), GROUP).flags(trunc).build()
        } else {
            opcode::RecvMulti::new(types::Fixed(slot), GROUP).flags(trunc).build()
        }
        .user_data(RECEIVE | u64::from(slot))
    }
}

fn set_low_water(slot: u32, bytes: &'static i32) -> squeue::Entry {
    opcode::SetSockOpt::new(
        types::Fixed(slot),
        libc::SOL_SOCKET as u32,
        libc::SO_RCVLOWAT as u32,
        std::ptr::from_ref(bytes).cast(),
        4,
    )
    .build()
    .flags(squeue::Flags::SKIP_SUCCESS)
    .user_data(OTHER | u64::from(slot))
}
