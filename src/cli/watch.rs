//! What the flags of `watch` mean.

use std::time::Duration;

use super::WatchCommand;
use super::typed::WatchArgs;
use crate::observe::watch::Source;

/// What is sampled, and how often.
pub(super) fn meaning(args: WatchArgs) -> WatchCommand {
    let WatchArgs { name, pid, port, cgroup, interval } = args;
    let mut sources: Vec<Source> = [cgroup, name, pid, port].concat();
    if sources.is_empty() {
        sources.push(Source::System);
    }
    WatchCommand { sources, interval: Duration::from_nanos(interval) }
}
