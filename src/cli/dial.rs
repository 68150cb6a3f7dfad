//! Where and how to connect.

use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;

use super::mistake::{Mistake, wrong};
use super::typed::{CloseArg, DialArgs};
use super::values::MAX_SOURCES;
use crate::plan::{Close, Dial, IpFamily, Target};

/// The longest path of a unix socket: `sun_path` has 108 bytes with the NUL (unix(7)).
const MAX_SOCKET_PATH: usize = 107;

/// What the flags mean for a target.
pub(super) fn dial(args: DialArgs, target: &Target) -> Result<Dial, Mistake> {
    check_exclusive(&args, target)?;
    let family = match (args.ipv4, args.ipv6) {
        (true, true) => wrong!("-4 and -6 leave no address at all; give one of them, or neither"),
        (true, false) => Some(IpFamily::V4),
        (false, true) => Some(IpFamily::V6),
        (false, false) => None,
    };
    let sources = sources(&args)?;
    check_families(&args, family, &sources, target)?;
    if let Some(path) = &args.unix_socket {
        let len = path.as_os_str().as_bytes().len();
        if len == 0 || len > MAX_SOCKET_PATH {
            wrong!(
                "--unix-socket: the path has {len} bytes, and the kernel takes 1 to \
                 {MAX_SOCKET_PATH}; use a shorter one, such as a link in /tmp"
            );
        }
    }
    let close = match args.close {
        Some(CloseArg::Rst) => Close::Rst,
        Some(CloseArg::Fin) | None => Close::Fin,
    };
    Ok(Dial { connect_to: args.connect_to, family, sources, unix_socket: args.unix_socket, close })
}

/// Flags that cannot both hold.
fn check_exclusive(args: &DialArgs, target: &Target) -> Result<(), Mistake> {
    let tcp_only = [
        ("--source", !args.source.is_empty()),
        ("--connect-to", args.connect_to.is_some()),
        ("-4", args.ipv4),
        ("-6", args.ipv6),
    ];
    if args.unix_socket.is_some()
        && let Some((flag, _)) = tcp_only.into_iter().find(|(_, given)| *given)
    {
        wrong!(
            "--unix-socket has no addresses, so {flag} does not go with it; leave one of them out"
        );
    }
    if matches!(target, Target::Embedded { .. }) {
        let elsewhere = [
            ("--connect-to", args.connect_to.is_some()),
            ("--unix-socket", args.unix_socket.is_some()),
            // The embedded server listens on 127.0.0.1.
            ("-6", args.ipv6),
        ];
        if let Some((flag, _)) = elsewhere.into_iter().find(|(_, given)| *given) {
            wrong!(
                "the embedded server is on a free port of 127.0.0.1, so {flag} does not go with \
                 it; leave {flag} out, or give a URL instead of embedded"
            );
        }
    }
    Ok(())
}

/// All source addresses, each once, in the order in which they were typed.
fn sources(args: &DialArgs) -> Result<Vec<IpAddr>, Mistake> {
    let count = args.source.iter().fold(0_u128, |sum, range| sum.saturating_add(range.len()));
    if count > MAX_SOURCES {
        wrong!("--source: that is {count} addresses, and at most {MAX_SOURCES} are taken");
    }
    let mut seen = std::collections::HashSet::new();
    Ok(args
        .source
        .iter()
        .flat_map(|range| range.addresses())
        .filter(|address| seen.insert(*address))
        .collect())
}

/// Addresses that were typed must be of the family that was asked for, and of one family.
fn check_families(
    args: &DialArgs,
    family: Option<IpFamily>,
    sources: &[IpAddr],
    target: &Target,
) -> Result<(), Mistake> {
    let typed = match (&args.connect_to, target) {
        (Some((host, _)), _) => ("--connect-to", host.as_str()),
        (None, Target::Origin { host, .. }) => ("the URL", host.as_str()),
        (None, Target::Embedded { .. }) => ("the embedded server", "127.0.0.1"),
    };
    let (place, host) = typed;
    let address = host.parse::<IpAddr>().ok();
    if let (Some(family), Some(address)) = (family, address)
        && IpFamily::of(address) != family
    {
        let (flag, other) = if family == IpFamily::V4 { ("-4", "-6") } else { ("-6", "-4") };
        wrong!(
            "{flag} asks for {family}, but {place} names {address}, which is {}; leave {flag} out, \
             give {other}, or name an {family} address",
            IpFamily::of(address)
        );
    }
    let wanted = family.or(address.map(IpFamily::of));
    if let Some(wanted) = wanted
        && let Some(source) = sources.iter().find(|source| IpFamily::of(**source) != wanted)
    {
        wrong!(
            "--source {source} is {}, but the target is asked over {wanted}; give sources of that \
             family",
            IpFamily::of(*source)
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        dial: DialArgs,
    }

    fn read_for(host: &str, line: &str) -> Result<Dial, Mistake> {
        let flags = Flags::try_parse_from(format!("run {line}").split_whitespace());
        let target = match host {
            "embedded" => Target::Embedded { cpus: vec![0], tls: false },
            host => Target::Origin { host: host.to_owned(), port: 80 },
        };
        dial(flags.expect("clap takes these flags").dial, &target)
    }

    #[test]
    fn sources_are_expanded_once_each() {
        let dial =
            read_for("h", "--source 10.0.0.0/29,10.0.0.5-10.0.0.7 --source 10.0.9.1").unwrap();
        let expected: Vec<IpAddr> =
            [1, 2, 3, 4, 5, 6, 7].map(|n| [10, 0, 0, n].into()).into_iter().collect();
        assert_eq!(dial.sources[..7], expected);
        assert_eq!(dial.sources[7..], [IpAddr::from([10, 0, 9, 1])]);
        assert_eq!(read_for("h", "--source 10.0.0.0/16").unwrap().sources.len(), 65_534);
        assert_eq!(read_for("h", "--source fd00::/112").unwrap().sources.len(), 65_536);
    }

    #[test]
    fn too_many_sources_are_refused_before_they_are_expanded() {
        let line = "--source 10.0.0.0/16,10.1.0.0/16";
        let error = read_for("h", line).unwrap_err().to_string();
        assert!(error.contains("131068") && error.contains("65536"), "{error}");
    }

    #[test]
    fn flags_are_taken_over() {
        let dial = read_for("h", "--connect-to [::1]:81 -6 --close rst").unwrap();
        assert_eq!(dial.connect_to, Some(("::1".into(), Some(81))));
        assert_eq!((dial.family, dial.close), (Some(IpFamily::V6), Close::Rst));
        let dial = read_for("h", "--unix-socket /run/x").unwrap();
        assert_eq!(dial.unix_socket, Some("/run/x".into()));
    }

    #[test]
    fn contradictions_are_refused() {
        let long = format!("--unix-socket /{}", "x".repeat(107));
        let cases = [
            ("h", "-4 -6", &["-4 and -6", "give one"][..]),
            ("h", "--unix-socket /x --source 10.0.0.1", &["--unix-socket", "--source"]),
            ("h", "--unix-socket /x --connect-to h", &["--unix-socket", "--connect-to"]),
            ("h", "--unix-socket /x -4", &["--unix-socket", "-4"]),
            ("h", &long, &["108 bytes", "shorter"]),
            ("embedded", "--connect-to h", &["embedded", "--connect-to"]),
            ("embedded", "--unix-socket /x", &["embedded", "--unix-socket"]),
            ("embedded", "-6", &["embedded", "-6"]),
            ("embedded", "--source ::1", &["--source ::1", "IPv6", "IPv4"]),
            ("127.0.0.1", "-6", &["-6", "127.0.0.1", "leave -6 out"]),
            ("::1", "-4", &["-4", "::1"]),
            ("h", "-4 --connect-to ::1", &["-4", "--connect-to", "::1"]),
            ("h", "-4 --source ::1", &["--source ::1", "IPv4"]),
            ("127.0.0.1", "--source 127.0.0.2,::1", &["--source ::1", "IPv4"]),
        ];
        for (host, line, parts) in cases {
            let error = read_for(host, line).unwrap_err().to_string();
            for part in parts {
                assert!(error.contains(part), "{host} {line}: no \"{part}\" in: {error}");
            }
        }
    }
}
