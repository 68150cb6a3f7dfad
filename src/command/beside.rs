//! What runs beside a load: samples of the server, and a probe.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::Failure;
use crate::observe::interface;
use crate::observe::watch::{Source, Watch, Zero};
use crate::plan::{Target, Watching};
use crate::probe::{self, Probe, ProbeOutcome};
use crate::stats::result::{ProbeResult, WatchRow};
use crate::tls::Settings;

/// From one sample to the next, unless told.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);

/// What runs beside a load, until it is stopped.
pub(super) struct Beside {
    watch: Option<Watch>,
    sources: Vec<Source>,
    probe: Option<Probe>,
}

impl Beside {
    /// Starts it.
    ///
    /// # Errors
    /// Where something cannot be watched or asked that was asked for.
    pub(super) fn start(watching: &Watching, interval: Duration) -> Result<Self, Failure> {
        let watch = match &watching.sources[..] {
            [] => None,
            sources => Some(
                Watch::start(sources, interval)
                    .map_err(|error| Failure::Use(format!("--watch: {error}")))?,
            ),
        };
        let probe = match &watching.probe {
            None => None,
            Some(url) => {
                let settings = watching.probe_tls.clone();
                let settings = settings.unwrap_or_else(|| Settings::new(&url.host));
                let started = Probe::start(url, &settings);
                Some(started.map_err(|error| Failure::Use(error.to_string()))?)
            }
        };
        Ok(Self { watch, sources: watching.sources.clone(), probe })
    }

    /// Bytes that the server's machine can give without swapping, by the newest sample: of the first
    /// source that shows processes, else of the first that shows a machine.
    pub(super) fn mem_available(&self) -> Option<u64> {
        let watch = self.watch.as_ref()?;
        let samples: Vec<_> =
            (0..self.sources.len()).filter_map(|index| watch.latest(index)).collect();
        let of_server = samples.iter().find(|sample| !sample.processes.is_empty());
        let any = || samples.iter().find(|sample| sample.mem_available.is_some());
        of_server.or_else(any)?.mem_available
    }

    /// Bytes resident of all processes watched on this machine, shared pages divided by their users,
    /// read now: the kernel walks all their pages for it.
    pub(super) fn pss(&self) -> Option<u64> {
        let watch = self.watch.as_ref()?;
        let mut seen = BTreeSet::new();
        let processes = (0..self.sources.len()).filter_map(|index| watch.pss_now(index)).flatten();
        processes
            .filter(|process| seen.insert(process.pid))
            .filter_map(|process| process.pss)
            .fold(None, |sum, bytes| Some(sum.unwrap_or(0) + bytes))
    }

    /// What came of the probes from this number on.
    pub(super) fn probes_since(&self, number: usize) -> Vec<ProbeOutcome> {
        self.probe.as_ref().map_or_else(Vec::new, |probe| probe.outcomes_since(number))
    }

    /// Stops it, and gives all that was watched and what came of every probe.
    pub(super) fn finish(self, zero: Instant) -> (Vec<WatchRow>, Option<Vec<ProbeOutcome>>) {
        let probes = self.probe.map(Probe::stop);
        (self.watch.map_or_else(Vec::new, |watch| watch.stop(Zero::at(zero))), probes)
    }

    /// Stops it. `zero` is the start of recorded time; what was probed in a warm-up before it does
    /// not count, as nothing does.
    pub(super) fn stop(self, zero: Instant, warmup: bool) -> (Vec<WatchRow>, Option<ProbeResult>) {
        let (watch, outcomes) = self.finish(zero);
        let probe = outcomes.map(|mut outcomes| {
            outcomes.retain(|outcome| !warmup || outcome.sent_at >= zero);
            probe::summary(&outcomes, zero)
        });
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
