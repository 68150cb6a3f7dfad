//! Connections that are held: opened up to a level, asked once, and then left alone, or asked again
//! as soon as they have answered, or in turn.

use std::io;
use std::sync::Arc;

use super::{Model, Worker};
use crate::clock::{Clock, Nanos, SECOND};
use crate::engine::assignment::{Assignment, Demand};
use crate::engine::connection::State;
use crate::engine::hold::{Control, Held, LevelStats, Wanted};
use crate::plan::hold::Traffic;
use crate::ring::{Ring, Slot};

/// Places that are held. A place's slot is its number.
pub(super) struct Hold {
    control: Arc<Control>,
    traffic: Traffic,
    first_request: bool,
    /// What was last asked for, over all workers.
    wanted: Wanted,
    /// Which worker this is.
    thread: usize,
    places: Vec<Place>,
    opening: u64,
    failed: u64,
    closed_before: u64,
    levels: Vec<LevelStats>,
    /// With a rate: this worker's turns so far, of what they are counted from, and two turns'
    /// distance as a fraction of nanoseconds.
    turns: u64,
    zero_ns: Nanos,
    turn_ns: (u128, u128),
}

/// One place.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// Its connection is on its way, its first request included.
    opening: bool,
    /// Its connection was open at some time in this attempt.
    established: bool,
}

impl Hold {
    pub(super) fn new(plan: &Assignment) -> Option<Self> {
        let Demand::Hold { control, traffic, first_request } = &plan.demand else { return None };
        let turn_ns = match traffic {
            Traffic::Rate(rate) => (
                u128::from(SECOND) * u128::from(rate.den) * u128::from(plan.threads),
                u128::from(rate.num.max(1)),
            ),
            Traffic::Idle | Traffic::Busy => (0, 1),
        };
        Some(Self {
            levels: vec![LevelStats::new(); control.levels()],
            control: Arc::clone(control),
            traffic: *traffic,
            first_request: *first_request,
            wanted: Wanted::default(),
            thread: plan.thread as usize,
            places: Vec::new(),
            opening: 0,
            failed: 0,
            closed_before: 0,
            turns: 0,
            zero_ns: 0,
            turn_ns,
        })
    }

    /// What was recorded of each level.
    pub(super) fn levels(&self) -> Vec<LevelStats> {
        self.levels.clone()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.control.has_ended()
    }

    /// A connection was made: over TLS its handshake is complete. The time is the connect's, or the
    /// handshake's and whether that resumed a session.
    pub(super) fn made(&mut self, slot: Slot) {
        self.places[slot as usize].established = true;
        self.levels[self.wanted.level].opened += 1;
    }

    pub(super) fn connected(&mut self, connect_ns: Nanos) {
        self.levels[self.wanted.level].connect.record(connect_ns);
    }

    pub(super) fn secured(&mut self, handshake_ns: Nanos, resumed: bool) {
        let level = &mut self.levels[self.wanted.level];
        if resumed { &mut level.tls_resumed } else { &mut level.tls }.record(handshake_ns);
    }

    /// When the next turn is due, with a rate.
    pub(super) fn due_ns(&self) -> Option<Nanos> {
        let (num, den) = self.turn_ns;
        (num > 0).then(|| self.zero_ns + (u128::from(self.turns) * num / den) as Nanos)
    }

    /// The place's connection is not on its way any more: it is there, or it is not.
    fn settle(&mut self, slot: Slot) {
        let place = &mut self.places[slot as usize];
        if std::mem::take(&mut place.opening) {
            self.opening -= 1;
            if !place.established {
                self.failed += 1;
                self.levels[self.wanted.level].failed += 1;
            }
        }
    }
}

impl<R: Ring, C: Clock> Worker<'_, R, C> {
    fn hold(&mut self) -> &mut Hold {
        match &mut self.model {
            Model::Hold(hold) => hold,
            _ => unreachable!("only a hold"),
        }
    }

    pub(super) fn start_hold(&mut self, start_ns: Nanos) {
        let thread = u64::from(self.plan.thread);
        let threads = u128::from(self.plan.threads);
        let hold = self.hold();
        // The workers' turns are spread evenly between each other.
        let (num, den) = hold.turn_ns;
        hold.zero_ns = start_ns + (num * u128::from(thread) / threads / den) as Nanos;
    }

    /// Follows the level that is wanted, and takes the turns that are due.
    pub(super) fn tend(&mut self, now: Nanos) -> io::Result<()> {
        let wanted = self.hold().control.wanted();
        if wanted.turn != self.hold().wanted.turn {
            self.follow_level(wanted);
        }
        self.take_turns(now)
    }

    /// Every place of the level without a connection gets one try.
    fn follow_level(&mut self, wanted: Wanted) {
        let share = self.plan.share(u64::from(wanted.connections)).min(self.plan.slots.into());
        self.count_closed();
        self.hold().wanted = wanted;
        for slot in 0..share as Slot {
            self.grow_to(slot);
            if self.connections[slot as usize].state == State::Empty {
                self.try_place(slot);
            }
        }
    }

    fn try_place(&mut self, slot: Slot) {
        let hold = self.hold();
        while hold.places.len() <= slot as usize {
            hold.places.push(Place::default());
        }
        hold.places[slot as usize] = Place { opening: true, established: false };
        hold.opening += 1;
        self.wait_in_queue(slot);
    }

    /// The place's turn at the gate: its connection is opened, with the first request if it makes
    /// one.
    pub(super) fn begin_held(&mut self, slot: Slot, now: Nanos) -> io::Result<()> {
        if !self.hold().first_request {
            return self.open(slot, None, now);
        }
        self.ask(slot, now, now)
    }

    fn ask(&mut self, slot: Slot, intended_ns: Nanos, now: Nanos) -> io::Result<()> {
        self.recorder.tally.scheduled += 1;
        let request = self.new_request(intended_ns, true);
        self.start(slot, request, now)
    }

    /// Requests in turn over the connections that are there; a turn that finds none is nobody's.
    fn take_turns(&mut self, now: Nanos) -> io::Result<()> {
        while let Some(due_ns) = self.hold().due_ns().filter(|&due_ns| due_ns <= now) {
            self.hold().turns += 1;
            if let Some(slot) = self.idle.pop_first(0) {
                self.recorder.arrival(0, now - due_ns);
                self.ask(slot, due_ns, now)?;
            }
        }
        Ok(())
    }

    /// The connection is there, or its request has ended, or it has gone.
    pub(super) fn rest(&mut self, slot: Slot, now: Nanos) -> io::Result<()> {
        let draining = self.is_draining();
        let state = self.connections[slot as usize].state;
        let hold = self.hold();
        let established = hold.places[slot as usize].established;
        hold.settle(slot);
        let traffic = hold.traffic;
        match state {
            _ if draining => Ok(()),
            State::Idle if traffic == Traffic::Busy => self.ask(slot, now, now),
            State::Idle => {
                if self.idle.list_of(slot).is_none() {
                    self.idle.push_last(0, slot);
                }
                Ok(())
            }
            // A server may end a connection after so many requests: the level stays what it is.
            State::Empty if traffic != Traffic::Idle && established => {
                self.try_place(slot);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Connections that the server has closed since the last look belong to this level.
    fn count_closed(&mut self) {
        let closed = self.recorder.tally.closed_by_server;
        let hold = self.hold();
        let since = closed - std::mem::replace(&mut hold.closed_before, closed);
        hold.levels[hold.wanted.level].closed_by_server += since;
    }

    /// Tells the control thread how it stands.
    pub(super) fn publish_held(&mut self) {
        self.count_closed();
        let tally = self.recorder.tally;
        let (completed, failed_requests) = self.recorder.ended();
        let hold = self.hold();
        let held = Held {
            open: tally.open,
            opening: hold.opening,
            attempted: tally.attempted,
            opened: hold.levels.iter().map(|level| level.opened).sum(),
            failed: hold.failed,
            closed_by_server: tally.closed_by_server,
            completed,
            failed_requests,
            no_ports: tally.no_ports,
        };
        hold.control.publish(hold.thread, hold.wanted.turn, &held);
    }
}
