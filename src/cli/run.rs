//! What the flags of `run` mean together.

use std::hash::{BuildHasher, RandomState};
use std::path::Path;

use super::dial;
use super::load::{self, Amount};
use super::mistake::{Mistake, wrong};
use super::pages::{self, Place};
use super::request;
use super::sitemap::Access;
use super::tls;
use super::typed::{OutputArgs, RunArgs, SpinArg};
use super::watching;
use super::workers::{self, Crew, Machine};
use super::{Output, Progress, RunCommand, Sink};
use crate::http1::request::encode;
use crate::plan::{Plan, Spin};

/// The command.
pub(super) fn meaning(args: RunArgs, machine: &Machine) -> Result<RunCommand, Mistake> {
    let place = Place::read(&args.url)?;
    check_stdin(&args)?;
    let asked = request::asked(&args.request, &place.host(), place.user())?;
    let amount = load::amount(args.load, asked.closes)?;
    let Crew { threads, cpus, server_cpus } = workers::crew(
        args.workers.threads,
        &args.workers.cpus,
        place.embedded,
        amount.most_places(),
        machine,
    )?;
    let target = place.target(server_cpus);
    let dial = dial::dial(args.dial, &target)?;
    let tls = tls::tls(&args.tls, &place)?;
    let watching = watching::watching(args.watching, &args.tls, std::slice::from_ref(&place))?;
    let (label, output) = output(args.output)?;
    let access = Access {
        origin: place.origin(),
        embedded: place.embedded,
        dial: &dial,
        headers: &asked.headers,
        tls: tls.as_ref(),
        insecure: args.tls.insecure,
    };
    // The last, since a sitemap may be fetched for it.
    let pages = place.pages(&args.pages, &access, &asked.method)?;
    let Amount {
        load,
        end,
        lifetime,
        think_ns,
        warmup_ns,
        timeout_ns,
        connect_timeout_ns,
        grace_ns,
    } = amount;
    let plan = Plan {
        label,
        target,
        dial,
        tls,
        pages,
        pick: pages::pick(&args.pages),
        headers: asked.headers,
        body: asked.body,
        load,
        end,
        warmup_ns,
        timeout_ns,
        connect_timeout_ns,
        grace_ns,
        lifetime,
        think_ns,
        threads,
        cpus,
        spin: spin(args.workers.spin),
        seed: args.workers.seed.unwrap_or_else(drawn_seed),
        watching,
    };
    check_requests(&plan)?;
    Ok(RunCommand { plan, output, dry_run: args.dry_run })
}

/// Polling before a due time.
pub(super) fn spin(typed: Option<SpinArg>) -> Spin {
    match typed {
        Some(SpinArg::Never) => Spin::Never,
        Some(SpinArg::Always) => Spin::Always,
        Some(SpinArg::Auto) | None => Spin::Auto,
    }
}

/// Stdin can be read once.
fn check_stdin(args: &RunArgs) -> Result<(), Mistake> {
    let list = args.pages.urls.as_deref() == Some(Path::new("-"));
    let body = args.request.data.as_deref() == Some("@-");
    if list && body {
        wrong!("--urls - and --data @- would both read stdin; give one of them a file");
    }
    Ok(())
}

/// Every request can be encoded: what the engine will do later must not fail there.
pub(super) fn check_requests(plan: &Plan) -> Result<(), Mistake> {
    let headers = || plan.headers.iter().map(|h| (h.name.as_str(), h.value.as_slice()));
    for page in &plan.pages {
        if let Err(error) = encode(&page.method, &page.target, headers(), None, false) {
            wrong!("{}: {error}", page.url);
        }
    }
    Ok(())
}

/// Where the result goes.
pub(super) fn output(args: OutputArgs) -> Result<(Option<String>, Output), Mistake> {
    let sinks = [("--json", &args.json), ("--csv", &args.csv), ("--hgrm", &args.hgrm)];
    let given: Vec<(&str, &Sink)> =
        sinks.iter().filter_map(|(flag, sink)| Some((*flag, sink.as_ref()?))).collect();
    for (index, (flag, sink)) in given.iter().enumerate() {
        if let Some((other, _)) = given[..index].iter().find(|(_, earlier)| earlier == sink) {
            match sink {
                Sink::Stdout => wrong!(
                    "{other} - and {flag} - would both be written to stdout; give one of them a \
                     file"
                ),
                Sink::File(path) => wrong!(
                    "{other} and {flag} would both be written to \"{}\"; give each its own file",
                    path.display()
                ),
            }
        }
        if let Sink::File(path) = sink {
            check_writable(flag, path)?;
        }
    }
    if args.quiet && matches!(args.progress, Some(Progress::Bar | Progress::Line)) {
        wrong!("--quiet shows no progress, and --progress asks for it; leave one of them out");
    }
    let progress = if args.quiet { Progress::None } else { args.progress.unwrap_or_default() };
    let color = args.color.unwrap_or_default();
    Ok((args.label, Output { json: args.json, csv: args.csv, hgrm: args.hgrm, progress, color }))
}

/// A result that cannot be written is noticed before the load, not after it.
fn check_writable(flag: &str, path: &Path) -> Result<(), Mistake> {
    if path.is_dir() {
        wrong!("{flag}: \"{}\" is a directory; name a file in it", path.display());
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent
        && !parent.is_dir()
    {
        wrong!("{flag}: there is no directory \"{}\"; make it first", parent.display());
    }
    Ok(())
}

/// A seed out of the operating system's chance, by way of the standard library's hash keys. It has
/// 32 bits, so that it is short to type again and exact in every reader of JSON.
pub(super) fn drawn_seed() -> u64 {
    RandomState::new().hash_one(0_u8) >> 32
}
