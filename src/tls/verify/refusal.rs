//! Why a certificate is refused, with the facts that help.

use std::fmt;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::{CertificateError, Error, OtherError};

use super::Leaf;

/// A reason that rustls has no word for, or too few words.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    /// Its name in results.
    pub(crate) detail: &'static str,
    /// In words.
    pub(crate) words: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl std::error::Error for Refusal {}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        CertificateError::Other(OtherError(Arc::new(refusal))).into()
    }
}

/// What verification found, with what the certificate itself says.
pub(super) fn explain(
    error: Error,
    certificate: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
) -> Error {
    let (Error::InvalidCertificate(found), Some(leaf)) = (&error, Leaf::read(certificate)) else {
        return error;
    };
    match found {
        // Of two authorities with one name, the trusted one may not be the one that signed.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            let of_that_name = matches!(found, CertificateError::BadSignature);
            unknown_issuer(&leaf, intermediates, of_that_name).into()
        }
        CertificateError::Other(OtherError(other)) => match other.downcast_ref::<webpki::Error>() {
            Some(webpki::Error::CaUsedAsEndEntity) if leaf.is_self_signed() => {
                unknown_issuer(&leaf, intermediates, false).into()
            }
            Some(webpki::Error::CaUsedAsEndEntity) => Refusal {
                detail: "ca-as-end-entity",
                words: format!(
                    "the server shows the certificate of an authority (CA:TRUE), {}, as its own; \
                     if it is meant, give it with --cacert FILE, or check nothing with -k",
                    leaf.subject()
                ),
            }
            .into(),
            Some(other) => Refusal {
                detail: other_detail(other),
                words: format!("the certificate of {} cannot be used: {other}", leaf.subject()),
            }
            .into(),
            None => error,
        },
        CertificateError::ExpiredContext { not_after, .. }
            if i64::try_from(not_after.as_secs()) != Ok(leaf.not_after()) =>
        {
            Refusal { detail: "expired", words: of_the_chain("expired on", not_after.as_secs()) }
                .into()
        }
        CertificateError::NotValidYetContext { not_before, .. }
            if i64::try_from(not_before.as_secs()) != Ok(leaf.not_before()) =>
        {
            let words = of_the_chain("is not valid before", not_before.as_secs());
            Refusal { detail: "not-yet-valid", words }.into()
        }
        _ => error,
    }
}

/// Nobody trusted signed it.
fn unknown_issuer(
    leaf: &Leaf<'_>,
    intermediates: &[CertificateDer<'_>],
    of_that_name: bool,
) -> Refusal {
    if leaf.is_self_signed() {
        let other = match of_that_name {
            true => ", while another certificate of the same name is",
            false => "",
        };
        let words = format!(
            "the certificate of {} is signed by itself and not trusted{other}; trust it with \
             --cacert FILE, or check nothing with -k",
            leaf.subject()
        );
        return Refusal { detail: "self-signed", words };
    }
    let mut words = match of_that_name {
        true => format!(
            "the certificate is signed by {}, and not by the trusted certificate of that name, \
             which has another key",
            leaf.issuer()
        ),
        false => format!("the certificate is signed by {}, which is not trusted", leaf.issuer()),
    };
    if intermediates.is_empty() && !of_that_name {
        words.push_str(
            ", and the server sent no other: an intermediate certificate may be missing in what it \
             sends",
        );
    }
    words.push_str("; trust an authority with --cacert FILE, or check nothing with -k");
    Refusal { detail: "unknown-issuer", words }
}

/// A certificate between the server's and a root is to blame.
fn of_the_chain(what: &str, seconds: u64) -> String {
    format!(
        "a certificate that the server's is signed with {what} {}",
        crate::tls::failure::date(seconds)
    )
}

/// What rustls passes on of webpki as it is.
fn other_detail(error: &webpki::Error) -> &'static str {
    use webpki::Error as E;
    match error {
        E::CertDistrusted => "distrusted",
        E::EmptyEkuExtension => "invalid-purpose",
        E::EndEntityUsedAsCa => "end-entity-as-ca",
        E::ExtensionValueInvalid | E::MalformedExtensions => "malformed-extension",
        E::InvalidSerialNumber => "invalid-serial-number",
        E::MalformedDnsIdentifier => "malformed-name",
        E::InvalidNetworkMaskConstraint | E::MalformedNameConstraint => "malformed-name-constraint",
        E::NameConstraintViolation => "name-constraint",
        E::PathLenConstraintViolated => "path-length",
        E::MaximumNameConstraintComparisonsExceeded
        | E::MaximumPathBuildCallsExceeded
        | E::MaximumPathDepthExceeded
        | E::MaximumSignatureChecksExceeded => "chain-too-long",
        E::SignatureAlgorithmMismatch => "signature-algorithm-mismatch",
        E::UnsupportedCertVersion => "unsupported-version",
        E::UnsupportedCriticalExtension => "unsupported-extension",
        _ => "unverifiable",
    }
}
