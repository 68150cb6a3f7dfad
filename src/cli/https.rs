//! HTTPS for the single requests that are made before a load: a transport for ureq, with the same
//! sessions, verification and names of failures that the load has.

use std::fmt;
use std::io::{self, Read, Write};
use std::sync::Arc;

use rustls::{ClientConnection, StreamOwned};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, Transport,
    TransportAdapter,
};

use crate::tls::{Client, failure};

/// Speaks TLS over whatever is connected.
#[derive(Debug)]
pub(super) struct TlsConnector {
    client: Arc<Client>,
}

/// A connection over TLS.
pub(super) struct TlsTransport {
    client: Arc<Client>,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
    buffers: LazyBuffers,
}

impl fmt::Debug for TlsTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsTransport").finish_non_exhaustive()
    }
}

impl TlsConnector {
    /// Over the sessions of this client, and no others.
    pub(super) fn new(client: Client) -> Self {
        Self { client: Arc::new(client) }
    }
}

impl<In: Transport> Connector<In> for TlsConnector {
    type Out = Either<In, TlsTransport>;

    fn connect(
        &self,
        details: &ConnectionDetails,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, ureq::Error> {
        let Some(transport) = chained else { return Ok(None) };
        if !details.needs_tls() {
            return Ok(Some(Either::A(transport)));
        }
        let mut conn = self.client.buffered().map_err(io::Error::other)?;
        let clock = Arc::clone(&details.current_time);
        let mut sock = TransportAdapter::new(transport.boxed(), clock);
        sock.set_timeout(details.timeout);
        while conn.is_handshaking() {
            conn.complete_io(&mut sock).map_err(|error| in_words(&self.client, error))?;
        }
        let config = details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        let client = Arc::clone(&self.client);
        let stream = StreamOwned { conn, sock };
        Ok(Some(Either::B(TlsTransport { client, stream, buffers })))
    }
}

impl Transport for TlsTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        let Self { client, stream, buffers } = self;
        stream.sock.set_timeout(timeout);
        let written = stream.write_all(&buffers.output()[..amount]).and_then(|()| stream.flush());
        Ok(written.map_err(|error| in_words(client, error))?)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        let Self { client, stream, buffers } = self;
        stream.sock.set_timeout(timeout);
        let read = stream.read(buffers.input_append_buf());
        let read = read.map_err(|error| in_words(client, error))?;
        buffers.input_appended(read);
        Ok(read > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.sock.get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

/// A failure of TLS in the words that a result has for it; any other as it is.
fn in_words(client: &Client, error: io::Error) -> io::Error {
    let of_tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match of_tls {
        Some(of_tls) => {
            let failure = failure::of(of_tls, client.take_certificate_missed());
            io::Error::other(format!("{}: {}", failure.detail, failure.example))
        }
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;
    use std::thread::{self, JoinHandle};

    use rustls::crypto::aws_lc_rs;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::{ServerConfig, ServerConnection};

    use super::super::sitemap::{Access, pages};
    use crate::plan::pages::parse_url;
    use crate::plan::{Dial, Tls};
    use crate::tls::Settings;

    use super::*;

    const SITEMAP: &str = "https://live.example/a\nhttps://live.example/b\n";

    /// A server for `localhost`, which answers each connection's request with the sitemap, and
    /// gives what it was asked, or why it was not.
    struct Site {
        port: u16,
        certificate: CertificateDer<'static>,
        served: JoinHandle<Vec<String>>,
    }

    impl Site {
        fn start(connections: usize) -> Self {
            let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
            let certificate = made.cert.der().clone();
            let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
            let provider = Arc::new(aws_lc_rs::default_provider());
            let config = ServerConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(vec![certificate.clone()], key)
                .unwrap();
            let config = Arc::new(config);
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            let served = thread::spawn(move || {
                let serve = |_| {
                    let (sock, _) = listener.accept().unwrap();
                    let conn = ServerConnection::new(Arc::clone(&config)).unwrap();
                    answer(StreamOwned { conn, sock }).unwrap_or_else(|error| error.to_string())
                };
                (0..connections).map(serve).collect()
            });
            Self { port, certificate, served }
        }

        /// As a user who names it by an address and says what its certificate is for.
        fn settings(&self) -> Settings {
            Settings { trusted: Some(vec![self.certificate.clone()]), ..Settings::new("localhost") }
        }

        /// Reads its sitemap, for a target that is asked so.
        fn load(
            &self,
            origin: &str,
            settings: Option<Settings>,
            insecure: bool,
        ) -> Result<Vec<String>, String> {
            let origin = parse_url(&origin.replace("PORT", &self.port.to_string())).unwrap();
            let tls = settings.map(|settings| Tls { settings, resume: 0.0 });
            let access = Access {
                origin: &origin,
                embedded: false,
                dial: &Dial::default(),
                headers: &[],
                tls: tls.as_ref(),
                insecure,
            };
            let source = format!("https://127.0.0.1:{}/sitemap.txt", self.port);
            let pages = pages(&source, &access, "GET").map_err(|mistake| mistake.to_string())?;
            Ok(pages.into_iter().map(|page| page.url).collect())
        }
    }

    /// Reads a request's head and answers it.
    fn answer(stream: StreamOwned<ServerConnection, std::net::TcpStream>) -> io::Result<String> {
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let stream = reader.get_mut();
        write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{SITEMAP}",
            SITEMAP.len()
        )?;
        stream.conn.send_close_notify();
        stream.flush()?;
        Ok(head)
    }

    #[test]
    fn sitemap_on_the_target_is_read_over_its_tls() {
        let site = Site::start(1);
        let origin = "https://127.0.0.1:PORT/";
        let pages = site.load(origin, Some(site.settings()), false).unwrap();
        let at = |path| format!("https://127.0.0.1:{}/{path}", site.port);
        assert_eq!(pages, [at("a"), at("b")]);
        let host = format!("host: 127.0.0.1:{}\r\n", site.port);
        let requests = site.served.join().unwrap();
        assert!(requests[0].to_ascii_lowercase().contains(&host), "{}", requests[0]);
    }

    #[test]
    fn certificate_that_is_not_trusted_is_refused_by_its_name() {
        let site = Site::start(2);
        let origin = "https://127.0.0.1:PORT/";
        let strange = Settings { trusted: Some(Vec::new()), ..site.settings() };
        let told = site.load(origin, Some(strange), false).unwrap_err();
        assert!(told.contains("--sitemap") && told.contains("self-signed: "), "{told}");
        let elsewhere = Settings { server_name: "h.example".into(), ..site.settings() };
        let told = site.load(origin, Some(elsewhere), false).unwrap_err();
        assert!(told.contains("wrong-host") && told.contains("for localhost"), "{told}");
        site.served.join().unwrap();
    }

    /// What is trusted of the target, and shown to it, is none of another host's business.
    #[test]
    fn another_host_is_verified_on_its_own() {
        let site = Site::start(2);
        let told = site.load("https://h/", Some(site.settings()), false).unwrap_err();
        assert!(told.contains("self-signed"), "{told}");
        let pages = site.load("http://h/", None, true).unwrap();
        assert_eq!(pages, ["http://h/a", "http://h/b"]);
        let requests = site.served.join().unwrap();
        assert!(requests[1].starts_with("GET /sitemap.txt "), "{requests:?}");
    }
}
