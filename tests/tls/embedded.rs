//! The embedded server over TLS, started by `run` itself, and its slow paths.

use serde_json::Value;

use super::support::{child, ringload, run};
use super::{VERSIONS, answered, only_error};

#[test]
fn it_is_asked_and_verified() {
    let run = answered(&["embedded+tls", "-n", "1000", "-c", "8"]);
    assert_eq!(run.count("/counts/completed"), 1_000);
    let tls = &run.result["connections"]["tls"];
    assert_eq!((&tls["verified"], &tls["version"]), (&true.into(), &"TLSv1.3".into()));
    assert_eq!((&tls["full"], &tls["resumed"]), (&8.into(), &0.into()));
    assert_eq!(run.result["plan"]["tls"]["roots"], "embedded");
}

#[test]
fn every_shape_in_both_versions() {
    for (version, name) in VERSIONS {
        for arguments in [
            &["-c", "8", "-n", "400", "--new-connections"][..],
            &["-c", "8", "-n", "400", "--new-connections", "--tls-resume", "on"],
            &["-r", "200", "-d", "1s", "--requests-per-connection", "3", "--tls-resume", "50%"],
            &["-c", "4", "-n", "400", "-k"],
            &["-c", "4", "-n", "40", "--close", "rst", "--new-connections"],
            &["-c", "4", "-n", "40", "--tls-groups", "secp384r1", "--new-connections"],
        ] {
            let run = answered(&[&["embedded+tls", "--tls", version], arguments].concat());
            let tls = &run.result["connections"]["tls"];
            assert_eq!(tls["version"], name);
            let handshakes =
                run.count("/connections/tls/full") + run.count("/connections/tls/resumed");
            assert_eq!(run.count("/connections/opened"), handshakes, "{arguments:?}");
            let resumes = arguments.contains(&"--tls-resume");
            assert_eq!(run.count("/connections/tls/resumed") > 0, resumes, "{arguments:?}");
            assert_eq!(tls["verified"], !arguments.contains(&"-k"));
        }
    }
}

#[test]
fn bodies_of_every_kind() {
    for (version, _) in VERSIONS {
        for (path, len) in [("bytes/1048577", 1_048_577), ("chunked/300000", 300_000)] {
            let url = format!("embedded+tls/{path}");
            let run = answered(&[&url, "--tls", version, "-c", "3", "-n", "30"]);
            assert_eq!(run.count("/bytes/body"), 30 * len, "{path}");
        }
    }
}

#[test]
fn the_post_quantum_group_where_it_was_asked_for() {
    let run = answered(&["embedded+tls", "--tls-groups", "x25519mlkem768", "-n", "20", "-c", "2"]);
    assert_eq!(run.result["connections"]["tls"]["group"], "x25519mlkem768");
}

#[test]
fn what_does_not_come_in_time() {
    for (version, _) in VERSIONS {
        for (path, phase) in [("never", "head"), ("slow/100000/20s", "body")] {
            let url = format!("embedded+tls/{path}");
            let line = [&*url, "--tls", version, "-n", "4", "-c", "2", "--timeout", "500ms"];
            let run = run(&line);
            assert_eq!(only_error(&run), (phase, "timeout", ""), "{path} in {version}");
            assert_eq!(run.code, 4);
            assert_eq!(run.count("/connections/tls/full"), 4, "each on a connection of its own");
        }
    }
}

#[test]
fn what_ends_early() {
    for (version, _) in VERSIONS {
        for (path, found) in [
            ("truncate/1000", ("body", "truncated", "")),
            ("reset", ("head", "reset", "ECONNRESET")),
        ] {
            let url = format!("embedded+tls/{path}");
            let run = run(&[&url, "--tls", version, "-n", "6", "-c", "2"]);
            assert_eq!(only_error(&run), found, "{path} in {version}");
        }
        // One that says its end before it is asked again costs nothing.
        let run = answered(&["embedded+tls/close", "--tls", version, "-n", "20", "-c", "2"]);
        assert_eq!(run.count("/connections/opened"), 20);
    }
}

#[test]
fn what_the_server_counted() {
    let server = child::serve(&["--http", "127.0.0.1:0", "--https", "127.0.0.1:0"]);
    for (version, _) in VERSIONS {
        let line = [server.url(), "-k", "-c", "2", "-n", "50", "--new-connections", "-t", "1"];
        let run = answered(&[&line[..], &["--tls-resume", "on", "--tls", version]].concat());
        let tls = &run.result["connections"]["tls"];
        let stats = |path: &str| {
            let mut answer = ureq::get(format!("{}{path}", server.urls[0])).call().unwrap();
            answer.body_mut().read_to_string().unwrap()
        };
        let counted: Value = serde_json::from_str(&stats("stats")).unwrap();
        assert_eq!(
            (&counted["tls_full"], &counted["tls_resumed"]),
            (&tls["full"], &tls["resumed"]),
            "{version}"
        );
        assert_eq!((&counted["requests"], &counted["connections"]), (&50.into(), &50.into()));
        stats("stats/reset");
    }
}

#[test]
fn the_text_tells_of_tls() {
    let line = ["run", "embedded+tls", "-n", "20", "-c", "4", "--progress", "none"];
    let output = ringload().args(line).arg("--new-connections").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    for part in [
        "TLS          TLSv1.3, TLS_AES_128_GCM_SHA256, x25519, certificate verified",
        "20 full handshakes: p50 ",
    ] {
        assert!(text.contains(part), "no \"{part}\" in:\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}
