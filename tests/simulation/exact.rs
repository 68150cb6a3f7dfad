//! Times that must come out to the nanosecond, over a machine without faults.

use ringload::clock::{MILLISECOND, SECOND};
use ringload::engine::assignment::{Assignment, Demand};
use ringload::plan::{Arrive, Lifetime, Profile, Ratio};

use crate::plans::{closed, exact, open, quiet};
use crate::{Played, run};

#[test]
fn latencies_are_exact_in_virtual_time() {
    for (demand, count) in [(closed(4), 4 * 1_000), (open(1_000, Arrive::Requests), 1_000)] {
        let plan = Assignment { demand, duration_ns: Some(SECOND), ..quiet() };
        let Played { outcome, truth, .. } = run(plan, exact(MILLISECOND), 1);
        let stats = outcome.stats;
        assert_eq!(stats.completed, count);
        for times in [&stats.latency.response, &stats.latency.service] {
            assert_eq!((times.min_ns(), times.max_ns()), (Some(MILLISECOND), Some(MILLISECOND)));
        }
        assert_eq!(truth.handed() as u64, count);
    }
}

#[test]
fn a_stall_is_charged_to_the_requests_that_were_due_in_it() {
    // One place, 10 ms a request, an arrival each 5 ms: the k-th waits 5 ms longer than the last.
    let demand = match open(200, Arrive::Requests) {
        Demand::Open { rate, spacing, arrive, preconnect, drop_after_ns, .. } => Demand::Open {
            rate,
            spacing,
            arrive,
            max_connections: Profile::constant(Ratio::whole(1)),
            preconnect,
            drop_after_ns,
        },
        Demand::Closed { .. } | Demand::Hold { .. } => unreachable!(),
    };
    let plan = Assignment { demand, duration_ns: Some(995 * MILLISECOND), slots: 1, ..quiet() };
    let stats = run(plan, exact(10 * MILLISECOND), 1).outcome.stats;
    assert_eq!((stats.tally.scheduled, stats.tally.unstarted), (199, 99));
    assert_eq!(stats.completed, 100);
    assert_eq!(stats.latency.wait.max_ns(), Some(99 * 5 * MILLISECOND));
    assert_eq!(stats.latency.response.max_ns(), Some((99 * 5 + 10) * MILLISECOND));
    assert_eq!(stats.latency.lag.max_ns(), Some(0), "a wait for a place is no lag");
}

#[test]
fn a_request_timed_out_is_in_the_latencies_at_its_timeout() {
    let plan = Assignment {
        demand: closed(1),
        duration_ns: Some(100 * MILLISECOND),
        timeout_ns: 20 * MILLISECOND,
        ..quiet()
    };
    let stats = run(plan, exact(SECOND), 1).outcome.stats;
    assert_eq!((stats.completed, stats.failed), (0, 5));
    assert_eq!(stats.latency.response.min_ns(), Some(20 * MILLISECOND));
    assert_eq!(stats.latency.service.max_ns(), Some(20 * MILLISECOND));
}

#[test]
fn clients_make_their_requests_one_after_the_other_and_leave() {
    let plan = Assignment {
        demand: open(100, Arrive::Clients),
        lifetime: Lifetime::Exactly(5),
        think_ns: Some((3 * MILLISECOND, 3 * MILLISECOND)),
        requests: Some(20),
        ..quiet()
    };
    let Played { outcome, truth, .. } = run(plan, exact(MILLISECOND), 1);
    let tally = outcome.stats.tally;
    assert_eq!(
        (tally.clients_scheduled, tally.clients_started, tally.clients_finished),
        (20, 20, 20)
    );
    assert_eq!((outcome.stats.completed, tally.scheduled), (100, 100));
    assert_eq!(truth.accepted, 20, "a connection a client");
}
