//! Which pages: URLs, lists, sitemaps.

use std::path::Path;

use super::input;
use super::mistake::{Mistake, wrong};
use super::sitemap::{self, Access};
use super::typed::{PageArgs, PickArg};
use crate::plan::pages::{ParsedUrl, Scheme, parse_list, parse_url};
use crate::plan::{Page, Pick, Target};

/// What is typed in place of a URL for the embedded server.
pub(super) const EMBEDDED: &str = "embedded";
/// What follows it for HTTPS.
const OVER_TLS: &str = "+tls";

/// What all URLs of a command have in common, and their pages' paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Whether it is the embedded server.
    pub(super) embedded: bool,
    /// The URLs, at least one, of one origin; of the embedded server's, only the path counts.
    urls: Vec<ParsedUrl>,
}

impl Place {
    /// Reads the URLs.
    pub(super) fn read(typed: &[String]) -> Result<Self, Mistake> {
        let Some(first) = typed.first() else {
            wrong!(
                "a URL is missing; give one, as in ringload run http://127.0.0.1:8080/, or embedded \
                 for the embedded server (lists and sitemaps give paths, no host)"
            );
        };
        let embedded = embedded(first).is_some();
        let urls = typed.iter().map(|text| url(text)).collect::<Result<Vec<_>, _>>()?;
        for (url, text) in urls.iter().zip(typed) {
            let other_kind = self::embedded(text).is_some() != embedded;
            if other_kind || !url.same_origin(&urls[0]) {
                let shown = |url: &ParsedUrl, embedded: bool| match (embedded, url.scheme) {
                    (false, _) => url.origin(),
                    (true, Scheme::Http) => EMBEDDED.to_owned(),
                    (true, Scheme::Https) => format!("{EMBEDDED}{OVER_TLS}"),
                };
                wrong!(
                    "all URLs must have one origin, and these have two: {} and {}; run them one \
                     after the other",
                    shown(&urls[0], embedded),
                    shown(url, embedded != other_kind)
                );
            }
        }
        Ok(Self { embedded, urls })
    }

    /// The server; the embedded one on these CPUs.
    pub(super) fn target(&self, server_cpus: Vec<usize>) -> Target {
        let url = &self.urls[0];
        match self.embedded {
            true => Target::Embedded { cpus: server_cpus, tls: self.is_https() },
            false => Target::Origin { host: url.host.clone(), port: url.port },
        }
    }

    /// Whether it is asked over TLS.
    pub(super) fn is_https(&self) -> bool {
        self.urls[0].scheme == Scheme::Https
    }

    /// The value of the `Host` header.
    pub(super) fn host(&self) -> String {
        self.urls[0].authority()
    }

    /// User and password of the first URL that has them, as `USER:PASS`.
    pub(super) fn user(&self) -> Option<Vec<u8>> {
        let credentials = self.urls.iter().find_map(|url| url.credentials.as_ref())?;
        Some([&credentials.user[..], b":", &credentials.password].concat())
    }

    /// The first URL.
    pub(super) fn origin(&self) -> &ParsedUrl {
        &self.urls[0]
    }

    /// The pages; `method` is of those that name none.
    pub(super) fn pages(
        &self,
        args: &PageArgs,
        access: &Access,
        method: &str,
    ) -> Result<Vec<Page>, Mistake> {
        let mut pages = Vec::new();
        let given = [("--urls", args.urls.is_some()), ("--sitemap", args.sitemap.is_some())];
        if let Some((flag, _)) = given.into_iter().find(|(_, given)| *given)
            && self.urls.len() > 1
        {
            wrong!(
                "{flag} gives the pages, and then one URL gives the origin; put the other URLs \
                 into the list, or leave {flag} out"
            );
        }
        if let Some(path) = &args.urls {
            pages.extend(self.list(path, method)?);
        }
        if let Some(source) = &args.sitemap {
            pages.extend(sitemap::pages(source, access, method)?);
        }
        if pages.is_empty() {
            pages.extend(self.urls.iter().map(|url| url.page(method)));
        }
        Ok(pages)
    }

    /// The pages of a list.
    fn list(&self, path: &Path, method: &str) -> Result<Vec<Page>, Mistake> {
        let bytes = input::read("--urls", path, input::MAX_LIST)?;
        let name = path.display();
        let Ok(text) = String::from_utf8(bytes) else {
            wrong!("--urls: \"{name}\" is not UTF-8; write other characters percent-encoded");
        };
        parse_list(&text, &self.urls[0], method)
            .map_err(|error| Mistake::new(format!("--urls: \"{name}\": {error}")))
    }
}

/// How the next page is chosen.
pub(super) fn pick(args: &PageArgs) -> Pick {
    match args.pick {
        Some(PickArg::InOrder) => Pick::InOrder,
        Some(PickArg::Random) | None => Pick::Random,
    }
}

/// The scheme of the embedded server and the path after it, where that is what was typed.
fn embedded(text: &str) -> Option<(Scheme, &str)> {
    let rest = text.strip_prefix(EMBEDDED)?;
    let (scheme, path) = match rest.strip_prefix(OVER_TLS) {
        Some(path) => (Scheme::Https, path),
        None => (Scheme::Http, rest),
    };
    (path.is_empty() || path.starts_with(['/', '?'])).then_some((scheme, path))
}

/// Reads one URL; without a scheme it is `http`.
fn url(text: &str) -> Result<ParsedUrl, Mistake> {
    let has_scheme = text.contains("://");
    let no_host = text.starts_with(['/', '?', '#', '.']) && !has_scheme;
    if no_host {
        wrong!(
            "URL \"{0}\": the host is missing; write it before the path, as in \
             http://127.0.0.1:8080/",
            text.escape_debug()
        );
    }
    let full = match embedded(text) {
        Some((scheme, path)) => format!("{}://{EMBEDDED}{path}", scheme.as_str()),
        None if has_scheme || text.is_empty() => text.to_owned(),
        None => format!("http://{text}"),
    };
    parse_url(&full).map_err(|error| Mistake::new(format!("URL {error}")))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;
    use crate::plan::Dial;

    fn place(typed: &[&str]) -> Result<Place, Mistake> {
        Place::read(&typed.iter().map(|&text| text.to_owned()).collect::<Vec<_>>())
    }

    fn read_pages(place: &Place, args: &PageArgs) -> Result<Vec<Page>, Mistake> {
        let (dial, embedded) = (Dial::default(), place.embedded);
        let origin = place.origin();
        let access =
            Access { origin, embedded, dial: &dial, headers: &[], tls: None, insecure: false };
        place.pages(args, &access, "GET")
    }

    fn targets(place: &Place, args: &PageArgs) -> Vec<String> {
        let pages = read_pages(place, args).unwrap();
        pages.into_iter().map(|page| format!("{} {}", page.method, page.target)).collect()
    }

    const NO_LIST: PageArgs = PageArgs { urls: None, sitemap: None, pick: None };

    #[test]
    fn urls_are_pages_of_one_origin() {
        let place = place(&["http://h:8080/a?b", "h:8080", "HTTP://H:8080/c#d"]).unwrap();
        assert_eq!(targets(&place, &NO_LIST), ["GET /a?b", "GET /", "GET /c"]);
        assert_eq!(place.host(), "h:8080");
        let target = Target::Origin { host: "h".into(), port: 8080 };
        assert_eq!(place.target(vec![]), target);
    }

    #[test]
    fn scheme_may_be_left_out() {
        for (text, host) in [
            ("127.0.0.1:8080/x", "127.0.0.1:8080"),
            ("localhost:8080", "localhost:8080"),
            ("example.org", "example.org"),
            ("[::1]:81/", "[::1]:81"),
            ("h/?to=http:", "h"),
        ] {
            assert_eq!(place(&[text]).unwrap().host(), host, "{text}");
        }
    }

    #[test]
    fn embedded_server_has_paths_too() {
        for (text, target) in [("embedded", "/"), ("embedded/bytes/700?x", "/bytes/700?x")] {
            let place = place(&[text]).unwrap();
            assert!(place.embedded);
            assert_eq!(targets(&place, &NO_LIST), [format!("GET {target}")]);
            assert_eq!(place.target(vec![3]), Target::Embedded { cpus: vec![3], tls: false });
            let over_tls = text.replace("embedded", "embedded+tls");
            let place = self::place(&[&over_tls]).unwrap();
            assert!(place.embedded && place.is_https());
            assert_eq!(targets(&place, &NO_LIST), [format!("GET {target}")]);
            assert_eq!(place.target(vec![3]), Target::Embedded { cpus: vec![3], tls: true });
        }
        for text in ["http://embedded/", "https://embedded/", "embedded.example", "embedded:80"] {
            assert!(!place(&[text]).unwrap().embedded, "{text}");
        }
    }

    #[test]
    fn https_has_a_port_of_its_own() {
        let place = place(&["https://h/a", "https://h:443/b"]).unwrap();
        assert!(place.is_https());
        assert_eq!(place.host(), "h");
        assert_eq!(place.target(vec![]), Target::Origin { host: "h".into(), port: 443 });
        assert_eq!(targets(&place, &NO_LIST), ["GET /a", "GET /b"]);
        let place = self::place(&["https://h:8443/"]).unwrap();
        assert_eq!(place.host(), "h:8443");
    }

    #[test]
    fn credentials_are_taken_off() {
        let place = place(&["http://bob:pw@h/a"]).unwrap();
        assert_eq!(place.user().unwrap(), b"bob:pw");
        assert_eq!(read_pages(&place, &NO_LIST).unwrap()[0].url, "http://h/a");
    }

    #[test]
    fn lists_give_the_paths() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "# pages\n/a weight=2\nPOST http://live.example/b").unwrap();
        let args = PageArgs { urls: Some(file.path().into()), ..NO_LIST };
        let one = place(&["http://h/start"]).unwrap();
        assert_eq!(targets(&one, &args), ["GET /a", "POST /b"]);
        let error = read_pages(&place(&["http://h/a", "http://h/b"]).unwrap(), &args);
        assert!(error.unwrap_err().to_string().contains("--urls"));
        writeln!(file, "no-path").unwrap();
        let error = read_pages(&one, &args).unwrap_err().to_string();
        assert!(error.contains("--urls") && error.contains("line 4"), "{error}");
    }

    #[test]
    fn mistakes_are_told() {
        let cases = [
            (&[][..], &["URL is missing", "http://127.0.0.1:8080/"][..]),
            (&["http://"], &["host is missing"]),
            (&["http:///x"], &["host is missing"]),
            (&["/index.html"], &["/index.html", "host is missing"]),
            (&["ftp://h/"], &["http or https"]),
            (&["http://a/", "https://a/"], &["http://a and https://a"]),
            (&["https://a/", "https://a:444/"], &["https://a and https://a:444"]),
            (&["embedded", "embedded+tls"], &["embedded and embedded+tls"]),
            (&["http://a/", "http://b/"], &["one origin", "http://a", "http://b"]),
            (&["http://a/", "http://a:81/"], &["http://a and http://a:81"]),
            (&["embedded", "http://a:81/"], &["embedded and http://a:81"]),
            (&["http://a/", "embedded"], &["http://a and embedded"]),
            (&["http://u:s3cret@a:0/"], &["port 0"]),
        ];
        for (typed, parts) in cases {
            let error = place(typed).unwrap_err().to_string();
            for part in parts {
                assert!(error.contains(part), "{typed:?}: no \"{part}\" in: {error}");
            }
            assert!(!error.contains("s3cret"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_place_or_a_mistake(text in "\\PC*") {
            if let Ok(place) = place(&[&text]) {
                prop_assert!(read_pages(&place, &NO_LIST).unwrap()[0].target.starts_with('/'));
            }
        }
    }
}
