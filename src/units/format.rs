//! How values are printed. What is printed here can be read again, but for the commas of counts.

use std::fmt;

use super::{HOUR, MINUTE, Ratio};
use crate::clock::{MICROSECOND, MILLISECOND, Nanos, SECOND};

/// A count with its thousands apart: `1,234,567`.
#[must_use]
pub fn format_count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.char_indices() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// So many of something: `1 arrival`, `1,234 arrivals`.
#[must_use]
pub fn format_counted(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", format_count(count), if count == 1 { "" } else { "s" })
}

/// A duration in the unit that suits it, three significant digits or exactly: `250ns`, `84.2µs`,
/// `1.08ms`, `30s`, `1m30s`, `2h`. From a minute on it is rounded to the second.
#[must_use]
pub fn format_duration(ns: Nanos) -> String {
    const UNITS: [(Nanos, &str); 3] = [(MICROSECOND, "µs"), (MILLISECOND, "ms"), (SECOND, "s")];
    if ns < MICROSECOND {
        return format!("{ns}ns");
    }
    for (i, (unit_ns, name)) in UNITS.into_iter().enumerate() {
        let next_ns = UNITS.get(i + 1).map_or(MINUTE, |next| next.0);
        if let Some(text) = significant(ns, unit_ns, next_ns / unit_ns) {
            return text + name;
        }
    }
    // Not by adding half a second: that could overflow.
    let seconds = ns / SECOND + u64::from(ns % SECOND >= SECOND / 2);
    let (hour, minute) = (HOUR / SECOND, MINUTE / SECOND);
    let parts = [(seconds / hour, "h"), (seconds % hour / minute, "m"), (seconds % minute, "s")];
    parts.iter().filter(|(n, _)| *n > 0).map(|(n, unit)| format!("{n}{unit}")).collect()
}

/// A duration with nothing rounded, as [`parse_duration`](super::parse_duration) reads it:
/// `1m30s`, `1s500ms`.
#[must_use]
pub fn format_duration_exactly(ns: Nanos) -> String {
    const UNITS: [(Nanos, &str); 6] = [
        (HOUR, "h"),
        (MINUTE, "m"),
        (SECOND, "s"),
        (MILLISECOND, "ms"),
        (MICROSECOND, "us"),
        (1, "ns"),
    ];
    if ns == 0 {
        return "0s".to_owned();
    }
    let mut rest = ns;
    let mut text = String::new();
    for (unit_ns, name) in UNITS {
        if rest >= unit_ns {
            text += &format!("{}{name}", rest / unit_ns);
            rest %= unit_ns;
        }
    }
    text
}

/// A size in binary units, three significant digits or exactly: `700B`, `24.4KiB`, `1MiB`.
#[must_use]
pub fn format_bytes(bytes: u64) -> String {
    const UNITS: [(u32, &str); 4] = [(10, "KiB"), (20, "MiB"), (30, "GiB"), (40, "TiB")];
    if bytes < 1 << 10 {
        return format!("{bytes}B");
    }
    for (shift, name) in UNITS {
        let limit = if shift == 40 { u64::MAX } else { 1 << 10 };
        if let Some(text) = significant(bytes, 1 << shift, limit) {
            return text + name;
        }
    }
    unreachable!("the largest unit has no limit")
}

/// A transfer rate in the largest decimal unit that leaves it exact: `267Mbit/s`, `1.5Gbit/s`,
/// `1001bit/s`.
#[must_use]
pub fn format_bits(bits: u64) -> String {
    const UNITS: [(u64, &str); 3] =
        [(1_000_000_000, "Gbit/s"), (1_000_000, "Mbit/s"), (1_000, "kbit/s")];
    for (unit, name) in UNITS {
        // Three decimals are exact where the rest is a multiple of a thousandth.
        if bits >= unit && bits.is_multiple_of(unit / 1_000) {
            let decimals = format!("{:03}", bits % unit / (unit / 1_000));
            let decimals = decimals.trim_end_matches('0');
            let point = if decimals.is_empty() { "" } else { "." };
            return format!("{}{point}{decimals}{name}", bits / unit);
        }
    }
    format!("{bits}bit/s")
}

/// A rate: `10,000/s`, `313.4/s`, `16.7/s`, `0.0167/s`. One that is no number is `-`.
#[must_use]
pub fn format_rate(per_second: f64) -> String {
    if !per_second.is_finite() || per_second < 0.0 {
        return "-".to_owned();
    }
    // The bounds are where the rounded figure gets its next digit.
    if per_second >= 999.95 {
        return format_count(per_second.round() as u64) + "/s";
    }
    let decimals = match per_second {
        r if r >= 9.995 => 1,
        r if r >= 0.9995 => 2,
        r if r >= 0.09995 => 3,
        r if r >= 0.009_995 => 4,
        _ => 6,
    };
    let text = format!("{per_second:.decimals$}");
    format!("{}/s", text.trim_end_matches('0').trim_end_matches('.'))
}

/// `value / unit`, whole if it is whole, else with three significant digits; `None` where that is
/// rounded to `limit` or more, so that the next unit suits better.
fn significant(value: u64, unit: u64, limit: u64) -> Option<String> {
    if value.is_multiple_of(unit) {
        return (value / unit < limit).then(|| (value / unit).to_string());
    }
    let scaled = |digits: u32| {
        let unit = u128::from(unit);
        (u128::from(value) * 10_u128.pow(digits) + unit / 2) / unit
    };
    // The most decimals that leave at most three digits.
    let decimals = (0..=2).rev().find(|&d| scaled(d) < 1000).unwrap_or(0);
    let rounded = scaled(decimals);
    let power = 10_u128.pow(decimals);
    if rounded >= u128::from(limit) * power {
        return None;
    }
    let whole = rounded / power;
    Some(match decimals {
        0 => whole.to_string(),
        _ => format!("{whole}.{:0width$}", rounded % power, width = decimals as usize),
    })
}

/// As [`parse_rate`](super::parse_rate) reads it, exactly, in the shortest of its periods: `500`,
/// `0.5`, `1/m`.
impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (seconds, period) in [(1, ""), (60, "/m"), (3600, "/h")] {
            if let Some(text) = exact_decimal(u128::from(self.num) * seconds, self.den.into()) {
                return write!(f, "{text}{period}");
            }
        }
        write!(f, "{:.6}", self.as_f64())
    }
}

/// `num / den` as a decimal, if it is one of at most 18 decimals. Thousands get their prefix.
fn exact_decimal(num: u128, den: u128) -> Option<String> {
    if num.is_multiple_of(den) {
        let whole = num / den;
        return Some(match whole {
            n if n > 0 && n % 1_000_000 == 0 => format!("{}M", n / 1_000_000),
            n if n > 0 && n % 1_000 == 0 => format!("{}k", n / 1_000),
            n => n.to_string(),
        });
    }
    let mut text = format!("{}.", num / den);
    let mut remainder = num % den;
    for _ in 0..18 {
        text.push(char::from(b'0' + (remainder * 10 / den) as u8));
        remainder = remainder * 10 % den;
        if remainder == 0 {
            return Some(text);
        }
    }
    None
}
