//! The client's side: what all its sessions share.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustls::client::{ResolvesClientCert, Resumption, UnbufferedClientConnection};
use rustls::crypto::aws_lc_rs::{self, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::pki_types::ServerName;
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, SignatureScheme, SupportedCipherSuite, SupportedProtocolVersion,
};

use super::HTTP_1_1;
use super::session::Session;
use super::settings::{Group, Settings, Versions};
use super::tickets::Tickets;
use super::verify::{self, Roots};

/// A client's session.
pub type ClientSession = Session<UnbufferedClientConnection>;

/// Makes sessions to one server. One per thread: what it remembers of sessions is behind a lock
/// that nobody else takes.
#[derive(Debug)]
pub struct Client {
    fresh: Arc<ClientConfig>,
    resuming: Arc<ClientConfig>,
    name: ServerName<'static>,
    asked: Arc<AtomicBool>,
}

/// Why there is no client.
#[derive(Debug)]
pub enum ClientError {
    /// The server's name is neither a host name nor an address.
    Name(String),
    /// The client's certificate and key do not go together, or the key is of an unknown kind.
    Identity(rustls::Error),
    /// What is asked for cannot be put together.
    Config(rustls::Error),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(
                f,
                "{name:?} is no name of a TLS server: give a host name or an address (--sni NAME)"
            ),
            Self::Identity(error) => write!(
                f,
                "the client's certificate cannot be used: {error}; give the certificate (--cert) \
                 and the key that belongs to it (--key)"
            ),
            Self::Config(error) => write!(f, "TLS cannot be set up so: {error}"),
        }
    }
}

impl std::error::Error for ClientError {}

impl Client {
    /// A client for one thread.
    ///
    /// # Errors
    /// Where the settings cannot be carried out.
    pub fn new(settings: &Settings, roots: &Roots) -> Result<Self, ClientError> {
        Self::with_suites(settings, roots, suites())
    }

    /// One whose keys encrypt so many records over TLS 1.2, and then no more.
    #[cfg(test)]
    pub(crate) fn with_short_keys(settings: &Settings, records: u64) -> Self {
        let short = suites().into_iter().filter_map(|suite| match suite {
            SupportedCipherSuite::Tls12(suite) => {
                let common = rustls::crypto::CipherSuiteCommon {
                    confidentiality_limit: records,
                    ..suite.common
                };
                let suite = rustls::Tls12CipherSuite { common, ..*suite };
                Some(SupportedCipherSuite::Tls12(Box::leak(Box::new(suite))))
            }
            SupportedCipherSuite::Tls13(_) => None,
        });
        Self::with_suites(settings, &Roots::none(), short.collect()).expect("a client")
    }

    fn with_suites(
        settings: &Settings,
        roots: &Roots,
        cipher_suites: Vec<SupportedCipherSuite>,
    ) -> Result<Self, ClientError> {
        let name = ServerName::try_from(settings.server_name.as_str())
            .map_err(|_| ClientError::Name(settings.server_name.clone()))?
            .to_owned();
        let provider = Arc::new(CryptoProvider {
            kx_groups: settings.groups.iter().copied().map(supported).collect(),
            cipher_suites,
            ..aws_lc_rs::default_provider()
        });
        let verifier = verify::verifier(settings.insecure, roots, &provider);
        let asked = Arc::new(AtomicBool::new(false));
        let mut config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&versions(settings.versions))
            .map_err(ClientError::Config)?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_cert_resolver(Arc::new(Resolver {
                key: certified_key(settings, &provider)?,
                asked: Arc::clone(&asked),
            }));
        config.alpn_protocols = vec![HTTP_1_1.to_vec()];
        config.resumption = Resumption::disabled();
        let mut resuming = config.clone();
        resuming.resumption = Resumption::store(Arc::new(Tickets::default()));
        Ok(Self { fresh: Arc::new(config), resuming: Arc::new(resuming), name, asked })
    }

    /// A new session, whose first [`Session::advance`] gives what is sent first. One that may
    /// resume an earlier one does so if there is one, and leaves what the next can resume.
    ///
    /// # Errors
    /// Where the system gives no random bytes.
    pub fn session(&self, may_resume: bool) -> Result<ClientSession, rustls::Error> {
        let config = if may_resume { &self.resuming } else { &self.fresh };
        let connection = UnbufferedClientConnection::new(Arc::clone(config), self.name.clone())?;
        Ok(Session::over(connection))
    }

    /// A session with buffers of its own, for a single request by blocking I/O: what is read before
    /// a load.
    ///
    /// # Errors
    /// Where the system gives no random bytes.
    pub fn buffered(&self) -> Result<ClientConnection, rustls::Error> {
        self.asked.store(false, Ordering::Relaxed);
        ClientConnection::new(Arc::clone(&self.fresh), self.name.clone())
    }

    /// Whether a server has asked for a client's certificate, and there was none to show, since the
    /// last call: to be asked after each step of a handshake, to know whose it was.
    #[must_use]
    pub fn take_certificate_missed(&self) -> bool {
        self.asked.swap(false, Ordering::Relaxed)
    }
}

/// AES-128 first, as browsers have it, and not AES-256, as rustls has it: the hash that goes with it,
/// SHA-256, has instructions of its own on today's CPUs, and a handshake hashes much
/// (docs/BENCHMARKING.md, TLS). A server that has a preference of its own decides.
fn suites() -> Vec<SupportedCipherSuite> {
    let mut suites = aws_lc_rs::default_provider().cipher_suites;
    let is_aes_256 = |suite: &SupportedCipherSuite| {
        suite.suite().as_str().is_some_and(|name| name.contains("AES_256"))
    };
    // By version, so that none comes to stand before a newer one's.
    suites.sort_by_key(|suite| (suite.version().version == TLS12.version, is_aes_256(suite)));
    suites
}

fn versions(versions: Versions) -> Vec<&'static SupportedProtocolVersion> {
    match versions {
        Versions::Both => vec![&TLS13, &TLS12],
        Versions::Tls12 => vec![&TLS12],
        Versions::Tls13 => vec![&TLS13],
    }
}

fn supported(group: Group) -> &'static dyn SupportedKxGroup {
    match group {
        Group::X25519 => kx_group::X25519,
        Group::Secp256r1 => kx_group::SECP256R1,
        Group::Secp384r1 => kx_group::SECP384R1,
        Group::X25519MlKem768 => kx_group::X25519MLKEM768,
    }
}

fn certified_key(
    settings: &Settings,
    provider: &CryptoProvider,
) -> Result<Option<Arc<CertifiedKey>>, ClientError> {
    let Some(identity) = &settings.identity else { return Ok(None) };
    let certified = identity.certified_key(provider).map_err(ClientError::Identity)?;
    Ok(Some(Arc::new(certified)))
}

/// Shows the client's certificate, and notes that one was asked for in vain.
#[derive(Debug)]
struct Resolver {
    key: Option<Arc<CertifiedKey>>,
    asked: Arc<AtomicBool>,
}

impl ResolvesClientCert for Resolver {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        if self.key.is_none() {
            self.asked.store(true, Ordering::Relaxed);
        }
        self.key.clone()
    }

    fn has_certs(&self) -> bool {
        // Else rustls does not ask, and nobody would know that the server did.
        true
    }
}
