//! What a simulated machine, network and server are like.

use super::super::{Features, Limits};
use super::dice::{Delay, Dice};
use super::tls::TlsModel;
use crate::clock::{MICROSECOND, MILLISECOND, Nanos, SECOND};

/// A simulated machine with a server behind its network.
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// The size of the ring.
    pub limits: Limits,
    /// What the ring says that it can do.
    pub features: Features,
    /// Entries of the submission queue.
    pub sq_len: u32,
    /// Entries of the completion queue.
    pub cq_len: u32,
    /// A removed file is let go only when every operation that began before its removal has ended,
    /// on whatever slot: Linux before 6.13 (7029acd8a950 made nodes independent of each other).
    pub serial_release: bool,
    /// The waiting task is woken only when enough work for the whole wait has come: Linux 6.4.
    pub lazy_wake: bool,
    /// Local ports; `None`: without end.
    pub ports: Option<u32>,
    /// How long a port is held after a close that was ours first.
    pub time_wait_ns: Nanos,
    /// What the clock shows at the start.
    pub start_ns: Nanos,
    /// Time that passes outside the ring between two enters.
    pub enter_ns: Delay,
    /// How much too late a wait ends.
    pub wake_ns: Delay,
    /// The least time that an enter takes which does not wait, so that polling gets somewhere.
    pub poll_ns: Nanos,
    /// How long the kernel's worker threads take to begin with what always runs there (shutdown).
    pub worker_thread_ns: Delay,
    /// What goes wrong, and how often.
    pub faults: Faults,
    /// The network and the server.
    pub server: ServerModel,
    /// Every step to stderr, to look at one seed.
    pub trace: bool,
}

/// Probabilities, each from 0 to 1.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// `SOCKET` fails (`ENFILE`, `ENOBUFS`); so does [`super::super::Ring::install`] (`EMFILE`).
    pub socket: f64,
    /// Setting an option fails (`ENOMEM`).
    pub option: f64,
    /// Binding fails (`EADDRINUSE`, `EADDRNOTAVAIL`).
    pub bind: f64,
    /// Connect ends with `ECONNREFUSED`.
    pub refused: f64,
    /// Connect ends with `ECONNRESET`.
    pub connect_reset: f64,
    /// Connect ends at once with `ENETUNREACH`, or later with `EHOSTUNREACH`.
    pub unreachable: f64,
    /// Connect ends at once with `EADDRNOTAVAIL`.
    pub no_ports: f64,
    /// Nobody answers the SYN: `ETIMEDOUT` after 127 s, which outlasts any connect timeout.
    pub syn_lost: f64,
    /// The SYN is sent again: connecting takes one or three seconds more.
    pub syn_retransmit: f64,
    /// A completed piece of work, with others left, ends an enter whose wait is satisfied.
    pub leave_work: f64,
    /// Work is not taken in the order it came in.
    pub shuffle: f64,
    /// The task is woken for one piece of work although it waits for more.
    pub eager_wake: f64,
    /// A multishot receive ends after data.
    pub clear_more: f64,
    /// A multishot receive that has more to read lets others go first.
    pub yields: f64,
    /// A signal ends a wait.
    pub interrupt: f64,
    /// An enter takes nothing and returns (`EAGAIN`). Below 1, or no enter ever takes anything.
    pub again: f64,
    /// Cancelling says `EALREADY`, and the operation ends a little later.
    pub cancel_already: f64,
    /// The worker does not run for [`Faults::stall_ns`], before or after an enter.
    pub stall: f64,
    /// How long.
    pub stall_ns: Delay,
}

/// What kind of response a request gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResponseKind {
    /// `Content-Length`, a small body.
    Plain,
    /// `Content-Length`, a large body.
    Large,
    /// Chunked, with extensions and trailers at times.
    Chunked,
    /// No length: the end of the connection ends the body.
    CloseDelimited,
    /// 204.
    NoContent,
    /// 304, with the `Content-Length` of the body that is not sent.
    NotModified,
    /// One to three 1xx before the response.
    Informational,
    /// HTTP/1.0, with and without `Connection: keep-alive`.
    Http10,
    /// `Connection: close`.
    AnnouncedClose,
    /// No HTTP.
    Malformed,
    /// A head over 64 KiB, more than 256 headers, or a chunk size of 17 digits.
    Oversized,
    /// FIN in the middle, possibly before the first byte.
    Truncated,
    /// RST in the middle, possibly before the first byte.
    Reset,
    /// Silence from the middle on.
    Stalled,
    /// Silence.
    Never,
    /// Bytes after the complete response.
    ExtraBytes,
    /// The response begins when the head of the request is there; the body is read, or not.
    Early,
}

impl ResponseKind {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::Plain,
        Self::Large,
        Self::Chunked,
        Self::CloseDelimited,
        Self::NoContent,
        Self::NotModified,
        Self::Informational,
        Self::Http10,
        Self::AnnouncedClose,
        Self::Malformed,
        Self::Oversized,
        Self::Truncated,
        Self::Reset,
        Self::Stalled,
        Self::Never,
        Self::ExtraBytes,
        Self::Early,
    ];

    /// Whether a client that reads it gets a complete response.
    #[must_use]
    pub fn is_complete(self) -> bool {
        !matches!(
            self,
            Self::Malformed
                | Self::Oversized
                | Self::Truncated
                | Self::Reset
                | Self::Stalled
                | Self::Never
        )
    }
}

/// The network and the server.
#[derive(Clone, Debug)]
pub struct ServerModel {
    /// From the last byte of the request to the first of the response.
    pub service_ns: Delay,
    /// From one end to the other. Order within a connection is kept.
    pub one_way_ns: Delay,
    /// How long connecting takes where it does not end inline.
    pub connect_ns: Delay,
    /// The probability that connecting ends within the operation, as on loopback.
    pub connect_inline: f64,
    /// What is answered, and how often.
    pub kinds: Vec<(ResponseKind, u32)>,
    /// The probability that a response has a status of 400 and up.
    pub error_status: f64,
    /// Bytes in a small body, from and to.
    pub body_len: (u32, u32),
    /// Bytes in a large body, from and to.
    pub large_body_len: (u32, u32),
    /// How what is sent is cut into pieces.
    pub cuts: Cuts,
    /// Between two pieces.
    pub piece_gap_ns: Delay,
    /// From the end of the response to the FIN, where there is one.
    pub fin_ns: Delay,
    /// The probability that a server which said `close` waits for us to close.
    pub fin_never: f64,
    /// The probability that the server goes on reading after its FIN, rather than answer with RST.
    pub lingers: f64,
    /// The probability that the request's `Connection: close` is not honoured.
    pub ignores_close: f64,
    /// The server closes after so many responses on a connection.
    pub keep_alive_requests: Option<u32>,
    /// The probability that the last of them says `Connection: close`.
    pub announces_limit: f64,
    /// The server closes a connection that is idle for so long.
    pub keep_alive_idle_ns: Option<Nanos>,
    /// Bytes of ours that are taken before the server has received some.
    pub send_buffer: u32,
    /// How it speaks TLS, if it does.
    pub tls: Option<TlsModel>,
}

/// Where what the server sends is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cuts {
    /// At random, into so many pieces at most.
    Drawn(u32),
    /// At this offset in what it sends on a connection.
    At(u64),
    /// Into pieces of so many bytes.
    Every(u32),
}

impl ServerModel {
    /// A server that answers every request with a small page after exactly `service_ns`, over a
    /// network that takes no time.
    #[must_use]
    pub fn exact(service_ns: Nanos) -> Self {
        Self {
            service_ns: Delay::Constant(service_ns),
            one_way_ns: Delay::Constant(0),
            connect_ns: Delay::Constant(0),
            connect_inline: 1.0,
            kinds: vec![(ResponseKind::Plain, 1)],
            error_status: 0.0,
            body_len: (2, 2),
            large_body_len: (100_000, 100_000),
            cuts: Cuts::Drawn(1),
            piece_gap_ns: Delay::Constant(0),
            fin_ns: Delay::Constant(0),
            fin_never: 0.0,
            lingers: 0.0,
            ignores_close: 0.0,
            keep_alive_requests: None,
            announces_limit: 0.0,
            keep_alive_idle_ns: None,
            send_buffer: 1 << 20,
            tls: None,
        }
    }

    /// A server whose every trait is drawn. A large body takes a few hundred buffers at most, so
    /// that no seed takes long.
    fn drawn(dice: &mut Dice, buffer_len: u32) -> Self {
        let sometimes = |dice: &mut Dice, most: f64| {
            if dice.chance(0.3) { dice.between(1, 100) as f64 / 100.0 * most } else { 0.0 }
        };
        let kinds = drawn_kinds(dice);
        let large = dice.pick(&[2_000, 20_000, 100_000]).min(200 * buffer_len);
        Self {
            service_ns: drawn_delay(dice, 20 * MILLISECOND),
            one_way_ns: drawn_delay(dice, 2 * MILLISECOND),
            connect_ns: drawn_delay(dice, 50 * MILLISECOND),
            connect_inline: dice.pick(&[0.0, 0.5, 1.0]),
            kinds,
            error_status: sometimes(dice, 0.3),
            body_len: (0, dice.pick(&[2, 50, 700])),
            large_body_len: (large / 2, large),
            cuts: Cuts::Drawn(dice.pick(&[1, 1, 2, 5, 30])),
            piece_gap_ns: drawn_delay(dice, 5 * MILLISECOND),
            fin_ns: drawn_delay(dice, 40 * MILLISECOND),
            fin_never: sometimes(dice, 1.0),
            lingers: dice.pick(&[0.0, 0.5, 1.0]),
            ignores_close: dice.pick(&[0.0, 0.0, 0.5, 1.0]),
            keep_alive_requests: dice.chance(0.3).then(|| dice.between(1, 20) as u32),
            announces_limit: dice.pick(&[0.0, 0.5, 1.0]),
            keep_alive_idle_ns: dice.chance(0.3).then(|| dice.between(0, 20 * MILLISECOND)),
            // `tcp_wmem` begins at 4,096.
            send_buffer: dice.pick(&[4_096, 16_384, 1 << 20]),
            tls: None,
        }
    }
}

impl SimConfig {
    /// A machine without faults where nothing but the server takes time.
    #[must_use]
    pub fn exact(limits: Limits, server: ServerModel) -> Self {
        Self {
            limits,
            features: all_features(),
            sq_len: 256,
            cq_len: completion_queue_len(limits),
            serial_release: false,
            lazy_wake: true,
            ports: None,
            time_wait_ns: 60 * SECOND,
            start_ns: 0,
            enter_ns: Delay::Constant(0),
            wake_ns: Delay::Constant(0),
            poll_ns: 100,
            worker_thread_ns: Delay::Constant(0),
            faults: Faults::default(),
            server,
            trace: false,
        }
    }

    /// The machine of this seed with a server that speaks TLS, whose traits are drawn as well.
    #[must_use]
    pub fn from_seed_tls(seed: u64) -> Self {
        let mut config = Self::from_seed(seed);
        let mut dice = Dice::new(seed ^ 0x74_6c_73);
        config.server.tls = Some(TlsModel::drawn(&mut dice));
        config
    }

    /// Draws everything: a calm machine at times, mostly a bad one. Limits are for up to 64 slots.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        // Another stream than the ring's own of the same seed.
        let mut dice = Dice::new(seed ^ 0x51_6d_c0_4f_16);
        let dice = &mut dice;
        let limits = Limits {
            slots: 64,
            buffers: 1 << dice.between(0, 7),
            buffer_len: dice.pick(&[50, 200, 512, 4_096, 16_384]),
            scratch_len: dice.pick(&[0, 1_000, 65_536]),
        };
        let kernel = dice.between(0, 4);
        Self {
            limits,
            features: Features {
                socket_options: kernel >= 1,
                bind: kernel >= 2,
                min_wait: kernel >= 3,
                no_sqarray: kernel >= 1,
                no_iowait: kernel >= 4,
            },
            sq_len: dice.pick(&[16, 64, 256]),
            cq_len: completion_queue_len(limits),
            serial_release: kernel < 4,
            lazy_wake: dice.chance(0.8),
            ports: dice.chance(0.1).then(|| dice.between(1, 100) as u32),
            time_wait_ns: dice.pick(&[10 * MILLISECOND, SECOND, 60 * SECOND]),
            start_ns: dice.pick(&[0, 1, 123_456_789_012_345]),
            enter_ns: dice.pick(&[
                Delay::Constant(0),
                Delay::Uniform(200, 2_000),
                Delay::Wide(100 * MICROSECOND),
            ]),
            wake_ns: dice.pick(&[Delay::Constant(0), Delay::Wide(100 * MICROSECOND)]),
            poll_ns: dice.pick(&[200, 1_000, 5_000]),
            worker_thread_ns: dice.pick(&[
                Delay::Constant(0),
                Delay::Wide(50 * MICROSECOND),
                Delay::Wide(20 * MILLISECOND),
            ]),
            faults: if dice.chance(0.2) { Faults::default() } else { Faults::drawn(dice) },
            server: ServerModel::drawn(dice, limits.buffer_len),
            trace: false,
        }
    }
}

impl Faults {
    /// Some of them, mostly rare.
    fn drawn(dice: &mut Dice) -> Self {
        let mut drawn = |most: f64| {
            if dice.chance(0.35) {
                dice.delay(Delay::Wide(1_000)) as f64 / 1_000.0 * most
            } else {
                0.0
            }
        };
        Self {
            socket: drawn(0.3),
            option: drawn(0.3),
            bind: drawn(0.3),
            refused: drawn(0.7),
            connect_reset: drawn(0.3),
            unreachable: drawn(0.3),
            no_ports: drawn(0.7),
            syn_lost: drawn(0.3),
            syn_retransmit: drawn(0.3),
            leave_work: drawn(1.0),
            shuffle: drawn(1.0),
            eager_wake: drawn(1.0),
            clear_more: drawn(1.0),
            yields: drawn(1.0),
            interrupt: drawn(0.5),
            again: drawn(0.5),
            cancel_already: drawn(1.0),
            stall: drawn(0.1),
            stall_ns: drawn_delay(dice, 2 * SECOND),
        }
    }
}

/// As the kernel's ring sizes it.
fn completion_queue_len(limits: Limits) -> u32 {
    (limits.slots * 2 + u32::from(limits.buffers) + 2_048).next_power_of_two()
}

fn all_features() -> Features {
    Features { socket_options: true, bind: true, min_wait: true, no_sqarray: true, no_iowait: true }
}

fn drawn_delay(dice: &mut Dice, most: Nanos) -> Delay {
    let most = dice.between(1, most);
    match dice.between(0, 3) {
        0 => Delay::Constant(0),
        1 => Delay::Constant(most),
        2 => Delay::Uniform(most / 2, most),
        _ => Delay::Wide(most),
    }
}

/// One kind alone, all kinds, or mostly sound ones.
fn drawn_kinds(dice: &mut Dice) -> Vec<(ResponseKind, u32)> {
    match dice.between(0, 3) {
        0 => vec![(dice.pick(&ResponseKind::ALL), 1)],
        1 => ResponseKind::ALL.map(|kind| (kind, dice.between(1, 5) as u32)).to_vec(),
        _ => ResponseKind::ALL
            .map(|kind| (kind, if kind.is_complete() { 20 } else { dice.between(0, 3) as u32 }))
            .to_vec(),
    }
}
