//! Connections over TLS: the handshake, what goes through a session, and how that ends.
//!
//! A ClientHello is a link of the chain that makes the connection. The last flight of the handshake
//! and the first request leave in one send. What is encrypted for one send lies in the worker's
//! [`pool`](crate::engine::pool); small sends do not wait, so that their bytes are free again after
//! one enter and no completion is paid for.

use std::io;

use rand::RngExt;
use rustls::Error;

use super::opening::{LINK, PLAIN, QUIET};
use super::{Model, SENT_AT_ONCE_LEN, Worker};
use crate::clock::{Clock, Nanos};
use crate::engine::connection::State;
use crate::engine::fault;
use crate::engine::secure::Secure;
use crate::http1::response::{ScanError, Stage, Step};
use crate::ring::{BufferId, Op, Ring, Slot, Token};
use crate::stats::{FaultKind, Phase};
use crate::tls;

/// What became of the plaintext in a piece of input.
#[derive(Default)]
struct Read {
    /// Bytes of it.
    len: usize,
    /// How far the response is.
    scanned: Option<Result<Step, ScanError>>,
    /// Bytes that nobody asked for.
    stray: bool,
}

impl<R: Ring, C: Clock> Worker<'_, R, C> {
    /// Begins a session on the connection that is being opened: its first flight is ready to be
    /// sent. Where there can be none, says why.
    pub(super) fn begin_session(&mut self, slot: Slot) -> Result<(), Error> {
        let Some(security) = &mut self.security else { return Ok(()) };
        let share = security.resume;
        let may_resume = share > 0.0 && (share >= 1.0 || self.rng.random_bool(share));
        let mut secure = Secure::new(security.client.session(may_resume)?);
        security.output.clear();
        secure.session.advance(&mut [], &mut security.output, |_| {})?;
        self.connections[slot as usize].secure = Some(Box::new(secure));
        Ok(())
    }

    /// The ClientHello, as a link of the chain.
    pub(super) fn push_hello(&mut self, slot: Slot) {
        let generation = self.connections[slot as usize].generation;
        let security = self.security.as_mut().expect("a session has begun");
        let len = security.output.len();
        let index = security.pool.take(&mut self.ring, len, slot, generation);
        security.pool.set(index, 0, len as u32);
        let bytes = security.pool.get(index).bytes;
        self.ring.bytes_mut(bytes)[..len].copy_from_slice(&security.output);
        security.output.clear();
        let op = Op::Send { slot, bytes, from: 0, to: len as u32 };
        self.ring.push(op, security.pool.token(index), LINK);
        self.connections[slot as usize].secure.as_mut().expect("it has begun").pending =
            Some(index);
    }

    /// TCP is connected; the ClientHello is on its way.
    pub(super) fn shake_hands(&mut self, slot: Slot, now: Nanos) {
        let security = self.security.as_ref().expect("a worker over TLS");
        let connection = &mut self.connections[slot as usize];
        let secure = connection.secure.as_mut().expect("it has begun");
        secure.connected_ns = now;
        let hello = secure.pending.map(|index| security.pool.get(index));
        self.recorder.tally.sent_bytes += u64::from(hello.map_or(0, |hello| hello.to));
        connection.enter(State::Handshaking);
    }

    /// Bytes of a connection over TLS.
    pub(super) fn records(
        &mut self,
        slot: Slot,
        buffer: BufferId,
        len: usize,
        now: Nanos,
    ) -> io::Result<()> {
        let Self { ring, connections, security, .. } = self;
        let security = security.as_mut().expect("a connection over TLS is of a worker over TLS");
        let connection = &mut connections[slot as usize];
        let (state, generation) = (connection.state, connection.generation);
        let secure = connection.secure.as_mut().expect("it is over TLS");
        let (scanner, carry) = (&mut connection.scanner, &mut connection.carry);
        security.output.clear();
        let mut read = Read::default();
        let taken = secure.take(ring.received_mut(buffer, len), &mut security.output, |plain| {
            read.len += plain.len();
            let goes_on = matches!(read.scanned, None | Some(Ok(Step::More)));
            if plain.is_empty() {
            } else if state == State::Busy && goes_on {
                let scanned = scanner.feed(carry, plain);
                read.stray |= matches!(scanned, Ok(Step::Done { used }) if used < plain.len());
                read.scanned = Some(scanned);
            } else {
                read.stray = true;
            }
        });
        ring.recycle(buffer);
        if state == State::Handshaking {
            secure.certificate_missed |= security.client.take_certificate_missed();
        }
        let progress = match taken {
            Ok(progress) => progress,
            Err(error) => return self.session_broke(slot, &error, &read, now),
        };
        secure.peer_closed |= progress.peer_closed;
        let peer_closed = secure.peer_closed;
        let secured = progress.established && !secure.established;
        if read.len > 0
            && let Some(request) = connection.request.as_mut()
        {
            request.first_byte_ns.get_or_insert(now);
        }
        if state == State::Handshaking {
            self.costly += 1;
            if read.stray {
                // An answer before the question.
                return self.handshake_failed(slot, FaultKind::Malformed, now);
            }
        }
        if secured {
            self.secured(slot)?;
        } else {
            self.send_secure(slot, None)?;
        }
        match read.scanned {
            Some(Ok(Step::Done { .. })) => self.exchange_done(slot, read.stray, now)?,
            Some(Err(error)) => {
                let fault = fault::of_scan(error, now);
                self.close_by_us(slot)?;
                return self.fail(slot, fault, now);
            }
            _ if read.stray => return self.unexpected_bytes(slot, now),
            _ => {}
        }
        if self.connections[slot as usize].generation != generation {
            return Ok(());
        }
        if peer_closed {
            return self.peer_has_closed(slot, now);
        }
        let connection = &mut self.connections[slot as usize];
        if connection.state == State::Idle
            && let Some(secure) = &mut connection.secure
            && secure.incoming.is_empty()
        {
            // Nothing belongs to a connection that is idle.
            secure.incoming = Vec::new();
        }
        self.receive_again(slot)
    }

    /// The handshake is complete: its last flight leaves, with the first request if there is one.
    fn secured(&mut self, slot: Slot) -> io::Result<()> {
        // What it took includes our own part of the work.
        let now = self.clock.now();
        let security = self.security.as_mut().expect("a worker over TLS");
        let connection = &mut self.connections[slot as usize];
        let secure = connection.secure.as_mut().expect("it is over TLS");
        secure.established = true;
        let handshake = secure.session.handshake().expect("it is complete");
        security.note(handshake);
        let handshake_ns = now.saturating_sub(secure.connected_ns);
        self.recorder.secured(handshake_ns, handshake.resumed);
        self.gate.made();
        if let Model::Hold(hold) = &mut self.model {
            hold.secured(handshake_ns, handshake.resumed);
            hold.made(slot);
        }
        match connection.request.take() {
            Some(request) => self.send_on(slot, request, now),
            None => {
                self.send_secure(slot, None)?;
                self.deadlines.clear(slot);
                self.connections[slot as usize].enter(State::Idle);
                self.idle.push_last(0, slot);
                if matches!(self.model, Model::Hold(_)) {
                    self.rest(slot, now)?;
                }
                Ok(())
            }
        }
    }

    /// Sends what the session has to say, and behind it the next request on this connection, which
    /// is for `page`.
    pub(super) fn send_secure(&mut self, slot: Slot, page: Option<u32>) -> io::Result<()> {
        let Self { ring, connections, security, plan, .. } = self;
        let security = security.as_mut().expect("a worker over TLS");
        let connection = &mut connections[slot as usize];
        let plain = page.map_or(&[][..], |page| {
            let page = &plan.pages[page as usize];
            if connection.left == 0 { &page.close } else { &page.keep }
        });
        let first = security.output.len();
        let room = first + if plain.is_empty() { 0 } else { tls::encrypted_len(plain.len()) };
        if room == 0 {
            return Ok(());
        }
        let secure = connection.secure.as_mut().expect("it is over TLS");
        if secure.pending.is_some() {
            secure.queue_behind(&mut security.output, plain);
            return Ok(());
        }
        ring.reserve(1)?;
        let index = security.pool.take(ring, room, slot, connection.generation);
        let bytes = security.pool.get(index).bytes;
        let target = ring.bytes_mut(bytes);
        target[..first].copy_from_slice(&security.output);
        security.output.clear();
        let mut to = first;
        if !plain.is_empty() {
            match secure.session.encrypt(plain, &mut target[first..]) {
                Ok(len) => to += len,
                // The keys are used up, and with them the connection.
                Err(_) => {
                    security.pool.give_back(index);
                    secure.peer_closed = true;
                    return Ok(());
                }
            }
        }
        let to = to as u32;
        security.pool.set(index, 0, to);
        self.recorder.tally.sent_bytes += u64::from(to);
        let token = security.pool.token(index);
        if plain.len() > SENT_AT_ONCE_LEN {
            secure.pending = Some(index);
            connection.sending = true;
            ring.push(Op::Send { slot, bytes, from: 0, to }, token, PLAIN);
        } else {
            security.pool.sent_now(index);
            ring.push(Op::SendNow { slot, bytes, from: 0, to }, token, QUIET);
        }
        Ok(())
    }

    /// A send out of the pool has ended, or the socket did not take all of it at once.
    pub(super) fn pooled_sent(&mut self, token: Token, result: i32, now: Nanos) -> io::Result<()> {
        let index = token.slot();
        let security = self.security.as_mut().expect("the pool is of a worker over TLS");
        if security.pool.token(index) != token {
            return Ok(());
        }
        let lent = security.pool.get(index);
        let connection = self.connections.get_mut(lent.slot as usize);
        let alive = connection.filter(|connection| connection.generation == lent.generation);
        let Some((sending, secure)) = alive.and_then(|connection| {
            let secure = connection.secure.as_mut()?;
            Some((&mut connection.sending, secure))
        }) else {
            security.pool.keep(index);
            security.pool.give_back(index);
            return Ok(());
        };
        let (waited, sent) = (secure.pending == Some(index), result.max(0) as u32);
        let whole = lent.from + sent == lent.to;
        if !waited && !whole && (result >= 0 || result == -libc::EAGAIN) {
            // The rest goes when there is room for it.
            security.pool.keep(index);
            let (slot, bytes, from, to) = (lent.slot, lent.bytes, lent.from + sent, lent.to);
            if secure.pending.is_some() {
                // That of an earlier one first.
                let rest = &self.ring.bytes_mut(bytes)[from as usize..to as usize];
                secure.behind.extend_from_slice(rest);
                security.pool.give_back(index);
                return Ok(());
            }
            security.pool.set(index, from, to);
            secure.pending = Some(index);
            *sending = true;
            self.ring.reserve(1)?;
            self.ring.push(Op::Send { slot, bytes, from, to }, token, PLAIN);
            return Ok(());
        }
        let goes_on = waited && whole;
        if goes_on {
            security.output.clear();
            security.output.append(&mut secure.behind);
        }
        if waited {
            secure.pending = None;
            *sending = false;
        } else {
            security.pool.keep(index);
        }
        security.pool.give_back(index);
        let state = self.connections[lent.slot as usize].state;
        if !whole && state == State::Handshaking {
            // The receive behind it in the chain was silenced with it.
            let fault = match result {
                0.. => fault::of_kind(Phase::Tls, FaultKind::Closed, now),
                _ => fault::of_errno(Phase::Tls, -result, now),
            };
            return self.end_handshake(lent.slot, fault, false, now);
        }
        if goes_on {
            return self.send_secure(lent.slot, None);
        }
        // The receive that is armed says what became of the connection.
        Ok(())
    }

    /// The server has said that it sends no more.
    fn peer_has_closed(&mut self, slot: Slot, now: Nanos) -> io::Result<()> {
        match self.connections[slot as usize].state {
            State::Handshaking => self.handshake_failed(slot, FaultKind::Closed, now),
            State::Idle | State::Busy => self.stream_ended(slot, now),
            // Its FIN is waited for.
            _ => self.receive_again(slot),
        }
    }

    /// The session is of no more use: an alert came, or something that is not TLS.
    fn session_broke(
        &mut self,
        slot: Slot,
        error: &Error,
        read: &Read,
        now: Nanos,
    ) -> io::Result<()> {
        let security = self.security.as_mut().expect("a worker over TLS");
        let connection = &self.connections[slot as usize];
        let missed = connection.secure.as_ref().is_some_and(|secure| secure.certificate_missed);
        let by_server = matches!(error, Error::AlertReceived(_));
        if let Some(Ok(Step::Done { .. })) = read.scanned {
            return self.exchange_done(slot, true, now);
        }
        let scanner = &connection.scanner;
        let phase = match connection.state {
            State::Handshaking => Phase::Tls,
            // The server's word on our part of the handshake comes after we hold it complete.
            _ if connection.carried == 0 && !scanner.started() => Phase::Tls,
            _ if scanner.stage() == Stage::Head => Phase::Head,
            _ => Phase::Body,
        };
        match connection.state {
            State::Handshaking => {
                let fault = fault::of_tls(phase, error, missed, now);
                self.end_handshake(slot, fault, by_server, now)
            }
            State::Busy => {
                let fault = fault::of_tls(phase, error, missed, now);
                self.send_secure(slot, None)?;
                if by_server {
                    self.close_by_server(slot)?
                } else {
                    self.close_by_us(slot)?
                };
                self.fail(slot, fault, now)
            }
            State::Idle if by_server => {
                // Nothing is said to a server that has ended the connection.
                security.output.clear();
                self.stream_ended(slot, now)
            }
            _ => self.unexpected_bytes(slot, now),
        }
    }

    /// The handshake ended otherwise than by an error of the session.
    pub(super) fn handshake_failed(
        &mut self,
        slot: Slot,
        kind: FaultKind,
        now: Nanos,
    ) -> io::Result<()> {
        let by_server = kind == FaultKind::Closed;
        self.end_handshake(slot, fault::of_kind(Phase::Tls, kind, now), by_server, now)
    }

    pub(super) fn end_handshake(
        &mut self,
        slot: Slot,
        fault: crate::stats::Fault,
        by_server: bool,
        now: Nanos,
    ) -> io::Result<()> {
        let begun_ns = self.connections[slot as usize].begun_ns;
        // The alert, where there is one.
        self.send_secure(slot, None)?;
        if by_server {
            self.close_by_server(slot)?
        } else {
            self.close_by_us(slot)?
        };
        self.gate.failed(begun_ns, now);
        self.fail(slot, fault, now)
    }

    /// Says the end on a session that is closed in order.
    pub(super) fn say_end(&mut self, slot: Slot) -> io::Result<()> {
        let Some(security) = &mut self.security else { return Ok(()) };
        let connection = &mut self.connections[slot as usize];
        let Some(secure) = &mut connection.secure else { return Ok(()) };
        if !secure.established || self.plan.reset_on_close || connection.sending {
            return Ok(());
        }
        secure.session.close_notify(&mut security.output);
        self.send_secure(slot, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::MILLISECOND;
    use crate::engine::assignment::{Assignment, Demand, EncodedPage};
    use crate::engine::secure::{Security, Tls};
    use crate::engine::worker::StopFlag;
    use crate::plan::{Profile, Ratio};
    use crate::ring::Limits;
    use crate::ring::sim::{ServerModel, SimConfig, SimRing, TlsModel};
    use crate::stats::Recorder;
    use crate::stats::recorder::Settings;
    use crate::tls::{Client, Roots, Versions};

    #[test]
    fn a_request_for_which_no_keys_are_left_goes_out_on_a_fresh_connection() {
        let page = EncodedPage {
            keep: b"GET / HTTP/1.1\r\nHost: sim\r\n\r\n".to_vec(),
            close: b"GET / HTTP/1.1\r\nHost: sim\r\nConnection: close\r\n\r\n".to_vec(),
            head: false,
            idempotent: true,
            weight: 1,
        };
        let settings = tls::Settings {
            insecure: true,
            versions: Versions::Tls12,
            ..tls::Settings::new("localhost")
        };
        let demand = Demand::Closed { places: Profile::constant(Ratio::whole(1)) };
        let plan = Assignment {
            requests: Some(100),
            tls: Some(Tls { settings: settings.clone(), roots: Roots::none(), resume: 0.0 }),
            ..Assignment::of_page(page, ([127, 0, 0, 1], 443).into(), demand)
        };
        let mut server = ServerModel::exact(MILLISECOND);
        server.tls = Some(TlsModel::exact());
        let limits = Limits { slots: 64, buffers: 64, buffer_len: 4_096, scratch_len: 65_536 };
        let ring = SimRing::new(SimConfig::exact(limits, server), 1);
        let clock = ring.clock();
        let stop = StopFlag::new(0);
        let recorded = Settings { pages: 1, start_ns: 0, end_ns: None, open_model: false };
        let (recorder, _seconds) = Recorder::new(recorded);
        let mut worker = Worker::new(plan, ring, clock, &stop, recorder);
        // The handshake's last message is one record, so that requests have nine.
        let client = Client::with_short_keys(&settings, 10);
        worker.security = Some(Security::new(client, 0.0));
        let (outcome, ring) = worker.run(0).expect("the ring can be entered");
        let stats = outcome.stats;
        stats.check_identities();
        assert_eq!((stats.completed, stats.failed), (100, 0));
        assert_eq!((stats.tally.resent, ring.truth().accepted), (11, 12));
    }
}
