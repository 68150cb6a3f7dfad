//! The worker's side of the network: sockets as Linux has them, and the events that change them.

use std::collections::VecDeque;

use super::super::{Family, SocketOption};
use super::config::{Faults, SimConfig};
use super::dice::Dice;
use super::server::Server;
use super::wire::{ConnectionId, Segment, SimClock, SocketId, ToClient, ToServer, What, Wire};
use crate::clock::{Clock, Nanos, SECOND};

/// Until the kernel gives up connecting with `tcp_syn_retries` = 6 (tcp(7)).
const SYN_TIMEOUT_NS: Nanos = 127 * SECOND;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Never connected, or no longer.
    Unconnected,
    Connecting,
    Connected,
    /// Connected once; a RST ended it.
    Dead,
}

pub(super) struct Socket {
    pub family: Family,
    pub state: State,
    /// The slot and the operations that hold it.
    pub pins: u32,
    /// Operations that wait for it, the longest waiting first.
    pub waiting: Vec<u32>,
    reset_on_close: bool,
    attempt: u32,
    /// What connecting came to; taken by the connect operation.
    connect_errno: Option<i32>,
    /// The error that the next operation reports (`sk_err`).
    errno: Option<i32>,
    received: VecDeque<Segment>,
    fin_received: bool,
    /// We shut both directions down.
    shut: bool,
    connection: Option<ConnectionId>,
    /// Offsets in our stream: put into the socket, and acknowledged.
    sent: u64,
    acknowledged: u64,
    last_to_server_ns: Nanos,
    has_port: bool,
    released: bool,
}

/// What an attempt at an operation came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done(u32),
    Failed(i32),
    Wait,
}

/// What becomes of a connect.
struct Fate {
    errno: i32,
    inline: bool,
    delay_ns: Nanos,
}

impl Fate {
    fn draw(&mut self, faults: &Faults, no_ports: bool, dice: &mut Dice) {
        if no_ports || dice.chance(faults.no_ports) {
            (self.errno, self.inline) = (libc::EADDRNOTAVAIL, true);
        } else if dice.chance(faults.refused) {
            self.errno = libc::ECONNREFUSED;
        } else if dice.chance(faults.unreachable) {
            self.inline = dice.chance(0.5);
            self.errno = if self.inline { libc::ENETUNREACH } else { libc::EHOSTUNREACH };
        } else if dice.chance(faults.connect_reset) {
            (self.errno, self.inline) = (libc::ECONNRESET, false);
        } else if dice.chance(faults.syn_lost) {
            (self.errno, self.inline) = (libc::ETIMEDOUT, false);
            self.delay_ns = SYN_TIMEOUT_NS;
        } else if dice.chance(faults.syn_retransmit) {
            self.inline = false;
            self.delay_ns += dice.pick(&[SECOND, 3 * SECOND]);
        }
    }
}

pub(super) struct Network {
    pub clock: SimClock,
    pub wire: Wire,
    pub server: Server,
    sockets: Vec<Socket>,
    open_sockets: u32,
    /// Sockets whose operations may get further.
    pub woken: Vec<SocketId>,
    /// Operations that the kernel turns to now, by serial.
    pub due: Vec<u64>,
    ports: Option<u32>,
    pub connects: u64,
    pub connects_failed: u64,
}

impl Network {
    pub(super) fn new(config: &SimConfig, seed: u64) -> Self {
        Self {
            clock: SimClock::new(config.start_ns),
            wire: Wire::new(Dice::new(seed)),
            server: Server::new(config.server.clone()),
            sockets: Vec::new(),
            open_sockets: 0,
            woken: Vec::new(),
            due: Vec::new(),
            ports: config.ports,
            connects: 0,
            connects_failed: 0,
        }
    }

    pub(super) fn socket(&self, id: SocketId) -> &Socket {
        &self.sockets[id as usize]
    }

    pub(super) fn socket_mut(&mut self, id: SocketId) -> &mut Socket {
        &mut self.sockets[id as usize]
    }

    pub(super) fn open_sockets(&self) -> u32 {
        self.open_sockets
    }

    pub(super) fn make_socket(&mut self, family: Family) -> SocketId {
        self.open_sockets += 1;
        self.sockets.push(Socket {
            family,
            state: State::Unconnected,
            pins: 0,
            waiting: Vec::new(),
            reset_on_close: false,
            attempt: 0,
            connect_errno: None,
            errno: None,
            received: VecDeque::new(),
            fin_received: false,
            shut: false,
            connection: None,
            sent: 0,
            acknowledged: 0,
            last_to_server_ns: 0,
            has_port: false,
            released: false,
        });
        self.sockets.len() as SocketId - 1
    }

    pub(super) fn set_option(&mut self, id: SocketId, option: SocketOption) -> i32 {
        let socket = self.socket_mut(id);
        match option {
            SocketOption::ResetOnClose => socket.reset_on_close = true,
            _ if socket.family == Family::Unix => return -libc::EOPNOTSUPP,
            SocketOption::NoDelay | SocketOption::NoQuickAck | SocketOption::BindAddressNoPort => {}
        }
        0
    }

    /// Begins to connect.
    pub(super) fn connect(&mut self, id: SocketId, config: &SimConfig, refused: bool) -> Outcome {
        match self.socket(id).state {
            State::Connected => return Outcome::Failed(libc::EISCONN),
            State::Connecting => return Outcome::Failed(libc::EALREADY),
            State::Unconnected | State::Dead => {}
        }
        self.connects += 1;
        let now = self.clock.now();
        let is_unix = self.socket(id).family == Family::Unix;
        let mut fate = Fate {
            errno: if refused { libc::ECONNREFUSED } else { 0 },
            inline: is_unix || self.wire.dice.chance(self.server.model.connect_inline),
            delay_ns: self.wire.dice.delay(self.server.model.connect_ns),
        };
        if !is_unix && !refused {
            fate.draw(&config.faults, self.ports == Some(0), &mut self.wire.dice);
        }
        if fate.inline && fate.errno != 0 {
            self.connects_failed += 1;
            return Outcome::Failed(fate.errno);
        }
        self.take_port(id, is_unix);
        if fate.inline {
            self.establish(id, now);
            return Outcome::Done(0);
        }
        let socket = self.socket_mut(id);
        socket.state = State::Connecting;
        socket.attempt += 1;
        let Fate { errno, delay_ns, .. } = fate;
        let attempt = socket.attempt;
        self.wire.schedule(now + delay_ns, What::Handshake { socket: id, attempt, errno });
        Outcome::Wait
    }

    fn take_port(&mut self, id: SocketId, is_unix: bool) {
        if let Some(ports) = &mut self.ports
            && !is_unix
        {
            *ports -= 1;
            self.sockets[id as usize].has_port = true;
        }
    }

    fn establish(&mut self, id: SocketId, at: Nanos) {
        let connection = self.server.accept(at, id, &mut self.wire);
        let socket = self.socket_mut(id);
        socket.state = State::Connected;
        socket.connection = Some(connection);
    }

    /// Looks whether a connect that was begun has ended.
    pub(super) fn connected(&mut self, id: SocketId) -> Outcome {
        let socket = self.socket_mut(id);
        match socket.connect_errno.take() {
            Some(0) => Outcome::Done(0),
            Some(errno) => Outcome::Failed(errno),
            None => Outcome::Wait,
        }
    }

    /// Puts what fits of `bytes` into the socket.
    pub(super) fn send(&mut self, id: SocketId, bytes: &[u8]) -> Outcome {
        let now = self.clock.now();
        let capacity = u64::from(self.server.model.send_buffer);
        let socket = &mut self.sockets[id as usize];
        if let Some(errno) = socket.errno.take() {
            return Outcome::Failed(errno);
        }
        match socket.state {
            State::Connecting => return Outcome::Wait,
            State::Unconnected | State::Dead => return Outcome::Failed(libc::EPIPE),
            State::Connected if socket.shut => return Outcome::Failed(libc::EPIPE),
            State::Connected => {}
        }
        let room = capacity - (socket.sent - socket.acknowledged);
        let len = (bytes.len() as u64).min(room);
        if len == 0 {
            return if bytes.is_empty() { Outcome::Done(0) } else { Outcome::Wait };
        }
        socket.sent += len;
        let upto = socket.sent;
        let connection = socket.connection.expect("a connected socket has a peer");
        self.server.sent(connection, &bytes[..len as usize], now);
        self.towards_server(id, now, ToServer::Bytes(upto));
        Outcome::Done(len as u32)
    }

    /// Takes up to `max` bytes out of the socket, into `into` where there is one.
    pub(super) fn receive(
        &mut self,
        id: SocketId,
        max: usize,
        mut into: Option<&mut [u8]>,
    ) -> Outcome {
        let now = self.clock.now();
        let socket = &mut self.sockets[id as usize];
        let mut taken = 0;
        while taken < max
            && let Some(segment) = socket.received.front_mut()
        {
            let len = (segment.to - segment.from).min(max - taken);
            let end = segment.from + len;
            if let Some(into) = &mut into {
                into[taken..taken + len].copy_from_slice(&segment.bytes[segment.from..end]);
            }
            self.server.handed(segment, end, now);
            segment.from = end;
            taken += len;
            if end == segment.to {
                socket.received.pop_front();
            }
        }
        if taken > 0 {
            return Outcome::Done(taken as u32);
        }
        if let Some(errno) = socket.errno.take() {
            return Outcome::Failed(errno);
        }
        match socket.state {
            _ if socket.fin_received || socket.shut => Outcome::Done(0),
            State::Dead => Outcome::Done(0),
            State::Unconnected => Outcome::Failed(libc::ENOTCONN),
            State::Connecting | State::Connected => Outcome::Wait,
        }
    }

    /// Whether a receive would get further.
    pub(super) fn is_readable(&self, id: SocketId) -> bool {
        let socket = self.socket(id);
        !socket.received.is_empty()
            || socket.errno.is_some()
            || socket.fin_received
            || socket.shut
            || matches!(socket.state, State::Unconnected | State::Dead)
    }

    /// Whether more could be put into it, or an error be reported.
    pub(super) fn is_writable(&self, id: SocketId) -> bool {
        let socket = self.socket(id);
        socket.errno.is_some()
            || socket.shut
            || match socket.state {
                State::Connecting => false,
                State::Unconnected | State::Dead => true,
                State::Connected => {
                    socket.sent - socket.acknowledged < u64::from(self.server.model.send_buffer)
                }
            }
    }

    /// Whether connecting has ended.
    pub(super) fn is_settled(&self, id: SocketId) -> bool {
        self.socket(id).connect_errno.is_some()
    }

    /// `shutdown(SHUT_RDWR)`, as `inet_shutdown` has it.
    pub(super) fn shutdown(&mut self, id: SocketId, at: Nanos) -> i32 {
        let socket = self.socket_mut(id);
        match socket.state {
            State::Unconnected | State::Dead => return -libc::ENOTCONN,
            State::Connecting => {
                socket.state = State::Unconnected;
                socket.connect_errno = Some(libc::ECONNRESET);
                self.connects_failed += 1;
            }
            State::Connected if socket.shut && socket.fin_received => return -libc::ENOTCONN,
            State::Connected if socket.shut => {}
            State::Connected => {
                socket.shut = true;
                self.towards_server(id, at, ToServer::Fin);
            }
        }
        self.woken.push(id);
        0
    }

    /// Nothing holds the socket any more.
    pub(super) fn release(&mut self, id: SocketId, at: Nanos, time_wait_ns: Nanos) {
        self.open_sockets -= 1;
        let socket = self.socket_mut(id);
        assert!(!socket.released, "a socket is released once");
        socket.released = true;
        let resets = socket.reset_on_close || !socket.received.is_empty();
        socket.received = VecDeque::new();
        let mut port_held_ns = 0;
        if socket.state == State::Connected {
            let says_fin = !socket.shut && !resets;
            if !socket.fin_received && !resets {
                port_held_ns = time_wait_ns;
            }
            if resets {
                self.towards_server(id, at, ToServer::Reset);
            } else if says_fin {
                self.towards_server(id, at, ToServer::Fin);
            }
        }
        if std::mem::take(&mut self.socket_mut(id).has_port) {
            self.wire.schedule(at + port_held_ns, What::Port);
        }
    }

    fn towards_server(&mut self, id: SocketId, at: Nanos, arrival: ToServer) {
        let at = at + self.wire.dice.delay(self.server.model.one_way_ns);
        let socket = self.socket_mut(id);
        let Some(connection) = socket.connection else { return };
        let at = at.max(socket.last_to_server_ns);
        socket.last_to_server_ns = at;
        self.wire.schedule(at, What::ToServer { connection, arrival });
    }

    /// When something happens next.
    pub(super) fn next_at(&self) -> Option<Nanos> {
        self.wire.next_at()
    }

    /// Lets everything happen that is due by now.
    pub(super) fn run(&mut self) {
        let now = self.clock.now();
        while let Some((at, what)) = self.wire.pop(now) {
            match what {
                What::Handshake { socket, attempt, errno } => {
                    self.handshake(socket, attempt, errno, at);
                }
                What::ToServer { connection, arrival } => {
                    self.arrive_at_server(connection, at, arrival);
                }
                What::ToClient { socket, arrival } => self.arrive_at_client(socket, at, arrival),
                What::Server { connection, serial, act } => {
                    self.server.act(connection, serial, at, act, &mut self.wire);
                }
                What::Operation { serial } => self.due.push(serial),
                What::Port => {
                    if let Some(ports) = &mut self.ports {
                        *ports += 1;
                    }
                }
            }
        }
    }

    fn handshake(&mut self, id: SocketId, attempt: u32, errno: i32, at: Nanos) {
        let socket = self.socket_mut(id);
        if socket.released || socket.attempt != attempt || socket.state != State::Connecting {
            return;
        }
        socket.connect_errno = Some(errno);
        if errno == 0 {
            self.establish(id, at);
        } else {
            socket.state = State::Unconnected;
            self.connects_failed += 1;
        }
        self.woken.push(id);
    }

    fn arrive_at_server(&mut self, connection: ConnectionId, at: Nanos, arrival: ToServer) {
        let Some(upto) = self.server.arrive(connection, at, arrival, &mut self.wire) else {
            return;
        };
        let id = self.server.socket(connection);
        let socket = self.socket_mut(id);
        socket.acknowledged = upto;
        if !socket.waiting.is_empty() {
            self.woken.push(id);
        }
    }

    fn arrive_at_client(&mut self, id: SocketId, at: Nanos, arrival: ToClient) {
        let socket = self.socket_mut(id);
        if socket.state == State::Dead {
            return;
        }
        if socket.released || (socket.shut && matches!(arrival, ToClient::Data(_))) {
            // Data that nobody can read any more is answered with RST.
            if let ToClient::Data(_) = arrival {
                socket.state = State::Dead;
                if !socket.released {
                    socket.errno = Some(libc::ECONNRESET);
                }
                self.towards_server(id, at, ToServer::Reset);
            }
            return;
        }
        match arrival {
            ToClient::Data(segment) => socket.received.push_back(segment),
            ToClient::Fin => socket.fin_received = true,
            ToClient::Reset => {
                socket.state = State::Dead;
                socket.errno =
                    Some(if socket.fin_received { libc::EPIPE } else { libc::ECONNRESET });
            }
        }
        self.woken.push(id);
    }
}
