//! What was typed becomes a plan, or an error with a remedy.
//!
//! Two layers: `typed` is clap's, every value read on its own; `run` and `serve` say what the
//! values mean together. Files, variables, lists and sitemaps that arguments name are read here;
//! nothing else is, and nothing is sent to the target.

mod dial;
mod hold;
mod https;
mod input;
mod load;
mod mistake;
mod pages;
mod pem;
mod plan_file;
mod request;
mod run;
mod serve;
mod sitemap;
mod tls;
mod typed;
mod values;
mod watch;
mod watching;
mod workers;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, CommandFactory, FromArgMatches, ValueEnum};

use crate::observe::watch::Source;
use crate::plan::serve::ServePlan;
use crate::plan::{HoldPlan, Plan};
use mistake::Mistake;
use typed::{Typed, TypedCommand};
use workers::Machine;

/// A command, ready to be carried out.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// `ringload run`
    Run(Box<RunCommand>),
    /// `ringload hold`
    Hold(Box<HoldCommand>),
    /// `ringload serve`
    Serve(ServePlan),
    /// `ringload watch`
    Watch(WatchCommand),
    /// `ringload doctor`
    Doctor,
}

/// `ringload watch`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchCommand {
    /// What of this machine is sampled, beside the machine itself: no files and no commands.
    pub sources: Vec<Source>,
    /// How often.
    pub interval: Duration,
}

/// `ringload run`.
#[derive(Clone, Debug, PartialEq)]
pub struct RunCommand {
    /// What is to be done.
    pub plan: Plan,
    /// Where the result goes.
    pub output: Output,
    /// Print the plan and send nothing.
    pub dry_run: bool,
}

/// `ringload hold`.
#[derive(Clone, Debug, PartialEq)]
pub struct HoldCommand {
    /// What is to be done.
    pub plan: HoldPlan,
    /// Where the result goes.
    pub output: Output,
    /// Print the plan and send nothing.
    pub dry_run: bool,
}

/// Where a result goes, and what is seen meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// The result as JSON.
    pub json: Option<Sink>,
    /// The series as CSV.
    pub csv: Option<Sink>,
    /// The percentile table of the response time.
    pub hgrm: Option<Sink>,
    /// Progress on stderr; [`Progress::None`] with `--quiet`.
    pub progress: Progress,
    /// Colours; `NO_COLOR` is not looked at yet.
    pub color: Color,
}

impl Output {
    /// Whether one of the outputs takes stdout, so that the text is not printed.
    #[must_use]
    pub fn takes_stdout(&self) -> bool {
        [&self.json, &self.csv, &self.hgrm].into_iter().any(|sink| *sink == Some(Sink::Stdout))
    }
}

/// Where bytes go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sink {
    /// `-`
    Stdout,
    /// A file, written anew.
    File(PathBuf),
}

/// `--progress`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Progress {
    /// A bar where stderr is a terminal, else one line a second.
    #[default]
    Auto,
    /// A bar.
    Bar,
    /// One line a second.
    Line,
    /// Nothing.
    None,
}

/// `--color`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// Where the output is a terminal.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Why there is no command: wrong use, or help or the version was asked for.
#[derive(Debug)]
pub struct CliError(clap::Error);

impl CliError {
    /// 2 for wrong use; 0 for `--help` and `--version`.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        if self.0.use_stderr() { 2 } else { 0 }
    }

    /// Prints it where it belongs: help and the version to stdout, all else to stderr.
    pub fn print(&self) {
        // A closed stdout or stderr leaves nobody to tell it to.
        let _ = self.0.print();
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.render())
    }
}

impl std::error::Error for CliError {}

impl From<clap::Error> for CliError {
    fn from(error: clap::Error) -> Self {
        Self(error)
    }
}

/// Reads the arguments, the program's own name first.
///
/// # Errors
///
/// For wrong arguments, and where help or the version was asked for.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Command, CliError> {
    let args: Vec<OsString> = args.into_iter().collect();
    if let Some(command) = watch::without_clap(&args) {
        return Ok(Command::Watch(command));
    }
    parse_on(args, &Machine::this())
}

/// The same on a given machine.
fn parse_on(args: Vec<OsString>, machine: &Machine) -> Result<Command, CliError> {
    let matches = Typed::command().try_get_matches_from(&args);
    let matches = matches.map_err(|error| in_place_of_flag(&args, error))?;
    let with_plan = ["run", "hold"].into_iter().find_map(|name| {
        let typed = matches.subcommand_matches(name)?;
        Some((name, typed, typed.get_one::<PathBuf>("plan")?))
    });
    let Some((name, typed, plan_path)) = with_plan else { return meaning(&matches, None, machine) };

    let from_file = plan_file::arguments(name, plan_path, typed).map_err(|m| usage(name, &m))?;
    // The command's name is the first argument: the program itself has no flags but help.
    let mut all = args;
    all.splice(2..2, from_file);
    let matches = Typed::command().try_get_matches_from(all)?;
    meaning(&matches, Some(plan_path), machine)
}

/// Some flags of `run` have another name where connections are held, which is then told.
fn in_place_of_flag(args: &[OsString], error: clap::Error) -> CliError {
    let is_hold = args.get(1).is_some_and(|name| name == "hold");
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(flag))
            if is_hold && error.kind() == ErrorKind::UnknownArgument =>
        {
            match hold::in_place_of(flag) {
                Some(other) => usage("hold", &Mistake::new(format!("hold has no {flag}; {other}"))),
                None => error.into(),
            }
        }
        _ => error.into(),
    }
}

/// What the typed arguments mean.
fn meaning(
    matches: &ArgMatches,
    plan_path: Option<&PathBuf>,
    machine: &Machine,
) -> Result<Command, CliError> {
    let noted = |command: &str, mistake: Mistake| match plan_path {
        Some(path) => {
            usage(command, &mistake.note(&format!("flags of {} count too", path.display())))
        }
        None => usage(command, &mistake),
    };
    match Typed::from_arg_matches(matches)?.command {
        TypedCommand::Run(args) => {
            let command = run::meaning(*args, machine).map_err(|m| noted("run", m))?;
            Ok(Command::Run(Box::new(command)))
        }
        TypedCommand::Hold(args) => {
            let command = hold::meaning(*args, machine).map_err(|m| noted("hold", m))?;
            Ok(Command::Hold(Box::new(command)))
        }
        TypedCommand::Serve(args) => {
            let plan = serve::meaning(&args, machine).map_err(|m| usage("serve", &m))?;
            Ok(Command::Serve(plan))
        }
        TypedCommand::Watch(args) => Ok(Command::Watch(watch::meaning(args))),
        TypedCommand::Doctor => Ok(Command::Doctor),
    }
}

/// A mistake in the use of a command, shown as clap shows its own.
fn usage(command: &str, mistake: &Mistake) -> CliError {
    let mut program = Typed::command();
    program.build();
    let command = program.find_subcommand_mut(command);
    let command = command.expect("the name is one of the commands that clap was given");
    CliError(command.error(ErrorKind::ArgumentConflict, mistake))
}

#[cfg(test)]
mod tests;
