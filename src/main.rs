//! The `ringload` binary: arguments in, exit code out.

use std::io::{self, Write};
use std::process::ExitCode;

use ringload::cli::{self, Command};
use ringload::command::{self, Exit, Failure};

fn main() -> ExitCode {
    let command = match cli::parse(std::env::args_os()) {
        Ok(command) => command,
        Err(error) => {
            error.print();
            return ExitCode::from(error.exit_code());
        }
    };
    match carry_out(&command) {
        Ok(exit) => ExitCode::from(exit.code()),
        Err(failure) => {
            // With standard error closed there is nobody left to tell.
            let _ = writeln!(io::stderr(), "error: {failure}");
            ExitCode::from(failure.code())
        }
    }
}

fn carry_out(command: &Command) -> Result<Exit, Failure> {
    match command {
        Command::Run(run) => command::run::run(run),
        Command::Hold(hold) => command::hold::run(hold),
        Command::Watch(watch) => command::watch::run(watch),
        Command::Serve(plan) => command::serve::run(plan),
        Command::Doctor => command::doctor::run(&mut io::stdout().lock())
            .map(|code| if code == 0 { Exit::Done } else { Exit::MachineCannot })
            .map_err(|error| Failure::output("standard output", &error)),
    }
}
