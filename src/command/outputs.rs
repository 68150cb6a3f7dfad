//! Where a result goes: files, standard output, and what is seen meanwhile.

use std::fs::File;
use std::io::{self, IsTerminal, Write};

use super::Failure;
use crate::cli::{Color, Output, Progress, Sink};
use crate::report;
use crate::report::progress::Mode;
use crate::stats::result::RunResult;

/// The outputs that are files, opened.
pub(super) struct Files {
    json: Option<File>,
    csv: Option<File>,
    hgrm: Option<File>,
}

impl Files {
    /// Opens them, before anything is sent: one that cannot be written would lose the result.
    pub(super) fn open(output: &Output) -> Result<Self, Failure> {
        let open = |sink: &Option<Sink>| match sink {
            Some(Sink::File(path)) => File::create(path)
                .map(Some)
                .map_err(|error| Failure::Use(format!("cannot write {}: {error}", path.display()))),
            _ => Ok(None),
        };
        Ok(Self { json: open(&output.json)?, csv: open(&output.csv)?, hgrm: open(&output.hgrm)? })
    }

    /// Writes every output; one that fails does not keep the others from being written.
    pub(super) fn write(self, result: &RunResult, output: &Output) -> Result<(), Failure> {
        let json = report::json::render as fn(&RunResult) -> String;
        let parts = [
            ("the JSON result", self.json, &output.json, json),
            ("the CSV series", self.csv, &output.csv, report::csv::render),
            ("the percentile table", self.hgrm, &output.hgrm, report::hgrm::render),
        ];
        let mut outcome = Ok(());
        for (what, file, sink, render) in parts {
            let written = match (file, sink) {
                (Some(mut file), _) => file
                    .write_all(render(result).as_bytes())
                    .map_err(|error| Failure::output(what, &error)),
                (None, Some(_)) => write_stdout(&render(result)),
                (None, None) => Ok(()),
            };
            outcome = outcome.and(written);
        }
        if !output.takes_stdout() {
            let text = report::text::render(result, colored(output, &io::stdout()));
            outcome = outcome.and(write_stdout(&text));
        }
        outcome
    }
}

/// Writes to standard output.
pub(super) fn write_stdout(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(|error| Failure::output("standard output", &error))
}

/// Whether to colour: as asked; else on a terminal, unless `NO_COLOR` is set and not empty
/// (no-color.org).
pub(super) fn colored(output: &Output, terminal: &impl IsTerminal) -> bool {
    match output.color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => {
            terminal.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
        }
    }
}

/// How progress is shown.
pub(super) fn mode(output: &Output) -> Mode {
    match output.progress {
        Progress::Auto => Mode::Auto,
        Progress::Bar => Mode::Bar,
        Progress::Line => Mode::Line,
        Progress::None => Mode::None,
    }
}
