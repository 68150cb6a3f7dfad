//! What the flags of `hold` mean together.

use super::HoldCommand;
use super::dial;
use super::load::{DEFAULT_CONNECT_TIMEOUT_NS, DEFAULT_TIMEOUT_NS, MAX_DEFAULT_GRACE_NS};
use super::mistake::{Mistake, wrong};
use super::pages::Place;
use super::request::{self, Asked};
use super::run::{check_requests, drawn_seed, output, spin};
use super::tls::{self, TlsArgs};
use super::typed::{DialArgs, HoldArgs, LevelArgs, RequestArgs, WorkerArgs};
use super::watching;
use super::workers::{self, Crew, Machine};
use crate::judge::objective::{Metric, Objective};
use crate::plan::{End, HoldPlan, Lifetime, Load, Pick, Plan, Traffic, Watching};

/// The most targets.
const MAX_TARGETS: usize = 2;

/// The command.
pub(super) fn meaning(args: HoldArgs, machine: &Machine) -> Result<HoldCommand, Mistake> {
    let places = places(&args.url)?;
    let (levels, base_added) = levels(&args.levels)?;
    let (label, output) = output(args.output)?;
    let shared = Shared {
        label,
        levels,
        seed: args.workers.seed.unwrap_or_else(drawn_seed),
        watching: watching::watching(args.watching, &args.tls, &places)?,
        amount: args.levels,
        request: args.request,
        dial: args.dial,
        tls: args.tls,
        workers: args.workers,
    };
    let targets =
        places.iter().map(|place| shared.plan(place, machine)).collect::<Result<_, _>>()?;
    let plan = HoldPlan {
        targets,
        threads_asked: shared.workers.threads.is_some(),
        base_added,
        abort_if: shared.amount.abort_if,
    };
    check_abort(&plan.abort_if, &shared.watching)?;
    Ok(HoldCommand { plan, output, dry_run: args.dry_run })
}

/// What there is in place of a flag that only `run` has.
pub(super) fn in_place_of(flag: &str) -> Option<&'static str> {
    Some(match flag {
        "-c" | "--connections" => "it goes through numbers of connections: --levels 0,1k,5k",
        "-r" | "-R" | "-q" | "--rate" | "--rps" => {
            "requests a second over all connections are --traffic 100/s"
        }
        "-d" | "-z" | "--duration" => "how long each level is held is --dwell 30s",
        "-n" | "--requests" => {
            "each connection makes one request (--no-request: none), and then what --traffic says"
        }
        _ => return None,
    })
}

/// What all targets have in common.
struct Shared {
    label: Option<String>,
    levels: Vec<u32>,
    seed: u64,
    watching: Watching,
    amount: LevelArgs,
    request: RequestArgs,
    dial: DialArgs,
    tls: TlsArgs,
    workers: WorkerArgs,
}

impl Shared {
    /// The plan of one target.
    fn plan(&self, place: &Place, machine: &Machine) -> Result<Plan, Mistake> {
        let asked = self.asked(place)?;
        let most = self.levels.last().map_or(1, |&most| most.max(1));
        let Crew { threads, cpus, server_cpus } = workers::crew(
            self.workers.threads,
            &self.workers.cpus,
            place.embedded,
            Some(most.into()),
            machine,
        )?;
        let target = place.target(server_cpus);
        let timeout_ns = self.amount.timeout.unwrap_or(DEFAULT_TIMEOUT_NS);
        let connect_timeout_ns =
            self.amount.connect_timeout.unwrap_or(DEFAULT_CONNECT_TIMEOUT_NS.min(timeout_ns));
        let plan = Plan {
            label: self.label.clone(),
            dial: dial::dial(self.dial.clone(), &target)?,
            tls: tls::tls(&self.tls, place)?,
            target,
            pages: vec![place.origin().page(&asked.method)],
            pick: Pick::InOrder,
            headers: asked.headers,
            body: asked.body,
            load: Load::Hold {
                levels: self.levels.clone(),
                dwell_ns: self.amount.dwell,
                traffic: self.amount.traffic,
                first_request: !self.amount.no_request,
                open_rate: Some(self.amount.open_rate),
            },
            end: End::default(),
            warmup_ns: 0,
            timeout_ns,
            connect_timeout_ns,
            grace_ns: MAX_DEFAULT_GRACE_NS.min(timeout_ns),
            lifetime: Lifetime::All,
            think_ns: None,
            threads,
            cpus,
            spin: spin(self.workers.spin),
            seed: self.seed,
            watching: self.watching.clone(),
        };
        check_requests(&plan)?;
        Ok(plan)
    }

    /// What is asked over the connections.
    fn asked(&self, place: &Place) -> Result<Asked, Mistake> {
        let asked = request::asked(&self.request, &place.host(), place.user())?;
        if asked.closes {
            wrong!(
                "the header 'Connection: close' ends each connection after its request, and hold \
                 keeps them; leave it out"
            );
        }
        if self.amount.no_request && self.amount.traffic != Traffic::Idle {
            wrong!(
                "--no-request sends nothing, and --traffic {} asks for requests; leave one of \
                 them out",
                self.amount.traffic
            );
        }
        Ok(asked)
    }
}

/// One target or two, each of its own origin.
fn places(urls: &[String]) -> Result<Vec<Place>, Mistake> {
    if urls.is_empty() {
        wrong!(
            "a URL is missing; give one, or two to compare, as in ringload hold \
             http://127.0.0.1:8080/ https://127.0.0.1:8443/"
        );
    }
    if urls.len() > MAX_TARGETS {
        wrong!(
            "these are {} URLs, and hold looks at one target or compares two; leave some out",
            urls.len()
        );
    }
    urls.iter().map(|url| Place::read(std::slice::from_ref(url))).collect()
}

/// The levels from below, and whether the lowest had to be added: without it what a server needs
/// anyway cannot be told from what its connections need.
fn levels(args: &LevelArgs) -> Result<(Vec<u32>, bool), Mistake> {
    let typed = &args.levels;
    if let Some(two) = typed.windows(2).find(|two| two[0] >= two[1]) {
        wrong!(
            "--levels goes up from one to the next, and {} comes before {}; write them ascending, \
             each once, as in 0,1k,5k",
            two[0],
            two[1]
        );
    }
    let base_added = typed.first() != Some(&0);
    let base = base_added.then_some(0);
    Ok((base.into_iter().chain(typed.iter().copied()).collect(), base_added))
}

/// What is asked of a figure has to be measured.
fn check_abort(abort_if: &[Objective], watching: &Watching) -> Result<(), Mistake> {
    let probe = abort_if.iter().find(|objective| objective.metric == Metric::ProbeFailed);
    if let (Some(objective), None) = (probe, &watching.probe) {
        wrong!("--abort-if '{objective}' needs a probe; add --probe URL, or leave it out");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::clock::SECOND;
    use crate::plan::{Ratio, hold};

    /// Clap's own view of the command.
    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        hold: HoldArgs,
    }

    fn read(line: &str) -> Result<HoldCommand, String> {
        let machine = Machine { allowed: vec![0, 1, 2, 3], usable: vec![0, 1, 2, 3] };
        let flags = Flags::try_parse_from(format!("hold {line}").split_whitespace());
        let flags = flags.map_err(|error| error.to_string())?;
        meaning(flags.hold, &machine).map_err(|mistake| mistake.to_string())
    }

    fn plan(line: &str) -> HoldPlan {
        read(line).unwrap().plan
    }

    #[test]
    fn defaults_are_the_contracts() {
        let plan = plan("http://h/");
        let [target] = &plan.targets[..] else { panic!("one URL is one target") };
        assert_eq!(
            target.load,
            Load::Hold {
                levels: vec![0, 1_000, 5_000, 10_000],
                dwell_ns: 10 * SECOND,
                traffic: Traffic::Idle,
                first_request: true,
                open_rate: Some(Ratio::whole(1_000)),
            }
        );
        assert_eq!((target.timeout_ns, target.connect_timeout_ns), (10 * SECOND, 5 * SECOND));
        assert_eq!((target.threads, target.lifetime), (4, Lifetime::All));
        assert!(!plan.threads_asked && !plan.base_added && plan.abort_if.is_empty());
    }

    #[test]
    fn two_urls_are_two_targets_of_the_same_levels() {
        let plan = plan("http://h:8080/a http://h:8081/b --levels 0,5 -t 2 -H X:1 --label l");
        let urls: Vec<_> = plan.targets.iter().map(|target| &*target.pages[0].url).collect();
        assert_eq!(urls, ["http://h:8080/a", "http://h:8081/b"]);
        for target in &plan.targets {
            assert_eq!((hold::levels(target), target.threads), (&[0, 5][..], 2));
            assert_eq!(target.label.as_deref(), Some("l"));
            assert!(target.headers.iter().any(|header| header.name == "X"));
        }
        assert_eq!(plan.targets[0].seed, plan.targets[1].seed);
        assert!(plan.threads_asked);
    }

    #[test]
    fn a_level_without_connections_is_added() {
        let plan = plan("h --levels 1k,2k");
        assert_eq!(hold::levels(&plan.targets[0]), [0, 1_000, 2_000]);
        assert!(plan.base_added);
        // The only level is the base: there is nothing for more threads to do.
        assert_eq!(self::plan("h --levels 0").targets[0].threads, 1);
    }

    #[test]
    fn traffic_is_read() {
        for (typed, traffic) in [
            ("idle", Traffic::Idle),
            ("busy", Traffic::Busy),
            ("100/s", Traffic::Rate(Ratio::whole(100))),
            ("0.5", Traffic::Rate(Ratio::new(1, 2))),
            ("1/m", Traffic::Rate(Ratio::new(1, 60))),
        ] {
            let plan = plan(&format!("h --traffic {typed}"));
            let Load::Hold { traffic: read, .. } = plan.targets[0].load else { panic!("a hold") };
            assert_eq!(read, traffic);
            assert_eq!(
                self::plan(&format!("h --traffic {read}")).targets[0].load,
                plan.targets[0].load
            );
        }
    }

    #[test]
    fn ends_are_read() {
        let line = "h --probe h/status --abort-if probe_failed>50% \
                    --abort-if target_mem_available<200MiB";
        let abort_if = plan(line).abort_if;
        let shown: Vec<String> = abort_if.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["probe_failed>50%", "target_mem_available<200MiB"]);
    }

    #[test]
    fn flags_of_run_are_told_by_their_name_here() {
        for (typed, part) in [
            ("-c 5", "--levels"),
            ("--connections=5", "--levels"),
            ("-r 10", "--traffic 100/s"),
            ("-d 5s", "--dwell"),
            ("-n 3", "--no-request"),
        ] {
            let line = format!("ringload hold h {typed}");
            let told = crate::cli::parse(line.split(' ').map(Into::into)).unwrap_err().to_string();
            assert!(told.contains("hold has no -") && told.contains(part), "{told}");
        }
        let told = crate::cli::parse(["ringload", "hold", "h", "--leveles", "1"].map(Into::into));
        let told = told.unwrap_err().to_string();
        assert!(told.contains("--levels"), "clap's own: {told}");
    }

    #[test]
    fn mistakes_come_with_a_remedy() {
        let cases = [
            ("", &["URL is missing", "two to compare"][..]),
            ("http://a/ http://b/ http://c/", &["3 URLs", "leave some out"]),
            ("h --levels 0,5k,1k", &["5000 comes before 1000", "ascending"]),
            ("h --levels 0,1,1", &["1 comes before 1", "each once"]),
            ("h --levels 0,x", &["not a count"]),
            ("h --levels 5G", &["at most 4294967295"]),
            ("h --dwell 0", &["longer than 0"]),
            ("h --traffic lazy", &["idle, busy or requests per second"]),
            ("h --traffic 0/s", &["idle, busy"]),
            ("h --no-request --traffic busy", &["--no-request", "--traffic busy"]),
            ("h -H Connection:close", &["Connection: close", "leave it out"]),
            ("h --abort-if probe_failed>5%", &["needs a probe", "--probe URL"]),
            ("h --abort-if p95>1s", &["no such name", "^^^"]),
            ("h --json - --csv -", &["--json -", "--csv -"]),
        ];
        for (line, parts) in cases {
            let told = read(line).unwrap_err();
            for part in parts {
                assert!(told.contains(part), "{line}: no \"{part}\" in: {told}");
            }
        }
    }
}
