//! `ringload doctor`: what this machine has, what is needed, and what to do.

use std::io::{self, Write};

use crate::observe::doctor::{Check, Facts, Level, checks};
use crate::ring::kernel::KernelRing;

/// The exit code where this machine cannot run ringload.
const MACHINE_CANNOT: u8 = 3;

/// Checks this machine, writes the table and gives the exit code: 3 where something is missing,
/// else 0.
///
/// # Errors
/// What writing to `out` returned.
pub fn run(out: &mut impl Write) -> io::Result<u8> {
    let checks = checks(&Facts::read(KernelRing::probe()));
    write_table(out, &checks)?;
    Ok(exit_code(&checks))
}

fn exit_code(checks: &[Check]) -> u8 {
    if checks.iter().any(|check| check.level == Level::Missing) { MACHINE_CANNOT } else { 0 }
}

/// Characters of the columns. Longer texts go on in the next line.
const NAME_WIDTH: usize = 19;
const FOUND_WIDTH: usize = 36;
const NEEDED_WIDTH: usize = 34;

/// A row a check, its remedy below it, and a sentence at the end.
fn write_table(out: &mut impl Write, checks: &[Check]) -> io::Result<()> {
    write_row(out, "", "check", "found", "needed")?;
    for check in checks {
        write_row(out, check.level.word(), check.name, &check.found, check.needed)?;
        let remedy = check.remedy.as_deref().unwrap_or_default();
        for (at, line) in wrapped(remedy, FOUND_WIDTH + NEEDED_WIDTH).iter().enumerate() {
            let mark = if at == 0 { "->" } else { "" };
            writeln!(out, "{:7}  {mark:>NAME_WIDTH$}  {line}", "")?;
        }
    }
    writeln!(out, "\n{}", conclusion(checks))
}

fn write_row(
    out: &mut impl Write,
    level: &str,
    name: &str,
    found: &str,
    needed: &str,
) -> io::Result<()> {
    let (found, needed) = (wrapped(found, FOUND_WIDTH), wrapped(needed, NEEDED_WIDTH));
    for at in 0..found.len().max(needed.len()) {
        let (level, name) = if at == 0 { (level, name) } else { ("", "") };
        let cell = |lines: &[String]| lines.get(at).cloned().unwrap_or_default();
        let row = format!(
            "{level:7}  {name:NAME_WIDTH$}  {:FOUND_WIDTH$}  {}",
            cell(&found),
            cell(&needed)
        );
        writeln!(out, "{}", row.trim_end())?;
    }
    Ok(())
}

/// Breaks a text between words into lines of at most `width` characters. A longer word has a line
/// of its own, and so has a `command` in backticks, which somebody will copy.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut in_command = false;
    for word in text.split_whitespace() {
        let goes_on = in_command;
        in_command ^= word.matches('`').count() % 2 == 1;
        match lines.last_mut() {
            Some(line) if goes_on || line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn conclusion(checks: &[Check]) -> String {
    let count = |level| checks.iter().filter(|check| check.level == level).count();
    let warnings = match count(Level::Warn) {
        0 => "nothing to improve".to_owned(),
        1 => "1 thing to improve".to_owned(),
        n => format!("{n} things to improve"),
    };
    match count(Level::Missing) {
        0 => format!("ringload can run here; {warnings}."),
        n => format!("ringload cannot run here: {n} missing; {warnings}."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(level: Level, found: &str, remedy: Option<&str>) -> Check {
        Check {
            name: "kernel",
            level,
            found: found.to_owned(),
            needed: "a new one",
            remedy: remedy.map(str::to_owned),
        }
    }

    fn table(checks: &[Check]) -> String {
        let mut out = Vec::new();
        write_table(&mut out, checks).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn remedy_follows_its_row() {
        let checks =
            [check(Level::Ok, "7.0", None), check(Level::Missing, "5.4", Some("boot another"))];
        assert_eq!(
            table(&checks),
            "\x20        check                found                                 needed
ok       kernel               7.0                                   a new one
missing  kernel               5.4                                   a new one
                          ->  boot another

ringload cannot run here: 1 missing; nothing to improve.
"
        );
        assert_eq!(exit_code(&checks), 3);
        assert_eq!(exit_code(&checks[..1]), 0);
    }

    #[test]
    fn long_texts_stay_in_their_column() {
        let long = "some words ".repeat(20);
        let checks = [check(Level::Warn, &long, Some(&long)), check(Level::Ok, "y", None)];
        let text = table(&checks);
        assert!(text.lines().all(|line| line.len() <= 102), "{text}");
        assert_eq!(text.matches("words").count(), 40, "{text}");
        assert_eq!(exit_code(&checks), 0);
    }

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrapped("a bc def", 4), ["a bc", "def"]);
        assert_eq!(wrapped("longer-than-it is", 4), ["longer-than-it", "is"]);
        assert_eq!(wrapped("do `a b c` now", 4), ["do", "`a b c`", "now"]);
        assert!(wrapped("", 4).is_empty());
    }

    #[test]
    fn this_machine_gets_its_table() {
        let mut out = Vec::new();
        let code = run(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(code == 3, text.contains("\nmissing "), "{text}");
        assert!(text.contains("open descriptors"), "{text}");
    }
}
