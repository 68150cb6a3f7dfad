//! How single values are read, and what is said where they cannot be.

use proptest::prelude::*;

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn lifetimes() {
    assert_eq!(lifetime("all"), Ok(Lifetime::All));
    assert_eq!(lifetime("1k"), Ok(Lifetime::Exactly(1000)));
    assert_eq!(lifetime("1..20"), Ok(Lifetime::Uniform(1, 20)));
    assert_eq!(lifetime("7..7"), Ok(Lifetime::Exactly(7)));
    assert_eq!(lifetime("mean:7.6"), Ok(Lifetime::Geometric(7.6)));
    for (text, what) in [
        ("0", "at least 1"),
        ("0..5", "at least 1"),
        ("20..1", "smaller one comes first"),
        ("mean:0.5", "at least 1"),
        ("mean:NaN", "at least 1"),
        ("mean:inf", "at least 1"),
        ("mean:x", "mean:7.6"),
        ("some", "1..20"),
        ("", "1..20"),
    ] {
        let error = lifetime(text).unwrap_err();
        assert!(error.contains(what), "{text}: {error}");
    }
}

#[test]
fn think_times() {
    assert_eq!(think("1ms"), Ok((1_000_000, 1_000_000)));
    assert_eq!(think("0..1us"), Ok((0, 1000)));
    assert!(think("3s..1s").unwrap_err().contains("shorter one"));
    assert!(think("3").unwrap_err().contains("3"));
}

#[test]
fn hosts_with_and_without_ports() {
    for (text, host, port) in [
        ("h", "h", None),
        ("h:80", "h", Some(80)),
        ("10.0.0.1:1", "10.0.0.1", Some(1)),
        ("::1", "::1", None),
        ("[::1]", "::1", None),
        ("[fe80::1]:65535", "fe80::1", Some(65_535)),
    ] {
        assert_eq!(host_port(text), Ok((host.to_owned(), port)), "{text}");
    }
    for text in ["", ":80", "h:", "h:0", "h:65536", "h:x", "[::1", "[x]:1", "[::1]x", "a:b:1"] {
        assert!(host_port(text).is_err(), "{text}");
    }
    assert!(host_port("http://h/").unwrap_err().contains("HOST:PORT"));
}

#[test]
fn source_ranges() {
    let range = |first, last| Ok(AddressRange { first: ip(first), last: ip(last) });
    assert_eq!(source("10.0.0.1"), range("10.0.0.1", "10.0.0.1"));
    assert_eq!(source("10.0.0.250-10.0.1.2"), range("10.0.0.250", "10.0.1.2"));
    assert_eq!(source("10.0.0.77/24"), range("10.0.0.1", "10.0.0.254"));
    assert_eq!(source("10.0.0.0/31"), range("10.0.0.0", "10.0.0.1"));
    assert_eq!(source("10.0.0.9/32"), range("10.0.0.9", "10.0.0.9"));
    assert_eq!(source("fd00::/126"), range("fd00::", "fd00::3"));
    for (text, what) in [
        ("10.0.0", "10.0.0.1-10.0.0.9"),
        ("10.0.0.0/33", "10.0.0.0/24"),
        ("10.0.0.9-10.0.0.1", "lower address comes first"),
        ("10.0.0.1-::1", "one family"),
        ("10.0.0.0/8", "at most 65536"),
        ("::/0", "at most 65536"),
        ("", "not an IP address"),
    ] {
        let error = source(text).unwrap_err();
        assert!(error.contains(what), "{text}: {error}");
    }
}

#[test]
fn cpus() {
    assert_eq!(cpu_range("3"), Ok(CpuRange { first: 3, last: 3 }));
    assert_eq!(cpu_range("2-5"), Ok(CpuRange { first: 2, last: 5 }));
    assert!(cpu_range("5-2").unwrap_err().contains("lower number"));
    for text in ["", "x", "-1", "1-", "0-99999999"] {
        assert!(cpu_range(text).unwrap_err().contains("0,2-5"), "{text}");
    }
}

#[test]
fn listening_addresses() {
    for (text, address) in [
        ("127.0.0.1:80", "127.0.0.1:80"),
        ("[::]:0", "[::]:0"),
        (":8080", "127.0.0.1:8080"),
        ("8080", "127.0.0.1:8080"),
    ] {
        assert_eq!(listen(text), Ok(address.parse().unwrap()), "{text}");
    }
    assert_eq!(listen("localhost:81").unwrap().port(), 81);
    for text in ["", "127.0.0.1", "h:80", "70000", "localhost:x"] {
        assert!(listen(text).unwrap_err().contains("127.0.0.1:8080"), "{text}");
    }
}

#[test]
fn stalls() {
    assert_eq!(stall("1s@5s"), Ok(Stall { duration_ns: 1_000_000_000, at_ns: 5_000_000_000 }));
    assert!(stall("1s").unwrap_err().contains("1s@5s"));
    assert!(stall("0@5s").unwrap_err().contains("longer than 0"));
}

#[test]
fn methods() {
    assert_eq!(method("PURGE"), Ok("PURGE".into()));
    for text in ["", "GE T", "G\r\n", "GET:", "CONNECT"] {
        assert!(method(text).is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn any_text_is_survived(text in "\\PC*") {
        let _ = (lifetime(&text), think(&text), host_port(&text), source(&text));
        let _ = (cpu_range(&text), stall(&text), method(&text), sink(&text));
    }

    #[test]
    fn ranges_hold_as_many_addresses_as_they_say(first in any::<u32>(), more in 0_u32..500) {
        let last = first.saturating_add(more);
        let (first, last) = (Ipv4Addr::from_bits(first), Ipv4Addr::from_bits(last));
        let range = source(&format!("{first}-{last}")).unwrap();
        let addresses: Vec<_> = range.addresses().collect();
        prop_assert_eq!(addresses.len() as u128, range.len());
        prop_assert_eq!((addresses[0], addresses[addresses.len() - 1]), (first.into(), last.into()));
    }

    #[test]
    fn lifetimes_have_at_least_one_request(text in "(all|mean:)?[0-9.k]{0,6}") {
        match lifetime(&text) {
            Ok(Lifetime::Exactly(n)) => prop_assert!(n >= 1),
            Ok(Lifetime::Uniform(a, b)) => prop_assert!(1 <= a && a < b),
            Ok(Lifetime::Geometric(mean)) => prop_assert!(mean >= 1.0),
            Ok(Lifetime::All) | Err(_) => {}
        }
    }
}
