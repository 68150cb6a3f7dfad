//! What the simulated server answers, byte for byte, and what it means.

use std::io::Write as _;

use super::config::{ResponseKind, ServerModel};
use super::dice::Dice;
use super::request::Request;

/// What the server does after the last byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Waits for the next request.
    Open,
    /// Says nothing more, and never closes by itself.
    Silent,
    Fin,
    Reset,
}

/// A response: as it is composed, and then as it is sent.
pub(super) struct Response {
    pub bytes: Vec<u8>,
    /// The bytes that make it complete, `usize::MAX` where nothing does; the rest belongs to no
    /// response.
    pub complete_at: usize,
    pub status: u16,
    /// Bytes of the body, as a client counts them.
    pub body_len: u64,
    /// Whether another request may follow on the connection.
    pub reusable: bool,
    /// Its end can be told without the connection's.
    pub delimited: bool,
    /// Only a part of it is sent.
    pub cut: bool,
    pub end: End,
}

impl Response {
    /// Leaves nothing or a part of what is only sent in part.
    pub(super) fn cut_short(&mut self, dice: &mut Dice) {
        if self.cut {
            self.bytes.truncate(dice.index(self.bytes.len()));
        }
    }
}

/// What a response is composed under.
pub(super) struct Situation {
    pub kind: ResponseKind,
    /// The server closes after it, on its own account.
    pub last: bool,
    /// ... and says so.
    pub announced: bool,
}

/// Text that a scanner which lost its place would take for something.
const BODY: &[u8] = b"\r\n\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n<html>";
const JUNK: [&[u8]; 3] = [b"\r\n", b"x", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"];

pub(super) fn compose(
    model: &ServerModel,
    request: &Request,
    situation: &Situation,
    dice: &mut Dice,
) -> Response {
    let mut draft = Draft {
        bytes: Vec::with_capacity(256),
        status: status(model, situation.kind, dice),
        body_len: 0,
        no_body: request.is_head,
        close: situation.announced,
        delimited: true,
    };
    draft.write(model, situation.kind, dice);
    let Draft { mut bytes, status, body_len, close, delimited, .. } = draft;
    let mut complete_at = bytes.len();
    let reusable = delimited && !close && !request.close && situation.kind.is_complete();
    let mut end = if situation.last || !delimited || (close && !dice.chance(model.fin_never)) {
        End::Fin
    } else if close {
        End::Silent
    } else {
        End::Open
    };
    let mut cut = false;
    match situation.kind {
        ResponseKind::Truncated | ResponseKind::Reset | ResponseKind::Stalled => {
            cut = true;
            end = match situation.kind {
                ResponseKind::Truncated => End::Fin,
                ResponseKind::Reset => End::Reset,
                _ => End::Silent,
            };
        }
        ResponseKind::Never => {
            bytes.clear();
            end = End::Silent;
        }
        ResponseKind::Malformed | ResponseKind::Oversized => {
            end = dice.pick(&[End::Fin, End::Silent, End::Open, End::Reset]);
        }
        ResponseKind::ExtraBytes if delimited => bytes.extend_from_slice(dice.pick(&JUNK)),
        _ => {}
    }
    if !situation.kind.is_complete() {
        complete_at = usize::MAX;
    }
    Response { bytes, complete_at, status, body_len, reusable, delimited, cut, end }
}

fn status(model: &ServerModel, kind: ResponseKind, dice: &mut Dice) -> u16 {
    match kind {
        ResponseKind::NoContent => 204,
        ResponseKind::NotModified => 304,
        ResponseKind::Early => dice.pick(&[200, 413, 417]),
        _ if dice.chance(model.error_status) => dice.pick(&[400, 403, 404, 429, 500, 502, 503]),
        _ => 200,
    }
}

struct Draft {
    bytes: Vec<u8>,
    status: u16,
    body_len: u64,
    /// The answer to a HEAD.
    no_body: bool,
    /// Says `Connection: close`.
    close: bool,
    /// Its end can be told without the connection's.
    delimited: bool,
}

impl Draft {
    fn write(&mut self, model: &ServerModel, kind: ResponseKind, dice: &mut Dice) {
        let (low, high) = model.body_len;
        let small = dice.between(u64::from(low), u64::from(high)) as usize;
        match kind {
            ResponseKind::Large => {
                let (low, high) = model.large_body_len;
                self.with_length(dice.between(u64::from(low), u64::from(high)) as usize, dice);
            }
            ResponseKind::Chunked => self.chunked(small, dice),
            ResponseKind::CloseDelimited => self.close_delimited(small, dice),
            ResponseKind::NoContent => self.bodiless(false),
            ResponseKind::NotModified => self.bodiless(true),
            ResponseKind::Informational => {
                self.informational(dice);
                self.sound(small, dice);
            }
            ResponseKind::Http10 => self.http10(small, dice),
            ResponseKind::AnnouncedClose => {
                self.close = true;
                self.sound(small, dice);
            }
            ResponseKind::Malformed => self.malformed(dice),
            ResponseKind::Oversized => self.oversized(dice),
            ResponseKind::Truncated | ResponseKind::Reset | ResponseKind::Stalled => {
                self.sound(small.max(1), dice);
            }
            ResponseKind::Plain
            | ResponseKind::Never
            | ResponseKind::ExtraBytes
            | ResponseKind::Early => self.with_length(small, dice),
        }
    }

    fn sound(&mut self, len: usize, dice: &mut Dice) {
        if dice.chance(0.5) { self.with_length(len, dice) } else { self.chunked(len, dice) }
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        self.bytes.write_fmt(line).expect("writing to memory does not fail");
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn start(&mut self, version: &str, reason: &str) {
        let status = self.status;
        self.line(format_args!("HTTP/{version} {status} {reason}"));
        if self.close {
            self.line(format_args!("Connection: close"));
        }
    }

    fn end_of_head(&mut self) {
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn fill(&mut self, len: usize) {
        let end = self.bytes.len() + len;
        while self.bytes.len() < end {
            let part = BODY.len().min(end - self.bytes.len());
            self.bytes.extend_from_slice(&BODY[..part]);
        }
    }

    fn body(&mut self, len: usize) {
        if !self.no_body {
            self.fill(len);
            self.body_len = len as u64;
        }
    }

    fn with_length(&mut self, len: usize, dice: &mut Dice) {
        self.start("1.1", dice.pick(&["OK", "", "A reason: of its own"]));
        let name = dice.pick(&["Content-Length", "content-length", "CONTENT-LENGTH"]);
        self.line(format_args!("{name}: {len}"));
        self.end_of_head();
        self.body(len);
    }

    fn chunked(&mut self, len: usize, dice: &mut Dice) {
        self.start("1.1", "OK");
        self.line(format_args!("Transfer-Encoding: chunked"));
        self.end_of_head();
        if self.no_body {
            return;
        }
        self.body_len = len as u64;
        let mut left = len;
        while left > 0 {
            let size = dice.between(1, left as u64) as usize;
            let extension = dice.pick(&["", "", ";a=b", ";q=\"x;y\""]);
            self.line(format_args!("{size:x}{extension}"));
            self.fill(size);
            self.bytes.extend_from_slice(b"\r\n");
            left -= size;
        }
        self.line(format_args!("{}", dice.pick(&["0", "000", "0;last"])));
        for _ in 0..dice.pick(&[0, 0, 1, 3]) {
            self.line(format_args!("X-Trailer: value"));
        }
        self.end_of_head();
    }

    fn close_delimited(&mut self, len: usize, dice: &mut Dice) {
        self.close |= dice.chance(0.5);
        self.start("1.1", "OK");
        self.end_of_head();
        self.body(len);
        self.delimited = self.no_body;
    }

    fn bodiless(&mut self, with_length: bool) {
        self.start("1.1", "Without a body");
        if with_length {
            self.line(format_args!("Content-Length: 1234"));
        }
        self.end_of_head();
    }

    fn informational(&mut self, dice: &mut Dice) {
        for _ in 0..dice.between(1, 3) {
            let line = dice.pick(&["100 Continue", "102 Processing", "103 Early Hints"]);
            self.line(format_args!("HTTP/1.1 {line}"));
            if dice.chance(0.5) {
                self.line(format_args!("Link: </style.css>; rel=preload"));
            }
            self.end_of_head();
        }
    }

    fn http10(&mut self, len: usize, dice: &mut Dice) {
        let keeps = !self.close && dice.chance(0.4);
        self.start("1.0", "OK");
        if keeps {
            self.line(format_args!("Connection: keep-alive"));
        }
        let with_length = keeps || dice.chance(0.5);
        if with_length {
            self.line(format_args!("Content-Length: {len}"));
        }
        self.end_of_head();
        self.body(len);
        self.close |= !keeps;
        self.delimited = with_length || self.no_body;
    }

    fn malformed(&mut self, dice: &mut Dice) {
        const HEADS: [&[u8]; 8] = [
            b"Hello, World!",
            b"HTTP/1.1 OK\r\n\r\n",
            b"HTTP/2 200\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 12x\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
            b"\0\x01\x02\x03\r\n\r\n",
            b"SSH-2.0-OpenSSH_9.9\r\n\r\n",
        ];
        const CHUNKS: [&[u8]; 4] = [b"zz\r\n", b"-1\r\n", b"3\r\nabcdef\r\n", b"\r\n\r\n"];
        if self.no_body || dice.chance(0.6) {
            self.bytes.extend_from_slice(dice.pick(&HEADS));
        } else {
            self.start("1.1", "OK");
            self.line(format_args!("Transfer-Encoding: chunked"));
            self.end_of_head();
            self.bytes.extend_from_slice(dice.pick(&CHUNKS));
        }
    }

    fn oversized(&mut self, dice: &mut Dice) {
        self.start("1.1", "OK");
        match dice.between(if self.no_body { 1 } else { 0 }, 2) {
            0 => {
                self.line(format_args!("Transfer-Encoding: chunked"));
                self.end_of_head();
                self.line(format_args!("{:017x}", 1));
            }
            1 => {
                for index in 0..257 {
                    self.line(format_args!("X-{index}: y"));
                }
                self.end_of_head();
            }
            _ => {
                let padding = "p".repeat(65_536);
                self.line(format_args!("X-Padding: {padding}"));
                self.end_of_head();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn composed(kind: ResponseKind, is_head: bool, seed: u64) -> Response {
        let model = ServerModel::exact(0);
        let request = Request { is_head, ..Request::default() };
        let situation = Situation { kind, last: false, announced: false };
        compose(&model, &request, &situation, &mut Dice::new(seed))
    }

    #[test]
    fn what_is_complete_by_its_kind_is_complete_in_bytes() {
        for kind in ResponseKind::ALL {
            for seed in 0..50 {
                let response = composed(kind, seed % 2 == 0, seed);
                if kind.is_complete() {
                    assert!(response.complete_at <= response.bytes.len(), "{kind:?}");
                } else {
                    assert!(!response.reusable, "{kind:?}");
                }
            }
        }
    }

    #[test]
    fn a_cut_response_never_counts_as_complete() {
        for kind in [ResponseKind::Truncated, ResponseKind::Reset, ResponseKind::Stalled] {
            for seed in 0..50 {
                assert_eq!(composed(kind, false, seed).complete_at, usize::MAX);
            }
        }
    }

    #[test]
    fn an_answer_to_head_has_no_body() {
        for kind in ResponseKind::ALL.into_iter().filter(|kind| kind.is_complete()) {
            for seed in 0..50 {
                let response = composed(kind, true, seed);
                let head = &response.bytes[..response.complete_at];
                assert_eq!(response.body_len, 0, "{kind:?}");
                assert!(head.ends_with(b"\r\n\r\n"), "{kind:?}");
            }
        }
    }

    #[test]
    fn an_end_told_by_the_connection_always_comes() {
        for seed in 0..100 {
            let response = composed(ResponseKind::CloseDelimited, false, seed);
            assert_eq!((response.end, response.reusable), (End::Fin, false));
        }
    }
}
