//! The worker over the simulated ring: thousands of seeds, every fault that the ring knows, in
//! virtual time. `RINGLOAD_SEED=N cargo test --test simulation` replays one, `RINGLOAD_SEEDS=N` plays
//! so many.

mod exact;
mod plans;
mod tls;

use std::panic;
use std::process::Command;

use ringload::clock::{Clock, Nanos};
use ringload::engine::assignment::{Assignment, Demand};
use ringload::engine::worker::{Outcome, StopFlag, Worker};
use ringload::pace;
use ringload::plan::{Arrive, Spacing};
use ringload::ring::sim::{SimConfig, SimRing, Truth};
use ringload::stats::Recorder;
use ringload::stats::recorder::Settings;

/// Seeds a run of the test plays, and those that it plays over TLS.
const SEEDS: u64 = 10_000;
const TLS_SEEDS: u64 = 4_000;
/// Asks a process of this test for the digests of its runs.
const DIGESTS: &str = "RINGLOAD_DIGESTS";

#[test]
fn every_arrival_ends_once_for_any_seed() {
    check_all(SEEDS, Protocol::Plain);
}

#[test]
fn every_arrival_ends_once_over_tls() {
    check_all(TLS_SEEDS, Protocol::Tls);
}

/// Plays all seeds below `count`, or the one that is asked for.
fn check_all(count: u64, protocol: Protocol) {
    let asked = |name| std::env::var(name).ok().and_then(|number| number.parse().ok());
    if let Some(seed) = asked("RINGLOAD_SEED") {
        check(seed, protocol, true);
        return;
    }
    let count = asked("RINGLOAD_SEEDS").unwrap_or(count);
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let failed: Vec<u64> = std::thread::scope(|scope| {
        let crews: Vec<_> = (0..threads)
            .map(|first| {
                scope.spawn(move || {
                    (first..count)
                        .step_by(threads as usize)
                        .filter(|&seed| {
                            panic::catch_unwind(|| check(seed, protocol, false)).is_err()
                        })
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        crews.into_iter().flat_map(|crew| crew.join().expect("panics are caught")).collect()
    });
    assert!(
        failed.is_empty(),
        "{} of {count} seeds failed; replay with RINGLOAD_SEED={}: {failed:?}",
        failed.len(),
        failed[0]
    );
}

#[test]
fn the_same_seed_is_the_same_run_in_any_process() {
    let digests: Vec<String> = (0..50)
        .flat_map(|seed| [Protocol::Plain, Protocol::Tls].map(|protocol| (seed, protocol)))
        .map(|(seed, protocol)| {
            let (plan, config) = protocol.drawn(seed);
            let digest = run(plan.clone(), config.clone(), seed).truth.digest;
            assert_eq!(digest, run(plan, config, seed).truth.digest, "seed {seed} {protocol:?}");
            format!("{digest:016x}")
        })
        .collect();
    let digests = digests.join(" ");
    if std::env::var_os(DIGESTS).is_some() {
        println!("{digests}");
        return;
    }
    let itself = std::env::current_exe().expect("a test is a program");
    let name = "the_same_seed_is_the_same_run_in_any_process";
    let other = Command::new(itself)
        .args([name, "--exact", "--nocapture"])
        .env(DIGESTS, "1")
        .output()
        .expect("a test can be run");
    let said = String::from_utf8_lossy(&other.stdout);
    assert!(said.contains(&digests), "{digests}\n{said}");
}

/// Plays one seed and holds the report against what really happened.
fn check(seed: u64, protocol: Protocol, trace: bool) {
    let (plan, mut config) = protocol.drawn(seed);
    config.trace = trace;
    if trace {
        eprintln!("{plan:?}\n{config:?}");
    }
    let expected = expected_arrivals(&plan);
    let end_ns = plan.duration_ns;
    let (grace_ns, requests) = (plan.grace_ns, plan.requests);
    let is_closed = matches!(plan.demand, Demand::Closed { .. });
    let clients = matches!(plan.demand, Demand::Open { arrive: Arrive::Clients, .. });
    let Played { outcome, truth, started_ns, ended_ns } = run(plan, config, seed);
    let stats = &outcome.stats;
    stats.check_identities();
    assert_eq!(outcome.ring.cq_overflows, 0, "the completion queue overflowed");
    assert_eq!(truth.buffers_out, 0, "a buffer was lost");
    assert_eq!(outcome.sends_pending, truth.pending_sends as usize, "bytes of the pool were lost");
    assert_eq!(outcome.idle_with_buffers, 0, "an idle connection owns a buffer");
    assert!(stats.completed as usize <= truth.handed() + disturbed(&truth), "answers of nobody's");
    assert!(stats.tally.opened <= truth.connects, "connections that nobody made");
    check_handshakes(&outcome, &truth);
    if let Some(requests) = requests {
        let counted = if clients { stats.tally.clients_started } else { stats.tally.started };
        assert!(counted <= requests, "more than the {requests} that were asked for");
    }
    if is_closed {
        assert_eq!(stats.tally.scheduled, stats.tally.started);
    } else if let Some(expected) = expected {
        let counted = if clients { stats.tally.clients_scheduled } else { stats.tally.scheduled };
        assert_eq!(counted, expected, "arrivals of the plan");
    }
    if stats.tally.unfinished > 0 {
        let end_ns = end_ns.expect("without an end by the clock all is waited for");
        assert!(ended_ns >= started_ns + end_ns + grace_ns, "given up before the grace was over");
    }
}

/// Requests whose answers may have been other bytes that came before.
fn disturbed(truth: &Truth) -> usize {
    truth.requests.iter().filter(|request| request.disturbed).count()
}

/// Each kind of handshake is counted where the server has taken it to its end, and no request goes
/// over a connection without one.
fn check_handshakes(outcome: &Outcome, truth: &Truth) {
    let tally = outcome.stats.tally;
    let handed = |resumed| {
        let handshakes = truth.handshakes.iter();
        handshakes.filter(|h| h.resumed == resumed && h.handed_ns.is_some()).count() as u64
    };
    assert!(tally.tls_full <= handed(false), "full handshakes that nobody made");
    assert!(tally.tls_resumed <= handed(true), "resumed handshakes that nobody made");
    if truth.handshakes.is_empty() {
        return;
    }
    let mut asked: Vec<u32> = truth.requests.iter().map(|request| request.connection).collect();
    asked.sort_unstable();
    asked.dedup();
    assert!(asked.len() as u64 <= tally.tls_full + tally.tls_resumed, "handshakes not counted");
}

/// How many arrivals an evenly spaced plan has before its end.
fn expected_arrivals(plan: &Assignment) -> Option<u64> {
    let Demand::Open { rate, spacing: Spacing::Even, .. } = &plan.demand else { return None };
    let by_time = plan.duration_ns.map(|end_ns| pace::Schedule::new(rate).count_before(end_ns));
    [by_time, plan.requests].into_iter().flatten().min()
}

/// What is spoken in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Plain,
    Tls,
}

impl Protocol {
    fn drawn(self, seed: u64) -> (Assignment, SimConfig) {
        match self {
            Self::Plain => (plans::drawn(seed), SimConfig::from_seed(seed)),
            Self::Tls => (plans::drawn_tls(seed), SimConfig::from_seed_tls(seed)),
        }
    }
}

struct Played {
    outcome: Outcome,
    truth: Truth,
    started_ns: Nanos,
    ended_ns: Nanos,
}

fn run(plan: Assignment, config: SimConfig, seed: u64) -> Played {
    let ring = SimRing::new(config, seed);
    let clock = ring.clock();
    let stop = StopFlag::new(0);
    let settings = Settings {
        pages: plan.pages.len(),
        start_ns: clock.now(),
        end_ns: None,
        open_model: matches!(plan.demand, Demand::Open { .. }),
    };
    let (recorder, _seconds) = Recorder::new(settings);
    let warmup_ns = plan.warmup_ns;
    let mut worker = Worker::new(plan, ring, clock.clone(), &stop, recorder);
    worker.preconnect().expect("the ring can be entered");
    let started_ns = clock.now();
    let (outcome, ring) = worker.run(started_ns).expect("the ring can be entered");
    Played {
        outcome,
        truth: ring.truth(),
        started_ns: started_ns + warmup_ns,
        ended_ns: clock.now(),
    }
}
