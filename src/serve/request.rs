//! The head of a request: where it ends, and how its body is framed.
//!
//! The head is split by httparse; what RFC 9112 asks of a server beyond that
//! is decided here. A request without `Host` is answered all the same: a load
//! test's hand-written request should not fail for it.

use std::mem::MaybeUninit;

/// The longest head that is taken, in bytes; a longer one is answered with 431.
pub const MAX_HEAD: usize = 64 * 1024;
/// The most header fields that are taken; more are answered with 431.
const MAX_HEADERS: usize = 256;

/// A complete head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head<'a> {
    /// Bytes of it, its empty line included.
    pub len: usize,
    /// The request's target as it was sent.
    pub target: &'a str,
    /// The answer has no body: the method is `HEAD`.
    pub head_only: bool,
    /// Whether the connection is kept.
    pub keep: Keep,
    /// What follows the head.
    pub framing: Framing,
    /// The client waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
}

/// Whether the connection is kept after the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Keep {
    /// It is, as HTTP/1.1 has it; the answer says nothing about it.
    Implied,
    /// It is, since an HTTP/1.0 client asked for it; the answer says so.
    Said,
    /// It is closed; the answer says so.
    Close,
}

/// How the end of a body is found (RFC 9112, 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is none.
    Empty,
    /// This many bytes, at least 1.
    Length(u64),
    /// Chunked.
    Chunked,
}

/// Why a request is refused; the connection is closed after the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// 400: not HTTP/1.x, or its framing is not certain.
    Malformed,
    /// 431: more than is taken of a head, of trailers or of chunk extensions.
    TooLarge,
}

impl Refusal {
    /// The status of the answer.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::Malformed => 400,
            Self::TooLarge => 431,
        }
    }
}

/// The number of bytes of empty lines before a request, which are skipped (RFC 9112, 2.2).
#[must_use]
pub fn empty_lines(bytes: &[u8]) -> usize {
    bytes.chunks(2).take_while(|line| line == b"\r\n").count() * 2
}

/// Splits the head off the start of `bytes`; `None`: it is not complete yet.
///
/// Only whole lines are looked at, so that the answer is the same wherever the bytes were split.
///
/// # Errors
/// The request is to be refused.
pub fn parse(bytes: &[u8]) -> Result<Option<Head<'_>>, Refusal> {
    let lines = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
    let mut storage = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut []);
    let parsed = request.parse_with_uninit_headers(&bytes[..lines], &mut storage);
    let len = match parsed {
        Ok(httparse::Status::Complete(len)) if len <= MAX_HEAD => len,
        Ok(httparse::Status::Partial) if bytes.len() <= MAX_HEAD => return Ok(None),
        Ok(_) | Err(httparse::Error::TooManyHeaders) => return Err(Refusal::TooLarge),
        Err(_) => return Err(Refusal::Malformed),
    };
    let (Some(method), Some(target), Some(version)) =
        (request.method, request.path, request.version)
    else {
        return Err(Refusal::Malformed);
    };
    // A bare LF is a line end to some and not to others, which is how requests are smuggled; and
    // `PRI` is the start of HTTP/2, never a method (RFC 9113, 3.4).
    if has_bare_lf(&bytes[..len]) || !target.is_ascii() || method == "PRI" {
        return Err(Refusal::Malformed);
    }
    let fields = Fields::read(request.headers)?;
    Ok(Some(Head {
        len,
        target,
        head_only: method == "HEAD",
        keep: fields.keep(version),
        framing: fields.framing(version)?,
        expects_continue: fields.expects_continue && version == 1,
    }))
}

fn has_bare_lf(head: &[u8]) -> bool {
    let mut before = b'\n';
    head.iter().any(|&byte| {
        let bare = byte == b'\n' && before != b'\r';
        before = byte;
        bare
    })
}

/// What the header fields say about framing and the connection.
#[derive(Default)]
struct Fields {
    content_length: Option<u64>,
    /// Codings were named.
    coded: bool,
    /// `chunked` is the last of them.
    chunked: bool,
    host: bool,
    close: bool,
    keep_alive: bool,
    expects_continue: bool,
}

impl Fields {
    fn read(headers: &[httparse::Header<'_>]) -> Result<Self, Refusal> {
        let mut fields = Self::default();
        for header in headers {
            fields.add(header.name, header.value)?;
        }
        Ok(fields)
    }

    fn add(&mut self, name: &str, value: &[u8]) -> Result<(), Refusal> {
        // The lengths of the names that matter are all different.
        match name.len() {
            4 if name.eq_ignore_ascii_case("host") => {
                if self.host {
                    return Err(Refusal::Malformed);
                }
                self.host = true;
            }
            6 if name.eq_ignore_ascii_case("expect") => {
                self.expects_continue |= value.eq_ignore_ascii_case(b"100-continue");
            }
            10 if name.eq_ignore_ascii_case("connection") => {
                for token in elements(value) {
                    self.close |= token.eq_ignore_ascii_case(b"close");
                    self.keep_alive |= token.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            14 if name.eq_ignore_ascii_case("content-length") => {
                for number in elements(value) {
                    let length = decimal(number).ok_or(Refusal::Malformed)?;
                    if self.content_length.is_some_and(|before| before != length) {
                        return Err(Refusal::Malformed);
                    }
                    self.content_length = Some(length);
                }
            }
            17 if name.eq_ignore_ascii_case("transfer-encoding") => {
                self.coded = true;
                for coding in elements(value) {
                    // Chunked ends a body, so that nothing is applied after it, itself included.
                    if self.chunked {
                        return Err(Refusal::Malformed);
                    }
                    self.chunked = coding.eq_ignore_ascii_case(b"chunked");
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn keep(&self, version: u8) -> Keep {
        // Two framings at once: chunked counts, and the connection is not used again.
        let doubtful = self.coded && self.content_length.is_some();
        match version {
            _ if self.close || doubtful => Keep::Close,
            0 if self.keep_alive => Keep::Said,
            0 => Keep::Close,
            _ => Keep::Implied,
        }
    }

    fn framing(&self, version: u8) -> Result<Framing, Refusal> {
        match self.content_length {
            _ if self.coded && (version == 0 || !self.chunked) => Err(Refusal::Malformed),
            _ if self.coded => Ok(Framing::Chunked),
            None | Some(0) => Ok(Framing::Empty),
            Some(length) => Ok(Framing::Length(length)),
        }
    }
}

/// The elements of a comma-separated list, without the white space around them.
fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii)
}

/// A number of decimal digits and nothing else.
fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, &digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn head(text: &str) -> Head<'_> {
        parse(text.as_bytes()).expect("taken").expect("complete")
    }

    fn refused(text: &str) -> Refusal {
        parse(text.as_bytes()).expect_err("refused")
    }

    #[test]
    fn keeps_the_connection_as_the_version_and_the_client_say() {
        for (text, keep) in [
            ("GET / HTTP/1.1\r\n\r\n", Keep::Implied),
            ("GET / HTTP/1.1\r\nConnection: keep-alive\r\n\r\n", Keep::Implied),
            ("GET / HTTP/1.1\r\nConnection: a, Close\t\r\n\r\n", Keep::Close),
            ("GET / HTTP/1.1\r\nConnection: close, keep-alive\r\n\r\n", Keep::Close),
            ("GET / HTTP/1.0\r\n\r\n", Keep::Close),
            ("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", Keep::Said),
        ] {
            assert_eq!(head(text).keep, keep, "{text}");
        }
    }

    #[test]
    fn frames_the_body() {
        let post = |fields: &str| format!("POST / HTTP/1.1\r\n{fields}\r\n");
        for (fields, framing) in [
            ("", Framing::Empty),
            ("Content-Length: 0\r\n", Framing::Empty),
            ("Content-Length: 003\r\n", Framing::Length(3)),
            ("Content-Length: 3\r\nContent-Length: 3\r\n", Framing::Length(3)),
            ("Transfer-Encoding: gzip, Chunked\r\n", Framing::Chunked),
            ("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", Framing::Chunked),
        ] {
            assert_eq!(head(&post(fields)).framing, framing, "{fields}");
        }
        for fields in [
            "Content-Length: 3\r\nContent-Length: 4\r\n",
            "Content-Length:\r\n",
            "Content-Length: +3\r\n",
            "Content-Length: 18446744073709551616\r\n",
            "Transfer-Encoding: chunked, gzip\r\n",
            "Transfer-Encoding: chunked, chunked\r\n",
            "Transfer-Encoding:\r\n",
            "Host: a\r\nHost: a\r\n",
        ] {
            assert_eq!(refused(&post(fields)), Refusal::Malformed, "{fields}");
        }
        let old = "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(refused(old), Refusal::Malformed);
    }

    #[test]
    fn a_doubtful_framing_ends_the_connection() {
        let both = "POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(head(both).keep, Keep::Close);
    }

    #[test]
    fn refuses_what_others_may_read_differently() {
        for text in [
            "GET / HTTP/1.1\nHost: a\n\n",
            "GET / HTTP/1.1\r\nA: b\n\r\n",
            "GET / HTTP/1.1\r\nA : b\r\n\r\n",
            "GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
            "GET /a b HTTP/1.1\r\n\r\n",
            "GET /\u{e4} HTTP/1.1\r\n\r\n",
            "GET / HTTP/2.0\r\n\r\n",
            "GET /\r\n\r\n",
            "PRI * HTTP/1.1\r\n\r\n",
        ] {
            assert_eq!(refused(text), Refusal::Malformed, "{text:?}");
        }
    }

    #[test]
    fn limits_a_head() {
        let long = format!("GET / HTTP/1.1\r\nA: {}\r\n", "b".repeat(MAX_HEAD));
        assert_eq!(refused(&long), Refusal::TooLarge);
        assert_eq!(refused(&format!("{long}\r\n")), Refusal::TooLarge);
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(MAX_HEADERS + 1));
        assert_eq!(refused(&many), Refusal::TooLarge);
    }

    #[test]
    fn skips_empty_lines_only() {
        assert_eq!(empty_lines(b"\r\n\r\nGET"), 4);
        assert_eq!(empty_lines(b"\r"), 0);
        assert_eq!(empty_lines(b"\nGET"), 0);
    }

    #[test]
    fn reads_method_target_and_expectation() {
        let text = "HEAD /bytes/7?x=1 HTTP/1.1\r\nExpect: 100-Continue\r\n\r\nrest";
        let head = head(text);
        assert_eq!((head.len, head.target), (text.len() - 4, "/bytes/7?x=1"));
        assert!(head.head_only && head.expects_continue);
    }

    proptest! {
        #[test]
        fn takes_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(Some(head)) = parse(&bytes) {
                prop_assert!(head.len <= bytes.len());
            }
        }

        #[test]
        fn the_rest_of_the_stream_does_not_change_a_head(
            rest in proptest::collection::vec(any::<u8>(), 0..100)
        ) {
            let text = b"PUT /a HTTP/1.1\r\nContent-Length: 5\r\n\r\n";
            let longer = [&text[..], &rest].concat();
            prop_assert_eq!(parse(&longer), parse(text));
        }
    }
}
