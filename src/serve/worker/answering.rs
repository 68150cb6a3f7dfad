//! From what is done for a request to bytes on their way.

use std::io;

use super::super::action::{Action, After, Ready};
use super::super::answer::{self, Answer, CHUNK, Content};
use super::super::connection::{Piece, Sending, Slow, State, Stream, Then};
use super::super::request::Keep;
use super::super::store::{FILLER, LARGE};
use super::{QUIET, Worker};
use crate::clock::{Clock, MILLISECOND, Nanos};
use crate::ring::{Flags, Kind, Op, Ring, Slot};

/// The longest answer that is sent without a completion; a socket seldom takes more at once.
const MAX_SEND_NOW: u32 = 128 * 1024;
/// The least time between two parts of a slow answer.
const SLOW_STEP: Nanos = 10 * MILLISECOND;

/// The answers to one batch of requests of a connection.
#[derive(Default)]
pub(super) struct Output {
    /// The first; where there are more, all are in [`Worker::gathered`].
    first: Option<Ready>,
    /// There are more.
    several: bool,
    /// What becomes of the connection after the last.
    after: Option<After>,
    /// What is done when they are sent, and when it was asked for.
    pub(super) follow: Option<(Action, Nanos)>,
}

impl Output {
    /// Whether another request may be looked at.
    pub(super) fn is_open(&self) -> bool {
        self.follow.is_none() && matches!(self.after, None | Some(After::Keep))
    }

    /// Whether there is no answer yet.
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }
}

impl Worker {
    /// Puts an answer behind those of the same batch.
    pub(super) fn gather(&mut self, ready: Ready, arrived_ns: Nanos, output: &mut Output) {
        let Some(first) = output.first else {
            output.first = Some(ready);
            output.after = Some(ready.after);
            return;
        };
        let before = if output.several { self.gathered.len() } else { first.len as usize };
        if before + ready.len as usize > LARGE {
            output.follow = Some((Action::Answer(ready), arrived_ns));
            return;
        }
        if !output.several {
            output.several = true;
            self.gathered.clear();
            self.gathered.extend_from_slice(&self.ring.bytes_mut(first.bytes)[..before]);
        }
        let bytes = &self.ring.bytes_mut(ready.bytes)[..ready.len as usize];
        self.gathered.extend_from_slice(bytes);
        output.after = Some(ready.after);
    }

    /// Sends the answers. `more`: the client sent more than was looked at.
    pub(super) fn flush(&mut self, slot: Slot, output: Output, more: bool) -> io::Result<()> {
        let Some(first) = output.first else { return Ok(()) };
        let after = match output.after {
            Some(After::Close) if more => After::Linger,
            other => other.unwrap_or(After::Keep),
        };
        let single = !output.several && output.follow.is_none();
        let lingers = after == After::Linger || after == After::Cut && more;
        if single && !lingers && first.len <= MAX_SEND_NOW {
            return self.send_now(slot, first, after);
        }
        let then = match (output.follow, after) {
            (Some((action, arrived_ns)), _) => Then::Act(action, arrived_ns),
            (None, after) => Then::after(after),
        };
        let piece = if output.several {
            self.store.lend(&mut self.ring, &self.gathered)
        } else {
            Piece::of(first)
        };
        self.send(slot, piece, then)
    }

    /// Sends an answer without a completion.
    fn send_now(&mut self, slot: Slot, ready: Ready, after: After) -> io::Result<()> {
        let piece = Piece::of(ready);
        match &mut self.connections[slot as usize].tls {
            None => self.submit_now(slot, piece, after),
            Some(secure) => {
                secure.say(piece, after == After::Close);
                self.seal_now(slot, after)
            }
        }
    }

    /// Sends bytes as they are without a completion.
    pub(super) fn submit_now(&mut self, slot: Slot, piece: Piece, after: After) -> io::Result<()> {
        let connection = &mut self.connections[slot as usize];
        let Piece { bytes, from, to, .. } = piece;
        connection.sent = piece;
        let op = Op::SendNow { slot, bytes, from, to };
        let token = connection.token(Kind::Send, slot);
        if after == After::Keep {
            connection.sent_in_pass = self.pass;
            return self.push(op, token, QUIET);
        }
        connection.state = State::Departing;
        connection.tls = None;
        if connection.counted {
            self.shared.closed();
        }
        let close = connection.token(Kind::Close, slot);
        self.push(op, token, Flags { link: true, skip_success: true })?;
        self.ring.push(Op::Close { slot }, close, QUIET);
        // It would keep the socket open; where the socket did not take all, it is armed again.
        self.cancel_receive(slot)
    }

    /// Sends a part of an answer with a completion.
    pub(super) fn send(&mut self, slot: Slot, piece: Piece, then: Then) -> io::Result<()> {
        let Some(secure) = &mut self.connections[slot as usize].tls else {
            return self.submit(slot, piece, then);
        };
        secure.say(piece, then.ends());
        match self.seal(slot)? {
            Some(piece) => self.submit(slot, piece, then),
            None => Ok(()),
        }
    }

    /// Sends bytes as they are with a completion.
    pub(super) fn submit(&mut self, slot: Slot, piece: Piece, then: Then) -> io::Result<()> {
        let since_ns = self.clock.now();
        let connection = &mut self.connections[slot as usize];
        connection.state = State::Sending(Sending { piece, then, since_ns });
        let Piece { bytes, from, to, .. } = piece;
        let token = connection.token(Kind::Send, slot);
        self.push(Op::Send { slot, bytes, from, to }, token, Flags::default())
    }

    /// A send has completed.
    pub(super) fn sent(&mut self, slot: Slot, result: i32) -> io::Result<()> {
        let connection = &mut self.connections[slot as usize];
        match std::mem::replace(&mut connection.state, State::Ready) {
            State::Sending(mut sending) => {
                let sent = u32::try_from(result).unwrap_or(0);
                if sent == 0 {
                    connection.state = State::Sending(sending);
                    return self.close(slot);
                }
                sending.piece.from += sent;
                if sending.piece.from < sending.piece.to {
                    return self.submit(slot, sending.piece, sending.then);
                }
                self.store.take_back(sending.piece);
                if !connection.has_more() {
                    return self.then(slot, sending.then);
                }
                match self.seal(slot)? {
                    Some(piece) => self.submit(slot, piece, sending.then),
                    None => Ok(()),
                }
            }
            // The socket did not take all of an answer that was sent without a completion.
            before @ (State::Ready | State::Departing) => {
                let departing = matches!(before, State::Departing);
                if departing && connection.counted {
                    self.shared.opened();
                }
                if result < 0 && result != -libc::EAGAIN {
                    return self.close(slot);
                }
                let mut piece = connection.sent;
                piece.from += u32::try_from(result).unwrap_or(0);
                let then = if departing { Then::Close } else { Then::Ready };
                self.keep_lent(&piece);
                self.submit(slot, piece, then)
            }
            other => {
                connection.state = other;
                Ok(())
            }
        }
    }

    /// Goes on when bytes are sent.
    fn then(&mut self, slot: Slot, then: Then) -> io::Result<()> {
        let connection = &self.connections[slot as usize];
        if connection.has_failed() {
            return self.give_up(slot);
        }
        match then {
            Then::Ready => self.go_on(slot),
            Then::Close | Then::Cut if connection.input.is_empty() => self.close(slot),
            Then::Close | Then::Cut | Then::Linger => self.linger(slot),
            Then::Act(action, arrived_ns) => {
                let mut output = Output::default();
                self.act(slot, action, arrived_ns, &mut output)?;
                let more = !self.connections[slot as usize].input.is_empty();
                self.flush(slot, output, more)?;
                self.go_on(slot)
            }
            Then::Stream(stream) => self.send_stream(slot, stream),
            Then::Slow(slow) => self.pause(slot, slow),
        }
    }

    /// A connection's timer is due.
    pub(super) fn due(&mut self, slot: Slot) -> io::Result<()> {
        let connection = &mut self.connections[slot as usize];
        if connection.tls.as_ref().is_some_and(|secure| secure.is_shaking()) {
            return self.close(slot);
        }
        match std::mem::replace(&mut connection.state, State::Ready) {
            State::Delayed(ready) => {
                let more = !connection.input.is_empty();
                let output =
                    Output { first: Some(ready), after: Some(ready.after), ..Output::default() };
                self.flush(slot, output, more)?;
                let connection = &self.connections[slot as usize];
                if more || connection.ended {
                    // Not in this pass: the answer is only being submitted.
                    self.resume.push((slot, connection.generation));
                }
                Ok(())
            }
            State::Pausing(slow) => self.send_slow(slot, slow),
            State::Lingering => {
                connection.state = State::Lingering;
                self.close(slot)
            }
            other => {
                connection.state = other;
                Ok(())
            }
        }
    }

    /// Sends the head of an answer whose body is sent in parts.
    pub(super) fn begin_stream(&mut self, slot: Slot, answer: Answer) -> io::Result<()> {
        let piece = self.store.lend(&mut self.ring, &answer.head());
        let stream = Stream { answer, left: answer.body_len() };
        let then = match answer.content {
            _ if answer.head_only => Then::after(After::answer(&answer)),
            _ => Then::Stream(Box::new(stream)),
        };
        self.send(slot, piece, then)
    }

    fn send_stream(&mut self, slot: Slot, mut stream: Box<Stream>) -> io::Result<()> {
        let chunked = matches!(stream.answer.content, Content::Chunked(_));
        let full_chunks = stream.left / CHUNK;
        let (piece, last) = if !chunked {
            let len = stream.left.min(FILLER);
            stream.left -= len;
            (self.store.filler(&mut self.ring, len), stream.left == 0)
        } else if full_chunks > 0 {
            let count = full_chunks.min(FILLER / CHUNK);
            stream.left -= count * CHUNK;
            (self.store.chunks(&mut self.ring, count), false)
        } else {
            let mut end = Vec::new();
            answer::push_last_chunks(&mut end, stream.left);
            (self.store.lend(&mut self.ring, &end), true)
        };
        let after = After::answer(&stream.answer);
        self.send(slot, piece, if last { Then::after(after) } else { Then::Stream(stream) })
    }

    /// Sends the head of a slow answer.
    pub(super) fn begin_slow(
        &mut self,
        slot: Slot,
        answer: Answer,
        time_ns: Nanos,
        start_ns: Nanos,
    ) -> io::Result<()> {
        let total = answer.body_len();
        let in_time = (time_ns / SLOW_STEP).clamp(1, total);
        let steps = in_time.max(total.div_ceil(FILLER));
        let slow = Slow { answer, start_ns, time_ns, step: 0, steps };
        let piece = self.store.lend(&mut self.ring, &answer.head());
        self.send(slot, piece, Then::Slow(Box::new(slow)))
    }

    fn pause(&mut self, slot: Slot, slow: Box<Slow>) -> io::Result<()> {
        let due_ns = slow.due_ns();
        self.connections[slot as usize].state = State::Pausing(slow);
        self.timers.set(&mut self.connections, slot, due_ns);
        Ok(())
    }

    fn send_slow(&mut self, slot: Slot, mut slow: Box<Slow>) -> io::Result<()> {
        let piece = self.store.filler(&mut self.ring, slow.next_len());
        slow.step += 1;
        let last = slow.step == slow.steps;
        let after = After::answer(&slow.answer);
        self.send(slot, piece, if last { Then::after(after) } else { Then::Slow(slow) })
    }

    /// Answers with the statistics.
    pub(super) fn answer_stats(
        &mut self,
        slot: Slot,
        reset: bool,
        head_only: bool,
        keep: Keep,
    ) -> io::Result<()> {
        self.shared.add(self.thread, &mut self.counted);
        if reset {
            self.shared.reset();
        }
        let text = serde_json::to_string(&self.shared.stats())?;
        let piece = self.store.lend(&mut self.ring, &answer::json(&text, head_only, keep));
        self.send(slot, piece, Then::after(After::saying(keep)))
    }
}
