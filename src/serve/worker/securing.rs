//! Connections over TLS: what comes in is decrypted before it is looked at, and what goes out is
//! encrypted when it is sent.

use std::io;

use super::super::action::{After, Hold};
use super::super::answer::{Answer, Content};
use super::super::connection::{Piece, State, Then};
use super::super::request::Keep;
use super::super::secure::{Heard, Secure};
use super::Worker;
use crate::clock::{Clock, Nanos, SECOND};
use crate::ring::{BufferId, Ring, Slot};

/// A handshake that takes longer is given up.
pub(super) const HANDSHAKE_TIMEOUT: Nanos = 10 * SECOND;

impl Worker {
    /// Takes bytes that were received on a connection over TLS.
    pub(super) fn records(&mut self, slot: Slot, buffer: BufferId, len: usize) -> io::Result<()> {
        let arrived_ns = self.clock.now();
        let mut plain = std::mem::take(&mut self.scratch);
        plain.clear();
        let heard = self.connections[slot as usize]
            .tls
            .as_mut()
            .map(|secure| secure.take(self.ring.received_mut(buffer, len), &mut plain));
        self.ring.recycle(buffer);
        let done = match heard {
            None => Ok(()),
            Some(Heard::PlainHttp) => self.answer_plain(slot),
            Some(Heard::Failure) => self.give_up(slot),
            Some(Heard::Established { resumed }) => {
                self.connections[slot as usize].due_ns = None;
                self.counted.handshakes.count(resumed);
                self.opened(slot, &plain, arrived_ns)
            }
            Some(Heard::Records) => self.opened(slot, &plain, arrived_ns),
        };
        self.scratch = plain;
        done
    }

    /// Goes on with what was decrypted.
    fn opened(&mut self, slot: Slot, plain: &[u8], arrived_ns: Nanos) -> io::Result<()> {
        let connection = &self.connections[slot as usize];
        if !plain.is_empty() && connection.takes_input() {
            let alone = connection.can_answer(self.pass)
                && connection.input.is_empty()
                && connection.incoming.is_none();
            match self.recall.find(plain).filter(|&(known, _)| alone && known == plain.len()) {
                Some((_, action)) => self.answer_one(slot, action, arrived_ns)?,
                None => self.take_input(slot, plain, arrived_ns)?,
            }
        }
        self.speak(slot)?;
        let connection = &self.connections[slot as usize];
        match &connection.tls {
            Some(secure) if secure.peer_closed() && !connection.ended => self.end(slot, false),
            _ => Ok(()),
        }
    }

    /// Sends what the session has to say itself, if nothing else is being sent: else it goes
    /// before what is sent next.
    pub(super) fn speak(&mut self, slot: Slot) -> io::Result<()> {
        let connection = &self.connections[slot as usize];
        let speaks = connection.tls.as_ref().is_some_and(|secure| secure.has_more());
        if !speaks || !matches!(connection.state, State::Ready) {
            return Ok(());
        }
        if connection.can_answer(self.pass) {
            return self.seal_now(slot, After::Keep);
        }
        self.look_again(slot);
        Ok(())
    }

    /// Encrypts what comes next. `None`: that was not possible, and the connection is closed.
    pub(super) fn seal(&mut self, slot: Slot) -> io::Result<Option<Piece>> {
        let Some(secure) = &mut self.connections[slot as usize].tls else { return Ok(None) };
        match secure.seal(&mut self.ring, &mut self.store) {
            Ok(piece) => Ok(Some(piece)),
            Err(_) => self.close(slot).map(|()| None),
        }
    }

    /// Encrypts what is to be sent, and sends it without a completion where that is one piece.
    pub(super) fn seal_now(&mut self, slot: Slot, after: After) -> io::Result<()> {
        let Some(piece) = self.seal(slot)? else { return Ok(()) };
        if self.connections[slot as usize].has_more() {
            return self.submit(slot, piece, Then::after(after));
        }
        self.lent.push(piece);
        self.submit_now(slot, piece, after)
    }

    /// Keeps bytes that were sent without a completion, because the socket did not take all.
    pub(super) fn keep_lent(&mut self, piece: &Piece) {
        for lent in [&mut self.lent, &mut self.lent_before] {
            lent.retain(|other| other.bytes != piece.bytes);
        }
    }

    /// Takes back what was sent without a completion in the pass before this one: by now it is
    /// known that the sockets took it.
    pub(super) fn take_back_lent(&mut self) {
        for piece in self.lent_before.drain(..) {
            self.store.take_back(piece);
        }
        std::mem::swap(&mut self.lent, &mut self.lent_before);
    }

    /// Tells a client of a session that failed, when what is on its way is sent, and closes.
    pub(super) fn give_up(&mut self, slot: Slot) -> io::Result<()> {
        let connection = &mut self.connections[slot as usize];
        connection.input = Vec::new();
        connection.incoming = None;
        let unsaid = connection.tls.as_mut().and_then(|secure| secure.unsay());
        unsaid.into_iter().for_each(|piece| self.store.take_back(piece));
        match connection.state {
            State::Ready if connection.sent_in_pass == self.pass => self.look_again(slot),
            State::Ready | State::Delayed(_) | State::Pausing(_) | State::Silent => {
                connection.due_ns = None;
                if !connection.has_more() {
                    return self.linger(slot);
                }
                if let Some(piece) = self.seal(slot)? {
                    self.submit(slot, piece, Then::Linger)?;
                }
            }
            State::Sending(_)
            | State::Departing
            | State::Shutting
            | State::Lingering
            | State::Free => {}
        }
        Ok(())
    }

    /// Answers a client that speaks plain HTTP here, in plain HTTP.
    fn answer_plain(&mut self, slot: Slot) -> io::Result<()> {
        let connection = &mut self.connections[slot as usize];
        connection.tls = None;
        connection.due_ns = None;
        let answer = Answer { content: Content::NotTls, head_only: false, keep: Keep::Close };
        let ready = self.store.holding(&mut self.ring).hold(answer);
        self.send(slot, Piece::of(ready), Then::Linger)
    }

    /// Closes a connection that has nothing more to say, and over TLS says so to a client that
    /// did the same. One that only ended its side of the connection no longer listens.
    pub(super) fn part(&mut self, slot: Slot) -> io::Result<()> {
        let connection = &mut self.connections[slot as usize];
        let listens = connection.tls.as_ref().is_some_and(|secure| secure.peer_closed());
        if !listens || connection.sent_in_pass == self.pass {
            return self.close(slot);
        }
        connection.tls.as_mut().into_iter().for_each(|secure| secure.say_end());
        self.seal_now(slot, After::Close)
    }

    /// Ends a session: there is nothing more to be said over it.
    pub(super) fn drop_session(&mut self, slot: Slot) {
        let secure: Option<Box<Secure>> = self.connections[slot as usize].tls.take();
        let unsaid = secure.and_then(|mut secure| secure.unsay());
        unsaid.into_iter().for_each(|piece| self.store.take_back(piece));
    }
}
