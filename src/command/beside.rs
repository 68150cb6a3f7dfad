//! What runs beside a load: samples of the server, and a probe.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::Failure;
use crate::observe::interface;
use crate::observe::watch::{Source, Watch, Zero};
use crate::plan::{Target, Watching};
use crate::probe::{self, Probe};
use crate::stats::result::{ProbeResult, WatchRow};

/// From one sample to the next.
const INTERVAL: Duration = Duration::from_secs(1);

/// What runs beside a load, until it is stopped.
pub(super) struct Beside {
    watch: Option<Watch>,
    probe: Option<Probe>,
}

impl Beside {
    /// Starts it.
    ///
    /// # Errors
    /// Where something cannot be watched or asked that was asked for.
    pub(super) fn start(watching: &Watching) -> Result<Self, Failure> {
        let watch = match &watching.sources[..] {
            [] => None,
            sources => Some(
                Watch::start(sources, INTERVAL)
                    .map_err(|error| Failure::Use(format!("--watch: {error}")))?,
            ),
        };
        let probe = match &watching.probe {
            None => None,
            Some(url) => {
                Some(Probe::start(url, false).map_err(|error| Failure::Use(error.to_string()))?)
            }
        };
        Ok(Self { watch, probe })
    }

    /// Stops it. `zero` is the start of recorded time; what was probed in a warm-up before it does
    /// not count, as nothing does.
    pub(super) fn stop(self, zero: Instant, warmup: bool) -> (Vec<WatchRow>, Option<ProbeResult>) {
        let probe = self.probe.map(|probe| {
            let mut outcomes = probe.stop();
            outcomes.retain(|outcome| !warmup || outcome.sent_at >= zero);
            probe::summary(&outcomes, zero)
        });
        let watch = self.watch.map_or_else(Vec::new, |watch| watch.stop(Zero::at(zero)));
        (watch, probe)
    }
}

/// Adds what is watched unless told: who listens on the port of a local target.
pub(super) fn add_default(watching: &mut Watching, target: &Target, addresses: &[SocketAddr]) {
    let Target::Origin { .. } = target else { return };
    let local = addresses.iter().find(|address| interface::is_ours(address.ip()));
    if let (true, Some(local)) = (watching.sources.is_empty(), local) {
        watching.sources.push(Source::Port(local.port()));
    }
}

/// What the line to these addresses carries each way, bits per second: as told, else the
/// interface's speed, if it is a real one.
pub(super) fn link_bits(watching: &Watching, addresses: &[SocketAddr]) -> Option<u64> {
    watching.link_bits.or_else(|| interface::speed_bits(addresses.first()?.ip()))
}
