//! How an enter waits.

use super::*;

fn with_timeout(want: u32, timeout_ns: Nanos, min_wait_ns: Nanos) -> Wait {
    Wait { want, timeout_ns: Some(timeout_ns), min_wait_ns }
}

/// Connections with a request under way each, served `gap_ns` apart.
fn staggered(count: u32, gap_ns: Nanos, change: impl FnOnce(&mut SimConfig)) -> Lab {
    let mut lab = Lab::new(change);
    for slot in 0..count {
        lab.connected(slot);
        lab.receive_multi(slot);
        lab.send(slot, SKIP);
        lab.poll();
        lab.clock.advance(gap_ns);
    }
    lab
}

#[test]
fn a_timeout_ends_a_wait() {
    let mut lab = Lab::new(|_| {});
    assert_eq!(lab.enter(with_timeout(1, 700, 0)), []);
    assert_eq!(lab.clock.now(), 700);
}

#[test]
fn a_wait_ends_with_the_last_completion_it_wants() {
    let mut lab = staggered(3, 100, |_| {});
    assert_eq!(lab.wait(2).len(), 2);
    assert_eq!(lab.clock.now(), 100 + SERVICE_NS);
    assert_eq!(lab.wait(1).len(), 1);
    assert_eq!(lab.clock.now(), 200 + SERVICE_NS);
}

#[test]
fn after_a_minimal_wait_one_is_enough() {
    for min_wait in [true, false] {
        let mut lab = staggered(3, 100, |config| config.features.min_wait = min_wait);
        let begun = lab.clock.now();
        let got = lab.enter(with_timeout(3, 1_000_000, 50));
        // Nothing was there after 50 ns; the first that came ended the wait.
        assert_eq!((got.len(), lab.clock.now()), (1, SERVICE_NS));
        let got = lab.enter(with_timeout(3, 1_000_000, 150));
        assert_eq!((got.len(), lab.clock.now()), (1, SERVICE_NS + 150));
        assert!(lab.clock.now() > begun);
    }
}

#[test]
fn a_task_that_waits_for_many_does_nothing_for_one() {
    for (lazy_wake, handed_ns) in [(false, SERVICE_NS), (true, 5_000)] {
        let mut lab = staggered(1, 0, |config| config.lazy_wake = lazy_wake);
        assert_eq!(lab.enter(with_timeout(2, 5_000, 0)).len(), 1);
        assert_eq!(lab.ring.truth().requests[0].handed_ns, Some(handed_ns));
    }
}

#[test]
fn what_has_links_is_seen_to_at_once() {
    let mut lab = Lab::new(|config| {
        config.server.connect_inline = 0.0;
        config.server.connect_ns = Delay::Constant(10);
    });
    lab.socket(0, LINK_SKIP);
    lab.connect(0, LINK);
    lab.send(0, SKIP);
    lab.enter(with_timeout(2, 300, 0));
    assert_eq!(lab.ring.truth().requests[0].sent_ns, 10);
}

#[test]
#[should_panic(expected = "deadlock")]
fn waiting_for_nothing_is_a_deadlock() {
    let mut lab = Lab::new(|_| {});
    lab.connected(0);
    lab.receive_multi(0);
    lab.wait(1);
}

#[test]
fn a_signal_ends_a_wait_early() {
    let mut lab = Lab::new(|config| config.faults.interrupt = 1.0);
    assert_eq!(lab.enter(with_timeout(1, 10_000_000, 0)), []);
    assert!(lab.clock.now() <= MILLISECOND);
}

#[test]
fn a_refused_enter_keeps_what_is_queued() {
    let mut lab = Lab::new(|config| config.faults.again = 1.0);
    lab.socket(0, PLAIN);
    assert_eq!(lab.wait(1), []);
    assert_eq!(lab.ring.truth().pending_operations, 1);
}

#[test]
fn a_stall_brings_everything_at_once() {
    let mut lab = staggered(3, 100, |_| {});
    lab.ring.config.faults.stall = 1.0;
    lab.ring.config.faults.stall_ns = Delay::Constant(1_000_000);
    assert_eq!(lab.wait(1).len(), 3);
    assert_eq!(lab.clock.now(), 300 + 2_000_000);
}

#[test]
fn an_enter_takes_the_time_that_is_drawn() {
    let mut lab = Lab::new(|config| {
        config.enter_ns = Delay::Constant(40);
        config.wake_ns = Delay::Constant(2);
    });
    lab.socket(0, PLAIN);
    lab.wait(1);
    assert_eq!(lab.clock.now(), 42);
}

#[test]
fn polling_for_nothing_takes_time() {
    let mut lab = Lab::new(|_| {});
    lab.poll();
    assert_eq!(lab.clock.now(), 100);
}

#[test]
#[should_panic(expected = "enters in a row")]
fn polling_for_ever_is_the_workers_bug() {
    let mut lab = Lab::new(|_| {});
    loop {
        lab.poll();
    }
}
