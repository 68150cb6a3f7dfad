//! What a client is to do.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, Error, InconsistentKeys};

use super::verify::Leaf;

/// How a client makes its sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The name that is sent (SNI) and that the certificate must hold; an address is not sent.
    pub server_name: String,
    /// Any certificate is taken, and nothing about it is checked, not even its signatures.
    pub insecure: bool,
    /// Certificates to trust instead of the system's: authorities, or the server's own.
    pub trusted: Option<Vec<CertificateDer<'static>>>,
    /// What to show where the server asks for a certificate.
    pub identity: Option<Identity>,
    /// The versions that are offered.
    pub versions: Versions,
    /// The groups of the key exchange, the best first; the first one's share is sent at once.
    pub groups: Vec<Group>,
}

/// A client's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, and those that it is signed with.
    pub chain: Vec<CertificateDer<'static>>,
    /// Its key. Shared, and not shown by `Debug`.
    pub key: Arc<PrivateKeyDer<'static>>,
}

impl Identity {
    /// Both, ready to be shown.
    ///
    /// # Errors
    /// Where the first certificate cannot be read, the key is of an unknown kind, or it is that of
    /// another certificate.
    pub fn certified_key(&self, provider: &CryptoProvider) -> Result<CertifiedKey, Error> {
        let key = provider.key_provider.load_private_key(self.key.clone_key())?;
        // rustls would compare them too, but does not read every certificate that a server may
        // take, such as those of X.509 version 1.
        let leaf = self.chain.first().ok_or(Error::NoCertificatesPresented)?;
        let leaf = Leaf::read(leaf).ok_or(CertificateError::BadEncoding)?;
        if key.public_key().is_some_and(|public| public != leaf.key()) {
            return Err(InconsistentKeys::KeyMismatch.into());
        }
        Ok(CertifiedKey::new(self.chain.clone(), key))
    }
}

/// Versions of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Versions {
    /// 1.2 and 1.3.
    #[default]
    Both,
    /// Only 1.2.
    Tls12,
    /// Only 1.3.
    Tls13,
}

/// A group of the key exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// Curve25519 (RFC 7748).
    X25519,
    /// NIST P-256.
    Secp256r1,
    /// NIST P-384.
    Secp384r1,
    /// X25519 with ML-KEM-768, which holds against a quantum computer and is dearer.
    X25519MlKem768,
}

impl Group {
    /// Every group, under the name that it is asked for and shown by.
    pub const ALL: [Self; 4] =
        [Self::X25519, Self::Secp256r1, Self::Secp384r1, Self::X25519MlKem768];
    /// What is offered where nothing is asked for. The post-quantum one is not among them: it
    /// makes a client's handshake 1.6 times as dear (docs/BENCHMARKING.md, TLS).
    pub const DEFAULT: [Self; 3] = [Self::X25519, Self::Secp256r1, Self::Secp384r1];

    /// Its name (IANA's TLS Supported Groups, in lower case).
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::X25519 => "x25519",
            Self::Secp256r1 => "secp256r1",
            Self::Secp384r1 => "secp384r1",
            Self::X25519MlKem768 => "x25519mlkem768",
        }
    }

    /// Whether TLS 1.2 knows it (RFC 8422; draft-ietf-tls-ecdhe-mlkem is of 1.3 alone).
    #[must_use]
    pub const fn is_in_tls12(self) -> bool {
        !matches!(self, Self::X25519MlKem768)
    }
}

impl Versions {
    /// As they are typed.
    #[must_use]
    pub const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Both => &["1.2", "1.3"],
            Self::Tls12 => &["1.2"],
            Self::Tls13 => &["1.3"],
        }
    }
}

impl Settings {
    /// Verified against the system's roots, with both versions and the usual groups.
    #[must_use]
    pub fn new(server_name: &str) -> Self {
        Self {
            server_name: server_name.to_owned(),
            insecure: false,
            trusted: None,
            identity: None,
            versions: Versions::Both,
            groups: Group::DEFAULT.to_vec(),
        }
    }
}
