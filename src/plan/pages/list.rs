//! Lists of pages: `[METHOD] URL-or-path [weight=N]`, one a line.

use std::fmt;

use super::{Page, ParsedUrl, UrlError};
use crate::units::{UnitError, parse_count};

/// Reads a list of pages. Each line's path and query are taken onto `origin`, whatever host the line
/// names; `method` is that of lines that name none. Blank lines are skipped, and `#` with what
/// follows it, at the start of a line or after a blank.
///
/// # Errors
///
/// The first line that cannot be read, by its number; or that there is no page at all.
pub fn parse_list(text: &str, origin: &ParsedUrl, method: &str) -> Result<Vec<Page>, ListError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut pages = Vec::new();
    for (index, line) in text.lines().enumerate() {
        match parse_line(line, origin, method) {
            Ok(Some(page)) => pages.push(page),
            Ok(None) => {}
            Err(problem) => {
                let line = line.trim().to_owned();
                return Err(ListError::Line { number: index + 1, line, problem });
            }
        }
    }
    if pages.is_empty() { Err(ListError::Empty) } else { Ok(pages) }
}

/// A list that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListError {
    /// There is no page in it.
    Empty,
    /// A line cannot be read.
    Line {
        /// Its number, from 1.
        number: usize,
        /// What it says.
        line: String,
        /// What is wrong with it.
        problem: LineProblem,
    },
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineProblem {
    /// A method or a weight alone.
    NoLocation,
    /// More than a method, a URL and a weight.
    TooManyWords,
    /// A method with characters that none may have.
    Method(String),
    /// A weight that is no count.
    Weight(UnitError),
    /// A weight of 0, or one above `u32`.
    WeightRange,
    /// What stands for the URL or path.
    Location(UrlError),
}

impl fmt::Display for ListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const FORM: &str = "write [METHOD] URL-or-path [weight=N]";
        let (number, line, problem) = match self {
            Self::Empty => {
                return f.write_str("there is no page in the list; write one URL or path a line");
            }
            Self::Line { number, line, problem } => (number, line, problem),
        };
        write!(f, "line {number}: ")?;
        match problem {
            // It shows the location itself, without credentials.
            LineProblem::Location(error) => return error.fmt(f),
            LineProblem::NoLocation => write!(f, "the URL or path is missing; {FORM}"),
            LineProblem::TooManyWords => {
                write!(f, "too many words; {FORM}, blanks in a path as %20")
            }
            LineProblem::Method(method) => {
                write!(f, "\"{}\" is not a method; {FORM}", method.escape_debug())
            }
            LineProblem::Weight(error) => write!(f, "weight={error}"),
            LineProblem::WeightRange => f.write_str(
                "a weight is from 1 to 4294967295; take the line out if its page is not wanted",
            ),
        }?;
        // A line that is too long to be read is not shown whole, nor is one that may hold a password.
        if line.contains('@') || line.chars().count() > 200 {
            return Ok(());
        }
        write!(f, " (the line: \"{}\")", line.escape_debug())
    }
}

impl std::error::Error for ListError {}

/// A page, or nothing on this line.
fn parse_line(line: &str, origin: &ParsedUrl, method: &str) -> Result<Option<Page>, LineProblem> {
    let mut words: Vec<&str> =
        line.split_whitespace().take_while(|word| !word.starts_with('#')).collect();
    if words.is_empty() {
        return Ok(None);
    }
    let mut weight = 1;
    if let Some(text) = words.last().and_then(|word| word.strip_prefix("weight=")) {
        let count = parse_count(text).map_err(LineProblem::Weight)?;
        weight = u32::try_from(count).map_err(|_| LineProblem::WeightRange)?;
        if weight == 0 {
            return Err(LineProblem::WeightRange);
        }
        words.pop();
    }
    let (method, location) = match words[..] {
        [] => return Err(LineProblem::NoLocation),
        [word] if is_method(word) && word.bytes().all(|b| b.is_ascii_uppercase()) => {
            return Err(LineProblem::NoLocation);
        }
        [location] => (method, location),
        [method, _] if !is_method(method) => return Err(LineProblem::Method(method.to_owned())),
        [method, location] => (method, location),
        _ => return Err(LineProblem::TooManyWords),
    };
    let url = origin.at(location).map_err(LineProblem::Location)?;
    Ok(Some(Page { weight, ..url.page(method) }))
}

/// Whether it is a `token` of RFC 9110, section 5.6.2.
fn is_method(word: &str) -> bool {
    !word.is_empty()
        && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::plan::pages::parse_url;

    fn list(text: &str) -> Result<Vec<Page>, ListError> {
        parse_list(text, &parse_url("http://test:8080/start").unwrap(), "GET")
    }

    fn page(method: &str, target: &str, weight: u32) -> Page {
        Page {
            method: method.to_owned(),
            target: target.to_owned(),
            url: format!("http://test:8080{target}"),
            weight,
        }
    }

    #[test]
    fn every_form_of_a_line() {
        let text = "\u{feff}# pages\r\n\n/\n/a?b=c weight=3\r\nPOST /form\n  HEAD https://live/x#y \
                    weight=1k # often\n\t#/not\nhttp://live";
        let expected = [
            page("GET", "/", 1),
            page("GET", "/a?b=c", 3),
            page("POST", "/form", 1),
            page("HEAD", "/x", 1000),
            page("GET", "/", 1),
        ];
        assert_eq!(list(text).unwrap(), expected);
    }

    #[test]
    fn errors_name_the_line() {
        for (text, what) in [
            ("/\n\nGET", "line 3: the URL or path is missing"),
            ("weight=3", "line 1: the URL or path is missing"),
            ("GET /a b", "line 1: too many words"),
            ("G(T /a", "\"G(T\" is not a method"),
            ("/ weight=0", "from 1 to"),
            ("/ weight=5G", "from 1 to"),
            ("/ weight=x", "weight=\"x\" is not a count"),
            ("#\nindex.html", "line 2: \"index.html\": neither a URL nor a path"),
            ("ftp://h/", "http or https"),
            ("# only\n\n", "no page in the list"),
        ] {
            let told = list(text).unwrap_err().to_string();
            assert!(told.contains(what), "{told}");
        }
        assert!(list("GET /a b").unwrap_err().to_string().ends_with("(the line: \"GET /a b\")"));
        assert!(!list("http://me:secret@h/ x y").unwrap_err().to_string().contains("secret"));
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "(\\PC|\n)*", near in "((GET|/[a-z ]*|http://h|weight=[0-9k]*|#|\n| ){0,6}\n?){0,5}") {
            for text in [&text, &near] {
                match list(text) {
                    Ok(pages) => prop_assert!(pages.iter().all(|page| page.weight > 0)),
                    Err(error) => prop_assert!(!error.to_string().is_empty()),
                }
            }
        }
    }
}
