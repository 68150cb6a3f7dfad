//! Order, links, slots and cancelling.

use super::*;

#[test]
fn inline_operations_complete_in_order() {
    let mut lab = Lab::new(|_| {});
    lab.socket(0, PLAIN);
    lab.close(0, PLAIN);
    lab.close(0, PLAIN);
    let expected = [done(Kind::Socket, 0), done(Kind::Close, 0), done(Kind::Close, -libc::EBADF)];
    assert_eq!(lab.poll(), expected);
}

#[test]
fn a_skipped_success_gives_no_completion() {
    let mut lab = Lab::new(|_| {});
    lab.socket(0, SKIP);
    lab.close(0, SKIP);
    assert_eq!(lab.poll(), []);
    assert_eq!(lab.ring.truth().occupied_slots, 0);
}

#[test]
fn a_skipped_link_that_fails_silences_the_rest() {
    let mut lab = Lab::new(|_| {});
    lab.close(3, LINK_SKIP);
    lab.socket(3, LINK);
    lab.connect(3, PLAIN);
    assert_eq!(lab.poll(), [done(Kind::Close, -libc::EBADF)]);
    assert_eq!(lab.poll(), []);
    assert_eq!(lab.ring.truth().occupied_slots, 0);
}

#[test]
fn a_link_that_fails_cancels_the_rest_skipped_or_not() {
    let mut lab = Lab::new(|config| config.faults.refused = 1.0);
    lab.socket(0, LINK_SKIP);
    lab.connect(0, LINK);
    lab.send(0, LINK_SKIP);
    lab.receive_multi(0);
    let expected = [
        done(Kind::Connect, -libc::ECONNREFUSED),
        done(Kind::Send, -libc::ECANCELED),
        done(Kind::ReceiveMulti, -libc::ECANCELED),
    ];
    assert_eq!(lab.wait(3), expected);
}

#[test]
fn cancelled_links_may_come_in_the_next_enter() {
    let mut lab = Lab::new(|config| {
        config.faults.refused = 1.0;
        config.faults.leave_work = 1.0;
    });
    lab.socket(0, LINK_SKIP);
    lab.connect(0, LINK);
    lab.send(0, SKIP);
    assert_eq!(lab.wait(1), [done(Kind::Connect, -libc::ECONNREFUSED)]);
    assert_eq!(lab.ring.truth().pending_operations, 1);
    assert_eq!(lab.poll(), [done(Kind::Send, -libc::ECANCELED)]);
}

#[test]
fn a_chain_waits_for_each_link() {
    let mut lab = Lab::new(|config| {
        config.server.connect_inline = 0.0;
        config.server.connect_ns = Delay::Constant(500);
    });
    lab.socket(0, LINK_SKIP);
    lab.connect(0, LINK);
    lab.send(0, LINK_SKIP);
    lab.receive_multi(0);
    assert_eq!(lab.wait(1), [done(Kind::Connect, 0)]);
    assert_eq!(lab.clock.now(), 500);
    assert_eq!(lab.wait(1).len(), 1);
    let truth = lab.ring.truth();
    assert_eq!(truth.requests[0].sent_ns, 500);
    assert_eq!(lab.clock.now(), 500 + SERVICE_NS);
}

#[test]
#[should_panic(expected = "split over two submissions")]
fn a_chain_must_be_submitted_whole() {
    let mut lab = Lab::new(|_| {});
    lab.socket(0, LINK);
    lab.poll();
}

#[test]
#[should_panic(expected = "without room reserved")]
fn a_push_needs_room() {
    let mut lab = Lab::new(|_| {});
    let token = Token::new(Kind::Close, 0, 0);
    lab.ring.push(Op::Close { slot: 0 }, token, PLAIN);
}

#[test]
fn reserving_submits_what_is_in_the_way() {
    let mut lab = Lab::new(|config| config.sq_len = 4);
    for slot in 0..3 {
        lab.socket(slot, SKIP);
    }
    lab.ring.reserve(2).expect("room");
    assert_eq!(lab.ring.truth().occupied_slots, 3);
}

#[test]
fn operations_on_an_empty_slot_fail() {
    let mut lab = Lab::new(|_| {});
    lab.connect(0, PLAIN);
    lab.send(0, SKIP);
    lab.receive_multi(0);
    lab.shutdown(0, SKIP);
    let all = lab.wait(4);
    assert!(all.iter().all(|done| done.result == -libc::EBADF), "{all:?}");
}

#[test]
fn a_socket_replaces_the_slots_occupant() {
    let mut lab = Lab::new(|_| {});
    lab.connected(0);
    lab.receive_multi(0);
    lab.socket(0, SKIP);
    assert_eq!(lab.poll(), []);
    let truth = lab.ring.truth();
    assert_eq!((truth.open_sockets, truth.occupied_slots), (2, 1));
    lab.cancel(Kind::ReceiveMulti, 0);
    let expected = [done(Kind::Cancel, 0), done(Kind::ReceiveMulti, -libc::ECANCELED)];
    assert_eq!(lab.wait(2), expected);
    assert_eq!(lab.ring.truth().open_sockets, 1);
}

#[test]
fn close_leaves_a_pending_receive_and_its_socket_alone() {
    let mut lab = Lab::new(|_| {});
    lab.connected(0);
    lab.receive_multi(0);
    lab.close(0, PLAIN);
    assert_eq!(lab.wait(1), [done(Kind::Close, 0)]);
    let truth = lab.ring.truth();
    assert_eq!((truth.open_sockets, truth.occupied_slots, truth.closed_by_worker), (1, 0, 0));
}

#[test]
fn before_linux_6_13_a_close_waits_for_all_older_operations() {
    for (serial_release, closed) in [(false, 1), (true, 0)] {
        let mut lab = Lab::new(|config| config.serial_release = serial_release);
        lab.connected(0);
        lab.connected(1);
        lab.receive_multi(0);
        lab.close(1, SKIP);
        lab.poll();
        lab.poll();
        assert_eq!(lab.ring.truth().closed_by_worker, closed);
        lab.cancel(Kind::ReceiveMulti, 0);
        lab.wait(2);
        lab.poll();
        assert_eq!(lab.ring.truth().closed_by_worker, 1);
    }
}

#[test]
fn shutdown_ends_a_pending_receive_with_nothing() {
    let mut lab = Lab::new(|_| {});
    lab.connected(0);
    lab.receive_multi(0);
    lab.shutdown(0, SKIP);
    assert_eq!(lab.wait(1), [done(Kind::ReceiveMulti, 0)]);
}

#[test]
fn shutdown_looks_its_slot_up_late() {
    let mut lab = Lab::new(|config| config.worker_thread_ns = Delay::Constant(10));
    lab.connected(0);
    lab.shutdown(0, PLAIN);
    lab.close(0, SKIP);
    assert_eq!(lab.wait(1), [done(Kind::Shutdown, -libc::EBADF)]);
    lab.connected(1);
    lab.shutdown(1, LINK_SKIP);
    lab.close(1, PLAIN);
    assert_eq!(lab.wait(1), [done(Kind::Close, 0)]);
}

#[test]
fn shutdown_of_a_reset_socket_fails_and_its_links_with_it() {
    let mut lab = Lab::new(|config| config.server.kinds = vec![(ResponseKind::Reset, 1)]);
    lab.connected(0);
    lab.send(0, SKIP);
    lab.enter(Wait { want: 1, timeout_ns: Some(2 * SERVICE_NS), min_wait_ns: 0 });
    lab.shutdown(0, LINK_SKIP);
    lab.close(0, PLAIN);
    assert_eq!(lab.wait(1), [done(Kind::Shutdown, -libc::ENOTCONN)]);
    assert_eq!(lab.ring.truth().occupied_slots, 1);
}

#[test]
fn cancelling_what_is_not_there() {
    let mut lab = Lab::new(|_| {});
    lab.cancel(Kind::ReceiveMulti, 5);
    assert_eq!(lab.wait(1), [done(Kind::Cancel, -libc::ENOENT)]);
}

#[test]
fn cancelling_that_comes_too_late_ends_the_operation_all_the_same() {
    let mut lab = Lab::new(|config| {
        config.faults.cancel_already = 1.0;
        config.worker_thread_ns = Delay::Constant(70);
    });
    lab.connected(0);
    lab.receive_multi(0);
    lab.cancel(Kind::ReceiveMulti, 0);
    assert_eq!(lab.wait(1), [done(Kind::Cancel, -libc::EALREADY)]);
    assert_eq!(lab.wait(1), [done(Kind::ReceiveMulti, -libc::ECANCELED)]);
    assert_eq!(lab.clock.now(), 70);
}

#[test]
fn cancelling_a_connect_ends_its_chain() {
    let mut lab = Lab::new(|config| config.faults.syn_lost = 1.0);
    lab.socket(0, LINK_SKIP);
    lab.connect(0, LINK);
    lab.send(0, SKIP);
    assert_eq!(lab.poll(), []);
    lab.cancel(Kind::Connect, 0);
    let expected = [
        done(Kind::Cancel, 0),
        done(Kind::Connect, -libc::ECANCELED),
        done(Kind::Send, -libc::ECANCELED),
    ];
    assert_eq!(lab.wait(3), expected);
}

#[test]
fn a_socket_installed_from_outside_is_there_at_once() {
    let mut lab = Lab::new(|_| {});
    let options = [SocketOption::NoDelay, SocketOption::ResetOnClose];
    lab.ring.install(0, Family::V4, &options, None).expect("it installs");
    lab.connect(0, PLAIN);
    assert_eq!(lab.wait(1), [done(Kind::Connect, 0)]);
    let error = lab.ring.install(99, Family::V4, &[], None).expect_err("there is no such slot");
    assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
}
