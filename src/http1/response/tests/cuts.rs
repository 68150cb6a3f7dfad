//! No cut of a stream changes what it comes to, nor how long that takes by much.

use proptest::collection::vec;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::{Outcome, assert_no_cut_matters, scan, scan_pieces};
use crate::http1::response::HEAD_LIMIT;

/// Seeds of the mutations, each with a part that the grammar cares for.
const SEEDS: [&str; 14] = [
    "HTTP/1.1 200 OK\r\nServer: nginx\r\nContent-Length: 11\r\nConnection: keep-alive\r\n\r\nhello world",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;a=b\r\n world\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\na; x=\"y\\\"z\"\r\n0123456789\r\n0\r\nT: u\r\n\r\n",
    "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2, 2\r\nContent-Length: 2\r\n\r\nok",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
    "HTTP/1.1 204 No Content\r\nX-A: 1\r\n folded\r\n\tmore\r\n\r\n",
    "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nContent-Length: 10\r\n\r\n",
    "HTTP/1.1 200 OK\r\nConnection: close, foo\r\nConnection: bar\r\n\r\nuntil the end",
    "\r\n\r\nHTTP/1.1 404 Not Found\nContent-Length: 3\n\nabc",
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nrest",
    "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
    "HTTP/1.1 500\r\nContent-Encoding: br\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
    "HTTP/1.1 200 \u{eb} \r\nX:\t y \t\r\nY:\r\n \r\nContent-Length:\r\n 2\r\n\r\nab",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\nx\n0\nA: b\n folded\nB:\n\n",
];

/// What the grammar cares for, to be put anywhere.
const MORSELS: [&[u8]; 22] = [
    b"\r",
    b"\n",
    b"\r\n",
    b"\r\n\r\n",
    b"\n\n",
    b" ",
    b"\t",
    b"\0",
    b":",
    b",",
    b";",
    b"\"",
    b"\\",
    b"=",
    b"0",
    b"ffffffffffffffff",
    b"\x7f",
    b"\xff",
    b"Content-Length: 1\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"HTTP/1.1 100 C\r\n\r\n",
    b"\r\n ",
];

fn mutate(bytes: &mut Vec<u8>, random: &mut Pcg64) {
    let at = random.random_range(0..=bytes.len());
    let to = (at + random.random_range(1..=8_usize)).min(bytes.len());
    match random.random_range(0..6_u8) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at..to)),
        2 if at < bytes.len() => bytes[at] = random.random(),
        3 if at < bytes.len() => bytes[at] ^= 1 << random.random_range(0..8_u8),
        4 => {
            let copy = bytes[at..to].to_vec();
            let into = random.random_range(0..=bytes.len());
            bytes.splice(into..into, copy);
        }
        _ => {
            let morsel = MORSELS[random.random_range(0..MORSELS.len())];
            bytes.splice(at..at, morsel.iter().copied());
        }
    }
}

#[test]
fn no_cut_matters_to_thousands_of_mutations() {
    let mut random = Pcg64::seed_from_u64(0x5ca_a9e5);
    let mut accepted = 0;
    let mut refused = 0;
    for round in 0..20_000 {
        let mut bytes = SEEDS[round % SEEDS.len()].as_bytes().to_vec();
        for _ in 0..random.random_range(0..5_u8) {
            mutate(&mut bytes, &mut random);
        }
        let cuts: Vec<usize> = (0..3).map(|_| random.random_range(0..60)).collect();
        assert_no_cut_matters(&bytes, &cuts);
        if scan(&bytes).end.is_ok() { accepted += 1 } else { refused += 1 }
    }
    assert!(accepted > 4_000 && refused > 4_000, "both sides are reached: {accepted}, {refused}");
}

/// Linear, this takes a few milliseconds; parsing all of it again at each line end takes a hundred
/// times as long. The fastest of five, since the machine may be busy.
#[test]
fn bytes_that_dribble_in_take_linear_time() {
    let fields = "A: b\r\n".repeat(200);
    let folds = " x\r\n".repeat(15_000);
    let bytes = format!("HTTP/1.1 204 OK\r\n{fields}X: y\r\n{folds}\r\n");
    assert!(bytes.len() > 60_000 && bytes.len() < HEAD_LIMIT);
    let runs = (0..5).map(|_| {
        let started = std::time::Instant::now();
        let outcome = scan_pieces(false, bytes.as_bytes().chunks(1));
        assert_eq!(outcome.end, Ok(Some(bytes.len())));
        started.elapsed()
    });
    let fastest = runs.min().expect("five runs");
    assert!(fastest.as_millis() < 150, "{fastest:?}");
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(
        bytes in vec(any::<u8>(), 0..400),
        start in proptest::bool::ANY,
        cuts in vec(0_usize..80, 0..8),
    ) {
        let mut stream = if start { b"HTTP/1.1 200 OK\r\n".to_vec() } else { Vec::new() };
        stream.extend(bytes);
        assert_no_cut_matters(&stream, &cuts);
    }

    #[test]
    fn a_length_frames_exactly(
        headers in vec(("[A-Za-z-]{1,20}", "[ -~]{0,40}"), 0..90),
        body in vec(any::<u8>(), 0..300),
        rest in vec(any::<u8>(), 0..20),
        cuts in vec(0_usize..200, 0..8),
    ) {
        let mut stream = b"HTTP/1.1 200 OK\r\n".to_vec();
        for (name, value) in &headers {
            stream.extend(format!("X-{name}: {value}\r\n").bytes());
        }
        stream.extend(format!("Content-Length: {}\r\n\r\n", body.len()).bytes());
        stream.extend(&body);
        let end = stream.len();
        stream.extend(rest);
        assert_no_cut_matters(&stream, &cuts);
        let Outcome { scanner, end: used } = scan(&stream);
        prop_assert_eq!(used, Ok(Some(end)));
        prop_assert_eq!(scanner.body(), body.len() as u64);
        prop_assert_eq!(scanner.headers_count(), headers.len() + 1);
    }

    #[test]
    fn chunks_frame_exactly(
        chunks in vec(vec(any::<u8>(), 1..40), 0..12),
        extension in "(;[a-z]{1,5}(=([a-z0-9]{1,5}|\"[ a-z;,]{0,9}\"))?){0,3}",
        trailers in vec(("[A-Za-z-]{1,20}", "[ -~]{0,40}"), 0..4),
        rest in vec(any::<u8>(), 0..20),
        cuts in vec(0_usize..100, 0..8),
    ) {
        let mut stream = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        let mut length = 0;
        for chunk in &chunks {
            stream.extend(format!("{:x}{extension}\r\n", chunk.len()).bytes());
            stream.extend(chunk);
            stream.extend(b"\r\n");
            length += chunk.len() as u64;
        }
        stream.extend(format!("0{extension}\r\n").bytes());
        for (name, value) in &trailers {
            stream.extend(format!("{name}: {value}\r\n").bytes());
        }
        stream.extend(b"\r\n");
        let end = stream.len();
        stream.extend(rest);
        assert_no_cut_matters(&stream, &cuts);
        let Outcome { scanner, end: used } = scan(&stream);
        prop_assert_eq!(used, Ok(Some(end)));
        prop_assert_eq!(scanner.body(), length);
    }
}
