//! TLS of a probe.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore,
    SignatureScheme,
};

use super::ProbeFailure;
use crate::stats::{FaultKind, Phase};

/// What all connections of a probe share. Each makes a full handshake: somebody who comes anew has
/// nothing to resume.
pub(super) struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Tls {
    /// For a server of this name; the reason where there can be none.
    pub(super) fn new(host: &str, insecure: bool) -> Result<Self, String> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| format!("\"{host}\" is no name of a TLS server; give a host name"))?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier: Arc<dyn ServerCertVerifier> = match insecure {
            true => Arc::new(Unverified(Arc::clone(&provider))),
            false => WebPkiServerVerifier::builder_with_provider(roots(), Arc::clone(&provider))
                .build()
                .map_err(|error| format!("there are no certificates to trust: {error}"))?,
        };
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.resumption = Resumption::disabled();
        Ok(Self { config: Arc::new(config), name })
    }

    /// A connection's side of the handshake, which has not begun.
    pub(super) fn connection(&self) -> Result<ClientConnection, ProbeFailure> {
        ClientConnection::new(Arc::clone(&self.config), self.name.clone())
            .map_err(|error| failure(&error))
    }
}

/// What an error of TLS says.
pub(super) fn failure(error: &Error) -> ProbeFailure {
    let kind = match error {
        Error::InvalidCertificate(_) => FaultKind::Certificate,
        _ => FaultKind::Handshake,
    };
    let detail = match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => "unknown-issuer".to_owned(),
        Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        ) => "expired".to_owned(),
        Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        ) => "not-yet-valid".to_owned(),
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => "wrong-host".to_owned(),
        other => other.to_string(),
    };
    ProbeFailure { phase: Phase::Tls, kind, detail }
}

/// The system's roots, or Mozilla's where it has none.
fn roots() -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    Arc::new(roots)
}

/// Takes any certificate; whoever shows it must still have its key.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
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
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
