//! How TLS is spoken, described.

use std::fmt::{self, Write};

use serde::Serialize;

use crate::plan::{Plan, Target, Tls};
use crate::tls::RootsOrigin;

/// How TLS is spoken; no certificate and no key is in it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TlsDescription {
    /// The name that is sent and that the certificate must hold.
    pub server_name: String,
    /// Whether the server's certificate is verified.
    pub verified: bool,
    /// Whose authorities are trusted: `none`, `cacert`, `embedded` (the embedded server's own
    /// certificate), `system`, and `webpki-roots` once it is known that the system has none.
    pub roots: &'static str,
    /// As they are typed.
    pub versions: &'static [&'static str],
    /// The share of connections that may resume an earlier session.
    pub resume: f64,
    /// The groups of the key exchange, the best first.
    pub groups: Vec<&'static str>,
    /// Whether there is a certificate to show.
    pub client_certificate: bool,
    /// Whether certificates to trust were given.
    pub cacert: bool,
}

impl TlsDescription {
    /// Of a plan that speaks TLS.
    pub(super) fn of(plan: &Plan) -> Option<Self> {
        let Tls { settings, resume } = plan.tls.as_ref()?;
        let roots = match (&settings.trusted, &plan.target) {
            _ if settings.insecure => RootsOrigin::None.name(),
            (Some(_), _) => RootsOrigin::Given.name(),
            (None, Target::Embedded { .. }) => "embedded",
            (None, Target::Origin { .. }) => RootsOrigin::System.name(),
        };
        Some(Self {
            server_name: settings.server_name.clone(),
            verified: !settings.insecure,
            roots,
            versions: settings.versions.names(),
            resume: *resume,
            groups: settings.groups.iter().map(|group| group.name()).collect(),
            client_certificate: settings.identity.is_some(),
            cacert: settings.trusted.is_some(),
        })
    }
}

/// In one line.
impl fmt::Display for TlsDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, ", self.versions.join(" and "))?;
        let name = self.server_name.escape_debug();
        match self.roots {
            "none" => write!(f, "as {name}, certificate not verified")?,
            "cacert" => write!(f, "{name} verified with --cacert")?,
            "embedded" => write!(f, "{name} verified with its own certificate")?,
            "webpki-roots" => write!(
                f,
                "{name} verified against the built-in roots (webpki-roots), since this system has \
                 none"
            )?,
            _ => write!(f, "{name} verified against the system's roots")?,
        }
        if self.client_certificate {
            f.write_str(", client certificate")?;
        }
        let mut resumption = String::new();
        match self.resume {
            0.0 => resumption.push_str("no resumption"),
            1.0 => resumption.push_str("sessions resumed"),
            share => write!(resumption, "{} % of the sessions resumed", share * 100.0)?,
        }
        write!(f, ", {resumption}, {}", self.groups.join(" "))
    }
}
