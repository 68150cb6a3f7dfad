//! `--plan FILE`: the flags of `run` or `hold` in TOML.
//!
//! A key is a long flag without its hyphens, or `url`; its value becomes that flag's argument, and
//! is read by the same code. What is typed wins, header by header.

use std::ffi::OsString;
use std::path::Path;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, CommandFactory};
use toml::{Table, Value};

use super::input;
use super::mistake::{Mistake, wrong};
use super::request::name_of;
use super::typed::Typed;

/// Flags of which one that is typed takes back the other in the file.
const RIVALS: [(&str, &str); 3] =
    [("ipv4", "ipv6"), ("new-connections", "requests-per-connection"), ("insecure", "cacert")];

/// Flags that set a header of this name.
const HEADER_FLAGS: [(&str, &str); 4] = [
    ("user", "authorization"),
    ("user-agent", "user-agent"),
    ("new-connections", "connection"),
    ("requests-per-connection", "connection"),
];

/// The arguments of `command` that a plan file stands for, without those that the typed ones win
/// over.
pub(super) fn arguments(
    command: &str,
    path: &Path,
    typed: &ArgMatches,
) -> Result<Vec<OsString>, Mistake> {
    let name = path.display();
    let bytes = input::read("--plan", path, input::MAX_LIST)?;
    let Ok(text) = String::from_utf8(bytes) else {
        wrong!("--plan: \"{name}\" is not UTF-8, which TOML must be");
    };
    let table: Table = text.parse().map_err(|error: toml::de::Error| {
        // The library would show the line, which may hold a secret.
        let line = error.span().map_or(1, |span| text[..span.start].lines().count().max(1));
        Mistake::new(format!("--plan: \"{name}\" line {line}: {}", error.message()))
    })?;
    let known = definition(command);
    let mut all = Vec::new();
    let mut kept = Vec::new();
    for (key, value) in table {
        let arguments = flag_arguments(&known, &key, value)
            .map_err(|mistake| Mistake::new(format!("--plan: \"{name}\": {mistake}")))?;
        let wins = |argument: &String| !typed_wins(typed, &key, argument);
        kept.extend(arguments.iter().filter(|a| wins(a)).map(OsString::from));
        all.extend(arguments);
    }
    // Read on their own first, so that what is wrong in the file is said to be there.
    let program = ["ringload", command].map(str::to_owned);
    if let Err(error) = Typed::command().try_get_matches_from(program.into_iter().chain(all)) {
        let text = error.render().to_string();
        let first = text.split("\n\n").next().unwrap_or_default();
        wrong!("--plan: \"{name}\": {}", first.trim_start_matches("error: "));
    }
    Ok(kept)
}

/// Clap's view of a command.
fn definition(command: &str) -> clap::Command {
    let program = Typed::command();
    let found = program.find_subcommand(command).cloned();
    found.expect("the name is one of the commands that clap was given")
}

/// The arguments for one key.
fn flag_arguments(
    command: &clap::Command,
    key: &str,
    value: Value,
) -> Result<Vec<String>, Mistake> {
    let known = |arg: &&Arg| name(arg) == Some(key) && key != "plan";
    let Some(arg) = command.get_arguments().find(known) else {
        let Some(nearest) = nearest(command, key) else {
            wrong!("there is no key \"{}\"", key.escape_debug())
        };
        wrong!("there is no key \"{}\"; the nearest is \"{nearest}\"", key.escape_debug());
    };
    let repeatable = matches!(arg.get_action(), ArgAction::Append);
    let is_switch = matches!(arg.get_action(), ArgAction::SetTrue);
    let values = match value {
        Value::Array(values) if repeatable => values,
        Value::Array(_) => wrong!("\"{key}\" takes one value, not a list; write {key} = \"...\""),
        Value::Boolean(on) if is_switch => {
            return Ok(if on { vec![format!("--{key}")] } else { Vec::new() });
        }
        _ if is_switch => wrong!("\"{key}\" is on or off; write {key} = true or {key} = false"),
        value => vec![value],
    };
    let argument = |value| {
        let value = scalar(key, value)?;
        // Without hyphens before it, what looks like a flag would be read as one.
        match arg.is_positional() {
            true if value.starts_with('-') => wrong!("\"{value}\" is not a URL"),
            true => Ok(value),
            false => Ok(format!("--{key}={value}")),
        }
    };
    values.into_iter().map(argument).collect()
}

/// A value as it would be typed.
fn scalar(key: &str, value: Value) -> Result<String, Mistake> {
    match value {
        Value::String(text) => Ok(text),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        other => wrong!(
            "\"{key}\" is {} {}, and must be text or a number; write {key} = \"...\"",
            if other.type_str().starts_with(['a', 'i']) { "an" } else { "a" },
            other.type_str()
        ),
    }
}

/// The name of an argument in a file.
fn name(arg: &Arg) -> Option<&str> {
    if arg.is_positional() { Some(arg.get_id().as_str()) } else { arg.get_long() }
}

/// The known key that is most like the one that was written.
fn nearest(command: &clap::Command, key: &str) -> Option<String> {
    command
        .get_arguments()
        .filter_map(name)
        .filter(|name| !["plan", "help"].contains(name))
        .min_by_key(|name| strsim::damerau_levenshtein(name, key))
        .map(str::to_owned)
}

/// Whether something typed takes the place of this argument of the file.
fn typed_wins(typed: &ArgMatches, key: &str, argument: &str) -> bool {
    if let Some(header) = argument.strip_prefix("--header=") {
        return name_of(header).is_some_and(|name| typed_names_header(typed, name));
    }
    let rivals = RIVALS.iter().filter_map(|&(a, b)| match key {
        _ if key == a => Some(b),
        _ if key == b => Some(a),
        _ => None,
    });
    let header = HEADER_FLAGS.iter().find(|(flag, _)| *flag == key).map(|(_, header)| *header);
    is_typed(typed, key)
        || rivals.into_iter().any(|rival| is_typed(typed, rival))
        || header.is_some_and(|name| typed_headers(typed).any(|typed| typed == name))
}

/// Whether the typed flags set, empty or remove the header of this name.
fn typed_names_header(typed: &ArgMatches, name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let by_flag =
        HEADER_FLAGS.iter().any(|(flag, header)| *header == name && is_typed(typed, flag));
    by_flag || typed_headers(typed).any(|typed| typed == name)
}

/// The names of the typed headers, in lower case.
fn typed_headers(typed: &ArgMatches) -> impl Iterator<Item = String> {
    let headers = typed.get_many::<String>("header").into_iter().flatten();
    headers.filter_map(|text| name_of(text)).map(str::to_ascii_lowercase)
}

/// Whether the flag was typed.
fn is_typed(typed: &ArgMatches, key: &str) -> bool {
    // The ids of clap's derive are the fields' names.
    let id = key.replace('-', "_");
    // Not every command has every flag.
    let is_known = typed.try_contains_id(&id).is_ok();
    is_known && typed.value_source(&id) == Some(ValueSource::CommandLine)
}
