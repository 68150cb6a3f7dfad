//! The worker over TLS, step by step: every cut, every phase's timeout, every way that a handshake
//! ends.

use ringload::clock::{MICROSECOND, MILLISECOND, Nanos, SECOND};
use ringload::engine::assignment::{Assignment, EncodedPage};
use ringload::plan::Lifetime;
use ringload::ring::sim::{Cuts, Delay, HandshakeEnd, ResponseKind, SimConfig, TlsModel};
use ringload::stats::{FaultKind, Phase};
use ringload::tls::Versions;

use crate::plans::{closed, exact, page, quiet, secured};
use crate::{Played, run};

const VERSIONS: [Versions; 2] = [Versions::Tls12, Versions::Tls13];
/// Of each kind that is looked at, but for the time that the tests give it.
const TIMEOUT_NS: Nanos = 20 * MILLISECOND;

/// A machine without faults, with a server that speaks TLS.
fn machine(service_ns: Nanos) -> SimConfig {
    let mut config = exact(service_ns);
    config.server.tls = Some(TlsModel::exact());
    config
}

/// Two connections, the second of which resumes the first one's session, with two requests each.
fn twice(versions: Versions) -> Assignment {
    Assignment {
        tls: Some(secured(versions, 1.0)),
        lifetime: Lifetime::Exactly(2),
        requests: Some(4),
        ..quiet()
    }
}

fn tls(config: &mut SimConfig) -> &mut TlsModel {
    config.server.tls.as_mut().expect("the server speaks TLS")
}

/// The phase, kind and finer name of each failure, and how many there were.
fn faults(played: &Played) -> Vec<(Phase, FaultKind, String, u64)> {
    let sorted = played.outcome.stats.faults.sorted();
    let told = sorted.into_iter();
    told.map(|(key, found)| (key.phase, key.kind, key.detail_text(), found.count)).collect()
}

/// All of it went well, and nothing is left.
fn assert_sound(played: &Played, requests: u64, handshakes: (u64, u64), about: &str) {
    let Played { outcome, truth, .. } = played;
    outcome.stats.check_identities();
    let tally = outcome.stats.tally;
    assert_eq!((outcome.stats.completed, outcome.stats.failed), (requests, 0), "{about}");
    assert_eq!((tally.tls_full, tally.tls_resumed), handshakes, "{about}");
    assert_eq!((tally.unexpected_bytes, tally.resent), (0, 0), "{about}");
    assert_eq!(truth.handed() as u64, requests, "{about}");
    assert_eq!((outcome.sends_pending, outcome.idle_with_buffers), (0, 0), "{about}");
    assert_eq!(truth.buffers_out, 0, "{about}");
}

#[test]
fn no_cut_matters() {
    for versions in VERSIONS {
        // What the server sends on the first connection, which is the longer of the two.
        let whole = Assignment { requests: Some(2), ..twice(versions) };
        let whole = run(whole, machine(0), 1).truth.bytes_sent;
        for at in 1..=whole {
            let mut config = machine(0);
            config.server.cuts = Cuts::At(at);
            config.server.piece_gap_ns = Delay::Constant(MICROSECOND);
            let played = run(twice(versions), config, 1);
            assert_sound(&played, 4, (1, 1), &format!("{versions:?} cut at {at}"));
            let sent = played.outcome.stats.tally.sent_bytes;
            assert_eq!(sent, played.truth.bytes_received, "cut at {at}");
        }
    }
}

#[test]
fn one_byte_at_a_time_is_enough() {
    for versions in VERSIONS {
        for gap_ns in [0, MICROSECOND] {
            let mut config = machine(0);
            config.server.body_len = (300, 300);
            config.server.cuts = Cuts::Every(1);
            config.server.piece_gap_ns = Delay::Constant(gap_ns);
            let played = run(twice(versions), config, 1);
            assert_sound(&played, 4, (1, 1), &format!("{versions:?}, {gap_ns} ns apart"));
            assert_eq!(played.outcome.stats.body_bytes, 4 * 300);
        }
    }
}

#[test]
fn records_of_any_length_make_the_same_body() {
    for versions in VERSIONS {
        for record_len in [1, 2, 17, 1_000, 16_384] {
            for every in [3, 1_000, 1 << 20] {
                let mut config = machine(0);
                config.server.kinds = vec![(ResponseKind::Large, 1)];
                config.server.large_body_len = (40_000, 40_000);
                tls(&mut config).record_len = (record_len, record_len);
                config.server.cuts = Cuts::Every(every);
                let played = run(twice(versions), config, 1);
                let about = format!("{versions:?}, records of {record_len}, pieces of {every}");
                assert_sound(&played, 4, (1, 1), &about);
                assert_eq!(played.outcome.stats.body_bytes, 4 * 40_000, "{about}");
            }
        }
    }
}

#[test]
fn handshakes_are_timed_alone() {
    // There and back 2 ms, and 3 ms for the server's part: TLS 1.2 goes there and back twice, unless
    // it resumes (RFC 5246, 7.3; RFC 8446, 2).
    for (versions, full_ms, resumed_ms) in [(Versions::Tls12, 7, 5), (Versions::Tls13, 5, 5)] {
        let mut config = machine(4 * MILLISECOND);
        config.server.one_way_ns = Delay::Constant(MILLISECOND);
        tls(&mut config).handshake_ns = Delay::Constant(3 * MILLISECOND);
        let played = run(twice(versions), config, 1);
        assert_sound(&played, 4, (1, 1), "timed");
        let latency = &played.outcome.stats.latency;
        let ms = |ms| (Some(ms * MILLISECOND), Some(ms * MILLISECOND));
        assert_eq!((latency.tls.min_ns(), latency.tls.max_ns()), ms(full_ms));
        assert_eq!((latency.tls_resumed.min_ns(), latency.tls_resumed.max_ns()), ms(resumed_ms));
        assert_eq!((latency.tls.count(), latency.tls_resumed.count()), (1, 1));
        assert_eq!((latency.service.min_ns(), latency.service.max_ns()), ms(6));
        assert_eq!(latency.response.min_ns(), Some(6 * MILLISECOND));
        assert_eq!(latency.response.max_ns(), Some((full_ms + 6) * MILLISECOND));
        let kinds: Vec<bool> = played.truth.handshakes.iter().map(|h| h.resumed).collect();
        assert_eq!(kinds, [false, true]);
    }
}

#[test]
fn each_phase_has_its_timeout() {
    let plan = |versions| Assignment {
        tls: Some(secured(versions, 0.0)),
        requests: Some(1),
        timeout_ns: TIMEOUT_NS,
        connect_timeout_ns: TIMEOUT_NS / 2,
        ..quiet()
    };
    for versions in VERSIONS {
        let timed_out = |config: &SimConfig, phase, response_ns, service_ns: Option<Nanos>| {
            let played = run(plan(versions), config.clone(), 1);
            let kind = FaultKind::Timeout;
            assert_eq!(faults(&played), [(phase, kind, String::new(), 1)], "{versions:?}");
            let latency = &played.outcome.stats.latency;
            assert_eq!(latency.response.max_ns(), Some(response_ns), "{versions:?} {phase:?}");
            assert_eq!(latency.service.max_ns(), service_ns, "{versions:?} {phase:?}");
            let pending = played.truth.pending_sends as usize;
            assert_eq!((played.outcome.sends_pending, played.truth.buffers_out), (pending, 0));
        };
        let mut config = machine(0);
        config.server.connect_inline = 0.0;
        config.server.connect_ns = Delay::Constant(SECOND);
        timed_out(&config, Phase::Connect, TIMEOUT_NS / 2, None);
        // Connecting and the handshake have their time together.
        config.server.connect_ns = Delay::Constant(4 * MILLISECOND);
        tls(&mut config).handshake_ns = Delay::Constant(7 * MILLISECOND);
        timed_out(&config, Phase::Tls, TIMEOUT_NS / 2, None);
        // The request's time begins when it is sent.
        tls(&mut config).handshake_ns = Delay::Constant(3 * MILLISECOND);
        config.server.service_ns = Delay::Constant(SECOND);
        timed_out(&config, Phase::Head, 7 * MILLISECOND + TIMEOUT_NS, Some(TIMEOUT_NS));
        config.server.service_ns = Delay::Constant(0);
        config.server.body_len = (3_000, 3_000);
        tls(&mut config).record_len = (1_000, 1_000);
        let all = run(plan(versions), config.clone(), 1).truth.bytes_sent;
        config.server.cuts = Cuts::At(all - 10);
        config.server.piece_gap_ns = Delay::Constant(SECOND);
        timed_out(&config, Phase::Body, 7 * MILLISECOND + TIMEOUT_NS, Some(TIMEOUT_NS));
    }
}

/// One request to a server whose handshakes end so, after so many bytes of its first flight.
fn failing(versions: Versions, end: HandshakeEnd, at: u32, seed: u64) -> Played {
    let mut config = machine(0);
    let model = tls(&mut config);
    (model.fails, model.failures, model.fails_at) = (1.0, vec![(end, 1)], Some(at));
    let plan = Assignment {
        tls: Some(secured(versions, 0.0)),
        requests: Some(1),
        connect_timeout_ns: TIMEOUT_NS,
        ..quiet()
    };
    run(plan, config, seed)
}

#[test]
fn a_handshake_that_ends_anywhere_is_one_failure() {
    for versions in VERSIONS {
        let whole = failing(versions, HandshakeEnd::Silence, 0, 1);
        assert_eq!(whole.truth.bytes_sent, 0);
        // Long enough for any, and short of the Finished.
        for end in HandshakeEnd::ALL {
            for at in (0..400).step_by(if end == HandshakeEnd::Fin { 1 } else { 9 }) {
                let about = format!("{versions:?} {end:?} after {at}");
                let played = failing(versions, end, at, u64::from(at));
                let Played { outcome, truth, .. } = &played;
                let tally = outcome.stats.tally;
                assert_eq!((outcome.stats.completed, outcome.stats.failed), (0, 1), "{about}");
                assert_eq!((tally.opened, tally.attempted), (1, 1), "{about}");
                assert_eq!((outcome.sends_pending, truth.buffers_out), (0, 0), "{about}");
                let [(phase, kind, ..)] = &faults(&played)[..] else { panic!("{about}") };
                assert_eq!(*phase, Phase::Tls, "{about}");
                let expected: &[FaultKind] = match end {
                    HandshakeEnd::Fin => &[FaultKind::Closed],
                    HandshakeEnd::Reset => &[FaultKind::Reset],
                    HandshakeEnd::Silence => &[FaultKind::Timeout],
                    HandshakeEnd::Alert | HandshakeEnd::Garbage => &[
                        FaultKind::Handshake,
                        FaultKind::Closed,
                        FaultKind::Reset,
                        FaultKind::Timeout,
                    ],
                    HandshakeEnd::CertificateWanted => &[FaultKind::Certificate],
                };
                assert!(expected.contains(kind), "{about}: {kind:?}");
            }
        }
    }
}

#[test]
fn failing_handshakes_are_tried_again_ever_more_slowly() {
    let mut config = machine(0);
    let model = tls(&mut config);
    (model.fails, model.failures) = (1.0, vec![(HandshakeEnd::Fin, 1)]);
    model.fails_at = Some(0);
    let plan = Assignment {
        tls: Some(secured(Versions::Both, 0.0)),
        duration_ns: Some(SECOND),
        demand: closed(1),
        ..quiet()
    };
    let played = run(plan, config, 3);
    let tally = played.outcome.stats.tally;
    // At 0, 10, 30, 70, 150, 310 and 630 ms.
    assert_eq!((tally.attempted, played.outcome.stats.failed), (7, 7));
    assert_eq!((tally.tls_full, tally.tls_resumed), (0, 0));
}

#[test]
fn a_body_that_the_end_delimits_needs_a_close_notify() {
    for versions in VERSIONS {
        let plan = Assignment {
            tls: Some(secured(versions, 0.0)),
            requests: Some(20),
            demand: closed(1),
            ..quiet()
        };
        let mut config = machine(0);
        config.server.kinds = vec![(ResponseKind::CloseDelimited, 1)];
        config.server.body_len = (0, 700);
        config.server.cuts = Cuts::Drawn(3);
        let told = run(plan.clone(), config.clone(), 1);
        assert_eq!((told.outcome.stats.completed, told.outcome.stats.failed), (20, 0));
        let bodies: u64 = told.truth.requests.iter().map(|request| request.body_len).sum();
        assert_eq!(told.outcome.stats.body_bytes, bodies);
        tls(&mut config).omits_close_notify = 1.0;
        let cut = run(plan, config, 1);
        let detail = "no-close-notify".to_owned();
        assert_eq!(faults(&cut), [(Phase::Body, FaultKind::Truncated, detail, 20)]);
        assert_eq!((cut.outcome.stats.completed, cut.truth.handed()), (0, 0));
    }
}

#[test]
fn a_change_of_keys_costs_no_request_of_any_length() {
    // An answer to a change of keys leaves before the next request, in the same room.
    let length = page("GET", 0, b"").keep.len();
    for len in 940..1_030 {
        let padding = "p".repeat(len - length - "X: \r\n".len());
        let encode = |connection: &str| {
            format!("GET /0 HTTP/1.1\r\nHost: sim\r\nX: {padding}\r\n{connection}\r\n").into_bytes()
        };
        let long = EncodedPage { keep: encode(""), ..page("GET", 0, b"") };
        assert_eq!(long.keep.len(), len);
        let mut config = machine(0);
        tls(&mut config).key_update = 1.0;
        let plan = Assignment {
            tls: Some(secured(Versions::Tls13, 0.0)),
            pages: vec![long],
            requests: Some(5),
            timeout_ns: TIMEOUT_NS,
            ..quiet()
        };
        assert_sound(&run(plan, config, 1), 5, (1, 0), &format!("requests of {len} bytes"));
    }
}

#[test]
fn what_a_small_send_buffer_holds_up_arrives_in_order() {
    for versions in VERSIONS {
        for len in [3_000, 4_000, 5_000, 60_000] {
            let mut config = machine(0);
            config.server.send_buffer = 4_096;
            config.server.one_way_ns = Delay::Constant(MILLISECOND);
            let plan =
                Assignment { pages: vec![page("POST", 0, &vec![b'x'; len])], ..twice(versions) };
            assert_sound(&run(plan, config, 1), 4, (1, 1), &format!("{versions:?} {len}"));
        }
    }
}
