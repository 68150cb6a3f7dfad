//! How requests and connections end.

use std::io;

use super::{LINGER_NS, Model, Worker};
use crate::clock::{Clock, Nanos};
use crate::engine::connection::{Receive, State};
use crate::engine::deadlines::Deadline;
use crate::engine::fault;
use crate::http1::response::Stage;
use crate::ring::{Ring, Slot};
use crate::stats::errors::NO_CLOSE_NOTIFY;
use crate::stats::{Fault, FaultKind, Phase};

impl<R: Ring, C: Clock> Worker<'_, R, C> {
    /// Ends what has run out of time.
    pub(super) fn expire(&mut self, now: Nanos) -> io::Result<()> {
        while let Some((slot, deadline)) = self.deadlines.expired(now) {
            let state = self.connections[slot as usize].state;
            match (state, deadline) {
                (State::Connecting, _) => self.connect_timed_out(slot, now)?,
                (State::Handshaking, _) => {
                    let begun_ns = self.connections[slot as usize].begun_ns;
                    self.close_by_us(slot)?;
                    self.gate.failed(begun_ns, now);
                    let fault = fault::of_kind(Phase::Tls, FaultKind::Timeout, now);
                    self.timed_out(slot, fault, now)?;
                }
                (State::Queued, _) => self.gave_up_waiting(slot, deadline, now)?,
                (State::Busy, _) => {
                    let scanner = &self.connections[slot as usize].scanner;
                    let phase = match scanner.stage() {
                        Stage::Head => Phase::Head,
                        _ => Phase::Body,
                    };
                    self.close_by_us(slot)?;
                    self.timed_out(slot, fault::of_kind(phase, FaultKind::Timeout, now), now)?;
                }
                (State::Lingering, _) => {
                    self.close_by_us(slot)?;
                    self.after_request(slot, now)?;
                }
                (State::Empty | State::Idle, _) => {
                    unreachable!("a deadline for a connection that waits for nothing")
                }
            }
        }
        Ok(())
    }

    fn connect_timed_out(&mut self, slot: Slot, now: Nanos) -> io::Result<()> {
        let begun_ns = self.connections[slot as usize].begun_ns;
        self.abandon_opening(slot)?;
        self.gate.failed(begun_ns, now);
        self.timed_out(slot, fault::of_kind(Phase::Connect, FaultKind::Timeout, now), now)
    }

    /// A request that waited for a port, or to be sent once more, and came to its deadline.
    fn gave_up_waiting(&mut self, slot: Slot, deadline: Deadline, now: Nanos) -> io::Result<()> {
        self.queue.retain(|&queued| queued != slot);
        self.leave_queue(slot);
        match deadline {
            Deadline::Request => {
                self.timed_out(slot, fault::of_kind(Phase::Connect, FaultKind::Timeout, now), now)
            }
            _ => self.fail(slot, fault::of_errno(Phase::Connect, libc::EADDRNOTAVAIL, now), now),
        }
    }

    /// No session can be begun: a fault of this machine's.
    pub(super) fn not_begun(
        &mut self,
        slot: Slot,
        error: &rustls::Error,
        now: Nanos,
    ) -> io::Result<()> {
        let begun_ns = self.connections[slot as usize].begun_ns;
        self.deadlines.clear(slot);
        self.connections[slot as usize].enter(State::Empty);
        self.gate.failed(begun_ns, now);
        self.fail(slot, fault::of_tls(Phase::Tls, error, false, now), now)
    }

    /// No port was free: the request is held back, until its connection's time is over.
    pub(super) fn hold_back(&mut self, slot: Slot, now: Nanos) -> io::Result<()> {
        let begun_ns = self.connections[slot as usize].begun_ns;
        let Some(request) = &mut self.connections[slot as usize].request else {
            return self.nothing_came(slot, now);
        };
        let deadline_ns =
            *request.deadline_ns.get_or_insert(begun_ns + self.plan.connect_timeout_ns);
        self.wait_in_queue(slot);
        // One that is due is found by the next look at the deadlines.
        self.deadlines.set(slot, Deadline::Connect, deadline_ns.max(now));
        Ok(())
    }

    /// A connection that was being opened is not any more.
    pub(super) fn abandon_opening(&mut self, slot: Slot) -> io::Result<()> {
        self.push_close(slot)?;
        self.deadlines.clear(slot);
        self.connections[slot as usize].enter(State::Empty);
        Ok(())
    }

    /// The request has failed; its connection is closed already.
    pub(super) fn fail(&mut self, slot: Slot, fault: Fault, now: Nanos) -> io::Result<()> {
        self.end_failed(slot, now, |worker, request| {
            worker.recorder.failed(request.page, fault);
        })
    }

    /// The request was given up at its deadline; its connection is closed already.
    fn timed_out(&mut self, slot: Slot, fault: Fault, now: Nanos) -> io::Result<()> {
        self.end_failed(slot, now, |worker, request| {
            worker.recorder.timed_out(request.page, request.intended_ns, request.sent_ns, fault);
        })
    }

    /// A connection that was opened without a request, ahead of the clock or to be held, is not to
    /// be.
    fn nothing_came(&mut self, slot: Slot, now: Nanos) -> io::Result<()> {
        if matches!(self.model, Model::Hold(_)) {
            return self.rest(slot, now);
        }
        self.slot_is_free(slot);
        Ok(())
    }

    fn end_failed(
        &mut self,
        slot: Slot,
        now: Nanos,
        record: impl FnOnce(&mut Self, &crate::engine::connection::Request),
    ) -> io::Result<()> {
        let connection = &mut self.connections[slot as usize];
        // A failure ends the client.
        connection.client_left = None;
        connection.carry = Vec::new();
        let Some(request) = connection.request.take() else {
            return self.nothing_came(slot, now);
        };
        if request.recorded {
            record(self, &request);
        }
        self.request_ended(request.recorded);
        self.after_request(slot, now)
    }

    pub(super) fn request_ended(&mut self, recorded: bool) {
        self.in_flight -= 1;
        self.in_flight_recorded -= u64::from(recorded);
    }

    /// The stream ended.
    pub(super) fn end_of_stream(&mut self, slot: Slot, now: Nanos) -> io::Result<()> {
        self.connections[slot as usize].at_end = true;
        self.stream_ended(slot, now)
    }

    /// Nothing more will come.
    pub(super) fn stream_ended(&mut self, slot: Slot, now: Nanos) -> io::Result<()> {
        match self.connections[slot as usize].state {
            State::Handshaking => self.handshake_failed(slot, FaultKind::Closed, now),
            State::Idle => self.idle_closed(slot, now),
            State::Lingering => {
                self.close_by_server(slot)?;
                self.after_request(slot, now)
            }
            State::Busy => {
                let connection = &mut self.connections[slot as usize];
                if !connection.scanner.started() && self.sends_again(slot, now)? {
                    return Ok(());
                }
                let connection = &mut self.connections[slot as usize];
                let cut = connection.secure.as_ref().is_some_and(|secure| !secure.peer_closed)
                    && connection.scanner.stage() == Stage::UntilClose;
                if cut {
                    // Anyone can send a FIN; the server's own end is a close_notify (RFC 8446, 6.1).
                    let fault = Fault {
                        detail: NO_CLOSE_NOTIFY,
                        ..fault::of_kind(Phase::Body, FaultKind::Truncated, now)
                    };
                    self.close_by_server(slot)?;
                    return self.fail(slot, fault, now);
                }
                match connection.scanner.finish(&mut connection.carry) {
                    // The end of the stream was the end of the body.
                    Ok(()) => self.exchange_done(slot, false, now),
                    Err(error) => {
                        let fault = fault::of_scan(error, now);
                        self.close_by_server(slot)?;
                        self.fail(slot, fault, now)
                    }
                }
            }
            state => unreachable!("the end of a stream while {state:?}"),
        }
    }

    /// The connection broke.
    pub(super) fn broken(&mut self, slot: Slot, errno: i32, now: Nanos) -> io::Result<()> {
        match self.connections[slot as usize].state {
            State::Idle => self.idle_closed(slot, now),
            State::Lingering => {
                self.close_by_server(slot)?;
                self.after_request(slot, now)
            }
            State::Busy => {
                let started = self.connections[slot as usize].scanner.started();
                if !started && self.sends_again(slot, now)? {
                    return Ok(());
                }
                let phase = match self.connections[slot as usize].scanner.stage() {
                    Stage::Head => Phase::Head,
                    _ => Phase::Body,
                };
                self.close_by_server(slot)?;
                self.fail(slot, fault::of_errno(phase, errno, now), now)
            }
            State::Handshaking => {
                let fault = fault::of_errno(Phase::Tls, errno, now);
                self.end_handshake(slot, fault, true, now)
            }
            // The chain's connect completes before its receive, unless the chain was cancelled.
            State::Connecting => Ok(()),
            state => unreachable!("a receive failed while {state:?}"),
        }
    }

    /// A request on a reused connection that ended before any byte of its response was sent to
    /// a server that had closed: it is sent once more, on a fresh connection.
    fn sends_again(&mut self, slot: Slot, now: Nanos) -> io::Result<bool> {
        let connection = &mut self.connections[slot as usize];
        let Some(request) = &mut connection.request else { return Ok(false) };
        let idempotent = self.pages[request.page as usize].idempotent;
        if connection.carried == 0 || request.resent || !idempotent {
            return Ok(false);
        }
        request.resent = true;
        let request = *request;
        self.recorder.tally.resent += 1;
        self.close_by_server(slot)?;
        if self.may_open(now) {
            self.open(slot, Some(request), now)?;
        } else {
            self.wait_in_queue(slot);
            let deadline_ns = request.deadline_ns.expect("a request that was sent has a deadline");
            self.deadlines.set(slot, Deadline::Request, deadline_ns);
        }
        Ok(true)
    }

    /// The server closed a connection that nothing was asked on: no error.
    fn idle_closed(&mut self, slot: Slot, now: Nanos) -> io::Result<()> {
        self.close_by_server(slot)?;
        self.idle_is_gone(slot, now)
    }

    fn idle_is_gone(&mut self, slot: Slot, now: Nanos) -> io::Result<()> {
        if matches!(self.model, Model::Hold(_)) {
            return self.rest(slot, now);
        }

        // A client, and a place of the closed model, keeps its slot while it thinks.
        if self.is_open() && !self.has_clients() {
            self.slot_is_free(slot);
        }
        Ok(())
    }

    /// Bytes on a connection on which nothing is asked.
    pub(super) fn unexpected_bytes(&mut self, slot: Slot, now: Nanos) -> io::Result<()> {
        let lingering = self.connections[slot as usize].state == State::Lingering;
        self.unexpected_bytes_after(slot)?;
        if lingering { self.after_request(slot, now) } else { self.idle_is_gone(slot, now) }
    }

    /// Such a connection is not used again.
    pub(super) fn unexpected_bytes_after(&mut self, slot: Slot) -> io::Result<()> {
        self.recorder.tally.unexpected_bytes += 1;
        self.close_by_us(slot)
    }

    /// The response says that the server closes: its FIN is waited for, so that the port is not
    /// ours to keep in `TIME_WAIT`.
    pub(super) fn linger(&mut self, slot: Slot, now: Nanos) -> io::Result<()> {
        if self.plan.reset_on_close {
            self.close_by_us(slot)?;
            return self.after_request(slot, now);
        }
        if self.connections[slot as usize].at_end {
            self.close_by_server(slot)?;
            return self.after_request(slot, now);
        }
        self.connections[slot as usize].enter(State::Lingering);
        self.deadlines.set(slot, Deadline::Linger, now + LINGER_NS);
        if self.connections[slot as usize].receive == Receive::None {
            self.ring.reserve(1)?;
            self.push_receive(slot);
        }
        Ok(())
    }

    pub(super) fn close_by_us(&mut self, slot: Slot) -> io::Result<()> {
        self.recorder.tally.closed_by_us += 1;
        self.say_end(slot)?;
        self.close(slot)
    }

    pub(super) fn close_by_server(&mut self, slot: Slot) -> io::Result<()> {
        self.recorder.tally.closed_by_server += 1;
        self.close(slot)
    }

    fn close(&mut self, slot: Slot) -> io::Result<()> {
        self.push_close(slot)?;
        self.count_connection(slot);
        self.recorder.tally.open -= 1;
        self.deadlines.clear(slot);
        if self.connections[slot as usize].state == State::Idle {
            self.idle.remove(slot);
        }
        self.connections[slot as usize].enter(State::Empty);
        Ok(())
    }

    /// Counts how many requests a connection carried, once.
    pub(super) fn count_connection(&mut self, slot: Slot) {
        let carried = std::mem::take(&mut self.connections[slot as usize].carried);
        let tally = &mut self.recorder.tally;
        tally.connections_counted += 1;
        tally.connection_requests += carried;
        tally.connection_requests_max = tally.connection_requests_max.max(carried);
    }
}
