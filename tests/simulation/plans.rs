//! What the worker is to do, and over what: fixed, or out of a seed.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use ringload::clock::{MILLISECOND, Nanos};
use ringload::engine::assignment::{Assignment, Demand, EncodedPage};
use ringload::engine::secure::Tls;
use ringload::plan::{Arrive, Lifetime, Pick, Profile, Ratio, Spacing, Spin};
use ringload::ring::sim::{Delay, ServerModel, SimConfig};
use ringload::ring::{Limits, SocketOption};
use ringload::tls::{self, Roots, Versions};

/// A machine without faults, next to a server that takes so long.
pub fn exact(service_ns: Nanos) -> SimConfig {
    let limits = Limits { slots: 64, buffers: 64, buffer_len: 4_096, scratch_len: 65_536 };
    let mut config = SimConfig::exact(limits, ServerModel::exact(service_ns));
    config.server.one_way_ns = Delay::Constant(0);
    config
}

/// A plan without any trait: one page, closed, no limit of time.
pub fn quiet() -> Assignment {
    Assignment::of_page(page("GET", 0, b""), ([127, 0, 0, 1], 80).into(), closed(1))
}

/// Over TLS, taking any certificate, resuming this share of the sessions.
pub fn secured(versions: Versions, resume: f64) -> Tls {
    let settings = tls::Settings { insecure: true, versions, ..tls::Settings::new("localhost") };
    Tls { settings, roots: Roots::none(), resume }
}

pub fn page(method: &str, number: u32, body: &[u8]) -> EncodedPage {
    let length =
        if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let encode = |connection: &str| {
        let head = format!("{method} /{number} HTTP/1.1\r\nHost: sim\r\n{length}{connection}\r\n");
        [head.as_bytes(), body].concat()
    };
    EncodedPage {
        keep: encode(""),
        close: encode("Connection: close\r\n"),
        head: method == "HEAD",
        idempotent: method != "POST",
        weight: 1 + number,
    }
}

pub fn closed(places: u64) -> Demand {
    Demand::Closed { places: Profile::constant(Ratio::whole(places)) }
}

pub fn open(rate: u64, arrive: Arrive) -> Demand {
    Demand::Open {
        rate: Profile::constant(Ratio::whole(rate)),
        spacing: Spacing::Even,
        arrive,
        max_connections: Profile::constant(Ratio::whole(64)),
        preconnect: 0,
        drop_after_ns: None,
    }
}

/// A plan out of a seed, over TLS. A handshake costs more than all the rest of a connection, so that
/// there are fewer of them.
pub fn drawn_tls(seed: u64) -> Assignment {
    let mut rng = Pcg64Mcg::seed_from_u64(seed ^ 0x74_6c_73);
    let rng = &mut rng;
    let plan = drawn(seed);
    let versions = [Versions::Both, Versions::Tls12, Versions::Tls13][rng.random_range(0..3)];
    let most = rng.random_range(1..=40);
    Assignment {
        requests: Some(plan.requests.map_or(most, |requests| requests.min(most))),
        tls: Some(secured(versions, [0.0, 0.5, 1.0][rng.random_range(0..3)])),
        ..plan
    }
}

/// A plan out of a seed: any model, any lifetime, all that may be combined.
pub fn drawn(seed: u64) -> Assignment {
    let mut rng = Pcg64Mcg::seed_from_u64(seed ^ 0x70_6c_61_6e);
    let rng = &mut rng;
    let methods = ["GET", "GET", "HEAD", "POST", "PUT"];
    let pages = (0..rng.random_range(1..=4))
        .map(|number| {
            let method = methods[rng.random_range(0..methods.len())];
            let body = if matches!(method, "POST" | "PUT") {
                vec![b'x'; [10, 300, 6_000, 60_000][rng.random_range(0..4)]]
            } else {
                Vec::new()
            };
            page(method, number, &body)
        })
        .collect();
    let is_open = rng.random_bool(0.6);
    let clients = is_open && rng.random_bool(0.4);
    let by_number = rng.random_bool(0.4);
    let slots = rng.random_range(1..=64);
    let duration_ns = rng.random_range(MILLISECOND..300 * MILLISECOND);
    let lifetime = match rng.random_range(0..5) {
        0 if !clients => Lifetime::All,
        1 => Lifetime::Uniform(1, rng.random_range(1..=10)),
        2 => Lifetime::Geometric(rng.random_range(1.0..5.0)),
        3 => Lifetime::Exactly(1),
        _ => Lifetime::Exactly(rng.random_range(1..=8)),
    };
    let profile = |rng: &mut Pcg64Mcg, most: u64, duration_ns: Nanos| {
        let value = |rng: &mut Pcg64Mcg, least| Ratio::whole(rng.random_range(least..=most));
        let (first, last) = (value(rng, 1), value(rng, 0));
        let half = Some(duration_ns / 2 + 1);
        let segment = |from, to| ringload::plan::Segment { from, to, duration_ns: half };
        if rng.random_bool(0.7) {
            Profile::constant(first)
        } else {
            Profile { segments: vec![segment(first, last), segment(last, first)] }
        }
    };
    let demand = if is_open {
        Demand::Open {
            rate: profile(rng, 5_000, duration_ns),
            spacing: if rng.random_bool(0.6) { Spacing::Even } else { Spacing::Poisson },
            arrive: if clients { Arrive::Clients } else { Arrive::Requests },
            max_connections: profile(rng, u64::from(slots), duration_ns),
            preconnect: if !clients && rng.random_bool(0.2) {
                rng.random_range(0..=slots)
            } else {
                0
            },
            drop_after_ns: rng.random_bool(0.3).then(|| rng.random_range(0..50 * MILLISECOND)),
        }
    } else {
        Demand::Closed { places: profile(rng, u64::from(slots), duration_ns) }
    };
    let options = [SocketOption::NoDelay, SocketOption::NoQuickAck, SocketOption::ResetOnClose];
    let reset_on_close = rng.random_bool(0.2);
    Assignment {
        pages,
        pick: if rng.random_bool(0.5) { Pick::Random } else { Pick::InOrder },
        addresses: (0..rng.random_range(1..=3))
            .map(|n| std::net::SocketAddr::from(([127, 0, 0, 1 + n], 80)).into())
            .collect(),
        sources: (0..rng.random_range(0..=2))
            .map(|n| std::net::SocketAddr::from(([127, 0, 1, 1 + n], 0)).into())
            .collect(),
        options: options[..rng.random_range(0..=2)]
            .iter()
            .copied()
            .chain(reset_on_close.then_some(SocketOption::ResetOnClose))
            .collect(),
        reset_on_close,
        demand,
        open_rate: rng.random_bool(0.2).then(|| Ratio::whole(rng.random_range(100..10_000))),
        requests: by_number.then(|| rng.random_range(1..=200)),
        duration_ns: Some(duration_ns),
        warmup_ns: if rng.random_bool(0.2) { rng.random_range(0..20 * MILLISECOND) } else { 0 },
        timeout_ns: rng.random_range(MILLISECOND..200 * MILLISECOND),
        connect_timeout_ns: rng.random_range(MILLISECOND..200 * MILLISECOND),
        grace_ns: rng.random_range(0..300 * MILLISECOND),
        lifetime,
        think_ns: (!is_open || clients)
            .then(|| rng.random_range(0..10 * MILLISECOND))
            .filter(|_| rng.random_bool(0.3))
            .map(|to_ns| (to_ns / 2, to_ns)),
        spin: if rng.random_bool(0.9) { Spin::Never } else { Spin::Always },
        batch: rng.random_bool(0.5),
        seed,
        slots,
        ..quiet()
    }
}
