//! What the flags of `watch` mean.

use std::ffi::OsString;
use std::time::Duration;

use super::typed::WatchArgs;
use super::{WatchCommand, values};
use crate::clock::{Nanos, SECOND};
use crate::observe::watch::Source;

/// How often samples are taken unless told.
const DEFAULT_INTERVAL_NS: Nanos = SECOND;

/// What is sampled, and how often.
pub(super) fn meaning(args: WatchArgs) -> WatchCommand {
    let WatchArgs { name, pid, port, cgroup, interval } = args;
    command(&[cgroup, name, pid, port], interval)
}

/// The same without clap, where the arguments are nothing but `watch` and flags that are right, each
/// followed by its value; else `None`, and clap has the word.
///
/// Of 3.3 MiB that `watch` would have resident, 0.6 MiB would be clap's code and what looks at the
/// machine for other commands (docs/watch.md).
pub(super) fn without_clap(arguments: &[OsString]) -> Option<WatchCommand> {
    let mut words = arguments.iter().skip(1).map(|word| word.to_str());
    if words.next()?? != "watch" {
        return None;
    }
    let [mut name, mut pid, mut port, mut cgroup] = [const { Vec::new() }; 4];
    let mut interval = None;
    while let Some(flag) = words.next() {
        let value = words.next()??;
        if value.starts_with('-') {
            return None;
        }
        match flag? {
            "--name" => name.push(values::watched_name(value).ok()?),
            "--pid" => pid.push(values::watched_pid(value).ok()?),
            "--port" => port.push(values::watched_port(value).ok()?),
            "--cgroup" => cgroup.push(values::watched_group(value).ok()?),
            "--interval" if interval.is_none() => {
                interval = Some(values::watch_interval(value).ok()?);
            }
            _ => return None,
        }
    }
    Some(command(&[cgroup, name, pid, port], interval))
}

fn command(selections: &[Vec<Source>], interval_ns: Option<Nanos>) -> WatchCommand {
    let mut sources = selections.concat();
    if sources.is_empty() {
        sources.push(Source::System);
    }
    let interval = Duration::from_nanos(interval_ns.unwrap_or(DEFAULT_INTERVAL_NS));
    WatchCommand { sources, interval }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Command, workers::Machine};
    use super::*;

    fn with_clap(words: &[&str]) -> Option<WatchCommand> {
        let machine = Machine { allowed: vec![0], usable: vec![0] };
        match super::super::parse_on(words.iter().map(OsString::from).collect(), &machine) {
            Ok(Command::Watch(command)) => Some(command),
            _ => None,
        }
    }

    fn both(words: &[&str]) -> [Option<WatchCommand>; 2] {
        let direct: Vec<OsString> = words.iter().map(OsString::from).collect();
        [without_clap(&direct), with_clap(words)]
    }

    #[test]
    fn selections_are_joined_and_without_any_it_is_the_machine() {
        let second = Duration::from_secs(1);
        let alone = WatchCommand { sources: vec![Source::System], interval: second };
        assert_eq!(both(&["ringload", "watch"]), [Some(alone.clone()), Some(alone)]);
        let words =
            "ringload watch --port 80 --name nginx --interval 500ms --name caddy --cgroup /web";
        let command = WatchCommand {
            sources: vec![
                Source::Cgroup("/web".into()),
                Source::Name("nginx".into()),
                Source::Name("caddy".into()),
                Source::Port(80),
            ],
            interval: second / 2,
        };
        let words: Vec<&str> = words.split(' ').collect();
        assert_eq!(both(&words), [Some(command.clone()), Some(command)]);
    }

    #[test]
    fn what_is_not_plain_is_left_to_clap() {
        for (words, is_right) in [
            ("watch --name=nginx", true),
            ("watch --help", false),
            ("watch --interval 1ms", false),
            ("watch --name", false),
            ("watch --pid -1", false),
            ("watch nginx", false),
            ("run --name nginx", false),
        ] {
            let words: Vec<&str> = ["ringload"].into_iter().chain(words.split(' ')).collect();
            let [direct, clap] = both(&words);
            assert_eq!((direct, clap.is_some()), (None, is_right), "{words:?}");
        }
    }

    proptest! {
        #[test]
        fn both_ways_mean_the_same(
            words in proptest::collection::vec(
                "watch|--(name|pid|port|cgroup|interval|help)|[0-9]{1,5}|[a-z]{1,3}|-?[0-9]ms|-|--",
                0..6,
            )
        ) {
            let mut all = vec!["ringload", "watch"];
            all.extend(words.iter().map(String::as_str));
            let [direct, clap] = both(&all);
            prop_assert!(direct.is_none() || direct == clap, "{direct:?} {clap:?}");
        }
    }
}
