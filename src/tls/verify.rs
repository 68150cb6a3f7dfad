//! Whether a server is the one that was meant.

use std::fmt;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::client::ClientError;
use super::settings::Settings;

/// Authorities that are trusted, read once and shared by all threads.
#[derive(Clone, Debug)]
pub struct Roots {
    store: Arc<RootCertStore>,
}

impl Roots {
    /// No authority at all, for where nothing is verified.
    #[must_use]
    pub fn none() -> Self {
        Self { store: Arc::new(RootCertStore::empty()) }
    }

    /// These.
    #[must_use]
    pub fn of(certificates: &[CertificateDer<'static>]) -> Self {
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(certificates.iter().cloned());
        Self { store: Arc::new(store) }
    }
}

/// What checks the server's certificate.
pub(super) fn verifier(
    settings: &Settings,
    roots: &Roots,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, ClientError> {
    if settings.insecure {
        return Ok(Arc::new(Anyone { schemes: schemes(provider) }));
    }
    let verifier =
        WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots.store), Arc::clone(provider))
            .build()
            .map_err(|error| ClientError::Roots(error.to_string()))?;
    Ok(verifier)
}

fn schemes(provider: &CryptoProvider) -> Vec<SignatureScheme> {
    provider.signature_verification_algorithms.supported_schemes()
}

/// Takes anyone for the server.
struct Anyone {
    schemes: Vec<SignatureScheme>,
}

impl fmt::Debug for Anyone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Anyone")
    }
}

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.clone()
    }
}
