//! Reads what the worker sends, strictly: whatever is wrong with it is the worker's bug.

/// A request whose head has been sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Request {
    pub is_head: bool,
    /// It says `Connection: close`.
    pub close: bool,
    pub target: String,
    /// Where in the connection's stream its head and it end.
    pub head_end: u64,
    pub end: u64,
    /// Index into the truth's requests.
    pub index: usize,
}

/// The requests in one connection's stream of bytes.
#[derive(Default)]
pub(super) struct RequestParser {
    /// A head that is not complete yet.
    head: Vec<u8>,
    body_left: u64,
    /// Bytes seen.
    offset: u64,
}

/// Longer heads are taken for a body that no length announced.
const HEAD_MAX: usize = 1 << 20;
const HEADERS_MAX: usize = 128;

impl RequestParser {
    /// Whether the next byte begins a request.
    pub(super) fn is_between(&self) -> bool {
        self.head.is_empty() && self.body_left == 0
    }

    /// Takes bytes from the front of `bytes`, up to the end of a head or of a body.
    pub(super) fn feed(&mut self, bytes: &mut &[u8]) -> Option<Request> {
        if self.body_left > 0 {
            let taken = self.body_left.min(bytes.len() as u64);
            self.body_left -= taken;
            self.offset += taken;
            *bytes = &bytes[taken as usize..];
            return None;
        }
        let before = self.head.len();
        self.head.extend_from_slice(bytes);
        let search_from = before.saturating_sub(3);
        let Some(at) = self.head[search_from..].windows(4).position(|four| four == b"\r\n\r\n")
        else {
            assert!(
                self.head.len() < HEAD_MAX,
                "worker bug: {HEAD_MAX} bytes and no end of a head"
            );
            self.offset += bytes.len() as u64;
            *bytes = &[];
            return None;
        };
        let head_len = search_from + at + 4;
        let taken = head_len - before;
        self.offset += taken as u64;
        *bytes = &bytes[taken..];
        let (mut request, body_len) = parsed(&self.head[..head_len]);
        self.head.clear();
        self.body_left = body_len;
        request.head_end = self.offset;
        request.end = self.offset + body_len;
        Some(request)
    }
}

/// A head, and the length of the body that follows.
fn parsed(head: &[u8]) -> (Request, u64) {
    let text = || head.escape_ascii().to_string();
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parser = httparse::Request::new(&mut headers);
    match parser.parse(head) {
        Ok(httparse::Status::Complete(len)) if len == head.len() => {}
        other => panic!("worker bug: a torn or malformed request ({other:?}): {}", text()),
    }
    assert_eq!(parser.version, Some(1), "worker bug: not HTTP/1.1: {}", text());
    let mut request = Request {
        is_head: parser.method == Some("HEAD"),
        target: parser.path.unwrap_or_default().to_owned(),
        ..Request::default()
    };
    let mut body_len = None;
    let mut hosts = 0;
    for header in parser.headers.iter() {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        if is("host") {
            hosts += 1;
        } else if is("connection") {
            request.close |= header.value.eq_ignore_ascii_case(b"close");
        } else if is("content-length") {
            let value = std::str::from_utf8(header.value).ok().and_then(|value| value.parse().ok());
            let value: u64 = value
                .unwrap_or_else(|| panic!("worker bug: content-length is no number: {}", text()));
            assert!(body_len.replace(value).is_none(), "worker bug: two lengths: {}", text());
        } else {
            assert!(!is("transfer-encoding"), "chunked requests are not modelled: {}", text());
        }
    }
    assert_eq!(hosts, 1, "worker bug: a request has one Host header: {}", text());
    (request, body_len.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const POST: &[u8] = b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc";
    const HEAD: &[u8] = b"HEAD /b HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

    #[test]
    fn requests_are_found_however_they_are_split() {
        let stream = [POST, HEAD].concat();
        for cut in 0..=stream.len() {
            let mut parser = RequestParser::default();
            let mut found = Vec::new();
            for mut part in [&stream[..cut], &stream[cut..]] {
                while !part.is_empty() {
                    found.extend(parser.feed(&mut part));
                }
            }
            assert!(parser.is_between());
            let post_len = POST.len() as u64;
            let [post, head] = &found[..] else { panic!("{found:?}") };
            assert_eq!((post.head_end, post.end), (post_len - 3, post_len));
            assert_eq!((post.is_head, post.close, &post.target[..]), (false, false, "/a"));
            assert_eq!(head.end, stream.len() as u64);
            assert_eq!((head.is_head, head.close, &head.target[..]), (true, true, "/b"));
        }
    }

    #[test]
    #[should_panic(expected = "torn or malformed")]
    fn a_torn_request_is_the_workers_bug() {
        let mut stream: &[u8] = b"GET / HTTP/1.1\r\nHost: GET / HTTP/1.1\r\nh\r\n\r\n";
        RequestParser::default().feed(&mut stream);
    }
}
