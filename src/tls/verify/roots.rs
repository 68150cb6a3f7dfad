//! Whom to believe when they vouch for a server.

use std::env;
use std::fmt;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;

use crate::tls::Settings;

/// Authorities, and servers' own certificates, that are trusted: read once and shared by all
/// threads.
#[derive(Clone, Debug)]
pub struct Roots {
    authorities: Arc<RootCertStore>,
    /// Compared with the server's whole.
    given: Arc<[CertificateDer<'static>]>,
    origin: RootsOrigin,
}

/// Where authorities come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootsOrigin {
    /// Nowhere: nothing is verified.
    None,
    /// They were given, and the system's are not trusted.
    Given,
    /// The system's.
    System,
    /// Mozilla's, as they were when this program was built: the system has none.
    BuiltIn,
}

/// Why the system's authorities cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootsError(String);

impl fmt::Display for RootsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RootsError {}

impl RootsOrigin {
    /// Its name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Given => "cacert",
            Self::System => "system",
            Self::BuiltIn => "webpki-roots",
        }
    }

    /// What a user should know of it, if anything.
    #[must_use]
    pub const fn note(self) -> Option<&'static str> {
        match self {
            Self::BuiltIn => Some(
                "this system has no certificates of authorities, so the server's was verified \
                 against those that are built in (webpki-roots), which age; install them (on \
                 Debian the package ca-certificates), or give some with --cacert",
            ),
            Self::None | Self::Given | Self::System => None,
        }
    }
}

impl Roots {
    /// No authority at all, for where nothing is verified.
    #[must_use]
    pub fn none() -> Self {
        Self::new(RootCertStore::empty(), &[], RootsOrigin::None)
    }

    /// These: as authorities, and each also as the certificate of the very server that shows it.
    #[must_use]
    pub fn of(certificates: &[CertificateDer<'static>]) -> Self {
        let mut store = RootCertStore::empty();
        // One that is no authority may still be a server's.
        store.add_parsable_certificates(certificates.iter().cloned());
        Self::new(store, certificates, RootsOrigin::Given)
    }

    /// The system's, out of its usual files or where `SSL_CERT_FILE` and `SSL_CERT_DIR` say; where
    /// it has none, Mozilla's that are built in. [`Self::origin`] tells which.
    ///
    /// # Errors
    /// Where those variables lead to no certificate: whoever set them meant something else.
    pub fn system() -> Result<Self, RootsError> {
        let found = rustls_native_certs::load_native_certs();
        let mut store = RootCertStore::empty();
        let (added, _) = store.add_parsable_certificates(found.certs);
        if added > 0 {
            return Ok(Self::new(store, &[], RootsOrigin::System));
        }
        let set = ["SSL_CERT_FILE", "SSL_CERT_DIR"].into_iter().find(|v| env::var_os(v).is_some());
        if let Some(variable) = set {
            let why = found.errors.first().map(|error| format!(": {error}")).unwrap_or_default();
            return Err(RootsError(format!(
                "{variable} is set and leads to no certificate{why}; correct it, unset it, or give \
                 certificates to trust with --cacert FILE"
            )));
        }
        store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        Ok(Self::new(store, &[], RootsOrigin::BuiltIn))
    }

    /// Those that settings ask for: none with `insecure`, else the trusted ones, else the system's.
    ///
    /// # Errors
    /// See [`Self::system`].
    pub fn for_settings(settings: &Settings) -> Result<Self, RootsError> {
        match &settings.trusted {
            _ if settings.insecure => Ok(Self::none()),
            Some(certificates) => Ok(Self::of(certificates)),
            None => Self::system(),
        }
    }

    /// Where they come from.
    #[must_use]
    pub fn origin(&self) -> RootsOrigin {
        self.origin
    }

    fn new(store: RootCertStore, given: &[CertificateDer<'static>], origin: RootsOrigin) -> Self {
        Self { authorities: Arc::new(store), given: given.into(), origin }
    }

    pub(super) fn store(&self) -> &RootCertStore {
        &self.authorities
    }

    /// Whether this very certificate was given.
    pub(super) fn hold(&self, certificate: &CertificateDer<'_>) -> bool {
        self.given.iter().any(|given| given == certificate)
    }
}
