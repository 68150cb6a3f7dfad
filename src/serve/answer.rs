//! The bytes of the answers.

use std::io::Write;

use super::request::Keep;

/// Bytes of one period of the filler, which bodies are made of.
const PERIOD: usize = 64;
/// The filler's period: text, so that a body can be looked at.
const PATTERN: &[u8; PERIOD] = b"ringload ringload ringload ringload ringload ringload ringload.\n";
/// Bytes of body in a chunk of a chunked answer.
pub const CHUNK: u64 = 8 * 1024;
/// The most bytes of body that `/truncate/N` sends before it closes.
const MAX_TRUNCATED: u64 = 64 * 1024;
/// What ends a chunked body.
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";
/// What a client is told that speaks plain HTTP where TLS is spoken.
const NOT_TLS: &[u8] = b"The plain HTTP request was sent to the HTTPS port.\n";
/// What asks the client for the body that it holds back.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// What an answer carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// `ok`
    Ok,
    /// This many bytes.
    Bytes(u64),
    /// This many bytes, in chunks.
    Chunked(u64),
    /// This status.
    Status(u16),
    /// A head for this many bytes, and half of them at most.
    Truncated(u64),
    /// 400, because plain HTTP came where TLS is spoken.
    NotTls,
}

/// An answer that never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Answer {
    /// What it carries.
    pub content: Content,
    /// Without its body: the answer to `HEAD`.
    pub head_only: bool,
    /// Whether the connection is kept.
    pub keep: Keep,
}

impl Answer {
    /// Bytes of the body as it is sent, chunks not counted.
    #[must_use]
    pub fn body_len(&self) -> u64 {
        match self.content {
            _ if self.head_only => 0,
            Content::Ok => 2,
            Content::Bytes(n) | Content::Chunked(n) => n,
            Content::Status(204 | 304) => 0,
            Content::Status(_) => 3,
            Content::Truncated(n) => (n / 2).min(MAX_TRUNCATED),
            Content::NotTls => NOT_TLS.len() as u64,
        }
    }

    /// The head.
    #[must_use]
    pub fn head(&self) -> Vec<u8> {
        let status = match self.content {
            Content::Status(code) => code,
            Content::NotTls => 400,
            _ => 200,
        };
        let mut out = format!("HTTP/1.1 {status} {}\r\n", reason(status)).into_bytes();
        match self.content {
            Content::Status(204 | 304) => {}
            Content::Chunked(_) => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
            Content::Ok => push_length(&mut out, 2),
            Content::Status(_) => push_length(&mut out, 3),
            Content::Bytes(n) | Content::Truncated(n) => push_length(&mut out, n),
            Content::NotTls => push_length(&mut out, NOT_TLS.len() as u64),
        }
        push_keep(&mut out, self.keep);
        out.extend_from_slice(b"\r\n");
        out
    }

    /// Head and body in one.
    #[must_use]
    pub fn whole(&self) -> Vec<u8> {
        let mut out = self.head();
        let len = self.body_len();
        match self.content {
            _ if self.head_only => {}
            Content::Ok => out.extend_from_slice(b"ok"),
            Content::Bytes(_) | Content::Truncated(_) => push_filler(&mut out, len),
            Content::Chunked(_) => {
                push_chunks(&mut out, len / CHUNK);
                push_last_chunks(&mut out, len % CHUNK);
            }
            Content::NotTls => out.extend_from_slice(NOT_TLS),
            Content::Status(204 | 304) => {}
            Content::Status(code) => out.extend_from_slice(code.to_string().as_bytes()),
        }
        out
    }
}

/// An answer of JSON.
#[must_use]
pub fn json(text: &str, head_only: bool, keep: Keep) -> Vec<u8> {
    let mut out = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n".to_vec();
    push_length(&mut out, text.len() as u64);
    push_keep(&mut out, keep);
    out.extend_from_slice(b"\r\n");
    if !head_only {
        out.extend_from_slice(text.as_bytes());
    }
    out
}

/// `len` bytes of filler, which begin and end anywhere in its period.
pub fn push_filler(out: &mut Vec<u8>, len: u64) {
    let mut left = len as usize;
    while left > 0 {
        let part = left.min(PERIOD);
        out.extend_from_slice(&PATTERN[..part]);
        left -= part;
    }
}

/// `count` full chunks.
pub fn push_chunks(out: &mut Vec<u8>, count: u64) {
    for _ in 0..count {
        push_chunk(out, CHUNK);
    }
}

/// A chunk of what is left over, if any, and the end of the body.
pub fn push_last_chunks(out: &mut Vec<u8>, left: u64) {
    if left > 0 {
        push_chunk(out, left);
    }
    out.extend_from_slice(LAST_CHUNK);
}

fn push_chunk(out: &mut Vec<u8>, len: u64) {
    let _ = write!(out, "{len:x}\r\n");
    push_filler(out, len);
    out.extend_from_slice(b"\r\n");
}

fn push_length(out: &mut Vec<u8>, length: u64) {
    let _ = write!(out, "Content-Length: {length}\r\n");
}

fn push_keep(out: &mut Vec<u8>, keep: Keep) {
    out.extend_from_slice(match keep {
        Keep::Implied => b"",
        Keep::Said => b"Connection: keep-alive\r\n".as_slice(),
        Keep::Close => b"Connection: close\r\n",
    });
}

/// The reason phrases of the statuses that load tests meet; it may be empty (RFC 9112, 4).
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        410 => "Gone",
        413 => "Content Too Large",
        418 => "I'm a teapot",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(content: Content, head_only: bool, keep: Keep) -> String {
        String::from_utf8(Answer { content, head_only, keep }.whole()).expect("text")
    }

    #[test]
    fn answers_are_what_they_say() {
        assert_eq!(
            text(Content::Ok, false, Keep::Implied),
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
        );
        assert_eq!(
            text(Content::Status(503), false, Keep::Close),
            "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 3\r\nConnection: close\r\n\r\n503"
        );
        assert_eq!(
            text(Content::Status(204), false, Keep::Said),
            "HTTP/1.1 204 No Content\r\nConnection: keep-alive\r\n\r\n"
        );
        assert_eq!(
            text(Content::Bytes(700), true, Keep::Implied),
            "HTTP/1.1 200 OK\r\nContent-Length: 700\r\n\r\n"
        );
    }

    #[test]
    fn a_truncated_answer_sends_less_than_it_says() {
        let sent = text(Content::Truncated(1), false, Keep::Close);
        assert!(sent.contains("Content-Length: 1\r\n") && sent.ends_with("\r\n\r\n"));
        let answer =
            Answer { content: Content::Truncated(1 << 40), head_only: false, keep: Keep::Close };
        assert_eq!(answer.body_len(), MAX_TRUNCATED);
    }

    #[test]
    fn chunks_carry_the_length() {
        let sent = text(Content::Chunked(CHUNK + 3), false, Keep::Implied);
        let (_, body) = sent.split_once("\r\n\r\n").expect("a head");
        let (first, rest) = body.split_once("\r\n").expect("a size");
        assert_eq!(first, "2000");
        assert_eq!(&rest[CHUNK as usize..], "\r\n3\r\nrin\r\n0\r\n\r\n");
        assert!(text(Content::Chunked(0), false, Keep::Implied).ends_with("\r\n\r\n0\r\n\r\n"));
    }

    #[test]
    fn filler_has_the_length() {
        let mut out = Vec::new();
        push_filler(&mut out, 130);
        assert_eq!(out.len(), 130);
        assert_eq!(out[..2], out[128..]);
    }
}
