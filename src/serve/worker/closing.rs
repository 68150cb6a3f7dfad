//! The ends of connections.

use std::io;

use super::super::connection::{Receive, State};
use super::{QUIET, SEND_TIMEOUT, Worker};
use crate::clock::{Clock, Nanos, SECOND};
use crate::ring::{Flags, Kind, Op, Ring, Slot, SocketOption};

/// How long a client may go on sending after our last byte.
const LINGER: Nanos = SECOND;

impl Worker {
    /// The client has sent its last byte, or with `broken` the connection is gone.
    pub(super) fn end(&mut self, slot: Slot, broken: bool) -> io::Result<()> {
        let connection = &mut self.connections[slot as usize];
        connection.ended = true;
        match connection.state {
            // An answer of this pass may not be sent yet, or requests may wait behind one.
            State::Ready
                if connection.sent_in_pass == self.pass || !connection.input.is_empty() =>
            {
                self.look_again(slot);
            }
            State::Ready | State::Silent if !broken => return self.part(slot),
            State::Ready | State::Silent | State::Lingering => return self.close(slot),
            State::Delayed(_) | State::Pausing(_) if broken => return self.close(slot),
            // A client may close its side and wait for the answer.
            State::Delayed(_) | State::Pausing(_) => {}
            // Another completion is awaited first.
            State::Sending(_) | State::Departing | State::Shutting | State::Free => {}
        }
        Ok(())
    }

    /// Closes a connection at once.
    pub(super) fn close(&mut self, slot: Slot) -> io::Result<()> {
        self.abandon(slot)?;
        let token = self.connections[slot as usize].token(Kind::Close, slot);
        self.push(Op::Close { slot }, token, QUIET)
    }

    /// Closes a connection with RST. Before Linux 6.7 the option cannot be set on a slot, and the
    /// connection is closed in order.
    pub(super) fn reset(&mut self, slot: Slot) -> io::Result<()> {
        if !self.ring.features().socket_options {
            return self.close(slot);
        }
        self.abandon(slot)?;
        let connection = &self.connections[slot as usize];
        let set = connection.token(Kind::Socket, slot);
        let close = connection.token(Kind::Close, slot);
        let option = SocketOption::ResetOnClose;
        let link = Flags { link: true, skip_success: true };
        self.push(Op::SetOption { slot, option }, set, link)?;
        self.ring.push(Op::Close { slot }, close, QUIET);
        Ok(())
    }

    /// Closes our side, and gives the client time to close its own.
    pub(super) fn linger(&mut self, slot: Slot) -> io::Result<()> {
        let connection = &mut self.connections[slot as usize];
        connection.input = Vec::new();
        connection.incoming = None;
        if connection.ended {
            return self.close(slot);
        }
        connection.tls = None;
        // The kernel shuts down on a thread of its own and looks at the slot only then, so that
        // the slot may not be emptied before that has completed.
        connection.state = State::Shutting;
        let token = connection.token(Kind::Shutdown, slot);
        self.push(Op::ShutdownWrite { slot }, token, Flags::default())?;
        self.arm(slot)
    }

    /// Our side is closed.
    pub(super) fn shut(&mut self, slot: Slot) -> io::Result<()> {
        let connection = &mut self.connections[slot as usize];
        connection.state = State::Lingering;
        if connection.ended {
            return self.close(slot);
        }
        let due_ns = self.clock.now() + LINGER;
        self.timers.set(&mut self.connections, slot, due_ns);
        Ok(())
    }

    /// Gives up clients that take nothing.
    pub(super) fn sweep(&mut self, now_ns: Nanos) -> io::Result<()> {
        for slot in 0..self.connections.len() {
            if let State::Sending(sending) = &self.connections[slot].state
                && sending.since_ns + SEND_TIMEOUT <= now_ns
            {
                self.close(slot as Slot)?;
            }
        }
        Ok(())
    }

    /// Cancels what keeps the socket open, and empties the slot's state.
    fn abandon(&mut self, slot: Slot) -> io::Result<()> {
        self.cancel_receive(slot)?;
        let connection = &mut self.connections[slot as usize];
        let send = connection.token(Kind::Send, slot);
        let cancel = connection.token(Kind::Cancel, slot);
        let before = std::mem::replace(&mut connection.state, State::Free);
        connection.due_ns = None;
        connection.incoming = None;
        connection.input = Vec::new();
        if connection.counted {
            self.shared.closed();
        }
        self.drop_session(slot);
        if let State::Sending(sending) = before {
            self.push(Op::Cancel { token: send }, cancel, QUIET)?;
            // The cancel is submitted before any send that may use the bytes next.
            self.store.take_back(sending.piece);
        }
        Ok(())
    }

    /// Cancels a receive that is armed.
    pub(super) fn cancel_receive(&mut self, slot: Slot) -> io::Result<()> {
        let connection = &mut self.connections[slot as usize];
        let kind = match connection.receive {
            Receive::Once => Kind::Receive,
            Receive::Multi => Kind::ReceiveMulti,
            Receive::Off | Receive::Cancelling => return Ok(()),
        };
        connection.receive = Receive::Cancelling;
        let receive = connection.token(kind, slot);
        let token = connection.token(Kind::Cancel, slot);
        self.push(Op::Cancel { token: receive }, token, QUIET)
    }
}
