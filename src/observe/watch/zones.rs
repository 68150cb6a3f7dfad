//! Local time with a zone's abbreviation, as logs have it.

use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};

/// Hours east of Greenwich of abbreviations that mean one thing nearly everywhere (IANA's time zone
/// database). Where this machine's own zone has the abbreviation, that one is meant.
const ABBREVIATIONS: [(&str, i8); 26] = [
    ("UTC", 0),
    ("GMT", 0),
    ("UCT", 0),
    ("Z", 0),
    ("WET", 0),
    ("WEST", 1),
    ("BST", 1),
    ("CET", 1),
    ("CEST", 2),
    ("EET", 2),
    ("EEST", 3),
    ("SAST", 2),
    ("MSK", 3),
    ("PKT", 5),
    ("WIB", 7),
    ("HKT", 8),
    ("JST", 9),
    ("KST", 9),
    ("AEST", 10),
    ("AEDT", 11),
    ("EST", -5),
    ("EDT", -4),
    ("CDT", -5),
    ("MDT", -6),
    ("PST", -8),
    ("PDT", -7),
];

/// Seconds since 1970 of a local time, and whether its zone is known; where it is not, it is taken
/// for this machine's. `None` for times that cannot be.
pub(super) fn unix_seconds(local: DateTime, zone: Option<&str>) -> Option<(f64, bool)> {
    unix_seconds_on(&TimeZone::system(), local, zone)
}

fn unix_seconds_on(own: &TimeZone, local: DateTime, zone: Option<&str>) -> Option<(f64, bool)> {
    let as_own = own.to_timestamp(local).ok();
    let is_own =
        |zone: &str| as_own.is_some_and(|moment| own.to_offset_info(moment).abbreviation() == zone);
    let offset = match zone {
        Some(zone) if is_own(zone) => return Some((as_own?.as_second() as f64, true)),
        Some(zone) => offset_of(zone),
        None => None,
    };
    match offset {
        Some(offset) => Some((offset.to_timestamp(local).ok()?.as_second() as f64, true)),
        None => Some((as_own?.as_second() as f64, false)),
    }
}

/// What an abbreviation means; zones without one are written as `+03` or `-0330`.
fn offset_of(zone: &str) -> Option<Offset> {
    if let Some((_, hours)) = ABBREVIATIONS.iter().find(|(name, _)| *name == zone) {
        return Offset::from_hours(*hours).ok();
    }
    let (sign, digits) = match zone.as_bytes() {
        [b'+', digits @ ..] => (1, digits),
        [b'-', digits @ ..] => (-1, digits),
        _ => return None,
    };
    let digits = std::str::from_utf8(digits).ok().filter(|digits| matches!(digits.len(), 2 | 4))?;
    let hours: i32 = digits.get(..2)?.parse().ok()?;
    let minutes: i32 = if digits.len() == 4 { digits.get(2..)?.parse().ok()? } else { 0 };
    Offset::from_seconds(sign * (hours * 3_600 + minutes * 60)).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seconds(own_hours: i8, zone: Option<&str>) -> (f64, bool) {
        let own = TimeZone::fixed(Offset::from_hours(own_hours).unwrap());
        unix_seconds_on(&own, "2026-12-01T03:24:30".parse().unwrap(), zone).unwrap()
    }

    const UTC: f64 = 1_796_095_470.0;

    #[test]
    fn zones_are_known_by_abbreviation_and_number() {
        assert_eq!(seconds(5, Some("UTC")), (UTC, true));
        assert_eq!(seconds(5, Some("CET")), (UTC - 3_600.0, true));
        assert_eq!(seconds(0, Some("-0330")), (UTC + 12_600.0, true));
        assert_eq!(seconds(0, Some("+03")), (UTC - 10_800.0, true));
    }

    #[test]
    fn unknown_zone_is_taken_for_ours() {
        assert_eq!(seconds(2, Some("XYZ")), (UTC - 7_200.0, false));
        assert_eq!(seconds(2, None), (UTC - 7_200.0, false));
    }

    #[test]
    fn own_zones_abbreviation_counts_first() {
        let own = TimeZone::posix("IST-1GMT0,M10.5.0,M3.5.0/1").unwrap();
        let local = "2026-07-01T03:24:30".parse().unwrap();
        let (ist, is_known) = unix_seconds_on(&own, local, Some("IST")).unwrap();
        let (utc, _) = unix_seconds_on(&own, local, Some("UTC")).unwrap();
        assert_eq!((utc - ist, is_known), (3_600.0, true));
    }

    proptest! {
        #[test]
        fn any_zone_is_survived(zone in "[+-]?.{0,5}") {
            let _ = offset_of(&zone);
        }
    }
}
