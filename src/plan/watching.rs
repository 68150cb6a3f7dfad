//! What is looked at beside the load.

use crate::observe::watch::Source;

use super::ParsedUrl;
use crate::tls::Settings;

/// What is looked at beside the load: the server, a probe, the line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Watching {
    /// What is sampled; empty: whoever listens on the port of a local target.
    pub sources: Vec<Source>,
    /// Asked once a second over a fresh connection.
    pub probe: Option<ParsedUrl>,
    /// How it speaks TLS, where its URL is https.
    pub probe_tls: Option<Settings>,
    /// What the line carries each way, bits per second; `None`: the interface's own speed, if it
    /// has one.
    pub link_bits: Option<u64>,
}
