//! One thread's pass: start what is due, enter once, take the completions.
//!
//! A worker shares nothing. It is generic over the ring and the clock, so that the simulation
//! runs the very code that production runs.

mod closing;
mod completing;
mod demand;
mod hold;
mod opening;
mod records;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicU8, Ordering};

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use super::assignment::{Assignment, Demand};
use super::batching::{Batch, Batching};
use super::connection::Connection;
use super::deadlines::Deadlines;
use super::gate::Gate;
use super::hold::LevelStats;
use super::lists::Lists;
use super::secure::Security;
use crate::clock::{Clock, MICROSECOND, MILLISECOND, Nanos, SECOND};
use crate::plan::pages::Picker;
use crate::plan::{Arrive, Spin};
use crate::ring::{AddressId, BytesId, Counters, Ring, Slot, Wait};
use crate::stats::Recorder;
use crate::stats::worker_stats::WorkerStats;
use crate::tls::{Client, Handshake};

use demand::Model;

/// A worker looks at the clock and at the stop flag at least so often.
const LONGEST_WAIT_NS: Nanos = 100 * MILLISECOND;
/// How long before a due time `--spin auto` begins to poll: the p99 of a sleep's overrun
/// (docs/ACCURACY.md, pacing).
const SPIN_STRETCH_NS: Nanos = 60 * MICROSECOND;
/// A request up to this length fits the send buffer of a socket that has nothing to send: it
/// starts no smaller (`tcp_wmem`, tcp(7)).
const SENT_AT_ONCE_LEN: usize = 4_096;
/// Handshakes that are taken a step further before what they have to say is sent: each costs some
/// 50 µs and more (docs/BENCHMARKING.md, TLS), and the first should not wait for the last.
const HANDSHAKES_A_PASS: u32 = 4;
/// How long the server's FIN is waited for (contract, "What happens").
const LINGER_NS: Nanos = 20 * MILLISECOND;

/// Asks workers to stop: 0 go on, 1 stop sending and wait for what is in flight, 2 end at once.
pub type StopFlag = AtomicU8;

/// What a worker leaves behind.
pub struct Outcome {
    /// What it recorded.
    pub stats: WorkerStats,
    /// When recorded time ended.
    pub ended_ns: Nanos,
    /// Passes made in recorded time and grace.
    pub passes: u64,
    /// Requests begun in them, warm-up included.
    pub begun: u64,
    /// Nanoseconds spent polling for nothing.
    pub idle_poll_ns: Nanos,
    /// What batching may have added to a response, nanoseconds.
    pub batch_wait_ns: Nanos,
    /// Completions that one enter waited for at most.
    pub batch_want: u32,
    /// Receives that found no free buffer.
    pub no_buffers: u64,
    /// The ring's own counters.
    pub ring: Counters,
    /// What the TLS handshakes came to.
    pub handshake: Option<Handshake>,
    /// What was recorded of each level of a hold.
    pub levels: Vec<LevelStats>,
    /// Whether a stop ended it.
    pub interrupted: bool,
    /// Whether it ended because all requests that were asked for were started.
    pub fulfilled: bool,
}

/// A page as the ring knows it.
struct Page {
    keep: (BytesId, u32),
    close: (BytesId, u32),
    /// So long that its send may still be under way when an early response is there.
    long: bool,
    head: bool,
    idempotent: bool,
}

/// Where a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Connections are opened ahead of the clock.
    Preconnect,
    /// Load is made.
    Running,
    /// Nothing is started any more; what is in flight is waited for.
    Draining,
}

/// One thread's load.
pub struct Worker<'a, R, C> {
    ring: R,
    clock: C,
    plan: Assignment,
    stop: &'a StopFlag,
    recorder: Recorder,
    pages: Vec<Page>,
    picker: Picker,
    addresses: Vec<AddressId>,
    sources: Vec<AddressId>,
    /// Connections attempted so far: addresses and sources are used in turn.
    turn: usize,
    connections: Vec<Connection>,
    /// Open model: slots without a socket.
    empty: Vec<Slot>,
    /// Open model: connections that are free.
    idle: Lists<1>,
    /// Slots that wait for their turn at the gate.
    queue: VecDeque<Slot>,
    thinking: BinaryHeap<Reverse<(Nanos, Slot)>>,
    deadlines: Deadlines,
    gate: Gate,
    batching: Batching,
    rng: Pcg64Mcg,
    model: Model,
    stage: Stage,
    /// When the load starts, and when recorded time does.
    start_ns: Nanos,
    record_ns: Nanos,
    /// When it ends, if by the clock or by a stop.
    end_ns: Option<Nanos>,
    interrupted: bool,
    in_flight: u32,
    in_flight_recorded: u64,
    /// Open model: slots that are in use.
    occupied: u32,
    /// When the completions of this pass were taken.
    event_ns: Nanos,
    passes: u64,
    begun: u64,
    idle_poll_ns: Nanos,
    batch_want: u32,
    no_buffers: u64,
    /// A large body has been seen: heads are received on their own, and what is left of a body
    /// whose length is known is thrown away uncopied. For all connections alike, since one that
    /// changes its way of receiving with each page pays for it each time.
    bulk: bool,
    /// Of connections over TLS.
    security: Option<Security>,
    /// Steps of handshakes taken since the last enter.
    costly: u32,
    /// Completions were left for the next pass.
    left_over: bool,
    /// Chains pushed since the last enter.
    opens: u32,
    /// Slots whose receive found no buffer: armed anew once the buffers are given back.
    starved: Vec<Slot>,
    /// Asked whether other threads want this CPU; `--spin auto` then sleeps.
    contended: Option<Box<dyn FnMut(Nanos) -> bool>>,
}

impl<'a, R: Ring, C: Clock> Worker<'a, R, C> {
    /// A worker over a ring that was made on this thread.
    pub fn new(
        plan: Assignment,
        mut ring: R,
        clock: C,
        stop: &'a StopFlag,
        recorder: Recorder,
    ) -> Self {
        let slots = plan.slots;
        let mut add = |bytes: &Vec<u8>| (ring.add_bytes(bytes.clone()), bytes.len() as u32);
        let pages: Vec<Page> = plan
            .pages
            .iter()
            .map(|page| Page {
                long: page.close.len() > SENT_AT_ONCE_LEN,
                keep: add(&page.keep),
                close: add(&page.close),
                head: page.head,
                idempotent: page.idempotent,
            })
            .collect();
        let addresses = plan.addresses.iter().map(|address| ring.add_address(address)).collect();
        let sources = plan.sources.iter().map(|source| ring.add_address(source)).collect();
        let weights: Vec<u32> = plan.pages.iter().map(|page| page.weight).collect();
        let (thread, threads) = (plan.thread, plan.threads);
        let closed = matches!(plan.demand, Demand::Closed { .. });
        let now = clock.now();
        let interval_ns = plan.open_rate.map_or(0, |rate| {
            (u128::from(SECOND) * u128::from(rate.den) * u128::from(threads)
                / u128::from(rate.num.max(1))) as Nanos
        });
        let first_ns = now + interval_ns / u64::from(threads) * u64::from(thread);
        Self {
            model: Model::new(&plan),
            picker: Picker::new(&weights, plan.pick, plan.seed, thread as usize, threads as usize),
            pages,
            addresses,
            sources,
            turn: thread as usize,
            connections: Vec::with_capacity(slots as usize),
            empty: Vec::with_capacity(slots as usize),
            idle: Lists::new(slots),
            queue: VecDeque::with_capacity(slots as usize),
            thinking: BinaryHeap::with_capacity(if plan.think_ns.is_some() {
                slots as usize
            } else {
                0
            }),
            deadlines: Deadlines::new(slots),
            gate: Gate::new(interval_ns, first_ns),
            // With think time the rate does not tell what a wait costs.
            batching: Batching::new(closed && plan.batch && plan.think_ns.is_none(), now),
            rng: Pcg64Mcg::seed_from_u64(
                plan.seed ^ u64::from(thread).wrapping_mul(0x9E37_79B9_7F4A_7C15),
            ),
            stage: Stage::Running,
            start_ns: now,
            record_ns: now,
            end_ns: None,
            interrupted: false,
            in_flight: 0,
            in_flight_recorded: 0,
            occupied: 0,
            event_ns: now,
            passes: 0,
            begun: 0,
            idle_poll_ns: 0,
            batch_want: 1,
            no_buffers: 0,
            bulk: false,
            security: plan.tls.as_ref().map(|tls| {
                let client = Client::new(&tls.settings, &tls.roots);
                Security::new(client.expect("it was tried when the job was made"), tls.resume)
            }),
            costly: 0,
            left_over: false,
            opens: 0,
            starved: Vec::with_capacity(slots as usize),
            contended: None,
            plan,
            ring,
            clock,
            stop,
            recorder,
        }
    }

    /// Gives `--spin auto` a way to ask whether other threads want this CPU.
    pub fn set_contended(&mut self, contended: Box<dyn FnMut(Nanos) -> bool>) {
        self.contended = Some(contended);
    }

    /// Opens this worker's share of the connections that are wanted before the clock starts, and
    /// returns when all are open or could not be made.
    ///
    /// # Errors
    /// What entering the ring returned.
    pub fn preconnect(&mut self) -> io::Result<()> {
        let Demand::Open { preconnect, .. } = self.plan.demand else { return Ok(()) };
        let mut wanted = self.plan.share(u64::from(preconnect));
        self.stage = Stage::Preconnect;
        loop {
            let now = self.clock.now();
            while wanted > 0 && self.may_open(now) {
                wanted -= 1;
                let slot = self.take_empty().expect("preconnect is at most the places");
                self.open(slot, None, now)?;
            }
            self.expire(now)?;
            if (wanted == 0 && self.gate.is_idle()) || self.stop.load(Ordering::Relaxed) > 0 {
                return Ok(());
            }
            self.enter_and_complete(now, self.earliest(now, self.gate.at_ns(now)))?;
        }
    }

    /// Runs the load from `start_ns` on (the warm-up first) to its end; gives the ring back as well.
    ///
    /// # Errors
    /// What entering the ring returned.
    ///
    /// # Panics
    /// Where an identity of the counts does not hold: a fault of this program.
    pub fn run(mut self, start_ns: Nanos) -> io::Result<(Outcome, R)> {
        self.stage = Stage::Running;
        self.start_ns = start_ns;
        self.record_ns = start_ns + self.plan.warmup_ns;
        self.end_ns = self.plan.duration_ns.map(|duration_ns| self.record_ns + duration_ns);
        self.recorder.start(self.record_ns, self.end_ns);
        self.wait_for_start()?;
        self.start_model(start_ns);
        loop {
            let now = self.clock.now();
            self.watch_for_stop(now);
            let begun = self.begun;
            match self.stage {
                Stage::Running => self.begin_due(now)?,
                _ => self.serve_queue(now)?,
            }
            self.expire(now)?;
            if self.has_ended(now) {
                return Ok(self.finish(now));
            }
            let completions = self.enter_and_complete(now, self.wake_ns(now))?;
            self.recorder.tick(self.event_ns);
            self.passes += 1;
            if completions == 0 && self.begun == begun {
                self.polled_for_nothing(now);
            }
            if matches!(self.model, Model::Hold(_)) {
                self.publish_held();
            }
        }
    }

    /// Waits for the common start; connections that are open already are looked after.
    fn wait_for_start(&mut self) -> io::Result<()> {
        loop {
            let now = self.clock.now();
            if now >= self.start_ns || self.stop.load(Ordering::Relaxed) > 0 {
                return Ok(());
            }
            self.enter_and_complete(now, self.earliest(now, Some(self.start_ns)))?;
        }
    }

    /// One enter, at most until `wake_ns`, and all that it completed.
    fn enter_and_complete(&mut self, now: Nanos, wake_ns: Nanos) -> io::Result<u32> {
        let wait = self.wait(now, wake_ns);
        self.ring.enter(wait)?;
        // An enter may have taken nothing; what it left is taken by a later one.
        if let Some(security) = self.security.as_mut().filter(|_| self.ring.queued() == 0) {
            security.pool.submit();
        }
        let now = self.clock.now();
        self.event_ns = now;
        self.costly = 0;
        self.left_over = false;
        let mut completions = 0;
        while let Some(completion) = self.ring.next() {
            self.complete(completion, now)?;
            completions += 1;
            if self.costly == HANDSHAKES_A_PASS {
                // What is ready to be sent does not wait for the rest.
                self.left_over = true;
                break;
            }
        }
        if let Some(security) = self.security.as_mut().filter(|_| !self.left_over) {
            security.pool.completed();
        }
        self.ring.publish();
        self.feed_starved()?;
        Ok(completions)
    }

    /// How the next enter waits.
    fn wait(&mut self, now: Nanos, wake_ns: Nanos) -> Wait {
        let stretch_ns = match self.plan.spin {
            Spin::Never => 0,
            Spin::Always => Nanos::MAX,
            Spin::Auto => self.stretch_ns(now),
        };
        let sleep_ns = wake_ns.saturating_sub(now).saturating_sub(stretch_ns);
        // The kernel connects to a near server while it takes the chain: a look at once, before
        // the wait, tells when.
        let opens = std::mem::take(&mut self.opens);
        if sleep_ns == 0 || opens > 0 || self.left_over {
            return Wait::POLL;
        }
        let batch = match self.model {
            // While connections are being made each completion counts, so that their times do not
            // hold the wait for others.
            Model::Closed(_) if self.stage == Stage::Running && self.gate.is_idle() => {
                self.batching.next(now, self.in_flight)
            }
            _ => Batch::ONE,
        };
        self.batch_want = self.batch_want.max(batch.want);
        Wait { want: batch.want, timeout_ns: Some(sleep_ns), min_wait_ns: batch.min_wait_ns }
    }

    /// What `--spin auto` polls before a due time: only in the open model, and only while nobody
    /// else wants this CPU.
    fn stretch_ns(&mut self, now: Nanos) -> Nanos {
        let polls = self.is_open() && self.contended.as_mut().is_some_and(|asks| !asks(now));
        if polls { SPIN_STRETCH_NS } else { 0 }
    }

    fn is_open(&self) -> bool {
        matches!(self.model, Model::Open(_))
    }

    fn polled_for_nothing(&mut self, since_ns: Nanos) {
        if self.plan.spin != Spin::Never {
            let spent_ns = self.clock.now().saturating_sub(since_ns);
            // A longer one was a sleep.
            if self.plan.spin == Spin::Always || spent_ns < SPIN_STRETCH_NS {
                self.idle_poll_ns += spent_ns;
            }
        }
    }

    fn watch_for_stop(&mut self, now: Nanos) {
        if self.stage == Stage::Running && self.stop.load(Ordering::Relaxed) > 0 {
            self.interrupted = true;
            self.end_ns = Some(self.end_ns.map_or(now, |end_ns| end_ns.min(now)));
            self.recorder.stop(now);
        }
    }

    /// Stops starting anything: what is due and waits is unstarted, idle connections are closed.
    fn drain(&mut self, now: Nanos) -> io::Result<()> {
        self.stage = Stage::Draining;
        self.unstarted_at_end(now);
        // A place that waits for its turn has begun nothing; a request that waits to be sent once
        // more or for a port has.
        let queue = std::mem::take(&mut self.queue);
        for slot in queue {
            if self.connections[slot as usize].request.is_some() {
                self.queue.push_back(slot);
            } else {
                self.leave_queue(slot);
            }
        }
        self.thinking.clear();
        Ok(())
    }

    /// Whether nothing is left to wait for.
    fn has_ended(&self, now: Nanos) -> bool {
        if self.stop.load(Ordering::Relaxed) > 1 {
            return true;
        }
        self.stage == Stage::Draining
            && (self.in_flight == 0
                || self.end_ns.is_some_and(|end_ns| now >= end_ns + self.plan.grace_ns))
    }

    /// The next time at which something is to be done without a completion.
    fn wake_ns(&self, now: Nanos) -> Nanos {
        let wake_ns = match self.stage {
            Stage::Running => self.next_due_ns(now),
            _ if self.queue.is_empty() => None,
            _ => self.gate.at_ns(now),
        };
        let thought_ns = self.thinking.peek().map(|Reverse((due_ns, _))| *due_ns);
        let end_ns = match self.stage {
            Stage::Draining => self.end_ns.map(|end_ns| end_ns + self.plan.grace_ns),
            _ => self.end_ns,
        };
        let wake_ns = [wake_ns, thought_ns, end_ns].into_iter().flatten().min();
        self.earliest(now, wake_ns)
    }

    /// `wake_ns`, or before it the next deadline or the longest wait.
    fn earliest(&self, now: Nanos, wake_ns: Option<Nanos>) -> Nanos {
        let mut limit_ns = now + LONGEST_WAIT_NS;
        if self.stage != Stage::Preconnect {
            // A second is handed over when it is past, also where nothing else happens then.
            limit_ns = limit_ns.min(self.recorder.second_ends_ns().max(now + 1));
        }
        [wake_ns, self.deadlines.next_ns()].into_iter().flatten().fold(limit_ns, Nanos::min)
    }

    /// Ends the recording: what is in flight is unfinished.
    fn finish(mut self, now: Nanos) -> (Outcome, R) {
        if self.stage != Stage::Draining {
            self.interrupted = true;
            self.end_ns = Some(self.end_ns.map_or(now, |end_ns| end_ns.min(now)));
            self.unstarted_at_end(now);
        }
        let ended_ns = self.end_ns.unwrap_or(now).min(now).max(self.record_ns);
        // Completions of the last submissions may have come; the buffers in them are given back.
        while let Some(completion) = self.ring.next() {
            if let Some(buffer) = completion.buffer {
                self.ring.recycle(buffer);
            }
        }
        self.ring.publish();
        let fulfilled = !self.interrupted && self.end_ns.is_none_or(|end_ns| now < end_ns);
        self.recorder.tally.unfinished += self.in_flight_recorded;
        for slot in 0..self.connections.len() {
            if self.connections[slot].carried > 0 {
                self.count_connection(slot as Slot);
            }
        }
        let outcome = Outcome {
            stats: self.recorder.finish(ended_ns),
            ended_ns,
            passes: self.passes,
            begun: self.begun,
            idle_poll_ns: self.idle_poll_ns,
            batch_wait_ns: self.batching.longest_ns(),
            batch_want: self.batch_want,
            no_buffers: self.no_buffers,
            handshake: self.security.as_ref().and_then(|security| security.handshake),
            ring: self.ring.counters(),
            levels: match &self.model {
                Model::Hold(hold) => hold.levels(),
                Model::Closed(_) | Model::Open(_) => Vec::new(),
            },
            interrupted: self.interrupted,
            fulfilled,
        };
        (outcome, self.ring)
    }

    /// Whether an arrival is a client with a connection of its own.
    fn has_clients(&self) -> bool {
        matches!(self.plan.demand, Demand::Open { arrive: Arrive::Clients, .. })
    }
}
