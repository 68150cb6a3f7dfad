//! Encodes a request once, at the start; the same bytes are sent each time.

use std::fmt;

use super::is_token_byte;

/// Why a request cannot be encoded: it would not arrive as what was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// The method is no token.
    Method(String),
    /// The target is empty or has a byte that ends it early.
    Target(String),
    /// The name of a header is no token.
    HeaderName(String),
    /// The value of the header of this name has a line end or a NUL.
    HeaderValue(String),
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Method(method) => write!(
                f,
                "method {method:?} is not a word of letters, digits and !#$%&'*+-.^_`|~; \
                 give one such as GET"
            ),
            Self::Target(target) if target.is_empty() => {
                f.write_str("the request target is empty; give at least \"/\"")
            }
            Self::Target(target) => write!(
                f,
                "request target {target:?} has a space or a control character; \
                 percent-encode it (a space is %20)"
            ),
            Self::HeaderName(name) => write!(
                f,
                "header name {name:?} is not a word of letters, digits and !#$%&'*+-.^_`|~; \
                 give \"Name: value\""
            ),
            // The value may be a secret.
            Self::HeaderValue(name) => write!(
                f,
                "the value of header {name:?} has a line end or a NUL; give each header on its own"
            ),
        }
    }
}

impl std::error::Error for RequestError {}

/// The bytes of a request: the request line, the headers as given and in their order, what framing
/// needs beyond them, and the body.
///
/// `Content-Length` is added where there is a body, and as 0 for a POST, PUT or PATCH without one
/// (RFC 9110, 8.6), unless the headers have it or `Transfer-Encoding`. With `close`, the request
/// says `Connection: close`: where no `Connection` header does so already, one is added, and a
/// `keep-alive` in the others is left out. `Host` is not added.
///
/// # Errors
///
/// A part has bytes that would break the framing.
pub fn encode<'a, I>(
    method: &str,
    target: &str,
    headers: I,
    body: Option<&[u8]>,
    close: bool,
) -> Result<Vec<u8>, RequestError>
where
    I: IntoIterator<Item = (&'a str, &'a [u8])>,
{
    if !is_token(method) {
        return Err(RequestError::Method(method.to_owned()));
    }
    if target.is_empty() || target.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return Err(RequestError::Target(target.to_owned()));
    }
    let headers: Vec<_> = headers.into_iter().collect();
    for (name, value) in &headers {
        check_header(name, value)?;
    }
    let has = |name: &str| headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
    let has_close = headers.iter().any(|(name, value)| {
        is_connection(name) && tokens(value).any(|token| token.eq_ignore_ascii_case(b"close"))
    });
    let add_close = close && !has_close;

    let mut bytes = Vec::with_capacity(256 + body.map_or(0, <[u8]>::len));
    for part in [method, " ", target, " HTTP/1.1\r\n"] {
        bytes.extend_from_slice(part.as_bytes());
    }
    for (name, value) in &headers {
        if add_close && is_connection(name) {
            let kept: Vec<_> =
                tokens(value).filter(|token| !token.eq_ignore_ascii_case(b"keep-alive")).collect();
            if !kept.is_empty() {
                push_header(&mut bytes, name, &kept.join(&b", "[..]));
            }
        } else {
            push_header(&mut bytes, name, value);
        }
    }
    if let Some(length) = content_length(method, body)
        && !has("Content-Length")
        && !has("Transfer-Encoding")
    {
        push_header(&mut bytes, "Content-Length", length.to_string().as_bytes());
    }
    if add_close {
        push_header(&mut bytes, "Connection", b"close");
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body.unwrap_or_default());
    Ok(bytes)
}

/// Whether a request may be sent a second time without doing more than once (RFC 9110, 9.2.2).
#[must_use]
pub fn is_idempotent(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PUT" | "DELETE")
}

/// Whether the response to this method has no body whatever its head says.
#[must_use]
pub fn is_head(method: &str) -> bool {
    method == "HEAD"
}

fn check_header(name: &str, value: &[u8]) -> Result<(), RequestError> {
    if !is_token(name) {
        return Err(RequestError::HeaderName(name.to_owned()));
    }
    if value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
        return Err(RequestError::HeaderValue(name.to_owned()));
    }
    Ok(())
}

/// The length that has to be said, if any.
fn content_length(method: &str, body: Option<&[u8]>) -> Option<usize> {
    match body {
        Some(body) => Some(body.len()),
        None => matches!(method, "POST" | "PUT" | "PATCH").then_some(0),
    }
}

fn push_header(bytes: &mut Vec<u8>, name: &str, value: &[u8]) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        bytes.extend_from_slice(part);
    }
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_token_byte)
}

fn is_connection(name: &str) -> bool {
    name.eq_ignore_ascii_case("connection")
}

fn tokens(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(
        method: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
        close: bool,
    ) -> Result<String, RequestError> {
        let headers = headers.iter().map(|&(name, value)| (name, value.as_bytes()));
        encode(method, "/a?b=c", headers, body.map(str::as_bytes), close)
            .map(|bytes| String::from_utf8(bytes).expect("the test's parts are text"))
    }

    #[test]
    fn headers_go_out_as_given_and_nothing_is_added_to_a_get() {
        assert_eq!(
            text("GET", &[("Host", "a.example"), ("X-Empty", "")], None, false).unwrap(),
            "GET /a?b=c HTTP/1.1\r\nHost: a.example\r\nX-Empty: \r\n\r\n"
        );
    }

    #[test]
    fn a_body_has_a_length_unless_the_user_framed_it() {
        for (method, headers, body, expected) in [
            ("POST", &[][..], Some("xyz"), "Content-Length: 3\r\n\r\nxyz"),
            ("GET", &[], Some("xyz"), "Content-Length: 3\r\n\r\nxyz"),
            ("GET", &[], Some(""), "Content-Length: 0\r\n\r\n"),
            ("POST", &[], None, "Content-Length: 0\r\n\r\n"),
            ("PUT", &[], None, "Content-Length: 0\r\n\r\n"),
            ("PATCH", &[], None, "Content-Length: 0\r\n\r\n"),
            ("DELETE", &[], None, "\r\n"),
            ("POST", &[("content-length", "9")], Some("xyz"), "content-length: 9\r\n\r\nxyz"),
            (
                "POST",
                &[("Transfer-Encoding", "chunked")],
                Some("0\r\n\r\n"),
                "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            ),
        ] {
            let expected = format!("{method} /a?b=c HTTP/1.1\r\n{expected}");
            assert_eq!(text(method, headers, body, false).unwrap(), expected);
        }
    }

    #[test]
    fn close_is_said_once() {
        for (headers, expected) in [
            (&[][..], "Connection: close\r\n"),
            (&[("Connection", "keep-alive")], "Connection: close\r\n"),
            (&[("connection", "Close")], "connection: Close\r\n"),
            (
                &[("Connection", "foo, Keep-Alive, bar")],
                "Connection: foo, bar\r\nConnection: close\r\n",
            ),
            (
                &[("Connection", "keep-alive"), ("Connection", "x, close")],
                "Connection: keep-alive\r\nConnection: x, close\r\n",
            ),
        ] {
            let expected = format!("GET /a?b=c HTTP/1.1\r\n{expected}\r\n");
            assert_eq!(text("GET", headers, None, true).unwrap(), expected);
        }
        assert!(
            text("GET", &[("Connection", "close")], None, false).unwrap().contains("close"),
            "what the user says stays without a reason of our own"
        );
    }

    #[test]
    fn what_would_break_the_framing_is_refused() {
        let encode_target = |target| encode("GET", target, [], None, false);
        for target in ["", "/a b", "/a\r\nX: y", "/a\nb", "/\0", "/\t", "/\x7f"] {
            assert_eq!(encode_target(target), Err(RequestError::Target(target.to_owned())));
        }
        assert!(encode_target("/caf\u{e9}?q=%20").is_ok());
        for method in ["", "GE T", "GET\r", "G\u{e9}T", "GET:"] {
            assert_eq!(
                encode(method, "/", [], None, false),
                Err(RequestError::Method(method.to_owned()))
            );
        }
        for name in ["", "X Y", "X:", "X\r\nY", " X", "X\0"] {
            let refused = Err(RequestError::HeaderName(name.to_owned()));
            assert_eq!(text("GET", &[(name, "v")], None, false), refused);
        }
        for value in ["a\r\nEvil: 1", "a\n", "\r", "\0"] {
            let refused = Err(RequestError::HeaderValue("X".to_owned()));
            assert_eq!(text("GET", &[("X", value)], None, false), refused);
        }
    }

    #[test]
    fn errors_say_what_is_wrong_and_the_remedy_but_no_secret() {
        let refused = text("GET", &[("Authorization", "secret\n")], None, false).unwrap_err();
        assert!(refused.to_string().contains("Authorization"));
        assert!(!refused.to_string().contains("secret"));
        let refused = encode("GET", "/a b", [], None, false).unwrap_err();
        assert!(refused.to_string().contains("%20"));
    }

    #[test]
    fn a_server_reads_back_what_was_encoded() {
        let bytes = text("POST", &[("Host", "h"), ("Accept", "*/*")], Some("body"), true).unwrap();
        let mut headers = [httparse::EMPTY_HEADER; 8];
        let mut request = httparse::Request::new(&mut headers);
        let head = request.parse(bytes.as_bytes()).unwrap().unwrap();
        assert_eq!(&bytes[head..], "body");
        assert_eq!((request.method, request.path), (Some("POST"), Some("/a?b=c")));
        assert_eq!(request.headers.len(), 4);
    }

    #[test]
    fn methods_are_case_sensitive() {
        for method in ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"] {
            assert!(is_idempotent(method), "{method}");
        }
        for method in ["POST", "PATCH", "CONNECT", "get", "FOO"] {
            assert!(!is_idempotent(method), "{method}");
        }
        assert!(is_head("HEAD") && !is_head("head") && !is_head("GET"));
    }
}
