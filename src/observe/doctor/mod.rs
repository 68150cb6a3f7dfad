//! What this machine has and what a load generator needs, as data.
//!
//! [`Facts`] are read once, checks are pure functions of them, so that every finding can be
//! tested on a machine that does not have it.

mod cpu;
mod facts;
mod network;
mod ring;

pub use facts::{Conntrack, Facts};

/// One check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// How it stands.
    pub level: Level,
    /// What was found.
    pub found: String,
    /// What is needed.
    pub needed: &'static str,
    /// What to do about it; `None` where nothing is to be done.
    pub remedy: Option<String>,
}

/// How a check stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// As needed.
    Ok,
    /// Works, and can distort or limit a measurement.
    Warn,
    /// Nothing runs without it.
    Missing,
    /// This machine does not show it.
    Unknown,
}

impl Level {
    /// One word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Missing => "missing",
            Self::Unknown => "unknown",
        }
    }
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>, needed: &'static str) -> Self {
        Self { name, level: Level::Ok, found: found.into(), needed, remedy: None }
    }

    fn unknown(name: &'static str, needed: &'static str) -> Self {
        Self { level: Level::Unknown, ..Self::ok(name, "cannot be read", needed) }
    }

    fn warn(self, remedy: impl Into<String>) -> Self {
        Self { level: Level::Warn, remedy: Some(remedy.into()), ..self }
    }

    fn missing(self, remedy: impl Into<String>) -> Self {
        Self { level: Level::Missing, remedy: Some(remedy.into()), ..self }
    }

    /// Warns where `bad`.
    fn warn_if(self, bad: bool, remedy: impl Into<String>) -> Self {
        if bad { self.warn(remedy) } else { self }
    }
}

/// All checks, what is needed first.
#[must_use]
pub fn checks(facts: &Facts) -> Vec<Check> {
    let mut checks = ring::checks(facts);
    checks.extend(network::checks(facts));
    checks.extend(cpu::checks(facts));
    checks
}

/// Writes a number with its thousands apart: 28,232.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check with this name.
    pub(super) fn check_of(facts: &Facts, name: &str) -> Check {
        checks(facts).into_iter().find(|check| check.name == name).unwrap()
    }

    #[test]
    fn good_machine_has_no_findings() {
        for check in checks(&Facts::good()) {
            assert_eq!(check.level, Level::Ok, "{check:?}");
            assert_eq!(check.remedy, None, "{check:?}");
        }
    }

    #[test]
    fn unreadable_machine_is_no_finding() {
        let checks = checks(&Facts::unreadable());
        assert!(checks.iter().any(|check| check.level == Level::Unknown));
        for check in checks {
            assert_ne!(check.level, Level::Missing, "{check:?}");
            assert_ne!(check.level, Level::Warn, "{check:?}");
        }
    }

    #[test]
    fn every_finding_has_a_remedy() {
        for check in checks(&Facts::bad()) {
            let finding = matches!(check.level, Level::Warn | Level::Missing);
            assert_eq!(check.remedy.is_some(), finding, "{check:?}");
        }
    }

    #[test]
    fn thousands_are_apart() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(28_232), "28,232");
        assert_eq!(grouped(1_048_576), "1,048,576");
    }
}
