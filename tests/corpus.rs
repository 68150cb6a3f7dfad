//! Responses that nobody on this project wrote, against what independent references say of them:
//! whole, byte by byte, and cut in two at every boundary.
//!
//! Skipped where the corpus is not there; see [`support::corpus::directory`].

mod support;

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Mutex;
use std::thread;

use ringload::http1::response::{ScanError, Scanner, Stage, Step};
use ringload::stats::Phase;
use support::corpus::{self, ResponseCase, Summary, Verdict};
use support::raw::{Raw, read_request};

const LF: &str = "a bare LF ends a line of a head here, as in httparse, curl and Go";
const RANGE: &str = "a status outside 100 to 599 is a protocol error here";
const VERSION: &str = "only HTTP/1.0 and HTTP/1.1 are spoken here, as in httparse";
const OTHER_PROTOCOL: &str = "llhttp also reads RTSP and ICE; they are not HTTP";
const SWITCHED: &str = "after 101 the connection speaks no HTTP, so it carries no other request";
const TE_AND_CL: &str = "Transfer-Encoding with Content-Length: not used again (RFC 9112, 6.1)";
const TE_OVER_1_0: &str = "Transfer-Encoding frames: not chunked, so the end of the connection";
const UNKNOWN_CODING: &str = "a last coding that is not chunked runs to the end of the connection";
const PROXY: &str = "Proxy-Connection is no field of HTTP/1.1 (RFC 9112, appendix C.2.2)";

/// Where this project differs on purpose, and why.
const KNOWN_DIFFERENCES: &[(&str, &str)] = &[
    ("llhttp/response/connection:4", PROXY),
    ("llhttp/response/connection:293", SWITCHED),
    ("llhttp/response/connection:331", SWITCHED),
    ("llhttp/response/invalid:287", LF),
    ("llhttp/response/invalid:327", LF),
    ("llhttp/response/sample:40", OTHER_PROTOCOL),
    ("llhttp/response/sample:60", OTHER_PROTOCOL),
    ("llhttp/response/sample:330", LF),
    ("llhttp/response/sample:645", VERSION),
    ("curl/test1722", UNKNOWN_CODING),
    ("wpt/status-code#0", RANGE),
    ("wpt/status-code#1", RANGE),
    ("wpt/status-code#99", RANGE),
    ("wpt/status-code#099", RANGE),
    ("wpt/status-code#999", RANGE),
    ("go/respTests#5", TE_AND_CL),
    ("go/respTests#19", TE_OVER_1_0),
    ("go/errors/status 000 OK", RANGE),
    ("go/errors/status 001 OK", RANGE),
    ("go/errors/status 999 Done", RANGE),
    ("go/errors/version HTTP/1.2", VERSION),
    ("go/errors/version HTTP/2.0", VERSION),
];

/// What a scanner makes of a stream that ends.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    end: End,
    status: u16,
    body: u64,
    headers: usize,
    interims: u32,
    keep_alive: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum End {
    /// Complete by its own framing, after so many bytes.
    Complete(usize),
    /// Complete when the stream ended.
    AtEof,
    /// An error: phase, kind and detail.
    Failed(Phase, String, &'static str),
}

#[test]
fn responses_are_read_as_the_references_say() {
    let Some(directory) = corpus::directory() else {
        println!("corpus: skipped, it is not on this machine");
        return;
    };
    let mut passed = 0;
    let mut unjudged = 0;
    let mut different = BTreeSet::new();
    let mut failures = Vec::new();
    for case in corpus::responses(&directory) {
        let mut objections = Vec::new();
        for bytes in std::iter::once(&case.bytes).chain(case.crlf.as_ref()) {
            objections.extend(objection(&case, bytes));
        }
        if case.summary.verdict == Verdict::None {
            unjudged += 1;
        } else if objections.is_empty() {
            passed += 1;
        } else {
            different.insert(case.id.clone());
            if !KNOWN_DIFFERENCES.iter().any(|(id, _)| *id == case.id) {
                failures.push(format!("{}: {}", case.id, objections.join("; ")));
            }
        }
    }
    for (id, reason) in KNOWN_DIFFERENCES {
        if !different.contains(*id) {
            failures.push(format!("{id} is on the list and does not differ ({reason})"));
        }
    }
    println!(
        "corpus: {passed} passed, {} on the list of known differences, {unjudged} without a \
         verdict survived",
        KNOWN_DIFFERENCES.len()
    );
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    assert!(passed > 0, "the corpus has no responses");
}

/// Runs of the binary at once: most of a case's time is waiting.
const PLAYERS: usize = 8;

#[test]
fn the_binary_says_the_same_over_a_real_socket() {
    let Some(directory) = corpus::directory() else {
        println!("corpus: skipped, it is not on this machine");
        return;
    };
    let cases = Mutex::new(corpus::responses(&directory).into_iter());
    let failures = Mutex::new(Vec::new());
    let played = Mutex::new(0);
    thread::scope(|scope| {
        for _ in 0..PLAYERS {
            scope.spawn(|| {
                loop {
                    let Some(case) = cases.lock().unwrap().next() else { return };
                    for bytes in std::iter::once(&case.bytes).chain(case.crlf.as_ref()) {
                        let objection = play(&case, bytes);
                        *played.lock().unwrap() += 1;
                        failures.lock().unwrap().extend(objection);
                    }
                }
            });
        }
    });
    let (failures, played) = (failures.into_inner().unwrap(), played.into_inner().unwrap());
    println!("corpus: {played} responses played over a socket");
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    assert!(played > 0, "the corpus has no responses");
}

/// Plays one response to `ringload run` and says where it differs from what the scanner, which is
/// held against the references above, makes of the same bytes.
fn play(case: &ResponseCase, bytes: &[u8]) -> Option<String> {
    let said = scan(case.head_request, [bytes]);
    // A server that keeps the connection open never ends a body that only its end ends.
    let complete = match said.end {
        End::Complete(_) => true,
        End::AtEof => case.server_closes,
        End::Failed(..) => false,
    };
    let (answer, closes) = (bytes.to_vec(), case.server_closes);
    let server = Raw::start(move |mut stream| {
        if read_request(&mut stream) {
            let _ = stream.write_all(&answer);
            if !closes {
                // Until the client leaves.
                read_request(&mut stream);
            }
        }
    });
    let method = if case.head_request { "HEAD" } else { "GET" };
    let url = server.url();
    let run = support::run(&[&url, "-n", "1", "-c", "1", "-X", method, "--timeout", "400ms"]);
    run.assert_identities();
    let found = (run.count("/counts/completed"), run.count("/counts/failed"));
    let status = run.result["status"].as_object().unwrap().keys().next().cloned();
    let expected_status = complete.then(|| said.status.to_string());
    let right = found == (u64::from(complete), u64::from(!complete))
        && status == expected_status
        && (!complete || run.count("/bytes/body") == said.body)
        && run.code == if complete { 0 } else { 4 };
    (!right).then(|| format!("{}: {said:?}, but {} {}", case.id, run.code, run.result["counts"]))
}

#[test]
fn requests_can_be_read() {
    let Some(directory) = corpus::directory() else {
        println!("corpus: skipped, it is not on this machine");
        return;
    };
    let requests = corpus::requests(&directory);
    let ids: BTreeSet<_> = requests.iter().map(|request| &request.id).collect();
    assert_eq!(ids.len(), requests.len(), "ids are unique");
    assert!(requests.iter().any(|request| request.refused && !request.bytes.is_empty()));
    assert!(requests.iter().any(|request| request.complete > 1));
}

/// What is wrong with how these bytes are read, if anything.
fn objection(case: &ResponseCase, bytes: &[u8]) -> Option<String> {
    let whole = scan(case.head_request, [bytes]);
    assert_eq!(whole, scan(case.head_request, bytes.chunks(1)), "{} byte by byte", case.id);
    for at in 0..=bytes.len() {
        let (before, after) = bytes.split_at(at);
        assert_eq!(whole, scan(case.head_request, [before, after]), "{} cut at {at}", case.id);
    }
    if is_as_said(&whole, &case.summary) { None } else { Some(format!("{whole:?}")) }
}

/// Scans a stream that comes in these pieces and then ends.
fn scan<'a>(head_request: bool, pieces: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    let mut scanner = Scanner::new(head_request);
    let mut carry = Vec::new();
    let end = feed_all(&mut scanner, &mut carry, pieces).unwrap_or_else(|error| {
        End::Failed(error.phase, format!("{:?}", error.kind), error.detail)
    });
    assert_eq!(carry.capacity(), 0, "nothing is kept after the end");
    Outcome {
        end,
        status: scanner.status(),
        body: scanner.body(),
        headers: scanner.headers_count(),
        interims: scanner.interims(),
        keep_alive: scanner.keep_alive(),
    }
}

fn feed_all<'a>(
    scanner: &mut Scanner,
    carry: &mut Vec<u8>,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Result<End, ScanError> {
    let mut before = 0;
    for piece in pieces {
        if let Step::Done { used } = scanner.feed(carry, piece)? {
            return Ok(End::Complete(before + used));
        }
        before += piece.len();
    }
    scanner.finish(carry)?;
    assert_eq!(scanner.stage(), Stage::Done);
    Ok(End::AtEof)
}

fn is_as_said(outcome: &Outcome, said: &Summary) -> bool {
    let accepted = !matches!(outcome.end, End::Failed(..));
    let verdict = match said.verdict {
        Verdict::Accept => matches!(outcome.end, End::Complete(_)),
        Verdict::AcceptAtEof => outcome.end == End::AtEof,
        Verdict::AcceptHead => outcome.status != 0,
        Verdict::Incomplete | Verdict::Reject => !accepted,
        Verdict::None => true,
    };
    // What a reference read before it refused is compared where a whole head was read here, too.
    let compare = outcome.status != 0 && said.verdict != Verdict::None;
    verdict
        && (!compare
            || (said.status.is_none_or(|status| status == outcome.status)
                && said.body_len.is_none_or(|length| length == outcome.body)
                && said.headers_count.is_none_or(|count| count == outcome.headers)
                && said.interim.len() == outcome.interims as usize
                && (!accepted || said.keep_alive.is_none_or(|keeps| keeps == outcome.keep_alive))))
}
