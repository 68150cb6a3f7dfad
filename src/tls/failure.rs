//! Failures of TLS, by name: what a result says of them.
//!
//! A detail with hyphens is what we found; one with underscores is the alert that the peer sent, as
//! IANA names it (TLS Alerts). Two are said by either side and have one name: `protocol-version`
//! and `no-application-protocol`.

use std::fmt::Write;

use jiff::Timestamp;
use rustls::pki_types::{ServerName, UnixTime};
use rustls::{
    AlertDescription, CertificateError, Error, InvalidMessage, OtherError, PeerIncompatible,
    PeerMisbehaved,
};

use super::verify::Refusal;
use crate::clock::Nanos;
use crate::stats::{Fault, FaultKind, Phase};

/// The most names of a certificate that are told.
const MAX_NAMES: usize = 5;
/// The detail where a server wanted a client's certificate.
const CLIENT_CERTIFICATE_REQUIRED: &str = "client-certificate-required";

/// A failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// [`FaultKind::Certificate`], [`FaultKind::Handshake`] or [`FaultKind::Other`].
    pub kind: FaultKind,
    /// Its name.
    pub detail: &'static str,
    /// In words, with the facts; what the peer wrote in it is escaped.
    pub example: String,
}

impl Failure {
    fn new(kind: FaultKind, detail: &'static str, example: impl Into<String>) -> Self {
        Self { kind, detail, example: example.into() }
    }

    /// As it is counted, where it was met in this phase. What is about certificates belongs to the
    /// handshake whenever it is heard of: in TLS 1.3 a server sees the client's only after the
    /// client is done. Any other failure after the handshake is none of it.
    #[must_use]
    pub fn fault(self, phase: Phase, at_ns: Nanos) -> Fault {
        let Self { kind, detail, example } = self;
        let (phase, kind) = match kind {
            FaultKind::Certificate => (Phase::Tls, kind),
            FaultKind::Handshake if phase != Phase::Tls => (phase, FaultKind::Other),
            _ => (phase, kind),
        };
        Fault { phase, kind, errno: 0, detail, bytes: example.into_bytes(), at_ns }
    }
}

/// Names what went wrong. `certificate_missed`: the server has asked for a client's certificate and
/// there was none ([`super::Client::take_certificate_missed`]), which is what its refusal is then
/// about.
#[must_use]
pub fn of(error: &Error, certificate_missed: bool) -> Failure {
    let handshake = |detail, example: String| Failure::new(FaultKind::Handshake, detail, example);
    match error {
        Error::InvalidCertificate(error) => certificate(error),
        Error::NoCertificatesPresented => Failure::new(
            FaultKind::Certificate,
            "no-certificate",
            "the server showed no certificate",
        ),
        Error::AlertReceived(alert) => of_alert(*alert, certificate_missed),
        Error::InvalidMessage(
            InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
        ) => handshake(
            "not-tls",
            "what the server sent is not TLS; if it speaks plain HTTP on this port, write http://"
                .into(),
        ),
        Error::InvalidMessage(what) => handshake(
            "invalid-message",
            format!("the server sent a message that is none: {what:?}"),
        ),
        Error::PeerIncompatible(what) => incompatible(what),
        Error::NoApplicationProtocol
        | Error::PeerMisbehaved(PeerMisbehaved::SelectedUnofferedApplicationProtocol) => {
            no_application_protocol()
        }
        Error::PeerMisbehaved(what) => handshake(
            "peer-misbehaved",
            format!(
                "the server breaks the rules of TLS: {what:?}; it, or what stands between, is \
                     faulty"
            ),
        ),
        Error::InappropriateMessage { .. } | Error::InappropriateHandshakeMessage { .. } => {
            handshake("unexpected-message", format!("the server sent the wrong message: {error}"))
        }
        Error::DecryptError => handshake(
            "decrypt-error",
            "what the server sent cannot be decrypted: it was changed on the way".into(),
        ),
        Error::PeerSentOversizedRecord => {
            handshake("record-overflow", "the server sent a record that is too long".into())
        }
        Error::FailedToGetRandomBytes => {
            Failure::new(FaultKind::Other, "no-random-bytes", "the system gave no random bytes")
        }
        Error::FailedToGetCurrentTime => {
            Failure::new(FaultKind::Other, "no-time", "the system's clock is before 1970")
        }
        other => Failure::new(FaultKind::Other, "tls", other.to_string()),
    }
}

/// A date as RFC 3339 writes it; `seconds` since 1970.
pub(super) fn date(seconds: u64) -> String {
    let timestamp = i64::try_from(seconds).ok().and_then(|s| Timestamp::from_second(s).ok());
    timestamp.map_or_else(|| "a date beyond all calendars".into(), |date| date.to_string())
}

/// The server's certificate was refused.
fn certificate(error: &CertificateError) -> Failure {
    use CertificateError as E;
    let failure = |detail, example: String| Failure::new(FaultKind::Certificate, detail, example);
    match error {
        E::ExpiredContext { time, not_after } => {
            failure("expired", format!("the certificate expired on {}", far(*not_after, *time)))
        }
        E::Expired => failure("expired", "the certificate has expired".into()),
        E::NotValidYetContext { time, not_before } => failure(
            "not-yet-valid",
            format!(
                "the certificate is not valid before {}; is the clock right?",
                far(*not_before, *time)
            ),
        ),
        E::NotValidYet => failure("not-yet-valid", "the certificate is not valid yet".into()),
        E::NotValidForNameContext { expected, presented } => {
            failure("wrong-host", wrong_host(expected, presented))
        }
        E::NotValidForName => failure("wrong-host", "the certificate is not for this name".into()),
        E::UnknownIssuer => {
            failure("unknown-issuer", "nobody who is trusted has signed the certificate".into())
        }
        E::BadSignature => failure(
            "bad-signature",
            "a signature of the handshake does not fit the server's certificate".into(),
        ),
        E::BadEncoding => failure("bad-encoding", "the certificate cannot be read".into()),
        E::Revoked => failure("revoked", "the certificate was revoked".into()),
        E::UnhandledCriticalExtension => failure(
            "unsupported-extension",
            "the certificate has a critical extension that is not understood".into(),
        ),
        #[expect(deprecated, reason = "rustls still gives it for some keys")]
        E::UnsupportedSignatureAlgorithm
        | E::UnsupportedSignatureAlgorithmContext { .. }
        | E::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => failure(
            "unsupported-signature-algorithm",
            "the certificate is signed in a way that is not accepted: too old (SHA-1), or too \
             uncommon"
                .into(),
        ),
        E::InvalidPurpose | E::InvalidPurposeContext { .. } => failure(
            "invalid-purpose",
            "the certificate is not meant for a server (extended key usage)".into(),
        ),
        E::Other(OtherError(other)) => match other.downcast_ref::<Refusal>() {
            Some(Refusal { detail, words }) => failure(detail, words.clone()),
            None => failure("unverifiable", format!("the certificate cannot be used: {other}")),
        },
        other => failure("unverifiable", format!("the certificate cannot be used: {other}")),
    }
}

/// A date, and how far it is from now.
fn far(date: UnixTime, now: UnixTime) -> String {
    let seconds = date.as_secs().abs_diff(now.as_secs());
    let (number, unit) = match seconds {
        0..120 => (seconds, "second"),
        120..7_200 => (seconds / 60, "minute"),
        7_200..172_800 => (seconds / 3_600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    let plural = if number == 1 { "" } else { "s" };
    let direction = if date <= now { "ago" } else { "from now" };
    format!("{} ({number} {unit}{plural} {direction})", self::date(date.as_secs()))
}

fn wrong_host(expected: &ServerName<'_>, presented: &[String]) -> String {
    let mut text = match presented {
        [] => "the certificate holds no name".to_owned(),
        names => {
            // webpki writes a name as DnsName("...") and an address as IpAddress(...).
            let names: Vec<String> = names.iter().take(MAX_NAMES).map(|name| bare(name)).collect();
            format!("the certificate is for {}", names.join(", "))
        }
    };
    if presented.len() > MAX_NAMES {
        let _ = write!(text, " and {} more", presented.len() - MAX_NAMES);
    }
    let _ = write!(
        text,
        ", not for {}; ask for one of its names with --sni NAME, or check nothing with -k",
        expected.to_str()
    );
    text
}

/// A name in a certificate without what webpki writes around it, and without what a terminal would
/// act on.
fn bare(name: &str) -> String {
    let inner = ["DnsName(", "IpAddress("]
        .iter()
        .find_map(|around| name.strip_prefix(around)?.strip_suffix(')'))
        .unwrap_or(name);
    inner.trim_matches('"').escape_debug().to_string()
}

/// What both sides know does not go together.
fn incompatible(what: &PeerIncompatible) -> Failure {
    use PeerIncompatible as P;
    let handshake = |detail, example: &str| Failure::new(FaultKind::Handshake, detail, example);
    match what {
        P::ServerDoesNotSupportTls12Or13
        | P::ServerTlsVersionIsDisabledByOurConfig
        | P::Tls12NotOffered
        | P::Tls12NotOfferedOrEnabled
        | P::SupportedVersionsExtensionRequired => protocol_version(),
        P::NoCipherSuitesInCommon => {
            handshake("no-cipher-suite", "both sides have no cipher suite in common")
        }
        P::NoKxGroupsInCommon => handshake(
            "no-group",
            "both sides have no group for the key exchange in common; offer others with \
             --tls-groups",
        ),
        P::NoSignatureSchemesInCommon | P::NoCertificateRequestSignatureSchemesInCommon => {
            handshake("no-signature-scheme", "both sides have no signature scheme in common")
        }
        other => {
            let words = format!("the server lacks what is needed: {other:?}");
            Failure::new(FaultKind::Handshake, "incompatible", words)
        }
    }
}

fn protocol_version() -> Failure {
    Failure::new(
        FaultKind::Handshake,
        "protocol-version",
        "the server speaks no version of TLS that is offered; TLS 1.2 and 1.3 are offered, or the \
         one of --tls",
    )
}

fn no_application_protocol() -> Failure {
    Failure::new(
        FaultKind::Handshake,
        "no-application-protocol",
        "the server does not speak HTTP/1.1 over TLS, the only protocol that is offered (ALPN)",
    )
}

/// The peer said what is wrong.
fn of_alert(alert: AlertDescription, certificate_missed: bool) -> Failure {
    use AlertDescription as A;
    let missing = match alert {
        A::CertificateRequired => true,
        A::HandshakeFailure
        | A::NoCertificate
        | A::BadCertificate
        | A::CertificateUnknown
        | A::AccessDenied => certificate_missed,
        _ => false,
    };
    let name = alert_name(alert);
    if missing {
        let words = format!(
            "the server asks for a client's certificate and was shown none (alert {name}); give \
             one with --cert FILE --key FILE"
        );
        return Failure::new(FaultKind::Certificate, CLIENT_CERTIFICATE_REQUIRED, words);
    }
    match alert {
        A::ProtocolVersion => protocol_version(),
        A::NoApplicationProtocol => no_application_protocol(),
        A::NoCertificate
        | A::BadCertificate
        | A::UnsupportedCertificate
        | A::CertificateRevoked
        | A::CertificateExpired
        | A::CertificateUnknown
        | A::UnknownCA
        | A::AccessDenied => {
            let words = format!(
                "the server refuses the client's certificate (alert {name}); give another with \
                 --cert FILE --key FILE"
            );
            Failure::new(FaultKind::Certificate, name, words)
        }
        A::Unknown(code) => {
            let words = format!("the server refused with alert {code}, which has no name");
            Failure::new(FaultKind::Handshake, name, words)
        }
        _ => {
            let words = format!("the server refused with alert {name}; its own log may say why");
            Failure::new(FaultKind::Handshake, name, words)
        }
    }
}

/// As IANA names it, without the `_RESERVED` of those that are no longer sent.
const fn alert_name(alert: AlertDescription) -> &'static str {
    use AlertDescription as A;
    match alert {
        A::CloseNotify => "close_notify",
        A::UnexpectedMessage => "unexpected_message",
        A::BadRecordMac => "bad_record_mac",
        A::DecryptionFailed => "decryption_failed",
        A::RecordOverflow => "record_overflow",
        A::DecompressionFailure => "decompression_failure",
        A::HandshakeFailure => "handshake_failure",
        A::NoCertificate => "no_certificate",
        A::BadCertificate => "bad_certificate",
        A::UnsupportedCertificate => "unsupported_certificate",
        A::CertificateRevoked => "certificate_revoked",
        A::CertificateExpired => "certificate_expired",
        A::CertificateUnknown => "certificate_unknown",
        A::IllegalParameter => "illegal_parameter",
        A::UnknownCA => "unknown_ca",
        A::AccessDenied => "access_denied",
        A::DecodeError => "decode_error",
        A::DecryptError => "decrypt_error",
        A::ExportRestriction => "export_restriction",
        A::ProtocolVersion => "protocol_version",
        A::InsufficientSecurity => "insufficient_security",
        A::InternalError => "internal_error",
        A::InappropriateFallback => "inappropriate_fallback",
        A::UserCanceled => "user_canceled",
        A::NoRenegotiation => "no_renegotiation",
        A::MissingExtension => "missing_extension",
        A::UnsupportedExtension => "unsupported_extension",
        A::CertificateUnobtainable => "certificate_unobtainable",
        A::UnrecognisedName => "unrecognized_name",
        A::BadCertificateStatusResponse => "bad_certificate_status_response",
        A::BadCertificateHashValue => "bad_certificate_hash_value",
        A::UnknownPSKIdentity => "unknown_psk_identity",
        A::CertificateRequired => "certificate_required",
        A::EncryptedClientHelloRequired => "ech_required",
        _ => "unknown_alert",
    }
}
