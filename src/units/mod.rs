//! How values are written: counts, durations, sizes, rates, shares; read and printed.
//!
//! Reading is exact decimal arithmetic, never through floats: `0.1` is a tenth.
//! A value that cannot be held exactly is refused, with what would be right.

use std::fmt;

use crate::clock::{MICROSECOND, MILLISECOND, Nanos, SECOND};

mod format;

pub use format::{
    format_bits, format_bytes, format_count, format_counted, format_duration,
    format_duration_exactly, format_rate,
};

/// The highest rate that is taken, per second: one arrival a nanosecond.
pub const MAX_RATE: u64 = 1_000_000_000;

/// The largest denominator of a [`Ratio`] that [`parse_rate`] gives: six decimals, per hour.
pub const MAX_DENOMINATOR: u64 = 3_600_000_000;

/// Nanoseconds in a minute.
pub const MINUTE: Nanos = 60 * SECOND;
/// Nanoseconds in an hour.
pub const HOUR: Nanos = 60 * MINUTE;

/// A rational number, at least zero, kept exact: `num / den`.
///
/// Two are equal if they are written alike: [`Ratio::new`] reduces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    /// Numerator.
    pub num: u64,
    /// Denominator, at least 1.
    pub den: u64,
}

impl Ratio {
    /// `num / den` in lowest terms.
    ///
    /// # Panics
    ///
    /// If `den` is 0.
    #[must_use]
    pub fn new(num: u64, den: u64) -> Self {
        assert!(den > 0, "a ratio's denominator is at least 1");
        let divisor = gcd(num.into(), den.into()) as u64;
        Self { num: num / divisor, den: den / divisor }
    }

    /// A whole number.
    #[must_use]
    pub const fn whole(n: u64) -> Self {
        Self { num: n, den: 1 }
    }

    /// Whether it is 0.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.num == 0
    }

    /// The nearest float.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        self.num as f64 / self.den as f64
    }
}

/// A value that is not written as it must be: what is wrong, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitError {
    text: String,
    kind: Kind,
    problem: Problem,
}

/// What was to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Count,
    Duration,
    Size,
    Rate,
    Bits,
    Share,
}

impl Kind {
    /// Its name with an article.
    const fn name(self) -> &'static str {
        match self {
            Self::Count => "a count",
            Self::Duration => "a duration",
            Self::Size => "a size",
            Self::Rate => "a rate",
            Self::Bits => "a bit rate",
            Self::Share => "a share",
        }
    }

    /// How it is written.
    const fn remedy(self) -> &'static str {
        match self {
            Self::Count => "write a whole number, with k, M or G for thousands: 10k or 1.5M",
            Self::Duration => "write a number with ns, us, ms, s, m, h or d: 20ms, 30s or 1m30s",
            Self::Size => "write bytes, or a number with kB, MB, GB, KiB, MiB or GiB: 700 or 25KiB",
            Self::Rate => "write so many per second, or with /s, /m or /h: 500, 10k or 600/m",
            Self::Bits => "write a number with bit/s, kbit/s, Mbit/s or Gbit/s: 267Mbit/s",
            Self::Share => "write a percentage from 0% to 100%: 1%",
        }
    }
}

/// What is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Problem {
    Empty,
    NotANumber,
    NoUnit,
    UnknownUnit(String),
    UnitOrder(String),
    TooFine,
    TooLarge,
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\" is not {}: ", self.text.escape_debug(), self.kind.name())?;
        match &self.problem {
            Problem::Empty => f.write_str("it is empty"),
            Problem::NotANumber => f.write_str("there is no number at its start"),
            Problem::NoUnit if self.kind == Kind::Duration => {
                write!(f, "the unit is missing ({}s are seconds)", self.text.escape_debug())
            }
            Problem::NoUnit => f.write_str("the unit is missing"),
            Problem::UnknownUnit(unit) => {
                write!(f, "\"{}\" is not a unit of it", unit.escape_debug())
            }
            Problem::UnitOrder(unit) => {
                write!(f, "{unit} must come before the smaller units, and once")
            }
            Problem::TooFine if self.kind == Kind::Count => f.write_str("it is not a whole number"),
            Problem::TooFine => f.write_str("it has more digits than can be kept exactly"),
            Problem::TooLarge => f.write_str("it is too large"),
        }?;
        write!(f, "; {}", self.kind.remedy())
    }
}

impl std::error::Error for UnitError {}

/// Reads a count: `700`, `10k`, `1.5M`, `2G`.
///
/// # Errors
///
/// If it is not a number, not whole, has an unknown unit or exceeds `u64`.
pub fn parse_count(text: &str) -> Result<u64, UnitError> {
    let kind = Kind::Count;
    let read = || {
        let (number, unit) = Decimal::split(text.trim())?;
        number.whole(decimal_prefix(unit).ok_or_else(|| unknown(unit))?)
    };
    read().map_err(|problem| UnitError { text: text.to_owned(), kind, problem })
}

/// Reads a duration into nanoseconds: `500us`, `20ms`, `30s`, `1m30s`, `2h`, and `0`.
///
/// # Errors
///
/// If a number or a unit is missing or unknown, units do not get smaller, or it is finer than a
/// nanosecond or longer than `u64` nanoseconds.
pub fn parse_duration(text: &str) -> Result<Nanos, UnitError> {
    let kind = Kind::Duration;
    duration(text.trim()).map_err(|problem| UnitError { text: text.to_owned(), kind, problem })
}

/// Reads a size into bytes: `700`, `25KiB`, `1MB`; `k`, `M` and `G` alone are thousands.
///
/// # Errors
///
/// If it is not a number, not a whole number of bytes, has an unknown unit or exceeds `u64`.
pub fn parse_size(text: &str) -> Result<u64, UnitError> {
    let kind = Kind::Size;
    let read = || {
        let (number, unit) = Decimal::split(text.trim())?;
        let bytes = match unit {
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            "TiB" => 1 << 40,
            _ => decimal_prefix(unit.strip_suffix('B').unwrap_or(unit))
                .ok_or_else(|| unknown(unit))?,
        };
        number.whole(bytes)
    };
    read().map_err(|problem| UnitError { text: text.to_owned(), kind, problem })
}

/// Reads a rate per second: `500`, `500/s`, `10k`, `600/m`, `0.5`, `1/h`. Zero is a rate; a caller
/// that needs more than that asks [`Ratio::is_zero`].
///
/// # Errors
///
/// If it is not a number, has an unknown unit, is above [`MAX_RATE`], or is so fine that its
/// denominator exceeds [`MAX_DENOMINATOR`].
pub fn parse_rate(text: &str) -> Result<Ratio, UnitError> {
    let kind = Kind::Rate;
    rate(text.trim()).map_err(|problem| UnitError { text: text.to_owned(), kind, problem })
}

/// Reads a transfer rate into bits per second: `267Mbit/s`, `1Gbit/s`, `10Mbps`.
///
/// # Errors
///
/// If it is not a number, the unit is missing or unknown, it is not a whole number of bits or
/// exceeds `u64`.
pub fn parse_bits(text: &str) -> Result<u64, UnitError> {
    let kind = Kind::Bits;
    let read = || {
        let (number, unit) = Decimal::split(text.trim())?;
        if unit.is_empty() {
            return Err(Problem::NoUnit);
        }
        let prefix = ["bit/s", "bit", "bps"].iter().find_map(|base| unit.strip_suffix(base));
        number.whole(prefix.and_then(decimal_prefix).ok_or_else(|| unknown(unit))?)
    };
    read().map_err(|problem| UnitError { text: text.to_owned(), kind, problem })
}

/// Reads a share into 0 to 1: `1%` is 0.01. The sign is required: whether a bare `1` were all or a
/// hundredth, nobody could tell.
///
/// # Errors
///
/// If it is not a number with `%` or is above 100 %.
pub fn parse_share(text: &str) -> Result<f64, UnitError> {
    let kind = Kind::Share;
    let read = || {
        let (number, unit) = Decimal::split(text.trim())?;
        match unit {
            "%" if number.mantissa <= 100 * number.scale => {
                Ok(number.mantissa as f64 / (100 * number.scale) as f64)
            }
            "%" => Err(Problem::TooLarge),
            "" => Err(Problem::NoUnit),
            _ => Err(unknown(unit)),
        }
    };
    read().map_err(|problem| UnitError { text: text.to_owned(), kind, problem })
}

/// See [`parse_duration`].
fn duration(text: &str) -> Result<Nanos, Problem> {
    if text == "0" {
        return Ok(0);
    }
    let mut total: Nanos = 0;
    let mut rest = text;
    let mut smallest = Nanos::MAX;
    loop {
        let (number, tail) = Decimal::split(rest)?;
        let length = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(length);
        let unit_ns = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => MICROSECOND,
            "ms" => MILLISECOND,
            "s" => SECOND,
            "m" | "min" => MINUTE,
            "h" => HOUR,
            "d" => 24 * HOUR,
            "" => return Err(Problem::NoUnit),
            _ => return Err(unknown(unit)),
        };
        if unit_ns >= smallest {
            return Err(Problem::UnitOrder(unit.to_owned()));
        }
        total = total.checked_add(number.whole(unit_ns)?).ok_or(Problem::TooLarge)?;
        if tail.is_empty() {
            return Ok(total);
        }
        (rest, smallest) = (tail, unit_ns);
    }
}

/// See [`parse_rate`].
fn rate(text: &str) -> Result<Ratio, Problem> {
    let (number, unit) = Decimal::split(text)?;
    let (prefix, period) = unit.split_once('/').unwrap_or((unit, "s"));
    let seconds: u128 = match period {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        _ => return Err(unknown(unit)),
    };
    let factor = decimal_prefix(prefix).ok_or_else(|| unknown(unit))?;
    let num = number.mantissa.checked_mul(factor.into()).ok_or(Problem::TooLarge)?;
    let den = number.scale * seconds;
    if num.div_ceil(den) > MAX_RATE.into() {
        return Err(Problem::TooLarge);
    }
    let divisor = gcd(num, den);
    let (num, den) = (num / divisor, den / divisor);
    if den > MAX_DENOMINATOR.into() {
        return Err(Problem::TooFine);
    }
    // Both fit: num <= MAX_RATE * MAX_DENOMINATOR, which is below 2^62.
    Ok(Ratio { num: num as u64, den: den as u64 })
}

/// A decimal number, exactly: `mantissa / scale`, the scale a power of ten up to 10^18.
#[derive(Clone, Copy)]
struct Decimal {
    mantissa: u128,
    scale: u128,
}

impl Decimal {
    /// Digits of either part, so that nothing below can exceed `u128`.
    const MAX_DIGITS: usize = 18;

    /// Splits `text` into the number at its start and what follows.
    fn split(text: &str) -> Result<(Self, &str), Problem> {
        if text.is_empty() {
            return Err(Problem::Empty);
        }
        let (whole, mut rest) = split_digits(text);
        if whole.is_empty() {
            return Err(Problem::NotANumber);
        }
        let mut fraction = "";
        if let Some(tail) = rest.strip_prefix('.') {
            (fraction, rest) = split_digits(tail);
            if fraction.is_empty() {
                return Err(Problem::NotANumber);
            }
        }
        let fraction = fraction.trim_end_matches('0');
        if fraction.len() > Self::MAX_DIGITS {
            return Err(Problem::TooFine);
        }
        let whole: u64 = whole.parse().map_err(|_| Problem::TooLarge)?;
        let scale = 10_u128.pow(fraction.len() as u32);
        let digits = if fraction.is_empty() { 0 } else { fraction.parse::<u64>().unwrap_or(0) };
        Ok((Self { mantissa: u128::from(whole) * scale + u128::from(digits), scale }, rest))
    }

    /// This many of a unit, which must be a whole number.
    fn whole(self, unit: u64) -> Result<u64, Problem> {
        let product = self.mantissa.checked_mul(unit.into()).ok_or(Problem::TooLarge)?;
        if product % self.scale != 0 {
            return Err(Problem::TooFine);
        }
        u64::try_from(product / self.scale).map_err(|_| Problem::TooLarge)
    }
}

/// The ASCII digits at the start of `text`, and the rest.
fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// What a decimal prefix stands for.
fn decimal_prefix(prefix: &str) -> Option<u64> {
    match prefix {
        "" => Some(1),
        "k" | "K" => Some(1_000),
        "M" => Some(1_000_000),
        "G" => Some(1_000_000_000),
        "T" => Some(1_000_000_000_000),
        _ => None,
    }
}

/// A unit that there is not.
fn unknown(unit: &str) -> Problem {
    Problem::UnknownUnit(unit.to_owned())
}

/// The greatest common divisor; that of 0 and n is n.
pub(crate) fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests;
