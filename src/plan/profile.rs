//! What changes with time: a rate or a number of connections.

use std::fmt;

use crate::clock::Nanos;
use crate::units::{
    UnitError, format_duration_exactly, gcd, parse_count, parse_duration, parse_rate,
};

pub use crate::units::Ratio;

/// The most connections that a profile may ask for.
pub const MAX_CONNECTIONS: u64 = u32::MAX as u64;

/// A stretch of a profile: from one value to another, linear in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Value at its start.
    pub from: Ratio,
    /// Value at its end.
    pub to: Ratio,
    /// How long, nanoseconds; `None`: for ever, in a profile of one constant segment.
    pub duration_ns: Option<Nanos>,
}

/// Segments, one after the other; at least one. The value may jump between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The segments.
    pub segments: Vec<Segment>,
}

impl Profile {
    /// One value for ever.
    #[must_use]
    pub fn constant(value: Ratio) -> Self {
        Self { segments: vec![Segment { from: value, to: value, duration_ns: None }] }
    }

    /// Reads a rate over time, per second: `VALUE`, or segments `VALUE@DURATION` and
    /// `FROM..TO@DURATION` joined with commas, with rates as [`parse_rate`] reads them.
    ///
    /// # Errors
    ///
    /// See [`ProfileProblem`].
    pub fn parse_rate(text: &str) -> Result<Self, ProfileError> {
        Self::parse(text, parse_rate)
    }

    /// Reads a number of connections over time, in the form of [`Profile::parse_rate`], with whole
    /// numbers as [`parse_count`] reads them.
    ///
    /// # Errors
    ///
    /// See [`ProfileProblem`].
    pub fn parse_count(text: &str) -> Result<Self, ProfileError> {
        let profile = Self::parse(text, |value| parse_count(value).map(Ratio::whole))?;
        match profile.segments.iter().position(|s| s.from.num.max(s.to.num) > MAX_CONNECTIONS) {
            Some(index) => Err(ProfileError::new(text, Some(index), ProfileProblem::TooLarge)),
            None => Ok(profile),
        }
    }

    /// Its length in nanoseconds; `None` where it has none.
    #[must_use]
    pub fn duration_ns(&self) -> Option<Nanos> {
        self.segments.iter().map(|s| s.duration_ns).sum()
    }

    /// The largest value it reaches.
    #[must_use]
    pub fn max(&self) -> f64 {
        self.segments.iter().map(|s| s.from.as_f64().max(s.to.as_f64())).fold(0.0, f64::max)
    }

    /// The least common multiple of all denominators of its values.
    pub(crate) fn denominator(&self) -> Option<u64> {
        let values = self.segments.iter().flat_map(|s| [s.from, s.to]);
        values
            .map(|v| v.den)
            .try_fold(1_u64, |lcm, den| (lcm / gcd(lcm.into(), den.into()) as u64).checked_mul(den))
    }

    fn parse(
        text: &str,
        value: impl Fn(&str) -> Result<Ratio, UnitError>,
    ) -> Result<Self, ProfileError> {
        let single = !text.contains(',');
        let segments = text.split(',').enumerate().map(|(index, part)| {
            Segment::parse(part.trim(), single, &value)
                .map_err(|problem| ProfileError::new(text, Some(index), problem))
        });
        let profile = Self { segments: segments.collect::<Result<_, _>>()? };
        profile.check().map_err(|(index, problem)| ProfileError::new(text, index, problem))?;
        Ok(profile)
    }

    /// Whether `pace` can work it out exactly, and whether it asks for anything.
    fn check(&self) -> Result<(), (Option<usize>, ProfileProblem)> {
        if self.segments.iter().all(|s| s.from.is_zero() && s.to.is_zero()) {
            return Err((None, ProfileProblem::Nothing));
        }
        let denominator = self.denominator().filter(|&den| den <= crate::units::MAX_DENOMINATOR);
        let denominator = denominator.ok_or((None, ProfileProblem::TooFine))?;
        let mut total_ns: Nanos = 0;
        for (index, segment) in self.segments.iter().enumerate() {
            let duration_ns = segment.duration_ns.unwrap_or(0);
            total_ns = total_ns
                .checked_add(duration_ns)
                .ok_or((Some(index), ProfileProblem::DurationTooLong))?;
            if segment.from != segment.to && !segment.ramp_fits(denominator, duration_ns) {
                return Err((Some(index), ProfileProblem::TooFine));
            }
        }
        Ok(())
    }
}

impl Segment {
    fn parse(
        text: &str,
        single: bool,
        value: impl Fn(&str) -> Result<Ratio, UnitError>,
    ) -> Result<Self, ProfileProblem> {
        if text.is_empty() {
            return Err(ProfileProblem::Empty);
        }
        let (values, duration) = match text.split_once('@') {
            Some((values, duration)) => (values, Some(duration)),
            None => (text, None),
        };
        let (from, to) = match values.split_once("..") {
            Some((from, to)) => (value(from)?, value(to)?),
            None => {
                let constant = value(values)?;
                (constant, constant)
            }
        };
        let duration_ns = match duration.map(parse_duration).transpose()? {
            Some(0) => return Err(ProfileProblem::ZeroDuration),
            None if !single || values.contains("..") => return Err(ProfileProblem::NoDuration),
            duration_ns => duration_ns,
        };
        Ok(Self { from, to, duration_ns })
    }

    /// Whether the square in a ramp's integral, with its values in `1/denominator`, stays within
    /// the 127 bits that `pace` computes it in.
    fn ramp_fits(&self, denominator: u64, duration_ns: Nanos) -> bool {
        let value = |v: Ratio| u128::from(v.num) * u128::from(denominator / v.den);
        let duration_ns = u128::from(duration_ns);
        value(self.from)
            .max(value(self.to))
            .checked_mul(4)
            .and_then(|n| n.checked_mul(duration_ns))
            .and_then(|n| n.checked_mul(duration_ns))
            .is_some_and(|n| n < 1 << 127)
    }
}

/// As it is read, exactly.
impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, segment) in self.segments.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            write!(f, "{}", segment.from)?;
            if segment.from != segment.to {
                write!(f, "..{}", segment.to)?;
            }
            if let Some(duration_ns) = segment.duration_ns {
                write!(f, "@{}", format_duration_exactly(duration_ns))?;
            }
        }
        Ok(())
    }
}

/// A profile that is not written as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileError {
    /// The profile.
    text: String,
    /// The segment, from 0; `None` where it is the whole profile.
    index: Option<usize>,
    /// What is wrong with it.
    pub problem: ProfileProblem,
}

/// What is wrong with a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProfileProblem {
    /// Nothing between two commas, or at either end.
    Empty,
    /// A ramp, or one of several segments, without a duration.
    NoDuration,
    /// A segment that takes no time.
    ZeroDuration,
    /// All segments together are longer than `u64` nanoseconds.
    DurationTooLong,
    /// It is 0 throughout.
    Nothing,
    /// More connections than [`MAX_CONNECTIONS`].
    TooLarge,
    /// Values too finely divided, or too high for so long a ramp, to be worked out exactly.
    TooFine,
    /// A value or a duration that cannot be read.
    Unit(UnitError),
}

impl From<UnitError> for ProfileProblem {
    fn from(error: UnitError) -> Self {
        Self::Unit(error)
    }
}

impl ProfileError {
    fn new(text: &str, index: Option<usize>, problem: ProfileProblem) -> Self {
        Self { text: text.to_owned(), index, problem }
    }
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<&str> = self.text.split(',').collect();
        match self.index {
            Some(index) if parts.len() > 1 => {
                let before: usize =
                    parts[..index].iter().map(|part| part.chars().count() + 1).sum();
                write!(
                    f,
                    "segment {} of \"{}\" (\"{}\", from character {}): ",
                    index + 1,
                    self.text.escape_debug(),
                    parts[index].escape_debug(),
                    before + 1
                )?;
            }
            // That names the text itself.
            _ if matches!(self.problem, ProfileProblem::Unit(_)) => {}
            _ => write!(f, "\"{}\": ", self.text.escape_debug())?,
        }
        f.write_str(match &self.problem {
            ProfileProblem::Empty => {
                "a hole: there is nothing here; write VALUE@DURATION or FROM..TO@DURATION, \
                 such as 100@30s or 100..5k@2m"
            }
            ProfileProblem::NoDuration => {
                "the duration is missing; only a single value may go without, \
                 so write for example 100@30s or 100..5k@2m"
            }
            ProfileProblem::ZeroDuration => {
                "its duration is zero; leave the segment out for a jump, or let it last: 100@30s"
            }
            ProfileProblem::DurationTooLong => "the segments up to here last over 580 years",
            ProfileProblem::Nothing => "it is 0 throughout; write at least one value above 0",
            ProfileProblem::TooLarge => "more connections than 4294967295",
            ProfileProblem::TooFine => {
                "its values are too fine for so long a time to be worked out exactly; \
                 write fewer decimals or shorter ramps"
            }
            ProfileProblem::Unit(error) => return error.fmt(f),
        })
    }
}

impl std::error::Error for ProfileError {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::clock::SECOND;

    fn segment(from: u64, to: u64, seconds: u64) -> Segment {
        Segment {
            from: Ratio::whole(from),
            to: Ratio::whole(to),
            duration_ns: Some(seconds * SECOND),
        }
    }

    fn refused(text: &str) -> String {
        Profile::parse_rate(text).unwrap_err().to_string()
    }

    #[test]
    fn the_contracts_examples() {
        let places = Profile::parse_count("0..1200@300s,1200@1m,1200..0@10s").unwrap();
        assert_eq!(
            places.segments,
            [segment(0, 1200, 300), segment(1200, 1200, 60), segment(1200, 0, 10)]
        );
        assert_eq!(places.duration_ns(), Some(370 * SECOND));
        assert_eq!(places.max(), 1200.0);
        let rate = Profile::parse_rate("100..5k@2m").unwrap();
        assert_eq!(rate.segments, [segment(100, 5000, 120)]);
        let minutely = Profile::parse_rate("600/m").unwrap();
        assert_eq!(minutely, Profile::constant(Ratio::whole(10)));
        assert_eq!(minutely.duration_ns(), None);
    }

    #[test]
    fn steps_and_pauses_are_allowed() {
        let steps = Profile::parse_rate("100@10s, 500@10s, 0@5s, 100@10s").unwrap();
        assert_eq!(steps.segments.len(), 4);
        assert_eq!(Profile::parse_rate("10@1m30s").unwrap().duration_ns(), Some(90 * SECOND));
    }

    #[test]
    fn errors_name_the_segment_and_the_remedy() {
        let told = refused("100@10s,,200@10s");
        assert!(told.contains("segment 2") && told.contains("from character 9"), "{told}");
        assert!(told.contains("a hole"), "{told}");
        assert!(refused("100@10s,").contains("a hole"));
        assert!(refused("").contains("a hole"));
        assert!(refused("100@10s,200").contains("duration is missing"));
        assert!(refused("0..100").contains("duration is missing"));
        assert!(refused("100@0").contains("duration is zero"));
        assert!(refused("100@10").contains("unit is missing"));
        assert!(refused("10kk").contains("\"kk\""));
        assert!(refused("1..2..3@1s").contains("not a rate"));
        assert!(refused("0").contains("0 throughout"));
        assert!(refused("0..0@1s,0@5s").contains("0 throughout"));
        assert!(refused("1..1G@1000d").contains("worked out"));
        assert!(refused("1@200000d,1@200000d").contains("580 years"));
        assert!(Profile::parse_count("0").is_err());
        assert!(Profile::parse_count("0.5").is_err());
        assert!(Profile::parse_count("1,5@1s").is_err());
        assert!(Profile::parse_count("5G").unwrap_err().to_string().contains("4294967295"));
    }

    #[test]
    fn an_hour_of_any_rate_can_be_ramped() {
        for text in ["0..1M@1h", "0.1..1M@1h", "1/h..1M@1h", "0..100k@1d", "1/m..0.5@10d"] {
            assert!(Profile::parse_rate(text).is_ok(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "\\PC*", near in "([0-9]{0,12}(k|M|/m|\\.\\.|@|s|m|,)){0,12}") {
            for text in [&text, &near] {
                for profile in [Profile::parse_rate(text), Profile::parse_count(text)] {
                    if let Err(error) = profile {
                        prop_assert!(!error.to_string().is_empty());
                    }
                }
            }
        }

        #[test]
        fn what_is_printed_reads_the_same(
            parts in proptest::collection::vec((0..100_000_u64, 0..100_000_u64, 1..600_000_u64), 1..6),
            period in 0..3_usize,
        ) {
            let period = ["", "/m", "/h"][period];
            let text: Vec<String> =
                parts.iter().map(|(a, b, s)| format!("{a}{period}..{b}{period}@{s}ms")).collect();
            if let Ok(profile) = Profile::parse_rate(&text.join(",")) {
                prop_assert_eq!(Profile::parse_rate(&profile.to_string()), Ok(profile));
            } else {
                prop_assert!(parts.iter().all(|(a, b, _)| a + b == 0));
            }
        }
    }
}
