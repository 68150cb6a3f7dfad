//! What is asked of a figure: `NAME OP VALUE`, as in `probe_failed>50%`.

use std::fmt;
use std::str::FromStr;

use crate::units::{self, format_bytes};

use super::words::percent;

/// A figure, a comparison and a bound.
#[derive(Clone, Debug, PartialEq)]
pub struct Objective {
    /// The figure.
    pub metric: Metric,
    /// How it is compared.
    pub comparison: Comparison,
    /// With what, in the figure's unit: bytes, or a share of 1.
    pub bound: f64,
    /// As it was typed.
    text: String,
}

/// A figure that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Of connections that were tried, the share that could not be opened.
    Failed,
    /// Of probes, the share that failed.
    ProbeFailed,
    /// What the server's machine can give without swapping.
    TargetMemAvailable,
}

/// How a figure is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Bytes,
    Share,
}

/// How two figures are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `<`
    Below,
    /// `<=`
    AtMost,
    /// `>`
    Above,
    /// `>=`
    AtLeast,
}

/// An expression that cannot be read: what is wrong, where, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectiveError {
    text: String,
    /// Where in it, in characters: from, and how many.
    at: (usize, usize),
    problem: String,
}

impl Metric {
    /// All, by name.
    const NAMES: [(&str, Self); 3] = [
        ("failed", Self::Failed),
        ("probe_failed", Self::ProbeFailed),
        ("target_mem_available", Self::TargetMemAvailable),
    ];

    /// As it is typed.
    #[must_use]
    pub fn name(self) -> &'static str {
        let named = Self::NAMES.iter().find(|(_, metric)| *metric == self);
        named.expect("every figure has a name").0
    }

    const fn unit(self) -> Unit {
        match self {
            Self::Failed | Self::ProbeFailed => Unit::Share,
            Self::TargetMemAvailable => Unit::Bytes,
        }
    }

    /// A value of it, in words.
    #[must_use]
    pub fn format(self, value: f64) -> String {
        match self.unit() {
            Unit::Bytes => format_bytes(value as u64),
            Unit::Share => percent(value),
        }
    }
}

impl Unit {
    fn read(self, text: &str) -> Result<f64, String> {
        match self {
            Self::Bytes => units::parse_size(text).map(|bytes| bytes as f64),
            Self::Share => units::parse_share(text),
        }
        .map_err(|error| error.to_string())
    }

    const fn example(self) -> &'static str {
        match self {
            Self::Bytes => "200MiB",
            Self::Share => "50%",
        }
    }
}

impl Comparison {
    /// The longer ones first, since they begin with the shorter.
    const SIGNS: [(&str, Self); 4] =
        [("<=", Self::AtMost), (">=", Self::AtLeast), ("<", Self::Below), (">", Self::Above)];
}

impl Objective {
    /// Whether it holds of a value.
    #[must_use]
    pub fn holds(&self, value: f64) -> bool {
        match self.comparison {
            Comparison::Below => value < self.bound,
            Comparison::AtMost => value <= self.bound,
            Comparison::Above => value > self.bound,
            Comparison::AtLeast => value >= self.bound,
        }
    }
}

impl FromStr for Objective {
    type Err = ObjectiveError;

    /// Reads an expression. Blanks around its parts do not matter.
    fn from_str(text: &str) -> Result<Self, ObjectiveError> {
        let error = |part: &str, problem: String| ObjectiveError::new(text, part, problem);
        let Some(sign_at) = text.find(['<', '>']) else {
            let shown = if text.contains('=') { "= is none of them" } else { "there is none" };
            let problem = format!("a comparison is missing: {shown}; write NAME>VALUE, NAME<VALUE");
            return Err(error(text.trim(), problem));
        };
        let (name, rest) = (text[..sign_at].trim(), &text[sign_at..]);
        let (sign, comparison) = Comparison::SIGNS
            .into_iter()
            .find(|(sign, _)| rest.starts_with(sign))
            .expect("a comparison begins with < or >");
        let value = rest[sign.len()..].trim();
        let Some((_, metric)) = Metric::NAMES.into_iter().find(|(known, _)| *known == name) else {
            return Err(error(name, unknown_name(name)));
        };
        if value.is_empty() {
            let example = metric.unit().example();
            let problem = format!("a value is missing; write {name}{sign}{example}");
            return Err(error(value, problem));
        }
        let bound = metric.unit().read(value).map_err(|problem| error(value, problem))?;
        Ok(Self { metric, comparison, bound, text: text.trim().to_owned() })
    }
}

fn unknown_name(name: &str) -> String {
    let names = Metric::NAMES.map(|(known, _)| known);
    let distance = |known: &str| strsim::damerau_levenshtein(known, name);
    let nearest = names.into_iter().min_by_key(|known| distance(known)).filter(|known| {
        // Where over half of it would have to be another, nothing was meant by it.
        distance(known) * 2 <= known.len()
    });
    match (name, nearest) {
        ("", _) => format!("a name is missing; there are {}", names.join(", ")),
        (_, Some(nearest)) => format!("there is no such name; the nearest is {nearest}"),
        (_, None) => format!("there is no such name; there are {}", names.join(", ")),
    }
}

impl ObjectiveError {
    /// `part` is the place in `text` that is wrong; an empty one is between two characters.
    fn new(text: &str, part: &str, problem: String) -> Self {
        // Both slices are of one string.
        let from = part.as_ptr() as usize - text.as_ptr() as usize;
        let at = (text[..from].chars().count(), part.chars().count());
        Self { text: text.to_owned(), at, problem }
    }
}

/// What is wrong, and below it the expression with a pointer at the place.
impl fmt::Display for ObjectiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, length) = self.at;
        let shown = |c: char| if c.is_control() { '?' } else { c };
        let text: String = self.text.chars().map(shown).collect();
        let pointer = "^".repeat(length.max(1));
        write!(f, "{}\n  {text}\n  {:from$}{pointer}", self.problem, "")
    }
}

impl std::error::Error for ObjectiveError {}

/// As it was typed.
impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Objective {
        text.parse().unwrap()
    }

    fn wrong(text: &str) -> String {
        text.parse::<Objective>().unwrap_err().to_string()
    }

    #[test]
    fn the_contracts_examples_are_read() {
        let objective = read("probe_failed>50%");
        assert_eq!(objective.metric, Metric::ProbeFailed);
        assert_eq!((objective.comparison, objective.bound), (Comparison::Above, 0.5));
        let objective = read(" target_mem_available <= 200MiB ");
        assert_eq!(objective.metric, Metric::TargetMemAvailable);
        assert_eq!((objective.comparison, objective.bound), (Comparison::AtMost, 209_715_200.0));
        assert_eq!(objective.to_string(), "target_mem_available <= 200MiB");
        assert_eq!(read("failed>=1%").comparison, Comparison::AtLeast);
    }

    #[test]
    fn a_bound_is_in_or_out_as_it_is_written() {
        for (sign, below, at, above) in [
            ("<", true, false, false),
            ("<=", true, true, false),
            (">", false, false, true),
            (">=", false, true, true),
        ] {
            let objective = read(&format!("failed{sign}50%"));
            let held = [0.4, 0.5, 0.6].map(|value| objective.holds(value));
            assert_eq!(held, [below, at, above], "{sign}");
        }
    }

    #[test]
    fn an_error_points_at_its_place() {
        assert_eq!(
            wrong("probe_faild>50%"),
            "there is no such name; the nearest is probe_failed\n  \
             probe_faild>50%\n  \
             ^^^^^^^^^^^"
        );
        assert_eq!(
            wrong("failed > 50"),
            "\"50\" is not a share: the unit is missing; write a percentage from 0% to 100%: 1%\n  \
             failed > 50\n           \
             ^^"
        );
        assert!(wrong("p95<1s").contains("there are failed, probe_failed, target_mem_available"));
        assert!(wrong("failed").contains("a comparison is missing"));
        assert!(wrong("failed=1%").contains("= is none of them"));
        assert!(wrong(">1%").contains("a name is missing"));
        assert!(wrong("failed>").ends_with("write failed>50%\n  failed>\n         ^"));
        assert!(wrong("target_mem_available<50%").contains("not a size"));
    }

    #[test]
    fn values_are_told_in_their_unit() {
        assert_eq!(Metric::TargetMemAvailable.format(209_715_200.0), "200MiB");
        assert_eq!(Metric::ProbeFailed.format(0.5), "50 %");
        assert_eq!(Metric::Failed.name(), "failed");
    }

    proptest! {
        #[test]
        fn any_text_is_an_objective_or_a_pointer(text in "(failed|probe_failed)?.{0,12}") {
            match text.parse::<Objective>() {
                Ok(objective) => {
                    prop_assert_eq!(objective.to_string().parse(), Ok(objective));
                }
                Err(error) => {
                    let shown = error.to_string();
                    let pointer = shown.lines().next_back().unwrap();
                    prop_assert!(pointer.ends_with('^') && !shown.contains('\x07'), "{}", shown);
                }
            }
        }

        #[test]
        fn shares_come_back(share in 0_u32..=100) {
            let objective = read(&format!("failed<{share}%"));
            prop_assert!((objective.bound - f64::from(share) / 100.0).abs() < 1e-12);
        }
    }
}
