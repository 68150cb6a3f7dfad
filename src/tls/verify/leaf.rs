//! What a certificate says, beyond what verification tells.

use std::net::IpAddr;

use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;
use x509_parser::x509::X509Name;

/// A server's certificate, read.
pub(in crate::tls) struct Leaf<'a> {
    certificate: X509Certificate<'a>,
}

impl<'a> Leaf<'a> {
    /// Reads it; `None` where it is no certificate.
    pub(in crate::tls) fn read(der: &'a CertificateDer<'_>) -> Option<Self> {
        let (rest, certificate) = X509Certificate::from_der(der).ok()?;
        rest.is_empty().then_some(Self { certificate })
    }

    /// Whom it is for.
    pub(super) fn subject(&self) -> String {
        named(self.certificate.subject())
    }

    /// Who signed it.
    pub(super) fn issuer(&self) -> String {
        named(self.certificate.issuer())
    }

    /// Whether it names itself as its issuer.
    pub(super) fn is_self_signed(&self) -> bool {
        self.certificate.subject().as_raw() == self.certificate.issuer().as_raw()
    }

    /// The first second of its validity, since 1970.
    pub(super) fn not_before(&self) -> i64 {
        self.certificate.validity().not_before.timestamp()
    }

    /// The last second of its validity, since 1970.
    pub(super) fn not_after(&self) -> i64 {
        self.certificate.validity().not_after.timestamp()
    }

    /// Its public key (SubjectPublicKeyInfo, RFC 5280, 4.1).
    pub(in crate::tls) fn key(&self) -> SubjectPublicKeyInfoDer<'_> {
        SubjectPublicKeyInfoDer::from(self.certificate.public_key().raw)
    }

    /// The names and addresses that it is for, as they are written in it.
    pub(super) fn names(&self) -> Vec<String> {
        match self.alternative_names() {
            Some(names) => names.iter().filter_map(alternative_name).collect(),
            None => self.common_names().map(str::to_owned).collect(),
        }
    }

    /// Whether it is for this name. Without alternative names the common name counts, as it did
    /// before RFC 6125: it is only asked of a certificate that was given whole, and
    /// `openssl req -x509` makes them so.
    pub(super) fn is_for(&self, name: &ServerName<'_>) -> bool {
        let matches = |pattern: &str| match name {
            ServerName::DnsName(host) => covers(pattern, host.as_ref()),
            ServerName::IpAddress(address) => pattern.parse() == Ok(IpAddr::from(*address)),
            _ => false,
        };
        match self.alternative_names() {
            Some(names) => names.iter().any(|held| match (held, name) {
                (GeneralName::DNSName(pattern), ServerName::DnsName(_)) => matches(pattern),
                (GeneralName::IPAddress(octets), ServerName::IpAddress(address)) => {
                    ip_address(octets) == Some(IpAddr::from(*address))
                }
                _ => false,
            }),
            None => self.common_names().any(matches),
        }
    }

    /// `None` where it has none at all.
    fn alternative_names(&self) -> Option<&[GeneralName<'a>]> {
        let extension = self.certificate.subject_alternative_name().ok().flatten()?;
        Some(&extension.value.general_names)
    }

    fn common_names(&self) -> impl Iterator<Item = &str> {
        self.certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok())
    }
}

/// A name as `CN=..., O=...`, without characters that a terminal would act on.
fn named(name: &X509Name<'_>) -> String {
    name.to_string().escape_debug().to_string()
}

fn alternative_name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(octets) => ip_address(octets).map(|address| address.to_string()),
        _ => None,
    }
}

fn ip_address(octets: &[u8]) -> Option<IpAddr> {
    let v4 = || <[u8; 4]>::try_from(octets).map(IpAddr::from);
    v4().or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from)).ok()
}

/// Whether a name in a certificate is that of the host; `*` stands for one label, the first
/// (RFC 9525, 6.3).
fn covers(pattern: &str, host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    match (pattern.strip_prefix("*."), host.split_once('.')) {
        (Some(pattern), Some((first, rest))) => {
            !first.is_empty() && pattern.eq_ignore_ascii_case(rest)
        }
        (Some(_), None) => false,
        (None, _) => pattern.eq_ignore_ascii_case(host),
    }
}
