//! Certificates of every kind, shown in handshakes in memory.

mod clients;
mod garbage;
mod servers;

use std::sync::Arc;

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, UnbufferedServerConnection};
use rustls::sign::{CertifiedKey, SingleCertAndKey};

use super::Roots;
use crate::stats::FaultKind;
use crate::tls::failure::{self, Failure};
use crate::tls::{Client, Identity, ServerSession, Session, Settings, Versions};

const VERSIONS: [Versions; 2] = [Versions::Tls12, Versions::Tls13];

/// An authority.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
}

impl Authority {
    fn named(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let params = authority_params(name);
        let certificate = params.self_signed(&key).unwrap().der().clone();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    /// An authority that this one vouches for.
    fn intermediate(&self, name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let params = authority_params(name);
        let certificate = params.signed_by(&key, &self.issuer).unwrap().der().clone();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    /// What a server shows that this one vouches for.
    fn signs(&self, params: CertificateParams) -> Shown {
        self.signs_key(params, KeyPair::generate().unwrap())
    }

    fn signs_key(&self, params: CertificateParams, key: KeyPair) -> Shown {
        Shown::new(&params.signed_by(&key, &self.issuer).unwrap(), &key)
    }
}

fn authority_params(name: &str) -> CertificateParams {
    let mut params = params(&[]);
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
}

/// A certificate for these names, valid now.
fn params(names: &[&str]) -> CertificateParams {
    CertificateParams::new(names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>()).unwrap()
}

fn localhost() -> CertificateParams {
    let mut params = params(&["localhost"]);
    params.distinguished_name.push(DnType::CommonName, "the server");
    params
}

/// Signed by itself.
fn self_signed(params: &CertificateParams) -> Shown {
    let key = KeyPair::generate().unwrap();
    Shown::new(&params.self_signed(&key).unwrap(), &key)
}

/// A certificate that a side shows, with its key.
#[derive(Clone)]
struct Shown {
    chain: Vec<CertificateDer<'static>>,
    key: Arc<PrivateKeyDer<'static>>,
}

impl Shown {
    fn new(certificate: &Certificate, key: &KeyPair) -> Self {
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        Self { chain: vec![certificate.der().clone()], key: Arc::new(key) }
    }

    fn followed_by(mut self, other: &CertificateDer<'static>) -> Self {
        self.chain.push(other.clone());
        self
    }

    fn leaf(&self) -> &CertificateDer<'static> {
        &self.chain[0]
    }

    fn identity(&self) -> Identity {
        Identity { chain: self.chain.clone(), key: Arc::clone(&self.key) }
    }

    /// A server that shows it, whatever rustls thinks of it.
    fn server(&self) -> TestServer {
        self.server_asking(Arc::new(NoClientAuth))
    }

    fn server_asking(&self, clients: Arc<dyn ClientCertVerifier>) -> TestServer {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let key = provider.key_provider.load_private_key(self.key.clone_key()).unwrap();
        let shown = CertifiedKey::new(self.chain.clone(), key);
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(clients)
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(shown)));
        TestServer { config: Arc::new(config) }
    }
}

/// A server without settings of its own.
struct TestServer {
    config: Arc<ServerConfig>,
}

impl TestServer {
    fn session(&self) -> ServerSession {
        Session::over(UnbufferedServerConnection::new(Arc::clone(&self.config)).unwrap())
    }
}

fn trusting(certificates: &[&CertificateDer<'static>]) -> Settings {
    let trusted = certificates.iter().map(|&certificate| certificate.clone()).collect();
    Settings { trusted: Some(trusted), ..Settings::new("localhost") }
}

fn insecure() -> Settings {
    Settings { insecure: true, ..Settings::new("localhost") }
}

/// Both sides say what they have to say. What the client finds wrong is told by its name; what
/// the server finds wrong, the client hears as an alert.
fn handshake(settings: &Settings, server: &TestServer) -> Result<(), Failure> {
    let client = Client::new(settings, &Roots::for_settings(settings).unwrap()).unwrap();
    let mut session = client.session(false).unwrap();
    let mut server = server.session();
    let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
    let mut established = session.advance(&mut [], &mut to_server, |_| {}).unwrap().established;
    while !to_server.is_empty() {
        let mut output = Vec::new();
        // Its failure is an alert in the output.
        let used = match server.advance(&mut to_server, &mut output, |_| {}) {
            Ok(progress) => progress.used,
            Err(_) => to_server.len(),
        };
        to_server.drain(..used);
        to_client.append(&mut output);
        match session.advance(&mut to_client, &mut output, |_| {}) {
            Ok(progress) => {
                to_client.drain(..progress.used);
                established |= progress.established;
            }
            Err(error) => return Err(failure::of(&error, client.take_certificate_missed())),
        }
        to_server.append(&mut output);
    }
    assert!(established, "the handshake stands still");
    Ok(())
}

/// The certificate is refused under this name, in both versions, and the words hold these parts.
#[track_caller]
fn refused(settings: &Settings, server: &TestServer, detail: &str, parts: &[&str]) {
    for versions in VERSIONS {
        let settings = Settings { versions, ..settings.clone() };
        let failure = handshake(&settings, server).expect_err("it must be refused");
        assert_eq!((failure.kind, failure.detail), (FaultKind::Certificate, detail), "{failure:?}");
        for part in parts {
            assert!(failure.example.contains(part), "no {part:?} in: {}", failure.example);
        }
    }
}

/// It is taken, in both versions.
#[track_caller]
fn accepted(settings: &Settings, server: &TestServer) {
    for versions in VERSIONS {
        let settings = Settings { versions, ..settings.clone() };
        assert_eq!(handshake(&settings, server), Ok(()), "{versions:?}");
    }
}
