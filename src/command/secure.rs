//! TLS of a load: whom the engine is to trust, and what its handshakes came to.

use rustls::pki_types::CertificateDer;

use super::Failure;
use crate::engine::Report;
use crate::engine::secure::Tls;
use crate::plan::Plan;
use crate::stats::result::TlsFigures;
use crate::tls::Roots;

/// What the engine is given. `own` is the certificate that the embedded server shows: it is trusted
/// where the plan does not say whom to trust.
///
/// # Errors
/// Where the system's authorities cannot be used.
pub(super) fn tls(
    plan: &Plan,
    own: Option<CertificateDer<'static>>,
) -> Result<Option<Tls>, Failure> {
    let Some(crate::plan::Tls { settings, resume }) = &plan.tls else { return Ok(None) };
    let mut settings = settings.clone();
    if settings.trusted.is_none() {
        settings.trusted = own.map(|certificate| vec![certificate]);
    }
    let roots = Roots::for_settings(&settings).map_err(|error| Failure::Use(error.to_string()))?;
    Ok(Some(Tls { settings, roots, resume: *resume }))
}

/// What the handshakes of all workers came to; they are counted elsewhere.
pub(super) fn figures(plan: &Plan, reports: &[Report]) -> Option<TlsFigures> {
    let tls = plan.tls.as_ref()?;
    // A full one says more than one that resumed.
    let handshakes = reports.iter().filter_map(|report| report.outcome.handshake);
    let handshake = handshakes.min_by_key(|handshake| handshake.resumed);
    Some(TlsFigures {
        version: handshake.map(|handshake| handshake.version.to_owned()),
        suite: handshake.map(|handshake| handshake.suite.to_owned()),
        group: handshake.and_then(|handshake| handshake.group).map(str::to_owned),
        verified: !tls.settings.insecure,
        full: 0,
        resumed: 0,
    })
}
