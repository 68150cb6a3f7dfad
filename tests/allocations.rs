//! In steady state a request allocates nothing and enters the kernel for a fraction of a call.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use ringload::clock::{Clock, MILLISECOND, Monotonic};
use ringload::engine::assignment::{Assignment, Demand, EncodedPage};
use ringload::engine::worker::{Outcome, StopFlag, Worker};
use ringload::plan::serve::ServePlan;
use ringload::plan::{Arrive, Lifetime, Profile, Ratio, Spacing};
use ringload::ring::Limits;
use ringload::ring::kernel::KernelRing;
use ringload::serve::Server;
use ringload::stats::Recorder;
use ringload::stats::recorder::Settings;
use ringload::tls;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    /// Bytes that were allocated and not freed.
    static LIVE: Cell<i64> = const { Cell::new(0) };
}

/// Counts the allocations of each thread.
struct Counting;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that is ending has no counter any more.
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        let _ = LIVE.try_with(|live| live.set(live.get() + layout.size() as i64));
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        let _ = LIVE.try_with(|live| live.set(live.get() - layout.size() as i64));
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn a_request_in_steady_state_allocates_nothing() {
    let plan = ServePlan {
        http: "127.0.0.1:0".parse().ok(),
        https: None,
        identity: None,
        threads: 1,
        cpus: Vec::new(),
        stall: None,
    };
    let server = Server::start(&plan).expect("the server starts");
    let closed = || Demand::Closed { places: Profile::constant(Ratio::whole(64)) };
    let open = || Demand::Open {
        rate: Profile::constant(Ratio::whole(5_000)),
        spacing: Spacing::Even,
        arrive: Arrive::Requests,
        max_connections: Profile::constant(Ratio::whole(64)),
        preconnect: 0,
        drop_after_ns: None,
    };
    for (name, demand, lifetime, target) in [
        ("closed", closed(), Lifetime::All, "/bytes/700"),
        ("large", closed(), Lifetime::All, "/bytes/80KiB"),
        ("chunked", closed(), Lifetime::All, "/chunked/700"),
        ("new connections", closed(), Lifetime::Exactly(1), "/bytes/700"),
        ("open", open(), Lifetime::All, "/bytes/700"),
    ] {
        let run = |duration_ms: u64| {
            let page = EncodedPage {
                keep: format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n").into_bytes(),
                close: format!("GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
                    .into_bytes(),
                head: false,
                idempotent: true,
                weight: 1,
            };
            let assignment = Assignment {
                duration_ns: Some(duration_ms * MILLISECOND),
                lifetime,
                batch: true,
                ..Assignment::of_page(page, server.address(), demand.clone())
            };
            measure(assignment)
        };
        let (short, short_allocations) = run(150);
        let (long, long_allocations) = run(450);
        let requests = long.stats.completed - short.stats.completed;
        assert!(requests > 500, "{name}: {requests} requests more");
        let more = long_allocations.saturating_sub(short_allocations);
        // A histogram that comes home within a second is none of a request's.
        assert!(more < 50, "{name}: {more} allocations more for {requests} requests more");
        assert_eq!(long.ring.cq_overflows, 0);
        assert_eq!((short.stats.failed, long.stats.failed), (0, 0), "{name}");
    }
}

#[test]
fn an_idle_session_is_small() {
    let server = tls::Server::self_signed().expect("a certificate");
    for versions in [tls::Versions::Tls12, tls::Versions::Tls13] {
        let settings =
            tls::Settings { insecure: true, versions, ..tls::Settings::new("localhost") };
        let client = tls::Client::new(&settings, &tls::Roots::none()).expect("a client");
        // The first brings what all have in common.
        let first = shaken(&client, &server);
        let before = LIVE.with(Cell::get);
        let second = shaken(&client, &server);
        let bytes = LIVE.with(Cell::get) - before;
        drop((first, second));
        // What aws-lc holds besides is of its own allocator's (docs/BENCHMARKING.md, memory).
        assert!((500..=7_000).contains(&bytes), "{versions:?}: {bytes} bytes");
    }
}

/// A client's session after its handshake.
fn shaken(client: &tls::Client, server: &tls::Server) -> tls::ClientSession {
    let mut client = client.session(false).expect("a session");
    let mut server = server.session().expect("a session");
    let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
    client.advance(&mut [], &mut to_server, |_| {}).expect("a hello");
    while !to_server.is_empty() {
        server.advance(&mut to_server, &mut to_client, |_| {}).expect("the server's part");
        to_server.clear();
        client.advance(&mut to_client, &mut to_server, |_| {}).expect("the client's part");
        to_client.clear();
    }
    assert!(client.handshake().is_some());
    client
}

/// Runs the worker on this thread and counts what it allocates.
fn measure(assignment: Assignment) -> (Outcome, u64) {
    let clock = Monotonic::start();
    let limits =
        Limits { slots: assignment.slots, buffers: 64, buffer_len: 16_384, scratch_len: 1 << 20 };
    let ring = KernelRing::new(limits, KernelRing::probe().expect("io_uring")).expect("a ring");
    let settings = Settings { pages: 1, start_ns: 0, end_ns: None, open_model: true };
    let (recorder, _seconds) = Recorder::new(settings);
    let stop = StopFlag::new(0);
    let worker = Worker::new(assignment, ring, clock, &stop, recorder);
    let before = ALLOCATIONS.with(Cell::get);
    let (outcome, _ring) = worker.run(clock.now()).expect("the ring can be entered");
    (outcome, ALLOCATIONS.with(Cell::get) - before)
}
