//! Connecting, closing, and what the server makes of requests.

use super::*;

#[test]
fn connecting_fails_as_drawn() {
    type Fault = fn(&mut Faults);
    let faults: [(Fault, i32, Nanos); 5] = [
        (|faults| faults.refused = 1.0, libc::ECONNREFUSED, 9),
        (|faults| faults.connect_reset = 1.0, libc::ECONNRESET, 9),
        (|faults| faults.no_ports = 1.0, libc::EADDRNOTAVAIL, 0),
        (|faults| faults.syn_lost = 1.0, libc::ETIMEDOUT, 127_000_000_000),
        (|faults| faults.syn_retransmit = 1.0, 0, 1_000_000_009),
    ];
    for (fault, errno, least_ns) in faults {
        let mut lab = Lab::new(|config| {
            fault(&mut config.faults);
            config.server.connect_inline = 0.0;
            config.server.connect_ns = Delay::Constant(9);
        });
        lab.socket(0, LINK_SKIP);
        lab.connect(0, PLAIN);
        assert_eq!(lab.wait(1), [done(Kind::Connect, -errno)]);
        assert!(lab.clock.now() >= least_ns);
    }
}

#[test]
fn an_address_can_be_refused_alone() {
    let mut lab = Lab::new(|_| {});
    let v6 = lab.ring.add_address(&SocketAddr::from(([0u16; 8], 80)).into());
    lab.ring.refuse(v6);
    lab.push(Op::Socket { slot: 1, family: Family::V6 }, Kind::Socket, 1, LINK_SKIP);
    lab.push(Op::Connect { slot: 1, address: v6 }, Kind::Connect, 1, PLAIN);
    assert_eq!(lab.wait(1), [done(Kind::Connect, -libc::ECONNREFUSED)]);
    lab.connected(0);
}

#[test]
fn ports_end_and_come_back_after_time_wait() {
    let mut lab = Lab::new(|config| {
        config.ports = Some(1);
        config.time_wait_ns = 5_000;
    });
    lab.connected(0);
    lab.close(0, SKIP);
    lab.socket(1, LINK_SKIP);
    lab.connect(1, PLAIN);
    assert_eq!(lab.wait(1), [done(Kind::Connect, -libc::EADDRNOTAVAIL)]);
    lab.clock.advance(5_000);
    lab.connected(2);
}

#[test]
fn the_service_time_is_exact() {
    let mut lab = Lab::new(|config| config.server.one_way_ns = Delay::Constant(30));
    lab.connected(0);
    lab.receive_multi(0);
    for _ in 0..3 {
        let begun = lab.clock.now();
        lab.send(0, SKIP);
        assert_eq!(lab.wait(1).len(), 1);
        assert_eq!(lab.clock.now() - begun, 30 + SERVICE_NS + 30);
    }
    let truth = lab.ring.truth();
    assert_eq!((truth.received(), truth.answered(), truth.handed()), (3, 3, 3));
    let last = &truth.requests[2];
    assert_eq!(last.received_ns, Some(last.sent_ns + 30));
    assert_eq!(last.answer_end_ns, Some(last.sent_ns + 30 + SERVICE_NS));
    assert_eq!(last.handed_ns, Some(lab.clock.now()));
    assert_eq!((last.connection, last.place, &last.target[..]), (0, 2, "/"));
}

#[test]
#[should_panic(expected = "has no complete answer yet")]
fn pipelining_is_the_workers_bug() {
    let mut lab = Lab::new(|_| {});
    lab.connected(0);
    lab.send(0, SKIP);
    lab.send(0, SKIP);
    lab.poll();
}

#[test]
#[should_panic(expected = "was the connection's last")]
fn a_request_after_close_was_said_is_the_workers_bug() {
    let mut lab = Lab::new(|config| config.server.ignores_close = 1.0);
    lab.request(LAST_GET);
    lab.connected(0);
    lab.receive_multi(0);
    lab.send(0, SKIP);
    lab.wait(1);
    lab.send(0, SKIP);
    lab.poll();
}

#[test]
fn a_request_to_a_closed_connection_is_reset_and_never_received() {
    let mut lab = Lab::new(|config| {
        config.server.keep_alive_requests = Some(1);
        config.server.fin_ns = Delay::Constant(500);
        config.server.one_way_ns = Delay::Constant(100);
    });
    lab.connected(0);
    lab.receive_multi(0);
    lab.send(0, SKIP);
    assert!(lab.wait(1)[0].more);
    // The FIN leaves 400 ns from now, before this arrives, and passes it on the way.
    lab.clock.advance(350);
    lab.send(0, SKIP);
    assert_eq!(lab.wait(1), [done(Kind::ReceiveMulti, 0)]);
    lab.receive(0);
    assert_eq!(lab.wait(1), [done(Kind::Receive, 0)]);
    lab.enter(Wait { want: 1, timeout_ns: Some(1_000), min_wait_ns: 0 });
    lab.send(0, PLAIN);
    assert_eq!(lab.wait(1), [done(Kind::Send, -libc::EPIPE)]);
    let truth = lab.ring.truth();
    assert_eq!((truth.received(), truth.requests.len(), truth.closed_by_server), (1, 2, 1));
}

#[test]
fn closing_over_unread_bytes_resets() {
    let mut lab = Lab::new(|config| config.server.kinds = vec![(ResponseKind::Large, 1)]);
    lab.connected(0);
    lab.send(0, SKIP);
    lab.enter(Wait { want: 1, timeout_ns: Some(5_000), min_wait_ns: 0 });
    lab.close(0, SKIP);
    lab.poll();
    lab.poll();
    let truth = lab.ring.truth();
    assert_eq!((truth.open_sockets, truth.closed_by_worker), (0, 1));
}

#[test]
fn a_send_waits_for_room_and_completes_whole() {
    let mut lab = Lab::new(|config| {
        config.server.send_buffer = 10;
        config.server.one_way_ns = Delay::Constant(50);
    });
    lab.connected(0);
    lab.send(0, PLAIN);
    assert_eq!(lab.wait(1), [done(Kind::Send, GET.len() as i32)]);
    assert_eq!(lab.clock.now(), 50 * (GET.len() as u64).div_ceil(10) - 50);
}

#[test]
fn an_early_answer_may_leave_the_send_stuck() {
    let mut body = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5000\r\n\r\n".to_vec();
    body.resize(body.len() + 5_000, b'b');
    let mut stuck = 0;
    for seed in 0..20 {
        let mut config = SimConfig::exact(LIMITS, ServerModel::exact(SERVICE_NS));
        config.server.kinds = vec![(ResponseKind::Early, 1)];
        config.server.send_buffer = 1_000;
        let mut lab = Lab::with(config, seed);
        lab.request(&body);
        lab.connected(0);
        lab.receive(0);
        lab.send(0, PLAIN);
        let sent = loop {
            let all = lab.wait(1);
            if let Some(sent) = all.into_iter().find(|done| done.kind == Kind::Send) {
                break sent;
            }
        };
        if sent.result != body.len() as i32 {
            stuck += 1;
            assert!(lab.ring.truth().received() == 0);
        }
    }
    assert!((1..20).contains(&stuck), "{stuck} of 20");
}

#[test]
fn every_kind_of_response_ends_as_it_should() {
    for kind in ResponseKind::ALL {
        for seed in 0..20 {
            let mut config = SimConfig::exact(LIMITS, ServerModel::exact(SERVICE_NS));
            config.server.kinds = vec![(kind, 1)];
            config.server.large_body_len = (3_000, 4_000);
            config.limits.buffer_len = 4_096;
            let mut lab = Lab::with(config, seed);
            lab.connected(0);
            lab.receive_multi(0);
            lab.send(0, SKIP);
            for _ in 0..30 {
                let wait = Wait { want: 1, timeout_ns: Some(1_000_000), min_wait_ns: 0 };
                if lab.enter(wait).iter().any(|done| done.result == -libc::ENOBUFS) {
                    lab.receive_multi(0);
                }
            }
            let truth = lab.ring.truth();
            let complete = usize::from(kind.is_complete());
            assert_eq!(truth.received(), 1, "{kind:?}");
            assert_eq!((truth.answered(), truth.handed()), (complete, complete), "{kind:?}");
        }
    }
}
