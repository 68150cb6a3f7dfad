//! URLs as they are typed: an origin, a request target, and perhaps credentials.

use std::fmt;

use percent_encoding::percent_decode_str;
use url::{Host, Url};

use super::Page;

/// A URL in its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedUrl {
    /// Plain or TLS.
    pub scheme: Scheme,
    /// A name (international ones in their ASCII form) or an address, IPv6 without brackets.
    pub host: String,
    /// As typed, else the scheme's own.
    pub port: u16,
    /// The request target: path and query, percent-encoded as they are sent.
    pub target: String,
    /// User and password, if there are any.
    pub credentials: Option<Credentials>,
}

/// What a URL may begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `http`
    Http,
    /// `https`
    Https,
}

/// User and password, decoded. Their `Debug` keeps the password to itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user; may be empty.
    pub user: Vec<u8>,
    /// The password; may be empty.
    pub password: Vec<u8>,
}

impl Scheme {
    /// As it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// The port where none is written.
    #[must_use]
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = String::from_utf8_lossy(&self.user);
        f.debug_struct("Credentials").field("user", &user).finish_non_exhaustive()
    }
}

/// Reads an absolute `http` or `https` URL. A fragment is dropped, since it is never sent.
///
/// # Errors
///
/// If the scheme is missing or another one, the host is missing, or the URL is not one.
pub fn parse_url(text: &str) -> Result<ParsedUrl, UrlError> {
    let text = text.trim();
    let error = |problem| UrlError { text: shown(text), problem };
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err(error(UrlProblem::NoScheme));
    };
    let scheme = match scheme {
        s if s.eq_ignore_ascii_case("http") => Scheme::Http,
        s if s.eq_ignore_ascii_case("https") => Scheme::Https,
        _ => return Err(error(UrlProblem::OtherScheme)),
    };
    // Browsers take the host of `http:///path` to be `path`; whoever types it means something else.
    if rest.is_empty() || rest.starts_with(['/', '\\', '?', '#']) {
        return Err(error(UrlProblem::NoHost));
    }
    let url = Url::parse(text).map_err(|reason| match reason {
        url::ParseError::EmptyHost => error(UrlProblem::NoHost),
        reason => error(UrlProblem::Invalid(reason)),
    })?;
    let host = match url.host() {
        Some(Host::Domain(name)) => name.to_owned(),
        Some(Host::Ipv4(address)) => address.to_string(),
        Some(Host::Ipv6(address)) => address.to_string(),
        None => return Err(error(UrlProblem::NoHost)),
    };
    let port = url.port().unwrap_or(scheme.default_port());
    if port == 0 {
        return Err(error(UrlProblem::PortZero));
    }
    Ok(ParsedUrl { scheme, host, port, target: target_of(&url), credentials: credentials_of(&url) })
}

impl ParsedUrl {
    /// Whether both have the same scheme, host and port.
    #[must_use]
    pub fn same_origin(&self, other: &Self) -> bool {
        (self.scheme, &self.host, self.port) == (other.scheme, &other.host, other.port)
    }

    /// `http://host:port`, the port only where it is not the scheme's own.
    #[must_use]
    pub fn origin(&self) -> String {
        format!("{}://{}", self.scheme.as_str(), self.authority())
    }

    /// `host:port` as in a `Host` header: IPv6 in brackets, the port only where it is not the
    /// scheme's own.
    #[must_use]
    pub fn authority(&self) -> String {
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        match self.port == self.scheme.default_port() {
            true => host,
            false => format!("{host}:{}", self.port),
        }
    }

    /// Its page.
    #[must_use]
    pub fn page(&self, method: &str) -> Page {
        Page {
            method: method.to_owned(),
            target: self.target.clone(),
            url: self.to_string(),
            weight: 1,
        }
    }

    /// This URL with the path and query of another, whatever host that one names: no host is
    /// loaded because a file names it. A path must begin with `/`.
    ///
    /// # Errors
    ///
    /// If `location` is neither a URL nor such a path.
    pub fn at(&self, location: &str) -> Result<Self, UrlError> {
        let location = location.trim();
        let target = if location.starts_with('/') {
            // Its host does not matter, but the path is encoded and its dots are resolved as ever.
            let url = Url::parse("http://host/").and_then(|base| base.join(location));
            let invalid =
                |reason| UrlError { text: shown(location), problem: UrlProblem::Invalid(reason) };
            target_of(&url.map_err(invalid)?)
        } else if location.contains("://") {
            parse_url(location)?.target
        } else {
            let (text, problem) = (shown(location), UrlProblem::Relative);
            return Err(UrlError { text, problem });
        };
        Ok(Self { target, ..self.clone() })
    }
}

/// Without credentials.
impl fmt::Display for ParsedUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin(), self.target)
    }
}

/// A URL that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlError {
    /// As it may be shown.
    text: String,
    problem: UrlProblem,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum UrlProblem {
    NoScheme,
    OtherScheme,
    NoHost,
    PortZero,
    Relative,
    Invalid(url::ParseError),
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.text;
        write!(f, "\"{text}\": ")?;
        match &self.problem {
            UrlProblem::NoScheme if text.is_empty() => {
                f.write_str("a URL is missing; write http://HOST[:PORT]/PATH")
            }
            UrlProblem::NoScheme if !text.contains([':', '/', '@']) && text.contains('.') => {
                write!(f, "the scheme is missing; write http://{text}/")
            }
            UrlProblem::NoScheme => {
                f.write_str("the scheme is missing; write http://HOST[:PORT]/PATH")
            }
            UrlProblem::OtherScheme => f.write_str("the scheme must be http or https"),
            UrlProblem::NoHost => f.write_str(
                "the host is missing; write it after the scheme: http://HOST[:PORT]/PATH",
            ),
            UrlProblem::PortZero => {
                f.write_str("port 0 cannot be connected to; write one from 1 to 65535")
            }
            UrlProblem::Relative => {
                f.write_str("neither a URL nor a path; a path begins with /, such as /index.html")
            }
            UrlProblem::Invalid(reason) => {
                write!(f, "{reason}; write it as http://HOST[:PORT]/PATH")
            }
        }
    }
}

impl std::error::Error for UrlError {}

/// What was typed, without what may be credentials: errors are printed and kept in logs.
fn shown(text: &str) -> String {
    let start = text.find("://").map_or(0, |at| at + 3);
    let authority = text[start..].find(['/', '?', '#']).map_or(text.len(), |at| start + at);
    // A stray / in a password ends the authority too early: an @ anywhere hides all before it.
    match text[start..authority].rfind('@').or_else(|| text[start..].rfind('@')) {
        Some(at) => format!("{}{}", &text[..start], &text[start + at + 1..]),
        None => text.to_owned(),
    }
    .escape_debug()
    .to_string()
}

/// Path and query.
fn target_of(url: &Url) -> String {
    match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    }
}

fn credentials_of(url: &Url) -> Option<Credentials> {
    let password = url.password();
    if url.username().is_empty() && password.is_none() {
        return None;
    }
    let decoded = |text| percent_decode_str(text).collect();
    Some(Credentials { user: decoded(url.username()), password: decoded(password.unwrap_or("")) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(text: &str) -> ParsedUrl {
        parse_url(text).unwrap()
    }

    fn refused(text: &str) -> String {
        parse_url(text).unwrap_err().to_string()
    }

    #[test]
    fn parts() {
        let url = parsed("http://127.0.0.1:8080/a b?q=1&r=ü#part");
        assert_eq!((url.scheme, &*url.host, url.port), (Scheme::Http, "127.0.0.1", 8080));
        assert_eq!(url.target, "/a%20b?q=1&r=%C3%BC");
        assert_eq!(url.to_string(), "http://127.0.0.1:8080/a%20b?q=1&r=%C3%BC");

        let url = parsed("HTTPS://Example.ORG");
        assert_eq!((url.scheme, &*url.host, url.port), (Scheme::Https, "example.org", 443));
        assert_eq!((url.to_string().as_str(), &*url.target), ("https://example.org/", "/"));

        let url = parsed("http://[::1]:8080/");
        assert_eq!((&*url.host, &*url.authority()), ("::1", "[::1]:8080"));
        assert_eq!(parsed("http://h:80/").authority(), "h");
        assert_eq!(parsed("http://h:443/").authority(), "h:443");
        assert_eq!(parsed("http://bücher.example/").host, "xn--bcher-kva.example");
        assert_eq!(parsed("http://h/?").target, "/?");
        assert_eq!(parsed("http://h?x").target, "/?x");
        assert_eq!(parsed("http://h/a/../b").target, "/b");
    }

    #[test]
    fn credentials_are_decoded_and_not_shown() {
        let url = parsed("http://me:p%40ss@h/x");
        let credentials = url.credentials.clone().unwrap();
        assert_eq!((&*credentials.user, &*credentials.password), (&b"me"[..], &b"p@ss"[..]));
        assert_eq!(url.to_string(), "http://h/x");
        assert!(!format!("{url:?}").contains("p@ss"));
        assert_eq!(url.page("GET").url, "http://h/x");
        assert_eq!(parsed("http://h/").credentials, None);
        // Not in errors either.
        for text in [
            "http://me:secret@h:0/",
            "http://me:secret@/x",
            "ftp://me:secret@h/",
            "me:secret@h/",
            "http://me:sec/ret@h:99999/",
        ] {
            let told = refused(text);
            assert!(!told.contains("secret") && !told.contains("sec/"), "{told}");
        }
    }

    #[test]
    fn errors_tell_the_remedy() {
        assert!(refused("").contains("a URL is missing"));
        assert!(refused("example.org").contains("write http://example.org/"));
        assert!(refused("localhost:8080/x").contains("the scheme is missing"));
        assert!(refused("ftp://h/").contains("http or https"));
        for text in ["http://", "http:///path", "http://:80/", "http://?q", "http://me@/"] {
            assert!(refused(text).contains("the host is missing"), "{text}: {}", refused(text));
        }
        assert!(refused("http://h:0/").contains("port 0"));
        assert!(refused("http://h:65536/").contains("port"));
        assert!(refused("http://a b/").contains("write it as"));
        assert!(refused("http://[::1/").contains("IPv6"));
    }

    #[test]
    fn only_the_path_of_another_url_counts() {
        let origin = parsed("http://test:8080/start?x");
        for (location, target) in [
            ("/a?b", "/a?b"),
            ("/ä b", "/%C3%A4%20b"),
            ("https://live.example/c#d", "/c"),
            ("//live.example/e", "/e"),
            ("http://u:p@live.example", "/"),
            ("/redirect?to=http://x/y", "/redirect?to=http://x/y"),
        ] {
            let url = origin.at(location).unwrap();
            assert!(url.same_origin(&origin));
            assert_eq!(url.target, target);
        }
        for location in ["", "index.html", "?q", "ftp://x/y", "mailto:a"] {
            assert!(origin.at(location).is_err(), "{location}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics_and_targets_can_be_sent(
            text in "\\PC*",
            near in "(https?|ftp)?:?/{0,3}([a-zü@:\\[\\]0-9]{0,9}[./?#@:%\\\\ \t]?){0,6}",
        ) {
            let origin = parsed("http://h/");
            for text in [&text, &near] {
                match parse_url(text) {
                    Ok(url) => {
                        prop_assert!(url.target.starts_with('/'));
                        prop_assert!(url.target.bytes().all(|b| b.is_ascii_graphic()), "{}", url.target);
                        prop_assert!(!url.host.is_empty() && url.port > 0);
                        // What is shown is the same URL but for the credentials.
                        let shown = parsed(&url.to_string());
                        prop_assert_eq!(ParsedUrl { credentials: None, ..url }, shown);
                    }
                    Err(error) => prop_assert!(!error.to_string().is_empty()),
                }
                if let Ok(url) = origin.at(text) {
                    prop_assert!(url.same_origin(&origin));
                    prop_assert!(url.target.bytes().all(|b| b.is_ascii_graphic()), "{}", url.target);
                }
            }
        }
    }
}
