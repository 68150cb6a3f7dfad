//! How much, for how long: closed or open model, its end, its timeouts.

use super::mistake::{Mistake, wrong};
use super::typed::{ArrivalsArg, ArriveArg, LoadArgs};
use crate::clock::{Nanos, SECOND};
use crate::plan::{Arrive, End, Lifetime, Load, Profile, Ratio, Spacing};
use crate::units::format_duration;

/// Places of the closed model unless told.
const DEFAULT_PLACES: u64 = 50;
/// Length of a run for which no end was given.
const DEFAULT_DURATION_NS: Nanos = 10 * SECOND;
/// Unless told.
pub(super) const DEFAULT_TIMEOUT_NS: Nanos = 10 * SECOND;
/// Unless told, and where `--timeout` is not shorter.
pub(super) const DEFAULT_CONNECT_TIMEOUT_NS: Nanos = 5 * SECOND;
/// The most that is waited at the end unless told.
pub(super) const MAX_DEFAULT_GRACE_NS: Nanos = 5 * SECOND;

/// The part of a plan that says how much and for how long.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Amount {
    pub(super) load: Load,
    pub(super) end: End,
    pub(super) lifetime: Lifetime,
    pub(super) think_ns: Option<(Nanos, Nanos)>,
    pub(super) warmup_ns: Nanos,
    pub(super) timeout_ns: Nanos,
    pub(super) connect_timeout_ns: Nanos,
    pub(super) grace_ns: Nanos,
}

impl Amount {
    /// The most connections that are ever open, where there is a limit.
    pub(super) fn most_places(&self) -> Option<u64> {
        let places = match &self.load {
            Load::Closed { places, .. } => Some(places),
            Load::Open { max_connections, .. } => max_connections.as_ref(),
            Load::Hold { levels, .. } => return levels.last().map(|&most| most.into()),
        };
        // Numbers of connections fit 32 bits, which floats hold exactly.
        places.map(|places| places.max() as u64)
    }
}

/// What the flags mean; `closes` is whether the user's own headers say `Connection: close`.
pub(super) fn amount(args: LoadArgs, closes: bool) -> Result<Amount, Mistake> {
    let lifetime = lifetime(&args, closes)?;
    let profiles = [&args.rate, &args.connections];
    let end = End { requests: args.requests, duration_ns: end(args.duration, &args, profiles) };
    let timeout_ns = args.timeout.unwrap_or(DEFAULT_TIMEOUT_NS);
    let connect_timeout_ns =
        args.connect_timeout.unwrap_or(DEFAULT_CONNECT_TIMEOUT_NS.min(timeout_ns));
    let grace_ns = args.grace.unwrap_or(MAX_DEFAULT_GRACE_NS.min(timeout_ns));
    let warmup_ns = args.warmup.unwrap_or(0);
    let think_ns = args.think.filter(|&(_, to)| to > 0);
    check_think(&args, think_ns)?;
    let load = if args.rate.is_some() { open(args, lifetime)? } else { closed(args)? };
    check_warmup(&load, warmup_ns)?;
    Ok(Amount {
        load,
        end,
        lifetime,
        think_ns,
        warmup_ns,
        timeout_ns,
        connect_timeout_ns,
        grace_ns,
    })
}

/// How long connections live.
fn lifetime(args: &LoadArgs, closes: bool) -> Result<Lifetime, Mistake> {
    let once = if args.new_connections {
        Some("--new-connections")
    } else if closes {
        Some("the header 'Connection: close'")
    } else {
        None
    };
    match (once, args.requests_per_connection) {
        (None, None) => Ok(Lifetime::All),
        (None, Some(lifetime)) => Ok(lifetime),
        (Some(_), None | Some(Lifetime::Exactly(1))) => Ok(Lifetime::Exactly(1)),
        (Some(once), Some(_)) => wrong!(
            "{once} means one request per connection, and --requests-per-connection says \
             something else; leave one of them out"
        ),
    }
}

/// When the clock ends it: the earliest of `-d` and the ends of profiles.
fn end(typed: Option<Nanos>, args: &LoadArgs, profiles: [&Option<Profile>; 2]) -> Option<Nanos> {
    let profile_ends = profiles.into_iter().flatten().filter_map(Profile::duration_ns);
    let end = profile_ends.chain(typed).min();
    if end.is_none() && args.requests.is_none() { Some(DEFAULT_DURATION_NS) } else { end }
}

/// A number of places.
fn closed(args: LoadArgs) -> Result<Load, Mistake> {
    let open_only = [
        ("--arrivals", args.arrivals.is_some()),
        ("--arrive clients", args.arrive == Some(ArriveArg::Clients)),
        ("--preconnect", args.preconnect.is_some()),
        ("--drop-after", args.drop_after.is_some()),
    ];
    if let Some((flag, _)) = open_only.into_iter().find(|(_, given)| *given) {
        wrong!(
            "{flag} is about arrivals, and without -r there are none (closed model: each \
             connection asks again when it has its answer); add a rate, as in -r 1k, or leave \
             {flag} out"
        );
    }
    let places =
        args.connections.unwrap_or_else(|| Profile::constant(Ratio::whole(DEFAULT_PLACES)));
    Ok(Load::Closed { places, open_rate: args.open_rate })
}

/// Arrivals at a rate.
fn open(args: LoadArgs, lifetime: Lifetime) -> Result<Load, Mistake> {
    let arrive = match args.arrive {
        Some(ArriveArg::Clients) => Arrive::Clients,
        Some(ArriveArg::Requests) | None => Arrive::Requests,
    };
    if arrive == Arrive::Clients && lifetime == Lifetime::All {
        wrong!(
            "--arrive clients needs to know when a client leaves; add how many requests each \
             makes, as in --requests-per-connection 1, 1..20 or mean:7.6"
        );
    }
    if arrive == Arrive::Clients && args.preconnect.is_some() {
        wrong!(
            "--preconnect keeps connections in use in turn, and with --arrive clients each client \
             brings its own; leave one of them out"
        );
    }
    let preconnect = args.preconnect.unwrap_or(0);
    if let Some(max) = &args.connections {
        let first = first_value(max);
        if f64::from(preconnect) > first {
            wrong!(
                "--preconnect {preconnect} is more than -c allows at the start ({first}); raise \
                 -c, or give --preconnect {first}"
            );
        }
    }
    let spacing = match args.arrivals {
        Some(ArrivalsArg::Poisson) => Spacing::Poisson,
        Some(ArrivalsArg::Even) | None => Spacing::Even,
    };
    let Some(rate) = args.rate else { wrong!("the open model needs a rate; add -r") };
    Ok(Load::Open {
        rate,
        spacing,
        arrive,
        max_connections: args.connections,
        preconnect,
        drop_after_ns: args.drop_after,
        open_rate: args.open_rate,
    })
}

/// The value that a profile starts with.
fn first_value(profile: &Profile) -> f64 {
    profile.segments.first().map_or(0.0, |segment| segment.from.as_f64())
}

/// A think time is between the requests of one who makes several.
fn check_think(args: &LoadArgs, think_ns: Option<(Nanos, Nanos)>) -> Result<(), Mistake> {
    if think_ns.is_some() && args.rate.is_some() && args.arrive != Some(ArriveArg::Clients) {
        wrong!(
            "--think is a wait of the one who asks again, and with -r requests arrive on their \
             own; use it without -r, or with --arrive clients"
        );
    }
    Ok(())
}

/// A warm-up runs at the first value of the profile.
fn check_warmup(load: &Load, warmup_ns: Nanos) -> Result<(), Mistake> {
    let (flag, profile) = match load {
        Load::Closed { places, .. } => ("-c", places),
        Load::Open { rate, .. } => ("-r", rate),
        Load::Hold { .. } => return Ok(()),
    };
    if warmup_ns > 0 && first_value(profile) == 0.0 {
        wrong!(
            "--warmup {} runs at the first value of {flag}, which is 0, so nothing would happen; \
             start {flag} higher, or leave --warmup out",
            format_duration(warmup_ns)
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use proptest::prelude::*;

    use super::*;

    /// Clap's own view of the flags of this file.
    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        load: LoadArgs,
    }

    fn read(line: &str) -> Result<Amount, Mistake> {
        let flags = Flags::try_parse_from(format!("run {line}").split_whitespace());
        amount(flags.expect("clap takes these flags").load, false)
    }

    #[test]
    fn defaults_are_the_contracts() {
        let plan = read("").unwrap();
        assert_eq!(
            plan.load,
            Load::Closed { places: Profile::constant(Ratio::whole(50)), open_rate: None }
        );
        assert_eq!(plan.end, End { requests: None, duration_ns: Some(10 * SECOND) });
        assert_eq!(plan.lifetime, Lifetime::All);
        assert_eq!((plan.think_ns, plan.warmup_ns), (None, 0));
        assert_eq!((plan.timeout_ns, plan.connect_timeout_ns), (10 * SECOND, 5 * SECOND));
        assert_eq!(plan.grace_ns, 5 * SECOND);
    }

    #[test]
    fn grace_and_connect_timeout_follow_the_timeout() {
        let plan = read("--timeout 2s").unwrap();
        assert_eq!((plan.connect_timeout_ns, plan.grace_ns), (2 * SECOND, 2 * SECOND));
        let plan = read("--timeout 1m --grace 0 --connect-timeout 20s").unwrap();
        assert_eq!((plan.connect_timeout_ns, plan.grace_ns), (20 * SECOND, 0));
    }

    #[test]
    fn the_end_is_whichever_comes_first() {
        let end = |line: &str| {
            let end = read(line).unwrap().end;
            (end.requests, end.duration_ns.map(|ns| ns / SECOND))
        };
        assert_eq!(end("-n 10k"), (Some(10_000), None));
        assert_eq!(end("-n 5 -d 3s"), (Some(5), Some(3)));
        assert_eq!(end("-z 3s"), (None, Some(3)));
        assert_eq!(end("-c 0..10@30s,10@30s"), (None, Some(60)));
        assert_eq!(end("-c 0..10@30s -d 20s"), (None, Some(20)));
        assert_eq!(end("-c 0..10@30s -d 40s"), (None, Some(30)));
        assert_eq!(end("-r 100@30s -c 5@20s -n 7"), (Some(7), Some(20)));
        assert_eq!(end("-r 100"), (None, Some(10)));
    }

    #[test]
    fn rate_makes_it_the_open_model() {
        for line in ["-r 600/m", "-R 10", "-q 10/s", "--rps 10", "--rate 10"] {
            let Load::Open { rate, spacing, arrive, max_connections, preconnect, .. } =
                read(line).unwrap().load
            else {
                panic!("{line} is open")
            };
            assert_eq!(rate, Profile::constant(Ratio::whole(10)));
            assert_eq!((spacing, arrive, preconnect), (Spacing::Even, Arrive::Requests, 0));
            assert_eq!(max_connections, None);
        }
    }

    #[test]
    fn new_connections_are_one_request_each() {
        for line in ["--new-connections", "--disable-keepalive", "--requests-per-connection 1"] {
            assert_eq!(read(line).unwrap().lifetime, Lifetime::Exactly(1), "{line}");
        }
        let both = "--new-connections --requests-per-connection 1";
        assert_eq!(read(both).unwrap().lifetime, Lifetime::Exactly(1));
    }

    #[test]
    fn clients_may_think() {
        let line = "-r 5 --arrive clients --requests-per-connection 3 --think 1s..3s";
        assert_eq!(read(line).unwrap().think_ns, Some((SECOND, 3 * SECOND)));
        assert_eq!(read("--think 0").unwrap().think_ns, None);
    }

    #[test]
    fn contradictions_are_refused() {
        let cases = [
            ("-r 5 --arrive clients", &["--arrive clients", "--requests-per-connection 1"][..]),
            ("--arrive clients", &["--arrive clients", "-r 1k"]),
            ("--arrivals poisson", &["--arrivals", "-r 1k"]),
            ("--preconnect 5", &["--preconnect", "-r 1k"]),
            ("--drop-after 1s", &["--drop-after", "-r 1k"]),
            ("-r 5 --think 1s", &["--think", "without -r", "--arrive clients"]),
            ("-r 5 -c 10 --preconnect 11", &["--preconnect 11", "-c", "--preconnect 10"]),
            ("-r 5 -c 1..20@5s --preconnect 11", &["--preconnect 11", "--preconnect 1"]),
            ("--new-connections --requests-per-connection 5", &["--new-connections", "leave one"]),
            ("-c 0..10@30s --warmup 5s", &["--warmup 5s", "-c", "start -c higher"]),
            ("-r 0..10@30s --warmup 5s", &["--warmup 5s", "-r"]),
            (
                "-r 5 --arrive clients --requests-per-connection 2 --preconnect 1",
                &["--preconnect", "--arrive clients"],
            ),
        ];
        for (line, parts) in cases {
            let error = read(line).unwrap_err().to_string();
            for part in parts {
                assert!(error.contains(part), "{line}: no \"{part}\" in: {error}");
            }
        }
    }

    proptest! {
        #[test]
        fn no_run_is_without_an_end(
            d in proptest::option::of(1_u64..1000),
            n in proptest::option::of(1_u64..1000),
            profile in proptest::bool::ANY,
        ) {
            let mut line = String::new();
            if let Some(d) = d { line += &format!(" -d {d}s"); }
            if let Some(n) = n { line += &format!(" -n {n}"); }
            if profile { line += " -c 1..5@7s"; }
            let end = read(&line).unwrap().end;
            prop_assert!(end.requests.is_some() || end.duration_ns.is_some());
            prop_assert_eq!(end.requests, n);
        }
    }
}
