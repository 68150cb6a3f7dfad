//! Requests that nobody on this project wrote: over a socket, whole and byte by byte, and through
//! the parsers alone, cut in two at every boundary.
//!
//! Skipped where the corpus is not there; see [`cases::directory`].

use std::io::Write;
use std::net::Shutdown;

use ringload::serve::Server;
use ringload::serve::body::Body;
use ringload::serve::request::{self, Refusal};

use super::cases::{self, RequestCase};
use super::client::{Client, start};

const BODY: &str = "its Content-Length covers what follows; the reference was told to skip bodies";
const METHOD: &str = "any method is answered as GET is";
const OTHER_PROTOCOL: &str = "the reference also reads RTSP, ICE and HTTP/0.9; here they get 400";

/// Where the server differs on purpose, and why.
const KNOWN_DIFFERENCES: &[(&str, &str)] = &[
    ("llhttp/request/content-length:444", BODY),
    ("llhttp/request/invalid:66", METHOD),
    ("llhttp/request/invalid:356", METHOD),
    ("llhttp/request/method:372", OTHER_PROTOCOL),
    ("llhttp/request/method:400", OTHER_PROTOCOL),
    ("llhttp/request/method:430", OTHER_PROTOCOL),
    ("llhttp/request/sample:314", OTHER_PROTOCOL),
];

/// The statuses of the answers to bytes that are sent in these parts, and then the client's end;
/// `None` where the server had closed by then and answered the rest with RST.
fn statuses<'a>(server: &Server, parts: impl Iterator<Item = &'a [u8]>) -> Option<Vec<u16>> {
    let mut client = Client::connect(server);
    for part in parts {
        client.stream.write_all(part).ok()?;
    }
    client.stream.shutdown(Shutdown::Write).ok()?;
    let rest = client.rest().ok()?;
    let text = String::from_utf8(rest).expect("text");
    let heads = text.match_indices("HTTP/1.1 ");
    Some(heads.map(|(at, _)| text[at + 9..at + 12].parse().expect("a status")).collect())
}

/// Whether the answers are what the corpus asks for: one for each complete request, and 400 or the
/// end of the connection after an error.
fn holds(case: &RequestCase, statuses: &[u16]) -> bool {
    let answered = statuses.iter().take_while(|&&status| status != 400).count();
    let refused = &statuses[answered..];
    answered == case.complete && (refused.is_empty() || (case.refused && refused == [400]))
}

#[test]
fn requests_are_answered_or_refused() {
    let Some(corpus) = cases::directory() else {
        println!("skipped: the corpus is not here");
        return;
    };
    let server = start();
    let (mut held, mut differing, mut wrong) = (0, 0, Vec::new());
    for case in &cases::requests(&corpus) {
        let whole = statuses(&server, std::iter::once(&case.bytes[..])).expect("no RST");
        // Who says that it closes and then goes on sending may lose the answer; a refusal is
        // never lost.
        let bytewise = statuses(&server, case.bytes.chunks(1));
        let lost = bytewise.is_none() && case.refused && whole.last() != Some(&400);
        assert!(lost || bytewise.as_ref() == Some(&whole), "{}: {bytewise:?}", case.id);
        let known = KNOWN_DIFFERENCES.iter().any(|&(id, _)| id == case.id);
        match (holds(case, &whole), known) {
            (true, false) => held += 1,
            (false, true) => differing += 1,
            (holds, _) => wrong.push(format!("{} holds: {holds}, gives {whole:?}", case.id)),
        }
    }
    println!("{held} requests hold, {differing} differ on purpose");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(differing, KNOWN_DIFFERENCES.len(), "a difference that no request shows");
}

/// What the parsers make of a stream: complete requests and what is left, or the refusal.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    targets: Vec<String>,
    refusal: Option<Refusal>,
    in_body: bool,
    left: Vec<u8>,
}

#[derive(Default)]
struct Reader {
    body: Option<Body>,
    outcome: Outcome,
}

impl Reader {
    fn feed(&mut self, bytes: &[u8]) {
        self.outcome.left.extend_from_slice(bytes);
        while self.outcome.refusal.is_none() {
            match self.step() {
                Ok(true) => {}
                Ok(false) => return,
                Err(refusal) => self.outcome.refusal = Some(refusal),
            }
        }
        // What follows a refusal is not read.
        self.outcome.left.clear();
    }

    /// Whether there may be more to read.
    fn step(&mut self) -> Result<bool, Refusal> {
        let left = &mut self.outcome.left;
        if let Some(body) = &mut self.body {
            left.drain(..body.advance(left)?);
            let done = body.is_done();
            if done {
                self.body = None;
            }
            self.outcome.in_body &= !done;
            return Ok(done);
        }
        left.drain(..request::empty_lines(left));
        let Some(head) = request::parse(left)? else { return Ok(false) };
        self.outcome.targets.push(head.target.to_owned());
        self.body = Some(Body::new(head.framing));
        self.outcome.in_body = true;
        let len = head.len;
        left.drain(..len);
        Ok(true)
    }
}

#[test]
fn a_cut_at_any_boundary_changes_nothing() {
    let Some(corpus) = cases::directory() else {
        println!("skipped: the corpus is not here");
        return;
    };
    for case in &cases::requests(&corpus) {
        let read = |parts: &mut dyn Iterator<Item = &[u8]>| {
            let mut reader = Reader::default();
            parts.for_each(|part| reader.feed(part));
            reader.outcome
        };
        let whole = read(&mut std::iter::once(&case.bytes[..]));
        assert_eq!(read(&mut case.bytes.chunks(1)), whole, "{} byte by byte", case.id);
        for cut in 1..case.bytes.len() {
            let (first, second) = case.bytes.split_at(cut);
            assert_eq!(read(&mut [first, second].into_iter()), whole, "{} at {cut}", case.id);
        }
    }
}
