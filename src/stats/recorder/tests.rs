use proptest::prelude::*;

use super::*;
use crate::clock::{MILLISECOND, SECOND};
use crate::stats::errors::{FaultKind, Phase};

const START: Nanos = 100 * SECOND;

fn settings(pages: usize) -> Settings {
    Settings { pages, start_ns: START, end_ns: Some(START + 10 * SECOND), open_model: true }
}

fn exchange(intended_ns: Nanos, wait_ns: Nanos, service_ns: Nanos, status: u16) -> Exchange {
    let sent_ns = START + intended_ns + wait_ns;
    Exchange {
        page: 0,
        status,
        intended_ns: START + intended_ns,
        sent_ns,
        first_byte_ns: sent_ns + service_ns,
        done_ns: sent_ns + service_ns,
        body: 700,
        encoding: Encoding::Gzip,
    }
}

fn fault(at_ns: Nanos) -> Fault {
    Fault {
        phase: Phase::Head,
        kind: FaultKind::Timeout,
        errno: 0,
        detail: "",
        bytes: Vec::new(),
        at_ns: START + at_ns,
    }
}

#[test]
fn the_times_run_from_the_plan_the_send_and_to_the_first_byte() {
    let (mut recorder, _seconds) = Recorder::new(settings(1));
    let slow = exchange(0, 30, 1_000, 200);
    recorder.completed(&Exchange { first_byte_ns: slow.sent_ns + 400, ..slow });
    let stats = recorder.finish(START + SECOND);
    let latency = &stats.latency;
    assert_eq!(latency.response.max_ns(), Some(1_030));
    assert_eq!(latency.service.max_ns(), Some(1_000));
    assert_eq!(latency.first_byte.max_ns(), Some(400));
    assert_eq!(latency.ok.max_ns(), Some(1_030));
}

#[test]
fn an_error_status_is_complete_and_not_ok() {
    let (mut recorder, _seconds) = Recorder::new(settings(1));
    recorder.completed(&exchange(0, 0, 500, 200));
    recorder.completed(&exchange(1, 0, 900, 503));
    recorder.completed(&exchange(2, 0, 100, 399));
    let stats = recorder.finish(START + SECOND);
    assert_eq!((stats.completed, stats.http_errors), (3, 1));
    assert_eq!((stats.statuses[200], stats.statuses[399], stats.statuses[503]), (1, 1, 1));
    assert_eq!(stats.latency.ok.count(), 2);
    assert_eq!(stats.latency.ok.max_ns(), Some(500));
    for all in [&stats.latency.response, &stats.latency.service, &stats.latency.first_byte] {
        assert_eq!((all.count(), all.max_ns(), all.min_ns()), (3, Some(900), Some(100)));
    }
}

#[test]
fn what_was_given_up_is_failed_and_in_the_latencies() {
    let (mut recorder, _seconds) = Recorder::new(settings(2));
    recorder.timed_out(1, START + 100, Some(START + 300), fault(1_300));
    recorder.timed_out(1, START + 100, None, fault(2_100));
    recorder.failed(0, fault(5_000));
    let stats = recorder.finish(START + SECOND);
    assert_eq!((stats.failed, stats.faults.total(), stats.completed), (3, 3, 0));
    assert_eq!(stats.latency.response.max_ns(), Some(2_000));
    assert_eq!(stats.latency.response.count(), 2);
    assert_eq!((stats.latency.service.count(), stats.latency.service.max_ns()), (1, Some(1_000)));
    assert_eq!(stats.latency.ok.count() + stats.latency.first_byte.count(), 0);
    assert_eq!((stats.pages[0].failed, stats.pages[1].failed), (1, 2));
    assert_eq!(stats.pages[1].response.as_ref().unwrap().count(), 2);
}

#[test]
fn an_answer_in_the_grace_is_complete_and_not_answered() {
    let (mut recorder, _seconds) = Recorder::new(settings(1));
    recorder.completed(&exchange(9 * SECOND, 0, SECOND, 200));
    recorder.completed(&exchange(9 * SECOND, 0, SECOND + 1, 200));
    let stats = recorder.finish(START + 10 * SECOND);
    assert_eq!((stats.completed, stats.answered), (2, 1));
    assert_eq!(stats.ended_ns, START + 10 * SECOND + 1);
    assert_eq!(stats.last_second.unwrap().counts.completed, 2);
}

#[test]
fn stopping_early_moves_the_end() {
    let (mut recorder, _seconds) = Recorder::new(settings(1));
    recorder.stop(START + SECOND);
    recorder.completed(&exchange(0, 0, SECOND, 200));
    recorder.completed(&exchange(0, 0, SECOND + 1, 200));
    assert_eq!(recorder.finish(START + SECOND).answered, 1);
}

#[test]
fn waits_of_nothing_count_as_waits() {
    let (mut recorder, _seconds) = Recorder::new(settings(1));
    for wait_ns in [0, 0, 0, 5 * MILLISECOND] {
        recorder.arrival(wait_ns, 20_000);
    }
    let stats = recorder.finish(START + SECOND);
    assert_eq!(stats.latency.wait.count(), 4);
    assert_eq!(stats.latency.wait.quantile_ns(0.75), Some(0));
    assert_eq!(stats.latency.wait.max_ns(), Some(5 * MILLISECOND));
    assert_eq!(stats.latency.lag.count(), 4);
}

#[test]
fn service_times_are_kept_apart_by_whether_arrivals_waited() {
    let (mut recorder, _seconds) = Recorder::new(settings(1));
    recorder.arrival(0, 0);
    recorder.completed(&exchange(0, 0, 100, 200));
    recorder.arrival(50, 0);
    recorder.completed(&exchange(0, 50, 300, 200));
    let stats = recorder.finish(START + SECOND);
    assert_eq!(stats.service_free.mean_ns(), Some(100.0));
    assert_eq!(stats.service_full.mean_ns(), Some(300.0));
}

#[test]
fn seconds_hold_what_ended_in_them() {
    let (mut recorder, seconds) = Recorder::new(settings(1));
    recorder.tally.received_bytes = 999;
    recorder.tick(START - 1);
    recorder.tick(START);
    recorder.tally.scheduled = 3;
    recorder.tally.received_bytes += 50;
    recorder.arrival(0, 7_000);
    recorder.completed(&exchange(0, 0, MILLISECOND, 404));
    // Belongs to the second second although no tick came in between.
    recorder.completed(&exchange(SECOND, 0, 2 * MILLISECOND, 200));
    recorder.tick(START + 3 * SECOND + 1);
    let stats = recorder.finish(START + 3 * SECOND + 2);
    let got: Vec<_> = seconds.try_iter().collect();
    assert_eq!(got.iter().map(|s| (s.index, s.span)).collect::<Vec<_>>(), [(0, 1), (1, 1)]);
    let first = &got[0].counts;
    assert_eq!((first.scheduled, first.completed, first.http_errors), (3, 1, 1));
    assert_eq!((first.received_bytes, first.lag_max_ns), (50, 7_000));
    assert_eq!(got[0].response().max_ns(), Some(MILLISECOND));
    assert_eq!((got[1].counts.completed, got[1].counts.lag_max_ns), (1, 0));
    let last = stats.last_second.unwrap();
    assert_eq!((last.index, last.counts.completed, last.until_ns), (3, 0, 3 * SECOND + 2));
}

#[test]
fn an_empty_second_past_the_end_is_left_out() {
    let (mut recorder, _seconds) = Recorder::new(settings(1));
    recorder.completed(&exchange(0, 0, 5, 200));
    recorder.tick(START + 10 * SECOND + 5);
    assert!(recorder.finish(START + 10 * SECOND).last_second.is_none());
}

#[test]
fn histograms_come_home_so_that_seconds_stay_apart() {
    let (mut recorder, seconds) = Recorder::new(settings(1));
    for second in 0..100 {
        recorder.completed(&exchange(second * SECOND, 0, 5, 200));
        for got in seconds.try_iter() {
            assert_eq!((got.span, got.counts.completed, got.response().count()), (1, 1, 1));
        }
    }
}

#[test]
fn a_start_known_late_is_the_zero_of_the_seconds() {
    let (mut recorder, seconds) = Recorder::new(Settings { start_ns: 5, ..settings(1) });
    recorder.connected(77);
    recorder.start(START, Some(START + SECOND));
    recorder.completed(&exchange(0, 0, 5, 200));
    recorder.tick(START + SECOND);
    let got = seconds.try_recv().unwrap();
    assert_eq!((got.index, got.until_ns, got.counts.completed), (0, SECOND, 1));
    assert_eq!(recorder.finish(START + SECOND).latency.connect.count(), 1);
}

#[test]
fn one_page_has_the_totals_and_several_their_own() {
    for pages in [1, 3, 40, 2_000] {
        let (mut recorder, _seconds) = Recorder::new(settings(pages));
        let last = pages as u32 - 1;
        recorder.completed(&Exchange { page: last, ..exchange(0, 0, MILLISECOND, 500) });
        let stats = recorder.finish(START + SECOND);
        assert_eq!(stats.pages.len(), pages);
        let page = &stats.pages[last as usize];
        assert_eq!((page.count, page.http_errors, page.bytes), (1, 1, 700));
        assert_eq!(page.encoding, Encoding::Gzip);
        let own = page.response.as_ref().map(|r| r.quantile_ns(0.5));
        assert_eq!(own, (pages > 1).then_some(Some(MILLISECOND)));
    }
}

#[test]
#[should_panic(expected = "started 5 = completed 1 + failed 0 + unfinished 3")]
fn a_lost_request_is_not_passed_over() {
    let (mut recorder, _seconds) = Recorder::new(settings(1));
    (recorder.tally.scheduled, recorder.tally.started, recorder.tally.unfinished) = (5, 5, 3);
    recorder.completed(&exchange(0, 0, 5, 200));
    recorder.finish(START + SECOND).check_identities();
}

/// What happens to one request.
#[derive(Clone, Copy, Debug)]
enum Event {
    Completed { wait_ns: Nanos, service_ns: Nanos, status: u16, page: u32 },
    Failed { page: u32 },
    TimedOut { page: u32, service_ns: Nanos },
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (prop_oneof![Just(0), 0..SECOND], 1..SECOND, 200_u16..600, 0..3_u32).prop_map(
            |(wait_ns, service_ns, status, page)| Event::Completed {
                wait_ns, service_ns, status, page
            }
        ),
        1 => (0..3_u32).prop_map(|page| Event::Failed { page }),
        1 => (0..3_u32, 1..SECOND)
            .prop_map(|(page, service_ns)| Event::TimedOut { page, service_ns }),
    ]
}

fn play(recorder: &mut Recorder, at_ns: Nanos, event: Event) {
    recorder.tally.scheduled += 1;
    recorder.tally.started += 1;
    match event {
        Event::Completed { wait_ns, service_ns, status, page } => {
            recorder.arrival(wait_ns, at_ns % 1_000);
            recorder.completed(&Exchange { page, ..exchange(at_ns, wait_ns, service_ns, status) });
        }
        Event::Failed { page } => recorder.failed(page, fault(at_ns)),
        Event::TimedOut { page, service_ns } => {
            recorder.timed_out(page, START + at_ns, Some(START + at_ns), fault(at_ns + service_ns));
        }
    }
}

proptest! {
    #[test]
    fn several_workers_merged_equal_a_single_one(
        events in prop::collection::vec((event(), 0..3_usize), 0..120),
    ) {
        let mut single = Recorder::new(settings(3));
        let mut several: Vec<_> = (0..3).map(|_| Recorder::new(settings(3))).collect();
        for (number, (event, worker)) in events.iter().enumerate() {
            let at_ns = number as u64 * 100 * MILLISECOND;
            play(&mut single.0, at_ns, *event);
            play(&mut several[*worker].0, at_ns, *event);
        }
        let end_ns = START + 20 * SECOND;
        let one = single.0.finish(end_ns);
        let merged =
            WorkerStats::merge_all(several.into_iter().map(|(r, _)| r.finish(end_ns))).unwrap();
        merged.check_identities();
        prop_assert_eq!(&one.latency.response, &merged.latency.response);
        prop_assert_eq!(&one.latency.ok, &merged.latency.ok);
        prop_assert_eq!(&one.latency.first_byte, &merged.latency.first_byte);
        prop_assert_eq!(&one.latency.service, &merged.latency.service);
        prop_assert_eq!(&one.latency.wait, &merged.latency.wait);
        prop_assert_eq!(&one.latency.lag, &merged.latency.lag);
        prop_assert_eq!(&one.faults, &merged.faults);
        prop_assert_eq!(&one.statuses, &merged.statuses);
        prop_assert_eq!(one.tally, merged.tally);
        prop_assert_eq!(
            (one.completed, one.failed, one.answered, one.http_errors, one.body_bytes),
            (merged.completed, merged.failed, merged.answered, merged.http_errors,
                merged.body_bytes),
        );
        for (mine, others) in one.pages.iter().zip(&merged.pages) {
            prop_assert_eq!(&mine.response, &others.response);
            prop_assert_eq!((mine.count, mine.failed), (others.count, others.failed));
        }
    }
}
