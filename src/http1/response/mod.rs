//! Scans one response at a time out of any pieces of it: no I/O, no clock.
//!
//! The usual case is a whole small response in one piece. It is scanned in place: the head is
//! parsed once, the body is only counted, nothing is copied or allocated. A head that is cut is
//! gathered in a buffer that the caller lends and that has no capacity at any other time.

mod chunked;
mod head;
#[cfg(test)]
mod tests;

use chunked::Dechunker;
use head::{Coding, Head, Parsed, Persistence, SplitHead};
pub use head::{HEAD_LIMIT, HEADERS_LIMIT};

use crate::stats::recorder::Encoding;
use crate::stats::{FaultKind, Phase};

/// How many bytes of a malformed part an error keeps.
pub const EXAMPLE_BYTES: usize = 64;

/// What a piece of input came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// All of it belongs to the response, which goes on.
    More,
    /// The response is complete.
    Done {
        /// Bytes of the piece that belong to it; nobody asked for those after.
        used: usize,
    },
}

/// What the next byte of a response belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// A head: the final one, or an interim one before it.
    Head,
    /// A body of which so many bytes are still to come, at least 1.
    Exactly(u64),
    /// A chunked body.
    Chunked,
    /// A body that ends with the connection.
    UntilClose,
    /// Nothing: the response is complete.
    Done,
}

/// Why a response is not one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanError {
    /// [`Phase::Head`] or [`Phase::Body`].
    pub phase: Phase,
    /// [`FaultKind::Malformed`], [`FaultKind::TooLarge`], [`FaultKind::Truncated`] or
    /// [`FaultKind::Closed`].
    pub kind: FaultKind,
    /// Which part of the response, such as "chunk-size".
    pub detail: &'static str,
    /// The first bytes of that part which had arrived, at most [`EXAMPLE_BYTES`]: of a head from
    /// its first byte on, of a body from the offending byte on.
    pub bytes: Vec<u8>,
}

impl ScanError {
    #[cold]
    fn new(phase: Phase, kind: FaultKind, detail: &'static str, bytes: &[u8]) -> Self {
        let bytes = bytes[..bytes.len().min(EXAMPLE_BYTES)].to_vec();
        Self { phase, kind, detail, bytes }
    }
}

/// Scans one response.
///
/// A scanner whose `feed` or `finish` gave an error has nothing more to say; the connection is to
/// be closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scanner {
    stage: Stage,
    dechunker: Dechunker,
    split: SplitHead,
    /// Bytes of body so far, after de-chunking.
    body: u64,
    interims: u32,
    status: u16,
    headers: u16,
    encoding: Encoding,
    head_request: bool,
    started: bool,
    keep_alive: bool,
    says_close: bool,
}

impl Scanner {
    /// For the response to one request; `head_request` where its method is HEAD, whose response
    /// has no body whatever its head says.
    #[must_use]
    pub fn new(head_request: bool) -> Self {
        Self {
            stage: Stage::Head,
            dechunker: Dechunker::default(),
            split: SplitHead::default(),
            body: 0,
            interims: 0,
            status: 0,
            headers: 0,
            encoding: Encoding::Identity,
            head_request,
            started: false,
            keep_alive: false,
            says_close: false,
        }
    }

    /// Takes the next piece of the stream, of any length.
    ///
    /// `carry` belongs to the connection and goes with every call for the same response: it holds
    /// a head that is cut, and is empty and without capacity whenever none is.
    ///
    /// # Errors
    ///
    /// Malformed or too large. The answer does not depend on how the stream is cut: a line of a head
    /// is judged when it is complete (the first one earlier if it does not begin like a response),
    /// the framing of a body byte by byte.
    #[inline]
    pub fn feed(&mut self, carry: &mut Vec<u8>, bytes: &[u8]) -> Result<Step, ScanError> {
        self.started |= !bytes.is_empty();
        let mut used = 0;
        while self.stage == Stage::Head {
            if used == bytes.len() {
                return Ok(Step::More);
            }
            used += self.feed_head(carry, &bytes[used..])?;
        }
        let rest = &bytes[used..];
        match self.stage {
            Stage::Chunked => {
                let (taken, ended) = self.dechunker.push(rest, &mut self.body)?;
                if !ended {
                    return Ok(Step::More);
                }
                self.stage = Stage::Done;
                Ok(Step::Done { used: used + taken })
            }
            _ => Ok(match self.skip(rest.len() as u64) {
                Step::More => Step::More,
                Step::Done { used: taken } => Step::Done { used: used + taken },
            }),
        }
    }

    /// The stream ended in order: fine after a complete response, and where that is what ends the
    /// body.
    ///
    /// # Errors
    ///
    /// Of phase head: closed if nothing of a head had come, malformed with its bytes if something
    /// had. Of phase body: truncated.
    pub fn finish(&mut self, carry: &mut Vec<u8>) -> Result<(), ScanError> {
        let unfinished = std::mem::take(carry);
        match self.stage {
            Stage::Done => Ok(()),
            Stage::UntilClose => {
                self.stage = Stage::Done;
                Ok(())
            }
            Stage::Head if unfinished.is_empty() => {
                Err(ScanError::new(Phase::Head, FaultKind::Closed, "", &[]))
            }
            Stage::Head => {
                self.split = SplitHead::default();
                Err(ScanError::new(Phase::Head, FaultKind::Malformed, "head-cut", &unfinished))
            }
            Stage::Exactly(_) | Stage::Chunked => {
                Err(ScanError::new(Phase::Body, FaultKind::Truncated, "", &[]))
            }
        }
    }

    /// So many bytes of body were received and thrown away elsewhere; allowed in
    /// [`Stage::Exactly`] and [`Stage::UntilClose`], elsewhere without effect.
    #[inline]
    pub fn skip(&mut self, n: u64) -> Step {
        match self.stage {
            Stage::Exactly(left) if n < left => {
                self.body += n;
                self.stage = Stage::Exactly(left - n);
                Step::More
            }
            Stage::Exactly(left) => {
                self.body += left;
                self.stage = Stage::Done;
                // No more than `n`, which is a length in memory or was received in one go.
                Step::Done { used: left as usize }
            }
            Stage::UntilClose => {
                self.body += n;
                Step::More
            }
            Stage::Done => Step::Done { used: 0 },
            Stage::Head | Stage::Chunked => Step::More,
        }
    }

    /// What the next byte belongs to.
    #[must_use]
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// The final status, 100 to 599; 0 before its head is complete.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Bytes of body so far, after de-chunking.
    #[must_use]
    pub fn body(&self) -> u64 {
        self.body
    }

    /// Whether the connection may carry another request after this response (RFC 9112, 9.3): not
    /// where the server closes, where the end of the connection ends the body, where
    /// `Transfer-Encoding` came with `Content-Length` or over HTTP/1.0, and after 101.
    #[must_use]
    pub fn keep_alive(&self) -> bool {
        self.keep_alive
    }

    /// Whether the server said that it closes: `Connection: close`, or HTTP/1.0 without
    /// `keep-alive`.
    #[must_use]
    pub fn says_close(&self) -> bool {
        self.says_close
    }

    /// How the body is encoded.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Interim responses before the final one.
    #[must_use]
    pub fn interims(&self) -> u32 {
        self.interims
    }

    /// Header fields of the final head.
    #[must_use]
    pub fn headers_count(&self) -> usize {
        usize::from(self.headers)
    }

    /// Whether any byte has come.
    #[must_use]
    pub fn started(&self) -> bool {
        self.started
    }

    /// Takes what belongs to one head out of `bytes`: how many bytes that was.
    #[inline]
    fn feed_head(&mut self, carry: &mut Vec<u8>, bytes: &[u8]) -> Result<usize, ScanError> {
        if carry.is_empty() {
            match head::parse(bytes) {
                Parsed::Complete(head, length) => {
                    self.end_head(&head);
                    return Ok(length);
                }
                Parsed::Refused(kind, detail) => return Err(head::fault((kind, detail), bytes)),
                Parsed::Unclear => {}
            }
        }
        self.gather_head(carry, bytes)
    }

    /// The same for a head that is cut, or malformed.
    #[cold]
    fn gather_head(&mut self, carry: &mut Vec<u8>, bytes: &[u8]) -> Result<usize, ScanError> {
        let pushed = self.split.push(carry, bytes);
        if let Ok((used, false)) = pushed {
            return Ok(used);
        }
        self.split = SplitHead::default();
        let whole = std::mem::take(carry);
        match (pushed, head::parse(&whole)) {
            (Ok((used, _)), Parsed::Complete(head, _)) => {
                self.end_head(&head);
                Ok(used)
            }
            (Err(fault), _) => Err(head::fault(fault, &whole)),
            (_, Parsed::Refused(kind, detail)) => Err(head::fault((kind, detail), &whole)),
            (_, Parsed::Unclear) => Err(head::fault((FaultKind::Malformed, "header"), &whole)),
        }
    }

    /// Decides the framing of the body (RFC 9112, 6.3).
    #[inline]
    fn end_head(&mut self, head: &Head) {
        if head::is_interim(head.status) {
            self.interims = self.interims.saturating_add(1);
            return;
        }
        self.status = head.status;
        self.headers = head.headers;
        self.encoding = head.encoding;
        self.says_close = head.connection == Persistence::Ends;
        let bodiless = self.head_request || matches!(head.status, 101 | 204 | 304);
        self.stage = match (head.coding, head.length) {
            _ if bodiless => Stage::Done,
            (Some(Coding::Chunked), _) => Stage::Chunked,
            (Some(Coding::Other), _) | (None, None) => Stage::UntilClose,
            (None, Some(0)) => Stage::Done,
            (None, Some(length)) => Stage::Exactly(length),
        };
        self.keep_alive = head.connection == Persistence::Stays
            && self.stage != Stage::UntilClose
            && !(head.coding.is_some() && head.length.is_some())
            && head.status != 101;
    }
}

/// A byte of a field value (RFC 9110, 5.5).
fn is_value_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}
