//! Receives, provided buffers, discards.

use super::*;

/// Bytes of the exact server's response, with the reason "OK"; it is drawn, so they are asked for.
fn response_len(lab: &Lab) -> i32 {
    lab.ring.truth().bytes_sent as i32
}

#[test]
fn a_multishot_receive_stays_until_the_stream_ends() {
    let mut lab = Lab::new(|config| config.server.keep_alive_idle_ns = Some(10_000));
    lab.connected(0);
    lab.send(0, SKIP);
    lab.receive_multi(0);
    let received = lab.wait(1);
    assert_eq!(received, [more(Kind::ReceiveMulti, response_len(&lab))]);
    assert_eq!(lab.wait(1), [done(Kind::ReceiveMulti, 0)]);
    assert_eq!(lab.clock.now(), SERVICE_NS + 10_000);
}

#[test]
fn more_than_a_buffer_takes_several() {
    let mut lab = Lab::new(|config| config.server.body_len = (100, 100));
    lab.connected(0);
    lab.send(0, SKIP);
    lab.receive_multi(0);
    let received = lab.wait(1);
    assert!(received.iter().all(|done| done.more && done.result <= 64), "{received:?}");
    assert_eq!(received[0].result, 64);
    assert_eq!(received.iter().map(|done| done.result).sum::<i32>(), response_len(&lab));
}

#[test]
fn without_a_free_buffer_a_receive_ends() {
    let mut lab = Lab::new(|config| {
        config.limits.buffers = 2;
        config.server.body_len = (300, 300);
    });
    lab.connected(0);
    lab.send(0, SKIP);
    lab.receive_multi(0);
    let received = lab.wait(1);
    let expected = [
        more(Kind::ReceiveMulti, 64),
        more(Kind::ReceiveMulti, 64),
        done(Kind::ReceiveMulti, -libc::ENOBUFS),
    ];
    assert_eq!(received, expected);
    lab.receive_multi(0);
    assert_eq!(lab.wait(1), expected, "the published buffers serve again");
}

#[test]
fn a_recycled_buffer_is_seen_only_once_published() {
    let mut lab = Lab::new(|config| {
        config.limits.buffers = 1;
        config.server.body_len = (300, 300);
    });
    lab.connected(0);
    lab.send(0, SKIP);
    lab.receive(0);
    lab.ring.enter(Wait { want: 1, timeout_ns: None, min_wait_ns: 0 }).expect("it enters");
    let completion = lab.ring.next().expect("a completion");
    let buffer = completion.buffer.expect("a buffer");
    assert!(lab.ring.received(buffer, 8).starts_with(b"HTTP/1.1"));
    assert_eq!(lab.ring.buffers_out(), 1);
    lab.ring.recycle(buffer);
    lab.receive(0);
    assert_eq!(lab.poll(), [done(Kind::Receive, -libc::ENOBUFS)]);
    assert_eq!(lab.ring.buffers_out(), 0, "the lab has published");
    lab.receive(0);
    assert_eq!(lab.poll(), [done(Kind::Receive, 64)]);
}

#[test]
#[should_panic(expected = "worker bug: gives back buffer")]
fn a_buffer_is_given_back_once() {
    let mut lab = Lab::new(|_| {});
    lab.connected(0);
    lab.send(0, SKIP);
    lab.receive(0);
    lab.ring.enter(Wait { want: 1, timeout_ns: None, min_wait_ns: 0 }).expect("it enters");
    let buffer = lab.ring.next().and_then(|completion| completion.buffer).expect("a buffer");
    lab.ring.recycle(buffer);
    lab.ring.recycle(buffer);
}

#[test]
fn more_may_be_cleared_after_data() {
    let mut lab = Lab::new(|config| config.faults.clear_more = 1.0);
    lab.connected(0);
    lab.send(0, SKIP);
    lab.receive_multi(0);
    let received = lab.wait(1);
    assert_eq!(received, [done(Kind::ReceiveMulti, response_len(&lab))]);
}

#[test]
fn a_cancelled_receive_says_so() {
    let mut lab = Lab::new(|_| {});
    lab.connected(0);
    lab.receive_multi(0);
    assert_eq!(lab.poll(), []);
    lab.cancel(Kind::ReceiveMulti, 0);
    let expected = [done(Kind::Cancel, 0), done(Kind::ReceiveMulti, -libc::ECANCELED)];
    assert_eq!(lab.wait(2), expected);
}

#[test]
fn a_full_completion_queue_ends_a_multishot_and_counts_the_rest() {
    let mut lab = Lab::new(|config| {
        config.cq_len = 2;
        config.server.body_len = (300, 300);
    });
    lab.connected(0);
    lab.send(0, SKIP);
    lab.receive_multi(0);
    let received = lab.wait(1);
    assert_eq!(received, [more(Kind::ReceiveMulti, 64), more(Kind::ReceiveMulti, 64)]);
    assert_eq!(lab.ring.counters().cq_overflows, 1);
    assert_eq!(lab.poll(), [done(Kind::ReceiveMulti, 64)]);
}

#[test]
fn a_discard_takes_what_is_there_and_no_more_than_asked() {
    let mut lab = Lab::new(|config| config.server.body_len = (400, 400));
    lab.connected(0);
    lab.send(0, SKIP);
    lab.discard(0, 100, PLAIN);
    assert_eq!(lab.wait(1), [done(Kind::Discard, 100)]);
    lab.discard(0, 1_000, PLAIN);
    assert_eq!(lab.wait(1), [done(Kind::Discard, response_len(&lab) - 100)]);
}

#[test]
fn a_discard_is_0_at_the_end_of_the_stream() {
    let mut lab = Lab::new(|config| config.server.kinds = vec![(ResponseKind::Http10, 1)]);
    lab.request(LAST_GET);
    lab.connected(0);
    lab.send(0, SKIP);
    lab.discard(0, 1_000, PLAIN);
    assert_eq!(lab.wait(1), [done(Kind::Discard, response_len(&lab))]);
    lab.discard(0, 1_000, PLAIN);
    assert_eq!(lab.wait(1), [done(Kind::Discard, 0)]);
}

#[test]
fn data_that_came_before_a_reset_is_read_before_the_error() {
    let mut lab = Lab::new(|config| config.server.kinds = vec![(ResponseKind::Reset, 1)]);
    lab.connected(0);
    lab.send(0, SKIP);
    lab.receive_multi(0);
    let received = lab.wait(1);
    let expected =
        [more(Kind::ReceiveMulti, response_len(&lab)), done(Kind::ReceiveMulti, -libc::ECONNRESET)];
    assert_eq!(received, expected);
    lab.receive(0);
    assert_eq!(lab.wait(1), [done(Kind::Receive, 0)], "an error is reported once");
}
