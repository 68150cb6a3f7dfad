//! Reads sitemaps from files, and over HTTP and HTTPS.

use std::path::Path;
use std::time::Duration;

use ureq::Agent;
use ureq::config::Config;
use ureq::http::{HeaderName, HeaderValue};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{Connector, TcpConnector};

use super::https::TlsConnector;
use super::input;
use super::mistake::{Mistake, wrong};
use crate::plan::pages::{ParsedUrl, Scheme, parse_url};
use crate::plan::{Dial, Header, Page, Tls, sitemap};
use crate::tls::{Client, Roots, Settings};

/// The most pages that are taken from one sitemap: twenty full files of the protocol.
const MAX_PAGES: usize = 1_000_000;
/// For one file, with its name's resolution.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Redirects that are followed, all on one host.
const MAX_REDIRECTS: usize = 5;

/// How the target is asked: a sitemap on it is asked for in the same way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access<'a> {
    /// The target's origin.
    pub(super) origin: &'a ParsedUrl,
    /// Whether that is the embedded server, which does not run yet.
    pub(super) embedded: bool,
    /// How to connect to it.
    pub(super) dial: &'a Dial,
    /// The headers of its requests.
    pub(super) headers: &'a [Header],
    /// How TLS is spoken with it; `None` on plain HTTP.
    pub(super) tls: Option<&'a Tls>,
    /// `-k`, which is meant of another host too.
    pub(super) insecure: bool,
}

/// The pages of the sitemap `source`, a file or a URL, and of those that it leads to.
pub(super) fn pages(source: &str, access: &Access, method: &str) -> Result<Vec<Page>, Mistake> {
    let mut agents = Agents::default();
    let mut read = |name: &str| {
        if name.contains("://") {
            let url = parse_url(name).map_err(|error| error.to_string())?;
            fetch(agents.for_url(access, &url)?, access, url)
        } else {
            // Its own message names the flag and the file, which the caller's does as well.
            input::read("--sitemap", Path::new(name), input::MAX_LIST).map_err(|m| m.to_string())
        }
    };
    let locations = sitemap::load(source, access.origin, &mut read, MAX_PAGES)
        .map_err(|error| Mistake::new(format!("--sitemap: {error}")))?;
    let page = |location: &String| match access.origin.at(location) {
        Ok(url) => Ok(url.page(method)),
        Err(error) => wrong!("--sitemap: it names a page that is no URL: {error}"),
    };
    locations.iter().map(page).collect()
}

/// Clients, made once each: for HTTP, and for HTTPS with the one host that all files are on.
#[derive(Default)]
struct Agents {
    plain: Option<Agent>,
    secure: Option<(String, Agent)>,
}

impl Agents {
    /// The one for a URL.
    fn for_url(&mut self, access: &Access, url: &ParsedUrl) -> Result<&Agent, String> {
        if url.scheme == Scheme::Http {
            return Ok(self.plain.get_or_insert_with(|| Agent::new_with_config(config())));
        }
        let origin = url.origin();
        let known = self.secure.take_if(|(of, _)| *of == origin);
        let agent = match known {
            Some((_, agent)) => agent,
            None => secure_agent(access, url)?,
        };
        Ok(&self.secure.insert((origin, agent)).1)
    }
}

/// A client for HTTPS: in the target's way where it is the target. The certificate to show, and
/// those to trust, are none of another host's business.
fn secure_agent(access: &Access, url: &ParsedUrl) -> Result<Agent, String> {
    let settings = match access.tls {
        Some(tls) if url.same_origin(access.origin) => tls.settings.clone(),
        _ => Settings { insecure: access.insecure, ..Settings::new(&url.host) },
    };
    let roots = Roots::for_settings(&settings).map_err(|error| error.to_string())?;
    let client = Client::new(&settings, &roots).map_err(|error| error.to_string())?;
    let connector = ().chain(TcpConnector::default()).chain(TlsConnector::new(client));
    Ok(Agent::with_parts(config(), connector, DefaultResolver::default()))
}

/// A client adds nothing of its own and follows nothing.
fn config() -> Config {
    Agent::config_builder()
        .timeout_global(Some(TIMEOUT))
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .proxy(None)
        .accept("")
        .accept_encoding("")
        .user_agent(concat!("ringload/", env!("CARGO_PKG_VERSION")))
        .build()
}

/// The bytes of one file; redirects are followed on its own host only.
fn fetch(agent: &Agent, access: &Access, mut url: ParsedUrl) -> Result<Vec<u8>, String> {
    for _ in 0..=MAX_REDIRECTS {
        let mut response = request(agent, access, &url)?;
        let status = response.status();
        if status.is_redirection() {
            let location = response.headers().get("location").and_then(|l| l.to_str().ok());
            url = redirected(&url, location.unwrap_or_default())?;
            continue;
        }
        if !status.is_success() {
            return Err(format!("the server answers {status}; check the address"));
        }
        let body = response.body_mut().with_config().limit(input::MAX_LIST).read_to_vec();
        return body.map_err(|error| error.to_string());
    }
    Err(format!("more than {MAX_REDIRECTS} redirects; give the address where they end"))
}

/// Asks for one file, in the target's way where it is on the target.
fn request(
    agent: &Agent,
    access: &Access,
    url: &ParsedUrl,
) -> Result<ureq::http::Response<ureq::Body>, String> {
    let on_target = url.same_origin(access.origin);
    if on_target && (access.embedded || access.dial.unix_socket.is_some()) {
        let server =
            if access.embedded { "the embedded server has none" } else { "it is on a unix socket" };
        return Err(format!("{server}; download the sitemap and give the file"));
    }
    let mut address = ParsedUrl { credentials: None, ..url.clone() };
    if on_target && let Some((host, port)) = &access.dial.connect_to {
        address.host.clone_from(host);
        address.port = port.unwrap_or(address.port);
    }
    let mut request = agent.get(address.to_string()).header("host", url.authority());
    for header in if on_target { access.headers } else { &[] } {
        let name = HeaderName::try_from(header.name.as_str()).map_err(|error| error.to_string())?;
        let value = HeaderValue::from_bytes(&header.value);
        // Its text is not shown: it may be a secret.
        let value = value.map_err(|_| format!("the value of {} cannot be sent", header.name))?;
        if name != "host" && name != "connection" {
            request = request.header(name, value);
        }
    }
    request.call().map_err(|error| error.to_string())
}

/// Where a redirect leads, unless that is another host.
fn redirected(from: &ParsedUrl, location: &str) -> Result<ParsedUrl, String> {
    let to = match location.contains("://") {
        true => parse_url(location),
        false => from.at(location),
    };
    let to = to.map_err(|error| format!("it redirects to {error}"))?;
    if to.same_origin(from) {
        return Ok(to);
    }
    Err(format!("it redirects to {to}; if you mean that one, give it as the sitemap's address"))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// Answers one request after the other with these responses, and gives the requests back.
    fn server(responses: Vec<String>) -> (String, thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let served = thread::spawn(move || {
            let answer = |response: String| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") {
                    reader.read_line(&mut head).unwrap();
                }
                stream.write_all(response.as_bytes()).unwrap();
                head
            };
            responses.into_iter().map(answer).collect()
        });
        (address, served)
    }

    fn ok(body: &str) -> String {
        format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
    }

    fn redirect(to: &str) -> String {
        format!(
            "HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )
    }

    fn load(source: &str, origin: &str, dial: &Dial) -> Result<Vec<String>, String> {
        let origin = parse_url(origin).unwrap();
        let headers = [Header { name: "X-Api-Key".into(), value: b"k".to_vec(), secret: true }];
        let access = Access {
            origin: &origin,
            embedded: false,
            dial,
            headers: &headers,
            tls: None,
            insecure: false,
        };
        let pages = pages(source, &access, "GET").map_err(|mistake| mistake.to_string())?;
        Ok(pages.into_iter().map(|page| page.url).collect())
    }

    #[test]
    fn sitemap_of_another_host_gives_paths_only() {
        let xml = "<urlset><url><loc>https://live.example/a</loc></url></urlset>";
        let (address, served) = server(vec![redirect("/moved.xml"), ok(xml)]);
        let source = format!("http://{address}/sitemap.xml");
        let pages = load(&source, "http://test:81/", &Dial::default()).unwrap();
        assert_eq!(pages, ["http://test:81/a"]);
        let requests = served.join().unwrap();
        assert!(requests[1].starts_with("GET /moved.xml "), "{}", requests[1]);
        // Credentials for the target are none of another host's business.
        let shown = requests[1].to_ascii_lowercase();
        assert!(!shown.contains("x-api-key") && !shown.contains("accept"), "{shown}");
    }

    #[test]
    fn sitemap_on_the_target_is_asked_for_in_its_way() {
        let (address, served) = server(vec![ok("http://live.example/x\n")]);
        let (host, port) = address.rsplit_once(':').unwrap();
        let connect_to = Some((host.to_owned(), Some(port.parse().unwrap())));
        let dial = Dial { connect_to, ..Dial::default() };
        let pages = load("http://live.example/sitemap.txt", "http://live.example/", &dial).unwrap();
        assert_eq!(pages, ["http://live.example/x"]);
        let request = served.join().unwrap().remove(0).to_ascii_lowercase();
        assert!(request.contains("host: live.example\r\n"), "{request}");
        assert!(request.contains("x-api-key: k\r\n"), "{request}");
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        let dial = Dial::default();
        let (address, served) = server(vec![redirect("http://elsewhere.example/s.xml")]);
        let error = load(&format!("http://{address}/s.xml"), "http://h/", &dial).unwrap_err();
        assert!(error.contains("redirects to http://elsewhere.example/s.xml"), "{error}");
        served.join().unwrap();

        let not_found = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned();
        let (address, served) = server(vec![not_found]);
        let error = load(&format!("http://{address}/s.xml"), "http://h/", &dial).unwrap_err();
        assert!(error.contains("--sitemap") && error.contains("404"), "{error}");
        served.join().unwrap();

        let error = load("/no/such.xml", "http://h/", &dial).unwrap_err();
        assert!(error.contains("--sitemap") && error.contains("/no/such.xml"), "{error}");
        let dial = Dial { unix_socket: Some("/x".into()), ..Dial::default() };
        let error = load("http://h/s.xml", "http://h/", &dial).unwrap_err();
        assert!(error.contains("unix socket") && error.contains("give the file"), "{error}");
    }
}
