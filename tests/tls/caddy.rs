//! Caddy over TLS: another server, another TLS (Go's), and the same counts.

use super::support::caddy::{self, Caddy, Line, resumed};
use super::support::nginx::PAGES;
use super::support::{Run, run};
use super::{VERSIONS, in_order};

/// Runs against `path` of a Caddy, which then ends; its log must agree.
#[track_caller]
fn load(path: &str, version: (&str, &str), arguments: &[&str]) -> Option<(Run, Vec<Line>)> {
    let (shown, _files, cacert) = in_order();
    let caddy: Caddy = caddy::start(&shown)?;
    let url = caddy.url(path);
    let line = [&*url, "--cacert", &cacert, "--tls", version.0, "-t", "1"];
    let run = run(&[&line[..], arguments].concat());
    let lines = caddy.finish();
    run.assert_identities();
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(run.count("/counts/failed"), 0, "{}", run.result["errors"]);
    assert_eq!(run.count("/status/200"), lines.len() as u64);
    assert!(lines.iter().all(|line| line.status == 200 && line.version == version.1));
    let bodies: u64 = lines.iter().map(|line| line.body).sum();
    assert_eq!(run.count("/bytes/body"), bodies);
    let connections = resumed(&lines);
    let by_them = connections.values().filter(|&&resumed| resumed).count() as u64;
    assert_eq!(run.count("/connections/opened"), connections.len() as u64);
    assert_eq!(run.count("/connections/tls/resumed"), by_them);
    assert_eq!(run.count("/connections/tls/full"), connections.len() as u64 - by_them);
    assert_eq!(run.result["connections"]["tls"]["version"], version.1);
    Some((run, lines))
}

#[test]
fn files_on_connections_that_are_kept() {
    for version in VERSIONS {
        for (path, len) in PAGES {
            let Some((run, _)) = load(path, version, &["-c", "4", "-n", "80"]) else { return };
            assert_eq!(run.count("/bytes/body"), 80 * len as u64, "{path}");
            assert_eq!(run.count("/connections/opened"), 4);
        }
    }
}

#[test]
fn new_connections_of_both_models() {
    for version in VERSIONS {
        for model in [&["-c", "4", "-n", "100"][..], &["-r", "100", "-n", "100"]] {
            let arguments = [model, &["--new-connections"]].concat();
            let Some((run, lines)) = load("/700", version, &arguments) else { return };
            assert_eq!(run.count("/connections/tls/full"), 100);
            assert_eq!(lines.len(), 100);
        }
    }
}

#[test]
fn sessions_are_resumed() {
    for version in VERSIONS {
        let arguments = ["-c", "4", "-n", "100", "--new-connections", "--tls-resume", "on"];
        let Some((run, _)) = load("/700", version, &arguments) else { return };
        // Those that began before the first ticket came.
        let full = run.count("/connections/tls/full");
        assert!((1..=4).contains(&full), "{full} of 100 in {version:?}");
    }
}

#[test]
fn the_name_is_sent() {
    for (version, _) in VERSIONS {
        let (shown, _files, cacert) = in_order();
        let Some(caddy) = caddy::start(&shown) else { return };
        let to = format!("127.0.0.1:{}", caddy.port());
        let url = format!("https://site.example:{}/700", caddy.port());
        let line = [&*url, "--connect-to", &to, "--cacert", &cacert, "--tls", version];
        let run = run(&[&line[..], &["-n", "5", "-c", "1"]].concat());
        assert_eq!(run.code, 0, "{}", run.result["errors"]);
        let lines = caddy.finish();
        assert!(lines.iter().all(|line| line.server_name == "site.example"), "{lines:?}");
    }
}
