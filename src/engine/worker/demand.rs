//! What wants to start: places of the closed model, arrivals of the open one.

use std::cmp::Reverse;
use std::io;

use rand::RngExt;

use super::hold::Hold;
use super::{Stage, Worker};
use crate::clock::{Clock, Nanos};
use crate::engine::assignment::{Assignment, Demand};
use crate::engine::connection::{Request, State};
use crate::engine::gate::Opening;
use crate::pace::{Arrivals, Level};
use crate::plan::{Arrive, Profile, Spacing};
use crate::ring::{Ring, Slot};

/// Requests that one pass of the open model may start: what is started late is started in
/// small portions, so that completions in between are not charged with the rest.
const STARTS_A_PASS: u32 = 32;
/// Connections that one pass may begin to open. The kernel does most of the work of a connection
/// while its chain is submitted, and the first should not wait for the last.
const OPENS_A_PASS: u32 = 8;

/// The worker's share of the demand.
pub(super) enum Model {
    Closed(Closed),
    Open(Box<Open>),
    Hold(Box<Hold>),
}

/// Places, each asking again when it has its answer. A place's slot is its number.
pub(super) struct Closed {
    level: Level,
    /// Places in use now.
    active: u32,
    /// When their number changes.
    change_ns: Option<Nanos>,
    /// Requests that may still be started.
    quota: Option<u64>,
}

/// Arrivals. Those that wait for a place are simply those that are due and not taken yet.
pub(super) struct Open {
    arrivals: Arrivals,
    /// When this schedule is counted from.
    zero_ns: Nanos,
    /// The schedule of the recorded time, during the warm-up.
    recorded: Option<Arrivals>,
    cap: Level,
    cap_now: u32,
    cap_change_ns: Option<Nanos>,
    drop_after_ns: Option<Nanos>,
    /// Preconnected connections are used in turn; else the last one used comes first.
    in_turn: bool,
    clients: bool,
    /// Arrivals of the recorded schedule that may still be taken.
    quota: Option<u64>,
    /// The next arrival found no place.
    blocked: bool,
    /// Since when there has been a place without a break.
    place_since_ns: Nanos,
}

impl Model {
    pub(super) fn new(plan: &Assignment) -> Self {
        let (thread, threads) = (plan.thread as usize, plan.threads as usize);
        match &plan.demand {
            Demand::Closed { places } => Self::Closed(Closed {
                level: Level::new(places),
                active: 0,
                change_ns: None,
                quota: plan.requests.map(|total| plan.share(total)),
            }),
            Demand::Hold { .. } => {
                Self::Hold(Box::new(Hold::new(plan).expect("the demand is a hold")))
            }
            Demand::Open { rate, spacing, arrive, max_connections, preconnect, drop_after_ns } => {
                let schedule = |profile: &Profile, limit, end_ns, seed| match spacing {
                    Spacing::Even => Arrivals::even(profile, thread, threads, limit, end_ns),
                    Spacing::Poisson => {
                        Arrivals::poisson(profile, thread, threads, limit, end_ns, seed)
                    }
                };
                let recorded = schedule(rate, plan.requests, plan.duration_ns, plan.seed);
                let warmup = (plan.warmup_ns > 0).then(|| {
                    let first = Profile::constant(rate.segments[0].from);
                    schedule(&first, None, Some(plan.warmup_ns), !plan.seed)
                });
                let (arrivals, recorded) = match warmup {
                    Some(warmup) => (warmup, Some(recorded)),
                    None => (recorded, None),
                };
                Self::Open(Box::new(Open {
                    arrivals,
                    zero_ns: 0,
                    recorded,
                    cap: Level::new(max_connections),
                    cap_now: 0,
                    cap_change_ns: None,
                    drop_after_ns: *drop_after_ns,
                    in_turn: *preconnect > 0,
                    clients: *arrive == Arrive::Clients,
                    quota: plan.requests.map(|total| plan.share(total)),
                    blocked: false,
                    place_since_ns: 0,
                }))
            }
        }
    }
}

impl Open {
    /// Takes the next arrival.
    fn take(&mut self, recorded: bool) {
        self.arrivals.advance();
        if recorded && let Some(quota) = &mut self.quota {
            *quota -= 1;
        }
    }

    /// Whether no arrival will ever come.
    fn is_exhausted(&self) -> bool {
        self.arrivals.peek().is_none() && self.recorded.is_none()
    }
}

impl<R: Ring, C: Clock> Worker<'_, R, C> {
    pub(super) fn start_model(&mut self, start_ns: Nanos) {
        match &mut self.model {
            Model::Open(open) => open.zero_ns = start_ns,
            Model::Hold(_) => self.start_hold(start_ns),
            Model::Closed(_) => {}
        }
        self.follow_profile(start_ns);
    }

    /// The profile's own time: 0 until recorded time starts.
    fn profile_ns(&self, now: Nanos) -> Nanos {
        now.saturating_sub(self.record_ns)
    }

    /// Takes over the number of places that the profile gives for now.
    fn follow_profile(&mut self, now: Nanos) {
        let at_ns = self.profile_ns(now);
        let (thread, threads) = (self.plan.thread as usize, self.plan.threads as usize);
        let record_ns = self.record_ns;
        match &mut self.model {
            Model::Hold(_) => {}
            Model::Open(open) => {
                open.cap_now = open.cap.share(at_ns, thread, threads).min(self.plan.slots);
                open.cap_change_ns = open.cap.next_change(at_ns).map(|ns| record_ns + ns);
            }
            Model::Closed(closed) => {
                let places = closed.level.share(at_ns, thread, threads).min(self.plan.slots);
                let before = std::mem::replace(&mut closed.active, places);
                closed.change_ns = closed.level.next_change(at_ns).map(|ns| record_ns + ns);
                for slot in before..places {
                    self.place_appears(slot);
                }
            }
        }
    }

    /// A place of the closed model comes into use: it wants a request, unless its last one is
    /// still under way, which then goes on as if the place had never gone.
    fn place_appears(&mut self, slot: Slot) {
        self.grow_to(slot);
        let connection = &self.connections[slot as usize];
        if connection.state == State::Empty && !connection.thinking {
            self.wait_in_queue(slot);
        }
    }

    /// Starts what is due now.
    pub(super) fn begin_due(&mut self, now: Nanos) -> io::Result<()> {
        let change_ns = match &self.model {
            Model::Closed(closed) => closed.change_ns,
            Model::Open(open) => open.cap_change_ns,
            Model::Hold(_) => None,
        };
        if change_ns.is_some_and(|change_ns| change_ns <= now) {
            self.follow_profile(now);
            self.close_surplus()?;
        }
        self.end_thinking(now)?;
        self.serve_queue(now)?;
        match self.model {
            Model::Open(_) => self.begin_arrivals(now)?,
            Model::Hold(_) => self.tend(now)?,
            Model::Closed(_) => {}
        }
        self.stop_if_over(now)
    }

    /// On the way down: a connection whose place has gone, and that is idle, is closed.
    fn close_surplus(&mut self) -> io::Result<()> {
        match &self.model {
            // A place that thinks closes when it has thought.
            Model::Closed(_) | Model::Hold(_) => Ok(()),
            Model::Open(open) => {
                let cap = open.cap_now;
                while self.occupied > cap {
                    let Some(slot) = self.idle.first(0) else { break };
                    self.close_by_us(slot)?;
                    self.slot_is_free(slot);
                }
                Ok(())
            }
        }
    }

    fn end_thinking(&mut self, now: Nanos) -> io::Result<()> {
        while let Some(&Reverse((due_ns, slot))) = self.thinking.peek() {
            if due_ns > now {
                break;
            }
            self.thinking.pop();
            self.connections[slot as usize].thinking = false;
            self.next_of_place(slot, now)?;
        }
        Ok(())
    }

    /// Opens connections for those that wait for the gate.
    pub(super) fn serve_queue(&mut self, now: Nanos) -> io::Result<()> {
        let mut opens = 0;
        while let Some(&slot) = self.queue.front() {
            if opens == OPENS_A_PASS || !self.may_open(now) {
                break;
            }
            self.queue.pop_front();
            opens += 1;
            match self.connections[slot as usize].request.take() {
                Some(request) => self.open(slot, Some(request), now)?,
                None if matches!(self.model, Model::Hold(_)) => self.begin_held(slot, now)?,
                None => self.begin_closed(slot, now)?,
            }
        }
        Ok(())
    }

    /// A place of the closed model starts its next request, if it still may.
    pub(super) fn begin_closed(&mut self, slot: Slot, now: Nanos) -> io::Result<()> {
        let recorded = now >= self.record_ns;
        let Model::Closed(closed) = &mut self.model else { unreachable!("only the closed model") };
        if slot >= closed.active {
            return self.retire(slot);
        }
        let may = self.stage == Stage::Running
            && self.end_ns.is_none_or(|end_ns| now < end_ns)
            && (!recorded || closed.quota != Some(0));
        if !may {
            // At the end: a connection that is open ends with the ring.
            if self.connections[slot as usize].state == State::Queued {
                self.leave_queue(slot);
            }
            return Ok(());
        }
        if recorded && let Some(quota) = &mut closed.quota {
            *quota -= 1;
        }
        if recorded {
            self.recorder.tally.scheduled += 1;
        }
        let request = self.new_request(now, recorded);
        self.start(slot, request, now)
    }

    /// A place that may not go on: its connection is closed.
    fn retire(&mut self, slot: Slot) -> io::Result<()> {
        match self.connections[slot as usize].state {
            State::Idle => self.close_by_us(slot),
            State::Queued => {
                self.leave_queue(slot);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A request that was wanted at `intended_ns`, of a page that is drawn now.
    pub(super) fn new_request(&mut self, intended_ns: Nanos, recorded: bool) -> Request {
        Request {
            page: self.picker.next(),
            recorded,
            resent: false,
            intended_ns,
            sent_ns: None,
            deadline_ns: None,
            first_byte_ns: None,
        }
    }

    fn count_started(&mut self, recorded: bool) {
        self.begun += 1;
        self.in_flight += 1;
        if recorded {
            self.in_flight_recorded += 1;
            self.recorder.tally.started += 1;
        }
    }

    /// Counts a request as started and sends it, on the slot's connection or on a new one.
    pub(super) fn start(&mut self, slot: Slot, request: Request, now: Nanos) -> io::Result<()> {
        self.count_started(request.recorded);
        match self.connections[slot as usize].state {
            State::Idle => self.send(slot, request, now),
            _ => self.open(slot, Some(request), now),
        }
    }

    /// The arrivals that are due, as far as there are places.
    fn begin_arrivals(&mut self, now: Nanos) -> io::Result<()> {
        let (mut now, mut starts, mut opens) = (now, 0, 0);
        loop {
            self.switch_to_recorded(now);
            let Model::Open(open) = &mut self.model else { unreachable!("only the open model") };
            let Some(due_ns) = open.arrivals.peek().map(|ns| open.zero_ns + ns) else { break };
            if due_ns > now {
                // The clock is read once an arrival: the send is stamped when it is prepared.
                now = self.clock.now();
                if due_ns > now {
                    break;
                }
            }
            let recorded = due_ns >= self.record_ns;
            if open.drop_after_ns.is_some_and(|after_ns| open.blocked && now >= due_ns + after_ns) {
                open.take(recorded);
                self.drop_arrival(recorded);
                continue;
            }
            if starts == STARTS_A_PASS || opens == OPENS_A_PASS {
                break;
            }
            let Some((slot, opened)) = self.find_place(now)? else { break };
            let Model::Open(open) = &mut self.model else { unreachable!("only the open model") };
            open.take(recorded);
            let wait_ns = open.place_since_ns.saturating_sub(due_ns);
            starts += 1;
            opens += u32::from(opened);
            self.begin_arrival(slot, due_ns, wait_ns, recorded, now)?;
            now = self.clock.now();
        }
        Ok(())
    }

    fn begin_arrival(
        &mut self,
        slot: Slot,
        due_ns: Nanos,
        wait_ns: Nanos,
        recorded: bool,
        now: Nanos,
    ) -> io::Result<()> {
        if self.has_clients() {
            let requests = self.draw_lifetime();
            let connection = &mut self.connections[slot as usize];
            connection.client_left = Some(requests - 1);
            connection.client_recorded = recorded;
            if recorded {
                self.recorder.tally.clients_scheduled += 1;
                self.recorder.tally.clients_started += 1;
            }
        }
        if recorded {
            self.recorder.tally.scheduled += 1;
            self.recorder.arrival(wait_ns, now.saturating_sub(due_ns + wait_ns));
        }
        let request = self.new_request(due_ns, recorded);
        self.start(slot, request, now)
    }

    fn drop_arrival(&mut self, recorded: bool) {
        if recorded {
            self.recorder.tally.scheduled += 1;
            self.recorder.tally.dropped += 1;
            self.recorder.tally.clients_scheduled += u64::from(self.has_clients());
        }
    }

    /// When recorded time starts its schedule takes over; what is left of the warm-up is forgotten.
    fn switch_to_recorded(&mut self, now: Nanos) {
        let Model::Open(open) = &mut self.model else { return };
        if (open.arrivals.peek().is_none() || now >= self.record_ns)
            && let Some(recorded) = open.recorded.take()
        {
            open.arrivals = recorded;
            open.zero_ns = self.record_ns;
        }
    }

    /// A connection for an arrival, and whether it is still to be opened. Notes since when there
    /// was one.
    fn find_place(&mut self, now: Nanos) -> io::Result<Option<(Slot, bool)>> {
        let Model::Open(open) = &mut self.model else { unreachable!("only the open model") };
        let idle = match (open.clients, open.in_turn) {
            (true, _) => None,
            (false, true) => self.idle.pop_first(0),
            (false, false) => self.idle.pop_last(0),
        };
        let cap = open.cap_now;
        let (found, since_ns) = match idle {
            Some(slot) => (Some((slot, false)), self.event_ns),
            None if self.occupied >= cap || !self.queue.is_empty() => (None, 0),
            None => match self.gate.opening(now) {
                Opening::Now => {
                    let since_ns = self.gate.opened_at_ns().max(self.event_ns);
                    (self.take_empty().map(|slot| (slot, true)), since_ns)
                }
                Opening::At(_) | Opening::Later => (None, 0),
            },
        };
        let Model::Open(open) = &mut self.model else { unreachable!("only the open model") };
        if found.is_none() {
            open.blocked = true;
        } else if open.blocked {
            open.blocked = false;
            open.place_since_ns = since_ns;
        }
        Ok(found)
    }

    /// What the place does after its request has ended.
    pub(super) fn after_request(&mut self, slot: Slot, now: Nanos) -> io::Result<()> {
        if matches!(self.model, Model::Hold(_)) {
            return self.rest(slot, now);
        }
        if let Model::Open(open) = &self.model
            && !open.clients
        {
            let surplus = self.occupied > open.cap_now;
            return self.connection_is_free(slot, surplus);
        }
        if self.is_open() && self.client_is_done(slot) {
            self.slot_is_free(slot);
            return Ok(());
        }
        if self.is_draining() {
            // The connections that are left end with the ring.
            return Ok(());
        }
        match self.plan.think_ns {
            Some((from_ns, to_ns)) => {
                let think_ns = self.rng.random_range(from_ns..=to_ns);
                self.thinking.push(Reverse((now + think_ns, slot)));
                self.connections[slot as usize].thinking = true;
                Ok(())
            }
            None => self.next_of_place(slot, now),
        }
    }

    /// Open model: the connection may be used by any arrival, if it is still there.
    fn connection_is_free(&mut self, slot: Slot, surplus: bool) -> io::Result<()> {
        let open = self.connections[slot as usize].state == State::Idle;
        if open && !surplus {
            self.idle.push_last(0, slot);
            return Ok(());
        }
        if open {
            self.close_by_us(slot)?;
        }
        self.slot_is_free(slot);
        Ok(())
    }

    /// Whether the client in this slot has made all its requests, or has failed.
    fn client_is_done(&mut self, slot: Slot) -> bool {
        let connection = &mut self.connections[slot as usize];
        let finished = connection.client_left == Some(0);
        if finished {
            connection.client_left = None;
            self.recorder.tally.clients_finished += u64::from(connection.client_recorded);
        }
        self.connections[slot as usize].client_left.is_none()
    }

    /// The next request of a place or a client, after it has thought.
    fn next_of_place(&mut self, slot: Slot, now: Nanos) -> io::Result<()> {
        if !self.is_open() {
            return match self.connections[slot as usize].state {
                State::Idle => self.begin_closed(slot, now),
                _ => {
                    self.wait_in_queue(slot);
                    Ok(())
                }
            };
        }
        let connection = &mut self.connections[slot as usize];
        let recorded = connection.client_recorded;
        let left = connection.client_left.as_mut().expect("a client is in its place");
        *left -= 1;
        if recorded {
            self.recorder.tally.scheduled += 1;
        }
        let request = self.new_request(now, recorded);
        if self.connections[slot as usize].state == State::Idle || self.may_open(now) {
            return self.start(slot, request, now);
        }
        self.count_started(recorded);
        self.connections[slot as usize].request = Some(request);
        self.wait_in_queue(slot);
        Ok(())
    }

    /// A slot of the open model is without a socket and without a client.
    pub(super) fn slot_is_free(&mut self, slot: Slot) {
        if self.is_open() {
            self.occupied -= 1;
            self.empty.push(slot);
        }
    }

    /// The next time at which something is to be started, as far as it can be known.
    pub(super) fn next_due_ns(&self, now: Nanos) -> Option<Nanos> {
        let gate_ns = self.gate.at_ns(now);
        let queued_ns = if self.queue.is_empty() { None } else { gate_ns };
        match &self.model {
            Model::Closed(closed) => [queued_ns, closed.change_ns].into_iter().flatten().min(),
            Model::Hold(hold) => [queued_ns, hold.due_ns()].into_iter().flatten().min(),
            Model::Open(open) => {
                let due_ns = open.arrivals.peek().map(|ns| open.zero_ns + ns);
                let arrival_ns = match (due_ns, open.blocked && due_ns <= Some(now)) {
                    // It waits for a place: for the gate, or for a completion.
                    (Some(due_ns), true) => {
                        let drop_ns = open.drop_after_ns.map(|after_ns| due_ns + after_ns);
                        let gate_ns = (self.occupied < open.cap_now).then_some(gate_ns).flatten();
                        [drop_ns, gate_ns].into_iter().flatten().min()
                    }
                    (due_ns, _) => due_ns,
                };
                [queued_ns, arrival_ns, open.cap_change_ns].into_iter().flatten().min()
            }
        }
    }

    /// Ends the start of requests where the plan is fulfilled: all that it wanted was started, or
    /// its time is over. What is due before the end and late only because we are is started all
    /// the same.
    fn stop_if_over(&mut self, now: Nanos) -> io::Result<()> {
        let clock_is_over = self.end_ns.is_some_and(|end_ns| now >= end_ns);
        let over = match &self.model {
            Model::Closed(closed) => closed.quota == Some(0) || clock_is_over,
            Model::Hold(hold) => clock_is_over || hold.has_ended(),
            Model::Open(open) => {
                let late = !open.blocked
                    && !self.interrupted
                    && open.arrivals.peek().is_some_and(|ns| open.zero_ns + ns <= now);
                let all_taken = open.is_exhausted()
                    && (open.quota == Some(0) || self.end_ns.is_none())
                    && !(open.clients && self.occupied > 0);
                all_taken || (clock_is_over && !late)
            }
        };
        if over { self.drain(now) } else { Ok(()) }
    }

    /// Arrivals that were due before the end and found no place.
    pub(super) fn unstarted_at_end(&mut self, now: Nanos) {
        self.switch_to_recorded(now);
        let end_ns = self.end_ns.unwrap_or(now);
        let clients = self.has_clients();
        let Model::Open(open) = &mut self.model else { return };
        if open.zero_ns < self.record_ns {
            // The warm-up was not over.
            return;
        }
        let unstarted = open.arrivals.remaining_before(end_ns.saturating_sub(open.zero_ns));
        self.recorder.tally.scheduled += unstarted;
        self.recorder.tally.unstarted += unstarted;
        if clients {
            self.recorder.tally.clients_scheduled += unstarted;
        }
    }
}
