use proptest::prelude::*;

use super::*;

#[test]
fn counts() {
    for (text, count) in
        [("0", 0), ("700", 700), ("10k", 10_000), ("1.5M", 1_500_000), ("0.001k", 1), (" 5 ", 5)]
    {
        assert_eq!(parse_count(text), Ok(count), "{text}");
    }
    assert_eq!(parse_count("18446744073709551615"), Ok(u64::MAX));
    for text in ["", "k", "10kk", "-1", "1.5", "0.0001k", "1e3", "18446744073709551616", "1.", ".5"]
    {
        assert!(parse_count(text).is_err(), "{text}");
    }
    // The product of these two exceeds u64, and in a careless order u128 too.
    assert!(parse_count("18446744073709551615T").is_err());
}

#[test]
fn durations() {
    for (text, ns) in [
        ("0", 0),
        ("0s", 0),
        ("7ns", 7),
        ("500us", 500_000),
        ("1.5µs", 1_500),
        ("20ms", 20_000_000),
        ("30s", 30 * SECOND),
        ("1m30s", 90 * SECOND),
        ("1h0.5s", 3600 * SECOND + SECOND / 2),
        ("2h", 7200 * SECOND),
        ("1d", 86_400 * SECOND),
    ] {
        assert_eq!(parse_duration(text), Ok(ns), "{text}");
    }
    for text in ["", "10", "s", "1s1m", "1s1s", "0.1ns", "1x", "1m30", "-1s", "6000000h", "1 s"] {
        assert!(parse_duration(text).is_err(), "{text}");
    }
}

#[test]
fn sizes() {
    for (text, bytes) in
        [("700", 700), ("700B", 700), ("25KiB", 25_600), ("1MB", 1_000_000), ("1.5KiB", 1536)]
    {
        assert_eq!(parse_size(text), Ok(bytes), "{text}");
    }
    for text in ["", "1mB", "1.5", "1BB", "KiB", "99999999999TiB"] {
        assert!(parse_size(text).is_err(), "{text}");
    }
}

#[test]
fn rates() {
    for (text, num, den) in [
        ("500", 500, 1),
        ("500/s", 500, 1),
        ("600/m", 10, 1),
        ("10k", 10_000, 1),
        ("10k/m", 500, 3),
        ("0.5", 1, 2),
        ("1/h", 1, 3600),
        ("0", 0, 1),
        ("1G", MAX_RATE, 1),
        ("0.000001/h", 1, MAX_DENOMINATOR),
    ] {
        assert_eq!(parse_rate(text), Ok(Ratio { num, den }), "{text}");
    }
    for text in ["", "10kk", "5/x", "5/", "/s", "1.1G", "0.0000001/h", "1k/s/s"] {
        assert!(parse_rate(text).is_err(), "{text}");
    }
}

#[test]
fn bits_and_shares() {
    assert_eq!(parse_bits("267Mbit/s"), Ok(267_000_000));
    assert_eq!(parse_bits("2.5Gbit/s"), Ok(2_500_000_000));
    assert_eq!(parse_bits("100kbps"), Ok(100_000));
    for text in ["", "100", "10MB/s", "10Mbit/h", "bit/s"] {
        assert!(parse_bits(text).is_err(), "{text}");
    }
    assert_eq!(parse_share("1%"), Ok(0.01));
    assert_eq!(parse_share("0.5%"), Ok(0.005));
    assert_eq!(parse_share("100%"), Ok(1.0));
    for text in ["", "1", "101%", "100.1%", "%", "1%%", "-1%"] {
        assert!(parse_share(text).is_err(), "{text}");
    }
}

#[test]
fn errors_say_what_would_be_right() {
    let told = parse_count("10kk").unwrap_err().to_string();
    assert_eq!(
        told,
        "\"10kk\" is not a count: \"kk\" is not a unit of it; \
         write a whole number, with k, M or G for thousands: 10k or 1.5M"
    );
    let told = parse_duration("10").unwrap_err().to_string();
    assert!(told.contains("unit is missing") && told.contains("30s"), "{told}");
}

#[test]
fn printed() {
    for (ns, text) in [
        (0, "0ns"),
        (250, "250ns"),
        (84_210, "84.2µs"),
        (999_499, "999µs"),
        (999_500, "1.00ms"),
        (1_000_000, "1ms"),
        (1_084_000, "1.08ms"),
        (2_310_000_000, "2.31s"),
        (30 * SECOND, "30s"),
        (59_960_000_000, "1m"),
        (90 * SECOND, "1m30s"),
        (HOUR + 5 * SECOND, "1h5s"),
        (2 * HOUR, "2h"),
        (u64::MAX, "5124095h34m34s"),
    ] {
        assert_eq!(format_duration(ns), text, "{ns}");
    }
    for (bytes, text) in [
        (700, "700B"),
        (25_600, "25KiB"),
        (25_000, "24.4KiB"),
        (1 << 20, "1MiB"),
        ((1 << 20) - 1, "1.00MiB"),
        (u64::MAX, "16777216TiB"),
    ] {
        assert_eq!(format_bytes(bytes), text, "{bytes}");
    }
    for (rate, text) in [
        (10_000.2, "10,000/s"),
        (999.96, "1,000/s"),
        (313.44, "313.4/s"),
        (16.666, "16.7/s"),
        (2.0, "2/s"),
        (0.016_66, "0.0167/s"),
        (0.0, "0/s"),
        (f64::NAN, "-"),
    ] {
        assert_eq!(format_rate(rate), text, "{rate}");
    }
    assert_eq!(format_count(0), "0");
    assert_eq!(format_count(999), "999");
    assert_eq!(format_count(1_234_567), "1,234,567");
    for text in ["500", "0.5", "1/m", "1/h", "0", "1.5k", "10k", "2M", "7/m", "0.1/h"] {
        let rate = parse_rate(text).unwrap();
        assert_eq!(parse_rate(&rate.to_string()), Ok(rate), "{text} as {rate}");
    }
}

proptest! {
    #[test]
    fn nothing_panics(text in "\\PC*", near in "[0-9.]{0,25}(k|M|T|ms|us|m|s|h|/|%|Ki?B|bit|s){0,3}[0-9]{0,3}s?") {
        for text in [&text, &near] {
            let _ = parse_count(text);
            let _ = parse_duration(text);
            let _ = parse_size(text);
            let _ = parse_rate(text);
            let _ = parse_bits(text);
            let _ = parse_share(text);
        }
    }

    #[test]
    fn counts_come_back(count: u64) {
        prop_assert_eq!(parse_count(&format_count(count).replace(',', "")), Ok(count));
    }

    #[test]
    fn durations_come_back_within_their_digits(magnitude in 0..64_u32, bits: u64) {
        let ns = bits >> magnitude;
        let text = format_duration(ns);
        let back = parse_duration(&text).unwrap();
        // Three digits: half of the last against at least 100 of it; from a minute on half a second.
        let slack = if ns < 59 * SECOND { ns / 200 + 1 } else { SECOND / 2 };
        prop_assert!(back.abs_diff(ns) <= slack, "{} as {}", ns, text);
    }

    #[test]
    fn exact_durations_come_back(magnitude in 0..64_u32, bits: u64) {
        let ns = bits >> magnitude;
        prop_assert_eq!(parse_duration(&format_duration_exactly(ns)), Ok(ns));
    }

    #[test]
    fn whole_durations_come_back_exactly(n in 0..1000_u64, unit in 0..6_usize) {
        let ns = n * [1, MICROSECOND, MILLISECOND, SECOND, MINUTE, HOUR][unit];
        prop_assert_eq!(parse_duration(&format_duration(ns)), Ok(ns));
    }

    #[test]
    fn sizes_come_back_within_their_digits(magnitude in 0..64_u32, bits: u64) {
        let bytes = bits >> magnitude;
        let text = format_bytes(bytes);
        match parse_size(&text) {
            Ok(back) => prop_assert!(back.abs_diff(bytes) <= bytes / 180 + 1, "{} as {}", bytes, text),
            // `1.08KiB` is no whole number of bytes.
            Err(error) => prop_assert!(text.contains('.'), "{} as {}: {}", bytes, text, error),
        }
    }

    #[test]
    fn rates_come_back_exactly(units in 0..1_000_000_000_u64, decimals in 0..7_u32, period in 0..3_usize) {
        let text = format!(
            "{}.{:0width$}{}",
            units / 10_u64.pow(decimals),
            units % 10_u64.pow(decimals),
            ["", "/m", "/h"][period],
            width = decimals.max(1) as usize,
        );
        let rate = parse_rate(&text).unwrap();
        prop_assert_eq!(parse_rate(&rate.to_string()), Ok(rate), "{} as {}", text, rate);
    }
}

#[test]
fn bits_come_in_the_unit_that_keeps_them_exact() {
    for (bits, text) in [
        (267_000_000, "267Mbit/s"),
        (1_000_000_000, "1Gbit/s"),
        (2_500_000_000, "2.5Gbit/s"),
        (1_001, "1.001kbit/s"),
        (999, "999bit/s"),
        (0, "0bit/s"),
    ] {
        assert_eq!(format_bits(bits), text);
    }
}

proptest! {
    #[test]
    fn bits_come_back(magnitude in 0..64_u32, bits: u64) {
        let bits = bits >> magnitude;
        prop_assert_eq!(parse_bits(&format_bits(bits)), Ok(bits));
    }
}
