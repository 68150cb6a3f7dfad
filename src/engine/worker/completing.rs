//! What the ring completed, and what becomes of it.

use std::io;

use super::{Model, Worker};
use crate::clock::{Clock, Nanos, SECOND};
use crate::engine::connection::{Receive, State};
use crate::engine::fault;
use crate::http1::response::{Stage, Step};
use crate::ring::{BufferId, Completion, Kind, Ring, Slot};
use crate::stats::{Exchange, FaultKind, Phase};

/// From this length on a body is better thrown away uncopied than received into buffers
/// (docs/BENCHMARKING.md, large bodies).
const LARGE_BODY_LEN: u64 = 16 * 1024;

impl<R: Ring, C: Clock> Worker<'_, R, C> {
    pub(super) fn complete(&mut self, completion: Completion, now: Nanos) -> io::Result<()> {
        let token = completion.token;
        if token.kind() == Kind::SendPooled {
            return self.pooled_sent(token, completion.result, now);
        }
        let slot = token.slot();
        let generation = self.connections.get(slot as usize).map(|found| found.generation);
        if generation != Some(token.generation()) {
            // Of a connection that is gone.
            if let Some(buffer) = completion.buffer {
                self.ring.recycle(buffer);
            }
            return Ok(());
        }
        match token.kind() {
            Kind::Socket => {
                self.hello_was_silenced(slot);
                self.not_connected(slot, -completion.result, now)
            }
            Kind::Connect if completion.result == 0 => self.connected(slot, now),
            Kind::Connect => self.not_connected(slot, -completion.result, now),
            Kind::Send if self.connections[slot as usize].sending && completion.result > 0 => {
                self.send_ended(slot, completion.result, now)
            }
            Kind::Send => self.not_sent(slot, completion.result, now),
            Kind::ReceiveMulti => self.received(slot, completion, Receive::Multi, now),
            Kind::Receive => self.received(slot, completion, Receive::Single, now),
            Kind::Discard => self.discarded(slot, completion.result, now),
            // Only failures complete: there was nothing to cancel or to close.
            Kind::Cancel | Kind::Shutdown | Kind::Close => Ok(()),
            Kind::SendPooled => unreachable!("it was seen to before"),
            Kind::Accept => unreachable!("a worker accepts nothing"),
        }
    }

    fn connected(&mut self, slot: Slot, now: Nanos) -> io::Result<()> {
        let connect_ns = now - self.connections[slot as usize].begun_ns;
        self.recorder.connected(connect_ns);
        if let Model::Hold(hold) = &mut self.model {
            hold.connected(connect_ns);
        }
        let tally = &mut self.recorder.tally;
        tally.opened += 1;
        tally.open += 1;
        tally.peak_open = tally.peak_open.max(tally.open);
        tally.syn_retransmits += syns_sent_again(connect_ns);
        if self.security.is_some() {
            self.shake_hands(slot, now);
            return Ok(());
        }
        self.gate.made();
        if let Model::Hold(hold) = &mut self.model {
            hold.made(slot);
        }
        match self.connections[slot as usize].request.take() {
            Some(mut request) => {
                let page = &self.pages[request.page as usize];
                let last = self.connections[slot as usize].left == 0;
                let (_, len) = if last { page.close } else { page.keep };
                self.recorder.tally.sent_bytes += u64::from(len);
                self.sent(slot, &mut request, now);
                let connection = &mut self.connections[slot as usize];
                connection.request = Some(request);
                connection.enter(State::Busy);
            }
            None => {
                self.deadlines.clear(slot);
                self.connections[slot as usize].enter(State::Idle);
                self.idle.push_last(0, slot);
                if matches!(self.model, Model::Hold(_)) {
                    self.rest(slot, now)?;
                }
            }
        }
        Ok(())
    }

    /// The connection could not be made.
    fn not_connected(&mut self, slot: Slot, errno: i32, now: Nanos) -> io::Result<()> {
        let begun_ns = self.connections[slot as usize].begun_ns;
        self.abandon_opening(slot)?;
        self.gate.failed(begun_ns, now);
        let kind = FaultKind::of_errno(errno);
        if kind == FaultKind::NoPorts {
            self.recorder.tally.no_ports += 1;
            return self.hold_back(slot, now);
        }
        self.fail(slot, fault::of_errno(Phase::Connect, errno, now), now)
    }

    /// A long request has left, or a part of it.
    fn send_ended(&mut self, slot: Slot, result: i32, now: Nanos) -> io::Result<()> {
        let connection = &mut self.connections[slot as usize];
        connection.sending = false;
        let Some(request) = &connection.request else { return Ok(()) };
        let page = &self.pages[request.page as usize];
        let (_, len) = if connection.left == 0 { page.close } else { page.keep };
        if result as u32 == len { Ok(()) } else { self.not_sent(slot, result, now) }
    }

    /// A send completes only where it fails, if the request is not long.
    fn not_sent(&mut self, slot: Slot, result: i32, now: Nanos) -> io::Result<()> {
        let connection = &self.connections[slot as usize];
        if connection.state != State::Busy || !connection.chained {
            // The receive that is armed says the rest: the response that came all the same, or
            // the end of the connection.
            return Ok(());
        }
        // In a chain the receive was silenced with it.
        self.connections[slot as usize].receive = Receive::None;
        let fault = match result {
            0.. => fault::of_kind(Phase::Send, FaultKind::Closed, now),
            _ => fault::of_errno(Phase::Send, -result, now),
        };
        self.close_by_server(slot)?;
        self.fail(slot, fault, now)
    }

    fn received(
        &mut self,
        slot: Slot,
        completion: Completion,
        receive: Receive,
        now: Nanos,
    ) -> io::Result<()> {
        let current = self.connections[slot as usize].receive == receive;
        if current && !completion.more {
            self.connections[slot as usize].receive = Receive::None;
        }
        match (completion.buffer, completion.result) {
            (Some(buffer), len @ 1..) if current => self.bytes(slot, buffer, len as usize, now),
            (Some(buffer), _) => {
                self.ring.recycle(buffer);
                if current { self.end_of_stream(slot, now) } else { Ok(()) }
            }
            // One that was cancelled for a large body.
            _ if !current => Ok(()),
            (None, result) if result == -libc::ENOBUFS => {
                // Not at once: the buffers of this pass are given back at its end.
                self.no_buffers += 1;
                self.starved.push(slot);
                Ok(())
            }
            (None, 0..) => self.end_of_stream(slot, now),
            (None, result) => self.broken(slot, -result, now),
        }
    }

    /// Arms the receives that found no buffer, now that there are some.
    pub(super) fn feed_starved(&mut self) -> io::Result<()> {
        while let Some(slot) = self.starved.pop() {
            let state = self.connections[slot as usize].state;
            if !matches!(state, State::Empty | State::Queued | State::Connecting) {
                self.receive_again(slot)?;
            }
        }
        Ok(())
    }

    /// Arms the receive anew where none is pending and one is needed.
    pub(super) fn receive_again(&mut self, slot: Slot) -> io::Result<()> {
        if self.connections[slot as usize].receive != Receive::None {
            return Ok(());
        }
        if self.bulk
            && let Stage::Exactly(left @ 1..) = self.connections[slot as usize].scanner.stage()
            && self.ring.scratch_len() > 0
        {
            let len = left.min(u64::from(self.ring.scratch_len()));
            return self.push_discard(slot, len as u32);
        }
        self.ring.reserve(1)?;
        self.push_receive(slot);
        Ok(())
    }

    fn bytes(&mut self, slot: Slot, buffer: BufferId, len: usize, now: Nanos) -> io::Result<()> {
        self.recorder.tally.received_bytes += len as u64;
        if self.security.is_some() {
            return self.records(slot, buffer, len, now);
        }
        let connection = &mut self.connections[slot as usize];
        if connection.state != State::Busy {
            self.ring.recycle(buffer);
            return self.unexpected_bytes(slot, now);
        }
        let request = connection.request.as_mut().expect("a busy connection has a request");
        if request.first_byte_ns.is_none() {
            request.first_byte_ns = Some(now);
            if request.sent_ns == Some(now) {
                // It came together with the connect's completion: nobody can tell when the
                // request was sent, so that the service time is charged with the connect.
                request.sent_ns = Some(connection.begun_ns);
            }
        }
        let bytes = self.ring.received(buffer, len);
        let scanned = connection.scanner.feed(&mut connection.carry, bytes);
        self.ring.recycle(buffer);
        match scanned {
            Ok(Step::Done { used }) => self.exchange_done(slot, used < len, now),
            Ok(Step::More) => {
                if let Stage::Exactly(left) = connection.scanner.stage() {
                    self.bulk |= left >= LARGE_BODY_LEN;
                }
                self.receive_again(slot)
            }
            Err(error) => {
                let fault = fault::of_scan(error, now);
                self.close_by_us(slot)?;
                self.fail(slot, fault, now)
            }
        }
    }

    fn discarded(&mut self, slot: Slot, result: i32, now: Nanos) -> io::Result<()> {
        let connection = &mut self.connections[slot as usize];
        assert_eq!(connection.receive, Receive::Discard, "a discard that nobody armed");
        connection.receive = Receive::None;
        match result {
            1.. => {
                self.recorder.tally.received_bytes += result as u64;
                match connection.scanner.skip(result as u64) {
                    Step::Done { .. } => self.exchange_done(slot, false, now),
                    Step::More => self.receive_again(slot),
                }
            }
            0 => self.end_of_stream(slot, now),
            _ => self.broken(slot, -result, now),
        }
    }

    /// The response is complete.
    pub(super) fn exchange_done(
        &mut self,
        slot: Slot,
        leftover: bool,
        now: Nanos,
    ) -> io::Result<()> {
        self.deadlines.clear(slot);
        let connection = &mut self.connections[slot as usize];
        let request = connection.request.take().expect("a busy connection has a request");
        connection.carried += 1;
        connection.carry = Vec::new();
        let peer_closed = connection.secure.as_ref().is_some_and(|secure| secure.peer_closed);
        let scanner = &connection.scanner;
        let body = scanner.body();
        let (keep_alive, last) = (scanner.keep_alive(), connection.left == 0);
        let sent_ns = request.sent_ns.expect("a request with a response was sent");
        if request.recorded {
            self.recorder.completed(&Exchange {
                page: request.page,
                status: scanner.status(),
                intended_ns: request.intended_ns,
                sent_ns,
                first_byte_ns: request.first_byte_ns.unwrap_or(now),
                done_ns: now,
                body,
                encoding: scanner.encoding(),
            });
        }
        if matches!(self.model, Model::Closed(_)) {
            self.batching.response(now - sent_ns);
        }
        self.request_ended(request.recorded);
        if leftover {
            self.unexpected_bytes_after(slot)?;
        } else if !keep_alive || peer_closed {
            return self.linger(slot, now);
        } else if last || self.connections[slot as usize].sending {
            // A response that came before its request had left ends the connection: what is
            // left of the request would be taken for the next one.
            self.close_by_us(slot)?;
        } else {
            self.connections[slot as usize].enter(State::Idle);
        }
        self.after_request(slot, now)
    }
}

/// How often a connect's SYN was sent again, read off the time it took: Linux sends it again
/// after 1 s, and after twice as long each further time (RFC 6298, 2.1 and 5.5).
fn syns_sent_again(connect_ns: Nanos) -> u64 {
    u64::from((connect_ns / SECOND + 1).ilog2())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syns_sent_again_follow_the_doubling() {
        let seconds = [(0.9, 0), (1.01, 1), (2.9, 1), (3.02, 2), (6.9, 2), (7.1, 3)];
        for (connect_s, count) in seconds {
            assert_eq!(syns_sent_again((connect_s * 1e9) as u64), count, "{connect_s} s");
        }
    }
}
