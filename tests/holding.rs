//! Connections that are held, over the simulated ring: a control that changes the level at virtual
//! times, as the command does at real ones.

use std::io;
use std::sync::Arc;

use ringload::clock::{Clock, MILLISECOND, Nanos, SECOND};
use ringload::engine::assignment::{Assignment, Demand, EncodedPage};
use ringload::engine::hold::{Control, Held};
use ringload::engine::worker::{Outcome, StopFlag, Worker};
use ringload::plan::{Ratio, Traffic};
use ringload::ring::sim::{Delay, ServerModel, SimConfig, SimRing, Truth};
use ringload::ring::{
    AddressId, BufferId, BytesId, Completion, Counters, Family, Features, Flags, Limits, Op, Ring,
    Slot, SocketOption, Token, Wait,
};
use ringload::stats::Recorder;
use ringload::stats::recorder::Settings;
use socket2::SockAddr;

/// A ring that does something of its own before each enter.
struct Hooked<F> {
    ring: SimRing,
    hook: F,
}

impl<F: FnMut(Nanos)> Ring for Hooked<F> {
    fn features(&self) -> Features {
        self.ring.features()
    }
    fn counters(&self) -> Counters {
        self.ring.counters()
    }
    fn scratch_len(&self) -> u32 {
        self.ring.scratch_len()
    }
    fn add_bytes(&mut self, bytes: Vec<u8>) -> BytesId {
        self.ring.add_bytes(bytes)
    }
    fn bytes_mut(&mut self, id: BytesId) -> &mut [u8] {
        self.ring.bytes_mut(id)
    }
    fn add_address(&mut self, address: &SockAddr) -> AddressId {
        self.ring.add_address(address)
    }
    fn reserve(&mut self, n: u32) -> io::Result<()> {
        self.ring.reserve(n)
    }
    fn queued(&self) -> u32 {
        self.ring.queued()
    }
    fn sq_len(&self) -> u32 {
        self.ring.sq_len()
    }
    fn push(&mut self, op: Op, token: Token, flags: Flags) {
        self.ring.push(op, token, flags);
    }
    fn install(
        &mut self,
        slot: Slot,
        family: Family,
        options: &[SocketOption],
        source: Option<AddressId>,
    ) -> io::Result<()> {
        self.ring.install(slot, family, options, source)
    }
    fn enter(&mut self, wait: Wait) -> io::Result<()> {
        (self.hook)(self.ring.clock().now());
        self.ring.enter(wait)
    }
    fn next(&mut self) -> Option<Completion> {
        self.ring.next()
    }
    fn received(&self, buffer: BufferId, len: usize) -> &[u8] {
        self.ring.received(buffer, len)
    }
    fn received_mut(&mut self, buffer: BufferId, len: usize) -> &mut [u8] {
        self.ring.received_mut(buffer, len)
    }
    fn recycle(&mut self, buffer: BufferId) {
        self.ring.recycle(buffer);
    }
    fn publish(&mut self) {
        self.ring.publish();
    }
}

/// What is done when, and what was held just before.
type Script = Vec<(Nanos, Step)>;

#[derive(Clone, Copy, Debug)]
enum Step {
    Level(usize, u32),
    Look,
    End,
}

struct Played {
    outcome: Outcome,
    truth: Truth,
    /// At each step, what was held.
    held: Vec<Held>,
}

fn play(traffic: Traffic, first_request: bool, config: SimConfig, script: Script) -> Played {
    let levels = script.iter().filter(|(_, step)| matches!(step, Step::Level(..))).count();
    let control = Control::new(levels, 1);
    let ring = SimRing::new(config, 7);
    let clock = ring.clock();
    let held = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let mut steps = script.into_iter().peekable();
    let (told, seen) = (Arc::clone(&control), std::rc::Rc::clone(&held));
    let hook = move |now| {
        while let Some((_, step)) = steps.next_if(|&(at, _)| at <= now) {
            seen.borrow_mut().push(told.held());
            match step {
                Step::Level(index, connections) => told.set_level(index, connections),
                Step::Look => {}
                Step::End => told.end(),
            }
        }
    };
    let stop = StopFlag::new(0);
    let settings = Settings { pages: 1, start_ns: 0, end_ns: None, open_model: false };
    let (recorder, _seconds) = Recorder::new(settings);
    let plan = assignment(Demand::Hold { control, traffic, first_request });
    let worker = Worker::new(plan, Hooked { ring, hook }, clock, &stop, recorder);
    let (outcome, hooked) = worker.run(0).expect("the ring can be entered");
    outcome.stats.check_identities();
    let truth = hooked.ring.truth();
    drop(hooked);
    let held = held.borrow().clone();
    Played { outcome, truth, held }
}

fn assignment(demand: Demand) -> Assignment {
    let encode =
        |connection: &str| format!("GET / HTTP/1.1\r\nHost: sim\r\n{connection}\r\n").into_bytes();
    let page = EncodedPage {
        keep: encode(""),
        close: encode("Connection: close\r\n"),
        head: false,
        idempotent: true,
        weight: 1,
    };
    Assignment {
        open_rate: Some(Ratio::whole(1_000)),
        batch: true,
        ..Assignment::of_page(page, ([127, 0, 0, 1], 80).into(), demand)
    }
}

fn machine() -> SimConfig {
    let limits = Limits { slots: 64, buffers: 64, buffer_len: 4_096, scratch_len: 65_536 };
    let mut config = SimConfig::exact(limits, ServerModel::exact(MILLISECOND));
    config.server.one_way_ns = Delay::Constant(0);
    config
}

#[test]
fn levels_are_reached_and_stay() {
    let script = vec![
        (0, Step::Level(0, 0)),
        (SECOND, Step::Level(1, 10)),
        (2 * SECOND, Step::Level(2, 50)),
        (4 * SECOND, Step::End),
    ];
    let played = play(Traffic::Idle, true, machine(), script);
    let open: Vec<u64> = played.held.iter().map(|held| held.open).collect();
    assert_eq!(open, [0, 0, 10, 50]);
    assert!(played.held.iter().skip(1).all(|held| held.opening == 0 && held.failed == 0));
    let levels: Vec<u64> = played.outcome.levels.iter().map(|level| level.opened).collect();
    assert_eq!(levels, [0, 10, 40]);
    assert_eq!(played.outcome.levels[2].connect.count(), 40);
    assert_eq!((played.outcome.stats.completed, played.truth.accepted), (50, 50));
    assert!(!played.outcome.interrupted);
}

#[test]
fn without_a_request_nothing_is_asked() {
    let script = vec![(0, Step::Level(0, 20)), (SECOND, Step::End)];
    let played = play(Traffic::Idle, false, machine(), script);
    assert_eq!((played.held[1].open, played.held[1].opening, played.held[1].opened), (20, 0, 20));
    assert_eq!((played.outcome.stats.completed, played.truth.requests.len()), (0, 0));
}

#[test]
fn busy_connections_ask_again_at_once() {
    let script = vec![(0, Step::Level(0, 4)), (SECOND, Step::End)];
    let played = play(Traffic::Busy, true, machine(), script);
    // A request takes 1 ms, and the last connection opens after 3 ms.
    let completed = played.outcome.stats.completed;
    assert!((3_980..=4_000).contains(&completed), "{completed}");
    assert_eq!(played.held[1].open, 4);
}

#[test]
fn a_rate_goes_in_turn_over_all() {
    let rate = Traffic::Rate(Ratio::whole(100));
    let script =
        vec![(0, Step::Level(0, 10)), (500 * MILLISECOND, Step::Look), (SECOND, Step::End)];
    let played = play(rate, true, machine(), script);
    let mut counts = vec![0; 10];
    for request in &played.truth.requests {
        counts[request.connection as usize] += 1;
    }
    // The first request of each, and a tenth of the 100 turns.
    assert!(counts.iter().all(|count| (10..=11).contains(count)), "{counts:?}");
    assert_eq!(played.outcome.stats.latency.response.max_ns(), Some(MILLISECOND));
}

#[test]
fn what_the_server_closes_is_seen_and_tried_again_with_the_next_level() {
    let mut config = machine();
    config.server.keep_alive_idle_ns = Some(400 * MILLISECOND);
    let script = vec![
        (0, Step::Level(0, 10)),
        (250 * MILLISECOND, Step::Look),
        (SECOND, Step::Look),
        (SECOND, Step::Level(1, 10)),
        (SECOND + 250 * MILLISECOND, Step::Look),
        (2 * SECOND, Step::End),
    ];
    let played = play(Traffic::Idle, true, config, script);
    let seen: Vec<(u64, u64)> =
        played.held.iter().map(|held| (held.open, held.closed_by_server)).collect();
    assert_eq!(seen, [(0, 0), (10, 0), (0, 10), (0, 10), (10, 10), (0, 20)]);
    let closed: Vec<u64> =
        played.outcome.levels.iter().map(|level| level.closed_by_server).collect();
    assert_eq!(closed, [10, 10]);
}

#[test]
fn what_is_refused_is_counted_once() {
    let mut config = machine();
    config.faults.refused = 1.0;
    let script = vec![(0, Step::Level(0, 3)), (20 * SECOND, Step::End)];
    let played = play(Traffic::Idle, true, config, script);
    let held = played.held[1];
    assert_eq!((held.open, held.opening, held.failed, held.attempted), (0, 0, 3, 3));
    assert_eq!(played.outcome.levels[0].failed, 3);
    assert_eq!(played.outcome.stats.failed, 3);
}
