//! Resumption, as the server sees it.

use super::support::run;
use super::{VERSIONS, in_order, nginx};

/// Runs of new connections, so many of which may resume; how many did, as both sides say.
fn resumed(lines: &str, version: &str, arguments: &[&str]) -> Option<(u64, u64)> {
    let (shown, _files, cacert) = in_order();
    let nginx = nginx(&shown, lines)?;
    let url = nginx.secure_url("/700");
    let line = [&*url, "--cacert", &cacert, "--tls", version, "--new-connections", "-n", "300"];
    let run = run(&[&line[..], arguments].concat());
    run.assert_identities();
    assert_eq!((run.code, run.count("/counts/completed")), (0, 300), "{}", run.stderr);
    let log = nginx.finish();
    let (full, resumed) =
        (run.count("/connections/tls/full"), run.count("/connections/tls/resumed"));
    assert_eq!(log.connections(), 300);
    assert_eq!(resumed, log.resumed(), "{version} {arguments:?}");
    assert_eq!(full + resumed, 300, "{version} {arguments:?}");
    let latency = &run.result["latency"];
    assert_eq!(
        (&latency["tls"]["count"], &latency["tls_resumed"]["count"]),
        (&full.into(), &resumed.into())
    );
    Some((full, resumed))
}

#[test]
fn nothing_is_resumed_unless_asked() {
    for (version, _) in VERSIONS {
        for arguments in [&["-c", "4"][..], &["-c", "4", "--tls-resume", "off"]] {
            let Some(counts) = resumed("", version, arguments) else { return };
            assert_eq!(counts, (300, 0), "{version}");
        }
    }
}

#[test]
fn by_tickets() {
    for (version, _) in VERSIONS {
        let arguments = ["-c", "4", "-t", "1", "--tls-resume", "on"];
        let Some((full, _)) = resumed("", version, &arguments) else { return };
        // Those that began before the first ticket came.
        assert!((1..=4).contains(&full), "{full} of 300 in {version}");
    }
}

#[test]
fn by_what_the_server_remembers() {
    for (version, _) in VERSIONS {
        let lines = "ssl_session_tickets off; ssl_session_cache shared:a:1m;";
        let arguments = ["-c", "4", "-t", "1", "--tls-resume", "on"];
        let Some((full, _)) = resumed(lines, version, &arguments) else { return };
        assert!((1..=4).contains(&full), "{full} of 300 in {version}");
    }
}

#[test]
fn each_thread_has_sessions_of_its_own() {
    for (version, _) in VERSIONS {
        let arguments = ["-c", "6", "-t", "3", "--tls-resume", "on"];
        let Some((full, _)) = resumed("", version, &arguments) else { return };
        assert!((1..=6).contains(&full), "{full} of 300 in {version}");
    }
}

#[test]
fn in_the_open_model() {
    for (version, _) in VERSIONS {
        let arguments = ["-r", "200", "-t", "1", "--tls-resume", "on"];
        let Some((_, resumed)) = resumed("", version, &arguments) else { return };
        assert!(resumed > 150, "{resumed} of 300 in {version}");
    }
}

#[test]
fn a_share_of_them() {
    for (version, _) in VERSIONS {
        let arguments = ["-c", "4", "-t", "1", "--tls-resume", "50%", "--seed", "7"];
        let Some((_, resumed)) = resumed("", version, &arguments) else { return };
        // Half of them, within five standard deviations (9 each), and those at the beginning.
        assert!((100..=200).contains(&resumed), "{resumed} of 300 in {version}");
    }
}

#[test]
fn a_server_that_remembers_nothing_is_no_failure() {
    for (version, _) in VERSIONS {
        let lines = "ssl_session_tickets off; ssl_session_cache off;";
        let arguments = ["-c", "4", "--tls-resume", "on"];
        let Some(counts) = resumed(lines, version, &arguments) else { return };
        assert_eq!(counts, (300, 0), "{version}");
    }
}
