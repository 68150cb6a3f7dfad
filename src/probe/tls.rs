//! TLS of a probe: the load's sessions, verification and names of failures.

use rustls::{ClientConnection, Error};

use super::ProbeFailure;
use crate::stats::Phase;
use crate::tls::{Client, Roots, Settings, failure};

/// What all connections of a probe share. Each makes a full handshake: somebody who comes anew has
/// nothing to resume.
pub(super) struct Tls {
    client: Client,
}

impl Tls {
    /// As these settings say; the reason where they cannot be carried out.
    pub(super) fn new(settings: &Settings) -> Result<Self, String> {
        let roots = Roots::for_settings(settings).map_err(|error| error.to_string())?;
        let client = Client::new(settings, &roots).map_err(|error| error.to_string())?;
        Ok(Self { client })
    }

    /// A connection's side of the handshake, which has not begun.
    pub(super) fn connection(&self) -> Result<ClientConnection, ProbeFailure> {
        self.client.buffered().map_err(|error| self::failure(Phase::Tls, &error))
    }
}

/// What an error of TLS says that was met in this phase.
pub(super) fn failure(phase: Phase, error: &Error) -> ProbeFailure {
    let fault = failure::of(error, false).fault(phase, 0);
    ProbeFailure { phase: fault.phase, kind: fault.kind, detail: fault.detail.to_owned() }
}
