//! The scanner's rules and limits.

mod cuts;

use super::*;

/// What a stream that comes in pieces and then ends comes to.
#[derive(Debug)]
struct Outcome {
    scanner: Scanner,
    /// Bytes used, or `None` where only the end of the stream completed it.
    end: Result<Option<usize>, ScanError>,
}

impl Outcome {
    /// All but the example, which is what had arrived, and the state behind an error.
    fn facts(&self) -> impl PartialEq + std::fmt::Debug {
        let s = &self.scanner;
        let end = match &self.end {
            Ok(used) => Ok(*used),
            Err(error) => Err((error.phase, error.kind, error.detail)),
        };
        let head = (s.status(), s.headers_count(), s.interims(), s.encoding());
        (end, head, s.body(), s.keep_alive(), s.says_close(), s.started())
    }
}

fn scan_pieces<'a>(head_request: bool, pieces: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    let mut scanner = Scanner::new(head_request);
    let mut carry = Vec::new();
    let mut before = 0;
    for piece in pieces {
        let step = scanner.feed(&mut carry, piece);
        if scanner.stage() != Stage::Head || step.is_err() {
            assert_eq!(carry.capacity(), 0, "only a cut head owns a buffer");
        }
        match step {
            Ok(Step::More) => before += piece.len(),
            Ok(Step::Done { used }) => {
                assert!(used <= piece.len());
                assert_eq!(scanner.stage(), Stage::Done);
                return Outcome { scanner, end: Ok(Some(before + used)) };
            }
            Err(error) => return Outcome { scanner, end: Err(error) },
        }
    }
    let end = scanner.finish(&mut carry).map(|()| None);
    assert_eq!(carry.capacity(), 0);
    Outcome { scanner, end }
}

fn scan(bytes: impl AsRef<[u8]>) -> Outcome {
    scan_pieces(false, [bytes.as_ref()])
}

/// The same bytes whole, byte by byte and in these pieces come to the same.
fn assert_no_cut_matters(bytes: &[u8], cuts: &[usize]) {
    for head_request in [false, true] {
        let whole = scan_pieces(head_request, [bytes]);
        let single = scan_pieces(head_request, bytes.chunks(1));
        let mut rest = bytes;
        let pieces = cuts.iter().map(|&cut| {
            let (piece, later) = rest.split_at(cut.min(rest.len()));
            rest = later;
            piece
        });
        let mut pieces: Vec<_> = pieces.collect();
        pieces.push(rest);
        let cut = scan_pieces(head_request, pieces);
        for other in [&single, &cut] {
            assert_eq!(whole.facts(), other.facts(), "{}", bytes.escape_ascii());
            if let (Err(whole), Err(other)) = (&whole.end, &other.end) {
                assert!(whole.bytes.starts_with(&other.bytes));
                assert!(whole.bytes.len() <= EXAMPLE_BYTES);
            }
        }
    }
}

fn fault_of(bytes: impl AsRef<[u8]>) -> (Phase, FaultKind, &'static str) {
    let bytes = bytes.as_ref();
    assert_no_cut_matters(bytes, &[bytes.len() / 2]);
    let error = scan(bytes).end.expect_err("this is no response");
    (error.phase, error.kind, error.detail)
}

const MALFORMED: FaultKind = FaultKind::Malformed;
const TOO_LARGE: FaultKind = FaultKind::TooLarge;

#[test]
fn a_small_response_takes_one_call_and_no_buffer() {
    let response = b"HTTP/1.1 200 OK\r\nServer: x\r\nContent-Encoding: gzip\r\n\
        Content-Length: 5\r\n\r\nhelloHTTP/1.1";
    let mut scanner = Scanner::new(false);
    let mut carry = Vec::new();
    assert!(!scanner.started());
    let step = scanner.feed(&mut carry, response).unwrap();
    assert_eq!(step, Step::Done { used: response.len() - 8 });
    assert_eq!(carry.capacity(), 0);
    assert_eq!((scanner.status(), scanner.body(), scanner.headers_count()), (200, 5, 3));
    assert_eq!(scanner.encoding(), Encoding::Gzip);
    assert!(scanner.keep_alive() && !scanner.says_close() && scanner.started());
    assert_eq!(scanner.feed(&mut carry, b"more"), Ok(Step::Done { used: 0 }));
    assert!(size_of::<Scanner>() <= 64, "one cache line");
}

#[test]
fn stages_follow_the_stream() {
    let mut carry = Vec::new();
    let mut scanner = Scanner::new(false);
    assert_eq!(scanner.stage(), Stage::Head);
    scanner.feed(&mut carry, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r").unwrap();
    assert_eq!((scanner.stage(), scanner.status()), (Stage::Head, 0));
    scanner.feed(&mut carry, b"\n").unwrap();
    assert_eq!((scanner.stage(), scanner.status()), (Stage::Exactly(9), 200));
    scanner.feed(&mut carry, b"ab").unwrap();
    assert_eq!(scanner.skip(3), Step::More);
    assert_eq!((scanner.stage(), scanner.body()), (Stage::Exactly(4), 5));
    assert_eq!(scanner.skip(6), Step::Done { used: 4 });
    assert_eq!((scanner.stage(), scanner.body()), (Stage::Done, 9));

    let mut scanner = Scanner::new(false);
    scanner.feed(&mut carry, b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
    assert_eq!(scanner.stage(), Stage::UntilClose);
    assert_eq!(scanner.skip(1 << 40), Step::More);
    scanner.finish(&mut carry).unwrap();
    assert_eq!((scanner.stage(), scanner.body()), (Stage::Done, 1 << 40));

    let mut scanner = Scanner::new(false);
    scanner.feed(&mut carry, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3").unwrap();
    assert_eq!(scanner.stage(), Stage::Chunked);
}

#[test]
fn framing_follows_the_rules() {
    // Head, body and more; body bytes; whether the connection is used again.
    let until_close = false;
    for (head, stream, body, keeps) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 3, 3\r\nContent-Length: 3", "abcd", 3, true),
        ("HTTP/1.1 200 OK", "abcd", 4, until_close),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip", "abcd", 4, until_close),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding:", "abcd", 4, until_close),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip", "abcd", 4, until_close),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked", "1\r\na\r\n0\r\n\r\n", 1, true),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
            "1\r\na\r\n0\r\n\r\n",
            1,
            true,
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 9, 8\r\nTransfer-Encoding: chunked",
            "1\r\na\r\n0\r\n\r\n",
            1,
            false,
        ),
        (
            "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked",
            "1\r\na\r\n0\r\n\r\n",
            1,
            false,
        ),
        ("HTTP/1.1 204 No Content\r\nContent-Length: 3", "abc", 0, true),
        ("HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked", "abc", 0, true),
        ("HTTP/1.1 101 Switching\r\nContent-Length: 3", "abc", 0, false),
        ("HTTP/1.0 200 OK\r\nContent-Length: 1", "a", 1, false),
        ("HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: Keep-Alive", "a", 1, true),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: a, Close", "a", 1, false),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive\r\nConnection: close",
            "a",
            1,
            false,
        ),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: closed", "a", 1, true),
        ("HTTP/1.1 200 OK\r\nX: 1\r\n 2\r\nContent-Length:\r\n 1", "a", 1, true),
        ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200\r\nContent-Length: 1", "a", 1, true),
        ("\r\n\nHTTP/1.1 200 OK\nContent-Length: 1", "a", 1, true),
    ] {
        let bytes = format!("{head}\r\n\r\n{stream}");
        assert_no_cut_matters(bytes.as_bytes(), &[bytes.len() / 2]);
        let Outcome { scanner, end } = scan(&bytes);
        assert!(end.is_ok(), "{head}: {end:?}");
        assert_eq!((scanner.body(), scanner.keep_alive()), (body, keeps), "{head}");
    }
}

#[test]
fn a_head_request_has_no_body() {
    for head in ["Content-Length: 10", "Transfer-Encoding: chunked", "X: y"] {
        let bytes = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n");
        let outcome = scan_pieces(true, [bytes.as_bytes()]);
        assert_eq!(outcome.end, Ok(Some(bytes.len())));
        assert!(outcome.scanner.keep_alive());
    }
}

#[test]
fn interim_responses_are_counted_and_are_not_the_answer() {
    let bytes = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\
        Content-Length: junk\r\n\r\nHTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n";
    assert_no_cut_matters(bytes, &[30]);
    let Outcome { scanner, end } = scan(bytes);
    assert_eq!(end, Ok(Some(bytes.len())));
    assert_eq!((scanner.interims(), scanner.status(), scanner.headers_count()), (2, 503, 1));
}

#[test]
fn says_close_is_what_the_server_announced() {
    for (head, says) in [
        ("HTTP/1.1 200 OK\r\nConnection: close", true),
        ("HTTP/1.0 200 OK", true),
        ("HTTP/1.0 200 OK\r\nConnection: keep-alive", false),
        ("HTTP/1.1 200 OK", false),
    ] {
        let outcome = scan(format!("{head}\r\nContent-Length: 0\r\n\r\n"));
        assert_eq!(outcome.scanner.says_close(), says, "{head}");
    }
}

#[test]
fn encodings_are_told_apart() {
    for (value, encoding) in [
        ("", Encoding::Identity),
        ("identity", Encoding::Identity),
        ("GZIP", Encoding::Gzip),
        ("x-gzip", Encoding::Gzip),
        ("identity, br", Encoding::Brotli),
        ("zstd", Encoding::Zstd),
        ("deflate", Encoding::Deflate),
        ("gzip, br", Encoding::Other),
        ("gzip\r\nContent-Encoding: gzip", Encoding::Other),
        ("compress", Encoding::Other),
    ] {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Encoding:";
        let outcome = scan(format!("{head} {value}\r\n\r\n"));
        assert_eq!(outcome.scanner.encoding(), encoding, "{value}");
    }
}

#[test]
fn heads_that_are_none_are_malformed() {
    for (bytes, detail) in [
        ("SSH-2.0-OpenSSH_9.2", "status-line"),
        ("\r\nHTTP/2 200 OK\r\n\r\n", "status-line"),
        ("HTTP/1.1 20", "head-cut"),
        ("HTTP/1.1 200 ", "head-cut"),
        ("HTTP/1.1 200 OK\r\nA: b\r\n", "head-cut"),
        ("HTTP/1.1 2x0 OK\r\n", "status-line"),
        ("HTTP/1.1 200 O\0K\r\n\r\n", "status-line"),
        ("HTTP/1.1 099 Low\r\n\r\n", "status"),
        ("HTTP/1.1 600 High\r\n\r\n", "status"),
        ("HTTP/1.1 200 OK\r\n A: b\r\n", "header"),
        ("HTTP/1.1 200 OK\r\nA : b\r\n\r\n", "header"),
        ("HTTP/1.1 200 OK\r\nA: b\r\n \0\r\n", "header"),
        ("HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n", "header"),
        ("HTTP/1.1 200 OK\r\nno colon\r\n", "header"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\n", "content-length"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", "content-length"),
        ("HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n", "content-length"),
        ("HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n", "content-length"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5,\r\n\r\n", "content-length"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n 5\r\n\r\n", "content-length"),
    ] {
        assert_eq!(fault_of(bytes), (Phase::Head, MALFORMED, detail), "{bytes:?}");
    }
}

#[test]
fn thirteen_bytes_are_no_response_and_are_shown() {
    let error = scan("HTTP/1.1 200 ").end.unwrap_err();
    assert_eq!((error.phase, error.kind), (Phase::Head, MALFORMED));
    assert_eq!(error.bytes, b"HTTP/1.1 200 ");
}

#[test]
fn another_protocol_is_refused_before_its_line_ends() {
    let mut scanner = Scanner::new(false);
    let error = scanner.feed(&mut Vec::new(), b"\x15\x03\x01\0\x02\x02F").unwrap_err();
    assert_eq!((error.kind, error.bytes.as_slice()), (MALFORMED, &b"\x15\x03\x01\0\x02\x02F"[..]));
}

#[test]
fn an_early_end_is_named() {
    assert_eq!(fault_of(""), (Phase::Head, FaultKind::Closed, ""));
    assert_eq!(fault_of("HTTP/1.1 100 Continue\r\n\r\n"), (Phase::Head, FaultKind::Closed, ""));
    let truncated = (Phase::Body, FaultKind::Truncated, "");
    assert_eq!(fault_of("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab"), truncated);
    for cut in
        ["", "3", "3\r\nab", "3\r\nabc", "3\r\nabc\r\n", "3\r\nabc\r\n0\r\n", "0\r\nA: b\r\n"]
    {
        let bytes = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{cut}");
        assert_eq!(fault_of(bytes), truncated, "{cut:?}");
    }
}

#[test]
fn heads_have_limits() {
    let sized = |length: usize| {
        let frame = "HTTP/1.1 204 OK\r\nA: \r\n\r\n".len();
        format!("HTTP/1.1 204 OK\r\nA: {}\r\n\r\n", "x".repeat(length - frame))
    };
    assert_eq!(scan(sized(HEAD_LIMIT)).end, Ok(Some(HEAD_LIMIT)));
    assert_eq!(fault_of(sized(HEAD_LIMIT + 1)), (Phase::Head, TOO_LARGE, "head"));
    assert_eq!(fault_of("\r\n".repeat(HEAD_LIMIT)), (Phase::Head, TOO_LARGE, "head"));

    let counted = |count: usize| format!("HTTP/1.1 204 OK\r\n{}\r\n", "A: b\r\n".repeat(count));
    for count in [63, 64, 65, HEADERS_LIMIT] {
        let bytes = counted(count);
        assert_no_cut_matters(bytes.as_bytes(), &[20]);
        assert_eq!(scan(bytes).scanner.headers_count(), count);
    }
    assert_eq!(fault_of(counted(HEADERS_LIMIT + 1)), (Phase::Head, TOO_LARGE, "headers"));

    let length = |digits| format!("HTTP/1.1 200 OK\r\nContent-Length: {digits}\r\n\r\n");
    assert_eq!(fault_of(length(u64::MAX.to_string())).1, FaultKind::Truncated);
    let beyond = (Phase::Head, TOO_LARGE, "content-length");
    assert_eq!(fault_of(length((u128::from(u64::MAX) + 1).to_string())), beyond);
}

fn chunked(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}")
}

#[test]
fn chunks_may_have_extensions_trailers_and_bare_line_feeds() {
    for (body, length) in [
        ("0\r\n\r\n", 0),
        ("3\r\nabc\r\n0\r\n\r\n", 3),
        ("00A\r\n0123456789\r\n000\r\n\r\n", 10),
        ("3\nabc\n2;x\nde\n0\n\n", 5),
        ("3 ;a;b=c ;d = \"q; \\\" \" ; e\r\nabc\r\n0;last\r\n\r\n", 3),
        ("1\r\na\r\n0\r\nTrailer: x\r\nB:\r\n folded\r\nC: d\n\r\n", 1),
    ] {
        let bytes = chunked(body);
        assert_no_cut_matters(bytes.as_bytes(), &[bytes.len() - 4]);
        let Outcome { scanner, end } = scan(&bytes);
        assert_eq!(end, Ok(Some(bytes.len())), "{body:?}");
        assert_eq!(scanner.body(), length);
    }
}

#[test]
fn chunks_that_are_none_are_malformed() {
    for (body, detail) in [
        ("\r\n", "chunk-size"),
        ("x\r\n", "chunk-size"),
        (" 3\r\nabc", "chunk-size"),
        ("-1\r\n", "chunk-size"),
        ("0x3\r\nabc", "chunk-size"),
        ("3\rabc", "chunk-size"),
        ("3  \r\nabc", "chunk-extension"),
        ("3 abc\r\nabc", "chunk-extension"),
        ("3;\r\nabc", "chunk-extension"),
        ("3;=b\r\nabc", "chunk-extension"),
        ("3;a=;b\r\nabc", "chunk-extension"),
        ("3;a=\"b\r\nabc", "chunk-extension"),
        ("3;a=\"b\"c\r\nabc", "chunk-extension"),
        ("3;a \r\nabc", "chunk-extension"),
        ("3\r\nabcd\r\n", "chunk-end"),
        ("3\r\nabc\rd", "chunk-end"),
        ("0\r\n: x\r\n", "trailer"),
        ("0\r\n folded first\r\n", "trailer"),
        ("0\r\nA b: x\r\n", "trailer"),
        ("0\r\nA: \0\r\n", "trailer"),
        ("0\r\n\rx", "trailer"),
    ] {
        assert_eq!(fault_of(chunked(body)), (Phase::Body, MALFORMED, detail), "{body:?}");
    }
}

#[test]
fn chunks_have_limits() {
    let most = "f".repeat(16);
    assert_eq!(fault_of(chunked(&format!("{most}\r\n"))).1, FaultKind::Truncated);
    let beyond = (Phase::Body, TOO_LARGE, "chunk-size");
    assert_eq!(fault_of(chunked(&format!("0{most}\r\n"))), beyond);
    let long = "x".repeat(64 * 1024);
    let beyond = (Phase::Body, TOO_LARGE, "chunk-extension");
    assert_eq!(fault_of(chunked(&format!("1;{long}\r\n"))), beyond);
    let beyond = (Phase::Body, TOO_LARGE, "trailer");
    assert_eq!(fault_of(chunked(&format!("0\r\nA: {long}\r\n"))), beyond);
    assert_eq!(fault_of(chunked(&format!("0\r\n{}", "A: b\r\n".repeat(11_000)))), beyond);
    let many = format!("{}0\r\n\r\n", "1;abcdefgh\r\nx\r\n".repeat(10_000));
    assert_eq!(scan(chunked(&many)).scanner.body(), 10_000, "the limit is a line's");
}
