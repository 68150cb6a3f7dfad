//! Certificates of every kind, made anew for each test.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, SanType, SignatureAlgorithm,
};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};
use tempfile::TempDir;

/// An authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: Certificate,
}

/// A certificate that a side shows, with those behind it and its key.
pub struct Shown {
    chain: Vec<Certificate>,
    key: KeyPair,
}

/// Files of a test, gone with this.
pub struct Files {
    folder: TempDir,
}

impl Authority {
    pub fn named(name: &str) -> Self {
        let (params, key) = (authority(name), KeyPair::generate().unwrap());
        let certificate = params.self_signed(&key).unwrap();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    /// An authority that this one vouches for.
    pub fn intermediate(&self, name: &str) -> Self {
        let (params, key) = (authority(name), KeyPair::generate().unwrap());
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    /// What this one vouches for, with a key of the usual kind.
    pub fn signs(&self, params: &CertificateParams) -> Shown {
        self.signs_as(params, &PKCS_ECDSA_P256_SHA256)
    }

    /// The same, with a key of this kind.
    pub fn signs_as(&self, params: &CertificateParams, kind: &'static SignatureAlgorithm) -> Shown {
        let key = KeyPair::generate_for(kind).unwrap();
        Shown { chain: vec![params.signed_by(&key, &self.issuer).unwrap()], key }
    }

    pub fn pem(&self) -> String {
        self.certificate.pem()
    }

    /// What verifies clients whom this one vouches for, and refuses all others.
    pub fn clients(&self) -> Arc<dyn ClientCertVerifier> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone()).unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap()
    }
}

impl Shown {
    /// Signed by itself.
    pub fn by_itself(params: &CertificateParams) -> Self {
        let key = KeyPair::generate().unwrap();
        Self { chain: vec![params.self_signed(&key).unwrap()], key }
    }

    /// The same with an authority's certificate behind it.
    pub fn followed_by(mut self, authority: &Authority) -> Self {
        self.chain.push(authority.certificate.clone());
        self
    }

    /// All certificates, the leaf first.
    pub fn chain_pem(&self) -> String {
        self.chain.iter().map(Certificate::pem).collect()
    }

    /// The leaf alone.
    pub fn leaf_pem(&self) -> String {
        self.chain[0].pem()
    }

    pub fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// How a server shows it, whatever rustls thinks of it, in these versions and to these clients.
    pub fn config(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        clients: Arc<dyn ClientCertVerifier>,
    ) -> Arc<ServerConfig> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let key = PrivateKeyDer::try_from(self.key.serialize_der()).unwrap();
        let key = provider.key_provider.load_private_key(key).unwrap();
        let chain: Vec<CertificateDer<'static>> =
            self.chain.iter().map(|certificate| certificate.der().clone()).collect();
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_client_cert_verifier(clients)
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(CertifiedKey::new(chain, key))));
        Arc::new(config)
    }

    /// The same, to all clients.
    pub fn config_for_all(
        &self,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Arc<ServerConfig> {
        self.config(versions, Arc::new(NoClientAuth))
    }
}

impl Files {
    pub fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    /// Writes one, and gives its path as it is typed.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// The folder that they are in.
    pub fn path(&self) -> PathBuf {
        self.folder.path().to_owned()
    }
}

/// A certificate for 127.0.0.1, `localhost` and `site.example`, valid now.
pub fn here() -> CertificateParams {
    let mut params = named(&["localhost", "site.example"]);
    params.subject_alt_names.push(SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    params.distinguished_name.push(DnType::CommonName, "the-server");
    params
}

/// A certificate for these names, valid now.
pub fn named(names: &[&str]) -> CertificateParams {
    CertificateParams::new(names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>()).unwrap()
}

fn authority(name: &str) -> CertificateParams {
    let mut params = named(&[]);
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
}
