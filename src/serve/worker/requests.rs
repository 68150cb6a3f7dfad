//! From bytes to what is done for them.

use std::io;

use rand::RngExt;

use super::super::action::{Action, After, Ready};
use super::super::body::Body;
use super::super::connection::{Receive, State};
use super::super::request::{self, Framing, Refusal};
use super::super::{action::Hold, answer::Answer, answer::Content, request::Keep};
use super::answering::Output;
use super::{MAX_INPUT, QUIET, Worker};
use crate::clock::{Clock, Nanos};
use crate::observe::process::thread_cpu_ns;
use crate::ring::{Kind, Op, Slot};

/// What the next bytes of a connection are.
enum Step {
    /// So many bytes are of no more use, and more must come.
    More(usize),
    /// A request is complete behind so many bytes.
    Act(usize, Action),
    /// The head is complete; its body is still to come, and the client waits to be told so.
    Continue(usize),
}

impl Worker {
    /// Answers a request that came alone.
    pub(super) fn answer_one(
        &mut self,
        slot: Slot,
        action: Action,
        arrived_ns: Nanos,
    ) -> io::Result<()> {
        self.count(slot, action, arrived_ns);
        let mut output = Output::default();
        self.act(slot, action, arrived_ns, &mut output)?;
        self.flush(slot, output, false)
    }

    /// Takes bytes that came in behind those that wait.
    pub(super) fn take_input(
        &mut self,
        slot: Slot,
        bytes: &[u8],
        arrived_ns: Nanos,
    ) -> io::Result<()> {
        let connection = &mut self.connections[slot as usize];
        let ready = connection.can_answer(self.pass);
        if ready && connection.input.is_empty() {
            let taken = self.process(slot, bytes, arrived_ns)?;
            let connection = &mut self.connections[slot as usize];
            if connection.takes_input() {
                connection.input.extend_from_slice(&bytes[taken..]);
            }
            return Ok(());
        }
        connection.input.extend_from_slice(bytes);
        if ready {
            return self.process_input(slot);
        }
        if matches!(connection.state, State::Ready) {
            self.look_again(slot);
        }
        self.hold_back(slot)
    }

    /// Goes on with what waits on a connection, if it may be answered.
    pub(super) fn go_on(&mut self, slot: Slot) -> io::Result<()> {
        if self.connections[slot as usize].has_failed() {
            return self.give_up(slot);
        }
        if self.connections[slot as usize].can_answer(self.pass) {
            self.process_input(slot)?;
            let connection = &self.connections[slot as usize];
            if connection.ended && matches!(connection.state, State::Ready) {
                if connection.can_answer(self.pass) {
                    // What is left is no complete request and never will be.
                    return self.part(slot);
                }
                self.look_again(slot);
            }
            self.speak(slot)?;
        } else if matches!(self.connections[slot as usize].state, State::Ready) {
            self.look_again(slot);
        }
        self.arm(slot)
    }

    fn process_input(&mut self, slot: Slot) -> io::Result<()> {
        let mut input = std::mem::take(&mut self.connections[slot as usize].input);
        if input.is_empty() {
            return Ok(());
        }
        let now_ns = self.clock.now();
        let taken = self.process(slot, &input, now_ns)?;
        let connection = &mut self.connections[slot as usize];
        if connection.takes_input() && taken < input.len() {
            input.drain(..taken);
            connection.input = input;
        }
        Ok(())
    }

    /// Stops receiving where too much waits already.
    fn hold_back(&mut self, slot: Slot) -> io::Result<()> {
        let connection = &mut self.connections[slot as usize];
        if connection.input.len() <= MAX_INPUT || connection.receive != Receive::Multi {
            return Ok(());
        }
        connection.receive = Receive::Cancelling;
        let receive = connection.token(Kind::ReceiveMulti, slot);
        let token = connection.token(Kind::Cancel, slot);
        self.push(Op::Cancel { token: receive }, token, QUIET)
    }

    /// Answers the requests at the start of `bytes` as far as that can be done now; gives how
    /// many bytes are of no more use.
    fn process(&mut self, slot: Slot, bytes: &[u8], now_ns: Nanos) -> io::Result<usize> {
        let mut output = Output::default();
        let mut at = 0;
        while output.is_open() && matches!(self.connections[slot as usize].state, State::Ready) {
            match self.step(slot, &bytes[at..], now_ns) {
                Ok(Step::More(taken)) => {
                    at += taken;
                    break;
                }
                Ok(Step::Act(taken, action)) => {
                    at += taken;
                    self.act(slot, action, now_ns, &mut output)?;
                }
                Ok(Step::Continue(taken)) => {
                    at += taken;
                    let ready = self.store.go_on(&mut self.ring);
                    self.gather(ready, now_ns, &mut output);
                    break;
                }
                Err(refusal) => {
                    at = bytes.len();
                    let ready = self.refusal(refusal);
                    self.gather(ready, now_ns, &mut output);
                }
            }
        }
        let more = at < bytes.len();
        self.flush(slot, output, more)?;
        Ok(at)
    }

    fn step(&mut self, slot: Slot, bytes: &[u8], now_ns: Nanos) -> Result<Step, Refusal> {
        let connection = &mut self.connections[slot as usize];
        if let Some((body, action)) = &mut connection.incoming {
            let taken = body.advance(bytes)?;
            if !body.is_done() {
                return Ok(Step::More(taken));
            }
            let action = *action;
            connection.incoming = None;
            return Ok(Step::Act(taken, action));
        }
        let skipped = request::empty_lines(bytes);
        let bytes = &bytes[skipped..];
        if let Some((len, action)) = self.recall.find(bytes) {
            self.count(slot, action, now_ns);
            return Ok(Step::Act(skipped + len, action));
        }
        let Some(head) = request::parse(bytes)? else { return Ok(Step::More(skipped)) };
        let action = Action::of(&head, &mut self.store.holding(&mut self.ring));
        self.count(slot, action, now_ns);
        let taken = skipped + head.len;
        if head.framing == Framing::Empty {
            self.recall.remember(&bytes[..head.len], action);
            return Ok(Step::Act(taken, action));
        }
        let mut body = Body::new(head.framing);
        let of_body = body.advance(&bytes[head.len..])?;
        if body.is_done() {
            return Ok(Step::Act(taken + of_body, action));
        }
        self.connections[slot as usize].incoming = Some((body, action));
        if head.expects_continue && of_body == 0 {
            return Ok(Step::Continue(taken));
        }
        Ok(Step::More(taken + of_body))
    }

    /// Counts a request that has arrived.
    fn count(&mut self, slot: Slot, action: Action, arrived_ns: Nanos) {
        let connection = &mut self.connections[slot as usize];
        if action.is_counted() {
            connection.requests += 1;
            self.counted.arrivals.push(arrived_ns);
            self.counted.max_requests = self.counted.max_requests.max(connection.requests);
        } else if connection.requests == 0 && connection.counted {
            connection.counted = false;
            self.counted.not_counted += 1;
            if let Some(resumed) = connection.tls.as_ref().and_then(|secure| secure.resumed()) {
                self.counted.handshakes_not_counted.count(resumed);
            }
            self.shared.closed();
        }
    }

    fn refusal(&mut self, refusal: Refusal) -> Ready {
        let content = Content::Status(refusal.status());
        let answer = Answer { content, head_only: false, keep: Keep::Close };
        Ready { after: After::Linger, ..self.store.holding(&mut self.ring).hold(answer) }
    }

    /// Does what a request asks for, or puts it behind the answers that come first.
    pub(super) fn act(
        &mut self,
        slot: Slot,
        action: Action,
        arrived_ns: Nanos,
        output: &mut Output,
    ) -> io::Result<()> {
        match action {
            Action::Answer(ready) => self.gather(ready, arrived_ns, output),
            Action::Cpu(time_ns, ready) => {
                let end_ns = thread_cpu_ns().saturating_add(time_ns);
                while thread_cpu_ns() < end_ns {
                    std::hint::spin_loop();
                }
                self.gather(ready, arrived_ns, output);
            }
            other if !output.is_empty() => output.follow = Some((other, arrived_ns)),
            Action::Delay(from_ns, to_ns, ready) => {
                let delay_ns = self.random.random_range(from_ns..=to_ns);
                self.connections[slot as usize].state = State::Delayed(ready);
                let due_ns = arrived_ns.saturating_add(delay_ns);
                self.timers.set(&mut self.connections, slot, due_ns);
            }
            Action::Never => {
                let connection = &mut self.connections[slot as usize];
                connection.state = State::Silent;
                if connection.ended {
                    return self.part(slot);
                }
            }
            Action::Reset => return self.reset(slot),
            Action::Stream(answer) => return self.begin_stream(slot, answer),
            Action::Slow(answer, time_ns) => {
                return self.begin_slow(slot, answer, time_ns, arrived_ns);
            }
            Action::Stats { reset, head_only, keep } => {
                return self.answer_stats(slot, reset, head_only, keep);
            }
        }
        Ok(())
    }
}
