//! Whether a server is the one that was meant.

mod leaf;
mod refusal;
mod roots;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, PeerMisbehaved, SignatureScheme};
use webpki::RawPublicKeyEntity;

pub(super) use leaf::Leaf;
pub(super) use refusal::Refusal;
pub use roots::{Roots, RootsError, RootsOrigin};

/// What checks the server's certificate.
pub(super) fn verifier(
    insecure: bool,
    roots: &Roots,
    provider: &CryptoProvider,
) -> Arc<dyn ServerCertVerifier> {
    let algorithms = provider.signature_verification_algorithms;
    match insecure {
        true => Arc::new(Anyone { algorithms }),
        false => Arc::new(Verifier { roots: roots.clone(), algorithms }),
    }
}

/// Takes whom the roots vouch for, and whose own certificate was given.
#[derive(Debug)]
struct Verifier {
    roots: Roots,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.roots.hold(certificate) {
            check_given(certificate, name, now)?;
            return Ok(ServerCertVerified::assertion());
        }
        let path = ParsedCertificate::try_from(certificate).and_then(|parsed| {
            let algorithms = self.algorithms.all;
            let store = self.roots.store();
            verify_server_cert_signed_by_trust_anchor(
                &parsed,
                store,
                intermediates,
                now,
                algorithms,
            )?;
            verify_server_name(&parsed, name)
        });
        match path {
            Ok(()) => Ok(ServerCertVerified::assertion()),
            Err(error) => Err(refusal::explain(error, certificate, intermediates)),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match self.only_given(certificate) {
            Some(leaf) => self.verify_bare(message, &leaf, signed),
            None => verify_tls12_signature(message, certificate, signed, &self.algorithms),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match self.only_given(certificate) {
            Some(leaf) => self.verify_bare(message, &leaf, signed),
            None => verify_tls13_signature(message, certificate, signed, &self.algorithms),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl Verifier {
    /// The certificate, where it was given and webpki cannot read it, as it is with those of X.509
    /// version 1 and with critical extensions that it does not know.
    fn only_given<'a>(&self, certificate: &'a CertificateDer<'a>) -> Option<Leaf<'a>> {
        if self.roots.hold(certificate) && ParsedCertificate::try_from(certificate).is_err() {
            Leaf::read(certificate)
        } else {
            None
        }
    }

    /// Checks the handshake's signature with nothing but the certificate's key. A scheme stands for
    /// several algorithms in TLS 1.2, which differ in the key that they take.
    fn verify_bare(
        &self,
        message: &[u8],
        leaf: &Leaf<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let scheme = self.algorithms.mapping.iter().find(|(scheme, _)| *scheme == signed.scheme);
        let Some((_, algorithms)) = scheme else {
            return Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into());
        };
        let key = leaf.key();
        let key = RawPublicKeyEntity::try_from(&key).map_err(|_| CertificateError::BadEncoding)?;
        let valid = algorithms
            .iter()
            .any(|algorithm| key.verify_signature(*algorithm, message, signed.signature()).is_ok());
        match valid {
            true => Ok(HandshakeSignatureValid::assertion()),
            false => Err(CertificateError::BadSignature.into()),
        }
    }
}

/// Checks what is left to check of a certificate that was given as the server's own: when it is
/// valid and for whom.
fn check_given(
    certificate: &CertificateDer<'_>,
    name: &ServerName<'_>,
    now: UnixTime,
) -> Result<(), Error> {
    let leaf = Leaf::read(certificate).ok_or(CertificateError::BadEncoding)?;
    let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let unix = |seconds: i64| {
        UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds.max(0) as u64))
    };
    if seconds < leaf.not_before() {
        let not_before = unix(leaf.not_before());
        return Err(CertificateError::NotValidYetContext { time: now, not_before }.into());
    }
    if seconds > leaf.not_after() {
        let not_after = unix(leaf.not_after());
        return Err(CertificateError::ExpiredContext { time: now, not_after }.into());
    }
    if !leaf.is_for(name) {
        let (expected, presented) = (name.to_owned(), leaf.names());
        return Err(CertificateError::NotValidForNameContext { expected, presented }.into());
    }
    Ok(())
}

/// Takes anyone for the server.
struct Anyone {
    algorithms: WebPkiSupportedAlgorithms,
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
        self.algorithms.supported_schemes()
    }
}
