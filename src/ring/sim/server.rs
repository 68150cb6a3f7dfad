//! The simulated HTTP server: what each connection does with what arrives.

mod securing;

use std::collections::VecDeque;
use std::rc::Rc;

use super::config::{Cuts, ResponseKind, ServerModel};
use super::dice::Dice;
use super::request::{Request, RequestParser};
use super::response::{End, Response, Situation, compose};
use super::session::Secure;
use super::truth::{HandshakeTruth, RequestTruth};
use super::wire::{Act, ConnectionId, Segment, SocketId, Subject, ToClient, ToServer, What, Wire};
use crate::clock::Nanos;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// Our FIN is sent; what arrives is read and thrown away.
    Lingering,
    /// What arrives is answered with RST.
    Closed,
}

/// A response under way.
struct Answer {
    bytes: Rc<Vec<u8>>,
    complete_at: usize,
    end: End,
    request: usize,
    /// Where the pieces end, the next one last.
    cuts: Vec<usize>,
    sent: usize,
}

struct Connection {
    socket: SocketId,
    state: State,
    /// What the worker sent, as it was sent.
    parser: RequestParser,
    /// Requests whose heads were sent and that are not answered yet.
    requests: VecDeque<Request>,
    /// Where requests that were not received whole end, and their indices.
    unreceived: VecDeque<(u64, usize)>,
    /// The request sent last: its index, and whether another may follow its answer.
    last_request: Option<(usize, bool)>,
    requests_sent: u32,
    /// Offset in the stream up to which it has arrived.
    received: u64,
    /// The same in the stream of requests: over TLS, their plaintext.
    arrived: u64,
    /// Bytes sent, or about to be.
    said: u64,
    secure: Option<Box<Secure>>,
    /// The kind of answer to the first of `requests`, once its head is here.
    kind: Option<ResponseKind>,
    /// An answer is due or under way.
    busy: bool,
    answer: Option<Answer>,
    answered: u32,
    /// What was scheduled under an older one is void.
    serial: u32,
    client_fin: bool,
    /// Takes no more bytes off the wire.
    deaf: bool,
    /// Reads no more, but the kernel still takes what arrives.
    closing: bool,
    /// Something has arrived that nobody read.
    unread: bool,
    last_to_client_ns: Nanos,
    disturbed: bool,
}

/// All connections of the server.
pub(super) struct Server {
    pub model: ServerModel,
    connections: Vec<Connection>,
    pub requests: Vec<RequestTruth>,
    pub handshakes: Vec<HandshakeTruth>,
    pub closed_by_server: u64,
    pub closed_by_worker: u64,
    pub bytes_received: u64,
    pub bytes_sent: u64,
}

impl Server {
    pub(super) fn new(model: ServerModel) -> Self {
        Self {
            model,
            connections: Vec::new(),
            requests: Vec::new(),
            handshakes: Vec::new(),
            closed_by_server: 0,
            closed_by_worker: 0,
            bytes_received: 0,
            bytes_sent: 0,
        }
    }

    pub(super) fn accepted(&self) -> u64 {
        self.connections.len() as u64
    }

    /// The worker's end of a connection.
    pub(super) fn socket(&self, id: ConnectionId) -> SocketId {
        self.connections[id as usize].socket
    }

    pub(super) fn accept(&mut self, at: Nanos, socket: SocketId, wire: &mut Wire) -> ConnectionId {
        let id = self.connections.len() as ConnectionId;
        let tls = self.model.tls.as_ref();
        let secure = tls.map(|tls| Box::new(Secure::new(tls, &mut wire.dice)));
        self.connections.push(Connection {
            socket,
            state: State::Open,
            parser: RequestParser::default(),
            requests: VecDeque::new(),
            unreceived: VecDeque::new(),
            last_request: None,
            requests_sent: 0,
            received: 0,
            arrived: 0,
            said: 0,
            secure,
            kind: None,
            busy: false,
            answer: None,
            answered: 0,
            serial: 0,
            client_fin: false,
            deaf: false,
            closing: false,
            unread: false,
            last_to_client_ns: 0,
            disturbed: false,
        });
        self.wait_for_request(id, at, wire);
        id
    }

    /// The worker's bytes enter the connection. Panics where they should not.
    pub(super) fn sent(&mut self, id: ConnectionId, bytes: &[u8], now: Nanos) {
        match &mut self.connections[id as usize].secure {
            None => self.take_requests(id, bytes, now),
            Some(secure) => {
                for plain in secure.take(id, bytes) {
                    self.take_requests(id, &plain, now);
                }
            }
        }
    }

    fn take_requests(&mut self, id: ConnectionId, mut bytes: &[u8], now: Nanos) {
        let connection = &mut self.connections[id as usize];
        while !bytes.is_empty() {
            if connection.parser.is_between() {
                begin_request(connection, id, &mut self.requests, now);
            }
            if let Some(mut request) = connection.parser.feed(&mut bytes) {
                let (index, _) = connection.last_request.expect("it has begun");
                request.index = index;
                self.requests[index].target.clone_from(&request.target);
                connection.unreceived.push_back((request.end, index));
                connection.requests.push_back(request);
            }
        }
    }

    /// The worker was given an answer up to and including byte `to` of its bytes.
    pub(super) fn handed(&mut self, segment: &Segment, to: usize, now: Nanos) {
        if to < segment.complete_at {
            return;
        }
        let handed_ns = match segment.subject {
            Subject::Answer(request) => &mut self.requests[request].handed_ns,
            Subject::Handshake(handshake) => &mut self.handshakes[handshake].handed_ns,
            Subject::Records => return,
        };
        handed_ns.get_or_insert(now);
    }

    /// Something arrives. Gives the offset up to which the client's bytes are acknowledged.
    pub(super) fn arrive(
        &mut self,
        id: ConnectionId,
        at: Nanos,
        arrival: ToServer,
        wire: &mut Wire,
    ) -> Option<u64> {
        let connection = &mut self.connections[id as usize];
        match arrival {
            ToServer::Bytes(_) if connection.state == State::Closed => {
                self.towards_client(id, at, ToClient::Reset, wire);
                None
            }
            ToServer::Bytes(upto) if connection.state == State::Lingering => Some(upto),
            ToServer::Bytes(upto) if connection.deaf || connection.closing => {
                connection.unread = true;
                (!connection.deaf).then_some(upto)
            }
            ToServer::Bytes(upto) => {
                self.bytes_received += upto - connection.received;
                connection.received = upto;
                connection.arrived = match &mut connection.secure {
                    Some(secure) => secure.arrived(upto, connection.arrived),
                    None => upto,
                };
                self.reply(id, at, wire);
                self.look_at_requests(id, at, wire);
                Some(upto)
            }
            ToServer::Fin => {
                self.client_fin(id, at, wire);
                None
            }
            ToServer::Reset => {
                if connection.state == State::Open && !connection.client_fin {
                    self.closed_by_worker += 1;
                }
                connection.state = State::Closed;
                connection.serial += 1;
                connection.answer = None;
                None
            }
        }
    }

    /// What was scheduled comes due.
    pub(super) fn act(
        &mut self,
        id: ConnectionId,
        serial: u32,
        at: Nanos,
        act: Act,
        wire: &mut Wire,
    ) {
        if self.connections[id as usize].serial != serial {
            return;
        }
        match act {
            Act::Answer => self.begin_answer(id, at, wire),
            Act::Write => self.write(id, at, wire),
            Act::UpdateKeys => self.update_keys(id, at, wire),
            Act::Close => self.close(id, at, wire),
        }
    }

    fn towards_client(&mut self, id: ConnectionId, at: Nanos, arrival: ToClient, wire: &mut Wire) {
        let connection = &mut self.connections[id as usize];
        let at = at + wire.dice.delay(self.model.one_way_ns);
        let at = at.max(connection.last_to_client_ns);
        connection.last_to_client_ns = at;
        wire.schedule(at, What::ToClient { socket: connection.socket, arrival });
    }

    fn schedule(&mut self, id: ConnectionId, at: Nanos, act: Act, wire: &mut Wire) {
        let serial = self.connections[id as usize].serial;
        wire.schedule(at, What::Server { connection: id, serial, act });
    }

    fn wait_for_request(&mut self, id: ConnectionId, at: Nanos, wire: &mut Wire) {
        self.connections[id as usize].serial += 1;
        if let Some(idle_ns) = self.model.keep_alive_idle_ns {
            self.schedule(id, at + idle_ns, Act::Close, wire);
        }
    }

    /// Turns to the next request, as far as it is here.
    fn look_at_requests(&mut self, id: ConnectionId, at: Nanos, wire: &mut Wire) {
        let connection = &mut self.connections[id as usize];
        while let Some(&(end, index)) = connection.unreceived.front()
            && connection.arrived >= end
        {
            self.requests[index].received_ns = Some(at);
            connection.unreceived.pop_front();
        }
        let Some(request) = connection.requests.front() else { return };
        if connection.busy || connection.arrived < request.head_end {
            return;
        }
        let has_body = request.end > request.head_end;
        let kind =
            *connection.kind.get_or_insert_with(|| match wire.dice.weighted(&self.model.kinds) {
                ResponseKind::Early if !has_body => ResponseKind::Plain,
                kind => kind,
            });
        self.requests[request.index].kind = Some(kind);
        let is_early = kind == ResponseKind::Early;
        if !is_early && connection.arrived < request.end {
            return;
        }
        connection.busy = true;
        connection.serial += 1;
        connection.deaf |= connection.arrived < request.end && wire.dice.chance(0.3);
        let service_ns = wire.dice.delay(self.model.service_ns);
        self.schedule(id, at + service_ns, Act::Answer, wire);
    }

    fn begin_answer(&mut self, id: ConnectionId, at: Nanos, wire: &mut Wire) {
        let connection = &mut self.connections[id as usize];
        let request = connection.requests.pop_front().expect("an answer has a request");
        let kind = connection.kind.take().expect("the kind is known before the answer");
        let dice = &mut wire.dice;
        let at_limit = self.model.keep_alive_requests.is_some_and(|n| connection.answered + 1 >= n);
        let asked = request.close && !dice.chance(self.model.ignores_close);
        let last = at_limit || asked || connection.client_fin || connection.deaf;
        let announced =
            (at_limit && dice.chance(self.model.announces_limit)) || (asked && dice.chance(0.8));
        let mut response =
            compose(&self.model, &request, &Situation { kind, last, announced }, dice);
        connection.disturbed |= response.complete_at < response.bytes.len();
        match (&mut connection.secure, &self.model.tls) {
            (Some(secure), Some(model)) => secure.seal(&mut response, model, dice),
            _ => response.cut_short(dice),
        }
        let truth = &mut self.requests[request.index];
        truth.status = response.status;
        truth.body_len = response.body_len;
        truth.answer_start_ns = (!response.bytes.is_empty()).then_some(at);
        connection.last_request = Some((request.index, response.reusable));
        let Response { bytes, complete_at, end, .. } = response;
        let cuts = cuts(bytes.len(), complete_at, connection.said, self.model.cuts, dice);
        connection.said += bytes.len() as u64;
        connection.answer = Some(Answer {
            bytes: Rc::new(bytes),
            complete_at,
            end,
            request: request.index,
            cuts,
            sent: 0,
        });
        self.write(id, at, wire);
    }

    fn write(&mut self, id: ConnectionId, at: Nanos, wire: &mut Wire) {
        let connection = &mut self.connections[id as usize];
        let answer = connection.answer.as_mut().expect("what is written is an answer");
        if let Some(to) = answer.cuts.pop() {
            let from = std::mem::replace(&mut answer.sent, to);
            let complete_at = answer.complete_at;
            if from < complete_at && complete_at <= to {
                self.requests[answer.request].answer_end_ns = Some(at);
            }
            self.bytes_sent += (to - from) as u64;
            let bytes = Rc::clone(&answer.bytes);
            let subject = Subject::Answer(answer.request);
            let segment = Segment { bytes, from, to, subject, complete_at };
            let is_last = answer.cuts.is_empty();
            self.towards_client(id, at, ToClient::Data(segment), wire);
            if !is_last {
                let gap_ns = wire.dice.delay(self.model.piece_gap_ns);
                self.schedule(id, at + gap_ns, Act::Write, wire);
                return;
            }
        }
        self.end_answer(id, at, wire);
    }

    fn end_answer(&mut self, id: ConnectionId, at: Nanos, wire: &mut Wire) {
        let connection = &mut self.connections[id as usize];
        let Some(answer) = connection.answer.take() else { return };
        match answer.end {
            End::Silent => {}
            End::Reset => self.reset(id, at, wire),
            End::Fin => self.close_after_answer(id, at, wire),
            End::Open if connection.client_fin => self.close_after_answer(id, at, wire),
            End::Open => {
                connection.answered += 1;
                connection.busy = false;
                self.wait_for_request(id, at, wire);
                if self.model.tls.as_ref().is_some_and(|tls| wire.dice.chance(tls.key_update)) {
                    let gap_ns = wire.dice.delay(self.model.piece_gap_ns);
                    self.schedule(id, at + gap_ns, Act::UpdateKeys, wire);
                }
                self.look_at_requests(id, at, wire);
            }
        }
    }

    fn close_after_answer(&mut self, id: ConnectionId, at: Nanos, wire: &mut Wire) {
        self.connections[id as usize].closing = true;
        let fin_ns = wire.dice.delay(self.model.fin_ns);
        self.schedule(id, at + fin_ns, Act::Close, wire);
    }

    fn client_fin(&mut self, id: ConnectionId, at: Nanos, wire: &mut Wire) {
        let connection = &mut self.connections[id as usize];
        connection.client_fin = true;
        if connection.state == State::Open {
            self.closed_by_worker += 1;
            let is_silent =
                connection.busy && connection.answer.is_none() && connection.kind.is_none();
            if !connection.busy || is_silent || wire.dice.chance(0.5) {
                self.finish(id, at, wire);
            }
        } else {
            connection.state = State::Closed;
        }
    }

    /// The server's close, on its own account.
    fn close(&mut self, id: ConnectionId, at: Nanos, wire: &mut Wire) {
        if self.connections[id as usize].state != State::Open {
            return;
        }
        if !self.connections[id as usize].client_fin {
            self.closed_by_server += 1;
        }
        self.finish(id, at, wire);
    }

    fn finish(&mut self, id: ConnectionId, at: Nanos, wire: &mut Wire) {
        let connection = &mut self.connections[id as usize];
        connection.serial += 1;
        let interrupted = connection.answer.take().is_some();
        if let Some(secure) = &mut connection.secure
            && !interrupted
        {
            let mut bytes = Vec::new();
            secure.say_end(&mut bytes);
            self.say(id, at, bytes, Subject::Records, usize::MAX, wire);
        }
        let connection = &mut self.connections[id as usize];
        let lingers = !connection.client_fin && wire.dice.chance(self.model.lingers);
        connection.state = if lingers { State::Lingering } else { State::Closed };
        // Closing over bytes that were not read sends RST in place of FIN.
        let unread = connection.unread && !lingers;
        self.towards_client(id, at, if unread { ToClient::Reset } else { ToClient::Fin }, wire);
    }

    fn reset(&mut self, id: ConnectionId, at: Nanos, wire: &mut Wire) {
        let connection = &mut self.connections[id as usize];
        connection.serial += 1;
        connection.state = State::Closed;
        self.closed_by_server += u64::from(!connection.client_fin);
        self.towards_client(id, at, ToClient::Reset, wire);
    }
}

/// The first byte of a request is sent: is that right, here and now?
fn begin_request(
    connection: &mut Connection,
    id: ConnectionId,
    requests: &mut Vec<RequestTruth>,
    now: Nanos,
) {
    if let Some((last, reusable)) = connection.last_request {
        let last = &requests[last];
        assert!(
            // Stray bytes may have passed for its answer.
            last.handed_ns.is_some() || last.disturbed,
            "worker bug: connection {id}: a request is sent at {now} ns while the one before it has \
             no complete answer yet: {last:?}"
        );
        assert!(
            reusable || last.disturbed,
            "worker bug: connection {id}: a request is sent at {now} ns although the exchange \
             before it was the connection's last: {last:?}"
        );
    }
    connection.last_request = Some((requests.len(), true));
    requests.push(RequestTruth {
        connection: id,
        place: connection.requests_sent,
        target: String::new(),
        sent_ns: now,
        received_ns: None,
        kind: None,
        status: 0,
        body_len: 0,
        answer_start_ns: None,
        answer_end_ns: None,
        handed_ns: None,
        disturbed: connection.disturbed,
    });
    connection.requests_sent += 1;
}

/// Where the pieces of `len` bytes end that begin at `offset` in the stream, the first one last.
fn cuts(len: usize, complete_at: usize, offset: u64, how: Cuts, dice: &mut Dice) -> Vec<usize> {
    if len == 0 {
        return Vec::new();
    }
    let mut cuts: Vec<usize> = match how {
        Cuts::Drawn(pieces) => {
            (1..dice.between(1, u64::from(pieces))).map(|_| 1 + dice.index(len)).collect()
        }
        Cuts::At(at) => {
            let at = at.saturating_sub(offset) as usize;
            if at > 0 && at < len { vec![at] } else { Vec::new() }
        }
        Cuts::Every(size) => (1..len).filter(|at| at % size as usize == 0).collect(),
    };
    cuts.push(len);
    if complete_at < len && matches!(how, Cuts::Drawn(_)) && dice.chance(0.5) {
        cuts.push(complete_at);
    }
    cuts.sort_unstable_by(|a, b| b.cmp(a));
    cuts.dedup();
    cuts
}
