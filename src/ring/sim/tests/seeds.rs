//! A naive client, one request a connection, over many seeds: the simulation itself holds.

use super::*;

const SLOTS: u32 = 6;
const REQUESTS: u32 = 60;
const PATIENCE_NS: Nanos = 200 * MILLISECOND;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Idle,
    Busy,
    Ending,
}

struct Client {
    lab: Lab,
    phases: Vec<(Phase, Nanos)>,
    /// Completions of each slot that are certain to come.
    due: Vec<i32>,
    begun: u32,
}

impl Client {
    fn new(seed: u64) -> Self {
        let mut config = SimConfig::from_seed(seed);
        config.limits.slots = SLOTS;
        let mut lab = Lab::with(config, seed);
        lab.request(LAST_GET);
        let phases = vec![(Phase::Idle, 0); SLOTS as usize];
        Self { lab, phases, due: vec![0; SLOTS as usize], begun: 0 }
    }

    fn run(mut self) -> Truth {
        loop {
            let mut is_over = true;
            for slot in 0..SLOTS {
                self.advance(slot);
                is_over &= self.phases[slot as usize].0 == Phase::Idle;
            }
            if is_over && self.begun == REQUESTS {
                break;
            }
            let wait = Wait { want: 1, timeout_ns: Some(PATIENCE_NS), min_wait_ns: 0 };
            self.lab.ring.enter(wait).expect("entering succeeds");
            while let Some(completion) = self.lab.ring.next() {
                self.take(completion);
            }
            self.lab.ring.publish();
        }
        self.lab.ring.truth()
    }

    fn advance(&mut self, slot: Slot) {
        let now = self.lab.clock.now();
        let (phase, since) = self.phases[slot as usize];
        match phase {
            Phase::Idle if self.begun < REQUESTS => {
                self.begun += 1;
                self.phases[slot as usize] = (Phase::Busy, now);
                self.due[slot as usize] = 4;
                self.lab.ring.reserve(4).expect("room");
                self.lab.socket(slot, LINK);
                self.lab.connect(slot, LINK);
                self.lab.send(slot, LINK);
                self.lab.receive_multi(slot);
            }
            // Also where it is ending: a link that had not begun could not be cancelled.
            _ if phase != Phase::Idle && now - since > PATIENCE_NS => self.end(slot),
            _ => {}
        }
    }

    /// Everything that may be pending is cancelled; the slot is closed when all has ended.
    fn end(&mut self, slot: Slot) {
        if self.due[slot as usize] == 0 {
            return;
        }
        self.phases[slot as usize] = (Phase::Ending, self.lab.clock.now());
        self.due[slot as usize] += 3;
        self.lab.ring.reserve(3).expect("room");
        for kind in [Kind::Connect, Kind::Send, Kind::ReceiveMulti] {
            self.lab.cancel(kind, slot);
        }
    }

    fn take(&mut self, completion: Completion) {
        let slot = completion.token.slot();
        let index = slot as usize;
        if let Some(buffer) = completion.buffer {
            let len = usize::try_from(completion.result).expect("a buffer holds bytes");
            assert_eq!(self.lab.ring.received(buffer, len).len(), len);
            self.lab.ring.recycle(buffer);
        }
        if completion.more {
            return;
        }
        self.due[index] -= 1;
        let kind = completion.token.kind();
        let starves = completion.result == -libc::ENOBUFS || completion.result > 0;
        if kind == Kind::Close {
            self.phases[index].0 = Phase::Idle;
        } else if kind == Kind::ReceiveMulti && starves && self.phases[index].0 == Phase::Busy {
            self.due[index] += 1;
            self.lab.receive_multi(slot);
        } else if self.due[index] == 0 {
            self.phases[index].0 = Phase::Ending;
            self.due[index] = 1;
            self.lab.close(slot, PLAIN);
        }
    }
}

#[test]
fn nothing_is_left_for_any_seed() {
    for seed in 0..1_000 {
        let truth = Client::new(seed).run();
        assert_eq!(truth.buffers_out, 0, "seed {seed}");
        assert_eq!(truth.pending_operations, 0, "seed {seed}");
        assert_eq!(truth.open_sockets, truth.occupied_slots, "seed {seed}");
        assert!(truth.handed() <= truth.answered(), "seed {seed}");
        assert!(truth.answered() <= truth.requests.len(), "seed {seed}");
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..50 {
        assert_eq!(Client::new(seed).run(), Client::new(seed).run(), "seed {seed}");
    }
    assert_ne!(Client::new(1).run().digest, Client::new(2).run().digest);
}
