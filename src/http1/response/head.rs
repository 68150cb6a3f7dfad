//! The head of a response: where it ends, and what of it decides the framing.

use std::mem::MaybeUninit;

use httparse::{Error, Header, ParserConfig, Response, Status};

use super::{ScanError, is_value_byte};
use crate::stats::recorder::Encoding;
use crate::stats::{FaultKind, Phase};

/// The longest head in bytes, from its first byte to the end of its blank line.
pub const HEAD_LIMIT: usize = 64 * 1024;

/// The most header fields of one head.
pub const HEADERS_LIMIT: usize = 256;

/// Room for header fields at the first try. It is never initialised, so its size costs stack only;
/// responses with more fields are parsed a second time.
const HEADERS_USUAL: usize = 64;

/// What every response begins with.
const START: &[u8] = b"HTTP/1.";

/// What a complete head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// 100 to 599.
    pub status: u16,
    /// Number of header fields.
    pub headers: u16,
    /// `Content-Length`, if there is one.
    pub length: Option<u64>,
    /// `Transfer-Encoding`, if there is one.
    pub coding: Option<Coding>,
    /// What the sender says of the connection.
    pub connection: Persistence,
    /// `Content-Encoding`.
    pub encoding: Encoding,
}

/// How `Transfer-Encoding` ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    /// Its last coding is `chunked`.
    Chunked,
    /// Its last coding is another: the body runs to the end of the connection.
    Other,
}

/// What the sender says of the connection after this response (RFC 9112, 9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Persistence {
    /// It stays.
    Stays,
    /// It stays, but HTTP/1.0 with `Transfer-Encoding` is faulty framing (RFC 9112, 6.1).
    Doubtful,
    /// It ends: `close`, or HTTP/1.0 without `keep-alive`.
    Ends,
}

/// A piece of input that starts with a head.
pub(super) enum Parsed {
    /// The head and its length in bytes.
    Complete(Head, usize),
    /// Not complete, or not a head: [`SplitHead`] tells.
    Unclear,
    /// Complete and not acceptable.
    Refused(FaultKind, &'static str),
}

/// Parses a head that `bytes` starts with.
#[inline]
pub(super) fn parse(bytes: &[u8]) -> Parsed {
    match parse_with::<HEADERS_USUAL>(bytes) {
        Err(Error::TooManyHeaders) => parse_with::<HEADERS_LIMIT>(bytes).unwrap_or(Parsed::Unclear),
        parsed => parsed.unwrap_or(Parsed::Unclear),
    }
}

#[inline]
fn parse_with<const N: usize>(bytes: &[u8]) -> Result<Parsed, Error> {
    let mut config = ParserConfig::default();
    // RFC 9112, 5.2: a user agent takes a folded line for a space.
    config.allow_obsolete_multiline_headers_in_responses(true);
    let mut fields = [const { MaybeUninit::<Header<'_>>::uninit() }; N];
    let mut response = Response::new(&mut []);
    let parsed = config.parse_response_with_uninit_headers(&mut response, bytes, &mut fields)?;
    Ok(match parsed {
        Status::Complete(length) if length <= HEAD_LIMIT => match read(&response) {
            Ok(head) => Parsed::Complete(head, length),
            Err((kind, detail)) => Parsed::Refused(kind, detail),
        },
        _ => Parsed::Unclear,
    })
}

/// Reads the few fields that matter.
#[inline]
fn read(response: &Response<'_, '_>) -> Result<Head, (FaultKind, &'static str)> {
    let status = response.code.unwrap_or_default();
    if !(100..=599).contains(&status) {
        return Err((FaultKind::Malformed, "status"));
    }
    let mut fields = Fields::default();
    for header in response.headers.iter() {
        // The length alone sorts nearly all others out.
        let name = header.name.as_bytes();
        match name.len() {
            10 if is(name, b"connection") => fields.connection(header.value),
            14 if is(name, b"content-length") => fields.length(header.value),
            16 if is(name, b"content-encoding") => fields.encoding(header.value),
            17 if is(name, b"transfer-encoding") => fields.coding(header.value),
            _ => {}
        }
    }
    let head = Head {
        status,
        // At most HEADERS_LIMIT.
        headers: response.headers.len() as u16,
        length: fields.length,
        coding: fields.coding,
        connection: fields.persistence(response.version == Some(0)),
        encoding: fields.encoding.unwrap_or_default(),
    };
    match fields.fault {
        // Where Transfer-Encoding frames the body, nobody reads the length (RFC 9112, 6.3).
        Some(fault) if head.coding.is_none() && !is_interim(status) => Err(fault),
        _ => Ok(head),
    }
}

/// Whether another response follows this one: 1xx, but 101 ends HTTP.
pub(super) fn is_interim(status: u16) -> bool {
    (100..200).contains(&status) && status != 101
}

/// Whether `text` is `lower`, which is in lower case, whatever its own case. Without branches over
/// a length known beforehand, it compiles to a few vector instructions.
#[inline]
fn is<const N: usize>(text: &[u8], lower: &[u8; N]) -> bool {
    let differences = |text: &[u8; N]| {
        text.iter().zip(lower).fold(0, |all, (byte, want)| all | (byte.to_ascii_lowercase() ^ want))
    };
    text.try_into().is_ok_and(|text| differences(text) == 0)
}

/// The fields that matter, as they come.
#[derive(Default)]
struct Fields {
    length: Option<u64>,
    fault: Option<(FaultKind, &'static str)>,
    coding: Option<Coding>,
    encoding: Option<Encoding>,
    close: bool,
    keep_alive: bool,
}

impl Fields {
    /// A list, in one line or several (RFC 9110, 7.6.1).
    fn connection(&mut self, value: &[u8]) {
        // What nearly all servers say.
        if is(value, b"keep-alive") {
            self.keep_alive = true;
            return;
        }
        for token in list(value) {
            self.close |= token.eq_ignore_ascii_case(b"close");
            self.keep_alive |= token.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    /// Equal values may repeat, in one line or several (RFC 9112, 6.3).
    fn length(&mut self, value: &[u8]) {
        for element in value.split(|&byte| byte == b',') {
            match decimal(trim(element)) {
                Ok(length) if self.length.is_none_or(|known| known == length) => {
                    self.length = Some(length);
                }
                Ok(_) => self.fault = self.fault.or(Some((FaultKind::Malformed, "content-length"))),
                Err(kind) => self.fault = self.fault.or(Some((kind, "content-length"))),
            }
        }
    }

    /// The last coding of the last line counts.
    fn coding(&mut self, value: &[u8]) {
        let chunked = list(value).last().is_some_and(|last| last.eq_ignore_ascii_case(b"chunked"));
        self.coding = Some(if chunked { Coding::Chunked } else { Coding::Other });
    }

    fn encoding(&mut self, value: &[u8]) {
        const KNOWN: [(&[u8], Encoding); 5] = [
            (b"gzip", Encoding::Gzip),
            (b"x-gzip", Encoding::Gzip),
            (b"br", Encoding::Brotli),
            (b"zstd", Encoding::Zstd),
            (b"deflate", Encoding::Deflate),
        ];
        for coding in list(value).filter(|coding| !coding.eq_ignore_ascii_case(b"identity")) {
            let known = KNOWN.iter().find(|(name, _)| coding.eq_ignore_ascii_case(name));
            self.encoding = match (self.encoding, known) {
                (None, Some(&(_, encoding))) => Some(encoding),
                _ => Some(Encoding::Other),
            };
        }
    }

    fn persistence(&self, http_1_0: bool) -> Persistence {
        if self.close || (http_1_0 && !self.keep_alive) {
            Persistence::Ends
        } else if http_1_0 && self.coding.is_some() {
            Persistence::Doubtful
        } else {
            Persistence::Stays
        }
    }
}

/// The elements of a comma-separated value, without the empty ones.
fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(trim).filter(|element| !element.is_empty())
}

/// Without spaces around it, nor line ends, which a folded line leaves in a value.
fn trim(element: &[u8]) -> &[u8] {
    element.trim_ascii()
}

fn decimal(digits: &[u8]) -> Result<u64, FaultKind> {
    let mut number = Ok(0_u64);
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(FaultKind::Malformed);
        }
        number = number.and_then(|number: u64| {
            number
                .checked_mul(10)
                .and_then(|tens| tens.checked_add(u64::from(digit)))
                .ok_or(FaultKind::TooLarge)
        });
    }
    if digits.is_empty() { Err(FaultKind::Malformed) } else { number }
}

/// A head that came in pieces, or is not one: gathers it line by line, and looks at each line as
/// soon as it is complete, so that the answer does not depend on where it was cut and takes time
/// in proportion to its length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SplitHead {
    /// Where the line begins that is not complete yet.
    line_start: u32,
    /// Complete header fields.
    headers: u16,
    /// The status line is complete.
    after_status: bool,
}

impl SplitHead {
    /// Takes what belongs to the head out of `bytes`: how many bytes that was, and whether `carry`
    /// now holds a complete head.
    pub fn push(
        &mut self,
        carry: &mut Vec<u8>,
        bytes: &[u8],
    ) -> Result<(usize, bool), (FaultKind, &'static str)> {
        let mut used = 0;
        while used < bytes.len() {
            let rest = &bytes[used..];
            let end = rest.iter().position(|&byte| byte == b'\n').map(|at| at + 1);
            let line = &rest[..end.unwrap_or(rest.len())];
            let fits = line.len().min(HEAD_LIMIT - carry.len());
            carry.extend_from_slice(&line[..fits]);
            used += fits;
            self.check_start(carry)?;
            if fits < line.len() {
                return Err((FaultKind::TooLarge, "head"));
            }
            if end.is_some() && self.end_line(carry)? {
                return Ok((used, true));
            }
        }
        Ok((used, false))
    }

    /// Refuses what does not begin like a response before its first line is complete: a server
    /// that speaks another protocol may wait after it.
    fn check_start(&self, carry: &[u8]) -> Result<(), (FaultKind, &'static str)> {
        if self.after_status {
            return Ok(());
        }
        let line = &carry[self.line_start as usize..];
        let seen = &line[..line.len().min(START.len())];
        if START.starts_with(seen) || line == b"\r" || is_blank(line) {
            return Ok(());
        }
        Err((FaultKind::Malformed, "status-line"))
    }

    /// A line is complete: whether the head is.
    fn end_line(&mut self, carry: &[u8]) -> Result<bool, (FaultKind, &'static str)> {
        let line = &carry[self.line_start as usize..];
        self.line_start = carry.len() as u32;
        if is_blank(line) {
            // Empty lines before the status line are skipped.
            return Ok(self.after_status);
        }
        if !self.after_status {
            self.after_status = true;
            return match Response::new(&mut []).parse(line) {
                Ok(_) => Ok(false),
                Err(_) => Err((FaultKind::Malformed, "status-line")),
            };
        }
        if self.headers > 0 && matches!(line[0], b' ' | b'\t') {
            return if is_folded(line) { Ok(false) } else { Err((FaultKind::Malformed, "header")) };
        }
        if httparse::parse_headers(line, &mut [httparse::EMPTY_HEADER]).is_err() {
            return Err((FaultKind::Malformed, "header"));
        }
        self.headers += 1;
        if usize::from(self.headers) > HEADERS_LIMIT {
            return Err((FaultKind::TooLarge, "headers"));
        }
        Ok(false)
    }
}

fn is_blank(line: &[u8]) -> bool {
    matches!(line, b"\n" | b"\r\n")
}

/// Whether this complete line may continue a value.
fn is_folded(line: &[u8]) -> bool {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line).iter().copied().all(is_value_byte)
}

/// An error in the head; `bytes` is what came of it.
#[cold]
pub(super) fn fault((kind, detail): (FaultKind, &'static str), bytes: &[u8]) -> ScanError {
    ScanError::new(Phase::Head, kind, detail, bytes)
}
