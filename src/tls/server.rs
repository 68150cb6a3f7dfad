//! The server's side.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use rcgen::{CertificateParams, CertifiedKey, KeyPair, PKCS_ECDSA_P256_SHA256, SanType};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{self, cipher_suite};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, UnbufferedServerConnection};
use rustls::{ServerConfig, SupportedCipherSuite};

use super::HTTP_1_1;
use super::session::Session;

/// What is spoken, the cheapest first, whatever the client likes better: where SHA-256 is in the
/// processor, the hashing of a handshake with a SHA-384 suite costs more than its signature (a
/// quarter of a full handshake in all, two fifths of a resumed one; both sides pay it).
const SUITES: [SupportedCipherSuite; 9] = [
    cipher_suite::TLS13_AES_128_GCM_SHA256,
    cipher_suite::TLS13_AES_256_GCM_SHA384,
    cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
];

/// A server's session.
pub type ServerSession = Session<UnbufferedServerConnection>;

/// Makes a server's sessions; shared by its threads.
#[derive(Clone, Debug)]
pub struct Server {
    config: Arc<ServerConfig>,
    certificate: CertificateDer<'static>,
}

/// Why there is no server.
#[derive(Debug)]
pub enum ServerError {
    /// The certificate could not be made.
    Certificate(rcgen::Error),
    /// The certificate and the key do not go together, or cannot be used.
    Config(rustls::Error),
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Certificate(error) => write!(f, "no certificate could be made: {error}"),
            Self::Config(error) => write!(
                f,
                "the server's certificate cannot be used: {error}; give a certificate (--cert) and \
                 the key that belongs to it (--key)"
            ),
        }
    }
}

impl std::error::Error for ServerError {}

impl Server {
    /// A server with a certificate of its own making, for `localhost`, 127.0.0.1 and ::1: ECDSA
    /// over P-256, signed by itself.
    ///
    /// # Errors
    /// Where the system gives no random bytes.
    pub fn self_signed() -> Result<Self, ServerError> {
        let CertifiedKey { cert: certificate, signing_key: key } = made()?;
        let key = PrivateKeyDer::try_from(key.serialize_der())
            .map_err(|why| ServerError::Config(rustls::Error::General(why.into())))?;
        Self::new(vec![certificate.der().clone()], key)
    }

    /// A server with this certificate, followed by those it is signed with.
    ///
    /// # Errors
    /// Where they do not go together.
    pub fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, ServerError> {
        let certificate = chain
            .first()
            .cloned()
            .ok_or_else(|| ServerError::Config(rustls::Error::NoCertificatesPresented))?;
        let provider =
            CryptoProvider { cipher_suites: SUITES.to_vec(), ..aws_lc_rs::default_provider() };
        let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .map_err(ServerError::Config)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(ServerError::Config)?;
        config.ignore_client_order = true;
        config.alpn_protocols = vec![HTTP_1_1.to_vec()];
        // Stateless tickets alone: what is resumed costs no memory here, and may be resumed on any
        // thread. One is enough for a client that resumes one session after the other, and is sent
        // with every full handshake.
        config.ticketer = aws_lc_rs::Ticketer::new().map_err(ServerError::Config)?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 1;
        Ok(Self { config: Arc::new(config), certificate })
    }

    /// The certificate that it shows.
    #[must_use]
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// A new session.
    ///
    /// # Errors
    /// Where the configuration cannot serve.
    pub fn session(&self) -> Result<ServerSession, rustls::Error> {
        Ok(Session::over(UnbufferedServerConnection::new(Arc::clone(&self.config))?))
    }
}

/// Such a certificate as [`Server::self_signed`] makes, for a server that is another process: it
/// alone, and with its key as PEM.
///
/// # Errors
/// Where the system gives no random bytes.
pub fn self_signed_pem() -> Result<(CertificateDer<'static>, String), ServerError> {
    let CertifiedKey { cert, signing_key } = made()?;
    Ok((cert.der().clone(), cert.pem() + &signing_key.serialize_pem()))
}

fn made() -> Result<CertifiedKey<KeyPair>, ServerError> {
    let failed = ServerError::Certificate;
    let signing_key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(failed)?;
    let mut params = CertificateParams::new(vec!["localhost".into()]).map_err(failed)?;
    for address in [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()] {
        params.subject_alt_names.push(SanType::IpAddress(address));
    }
    let cert = params.self_signed(&signing_key).map_err(failed)?;
    Ok(CertifiedKey { cert, signing_key })
}
