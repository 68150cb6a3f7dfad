//! Loads of every shape against nginx over TLS: the counts are those of its log.

use rcgen::{PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_RSA_SHA256};

use super::support::certificates::{Authority, Files, here};
use super::support::nginx::{Log, PAGES, Setup};
use super::support::{Run, run};
use super::{VERSIONS, in_order, nginx};

/// What must agree after any run in which every answer was a 200 and nothing was cut off.
#[track_caller]
fn assert_agreement(run: &Run, log: &Log) {
    assert_eq!(run.code, 0, "{}", run.stderr);
    run.assert_identities();
    let answered = log.with_status(200);
    assert_eq!(answered, log.lines.len() as u64, "another status in {log:?}");
    assert_eq!(run.count("/counts/completed"), answered, "{}", run.result["errors"]);
    assert_eq!(run.count("/counts/failed"), 0, "{}", run.result["errors"]);
    assert_eq!(run.count("/counts/unfinished"), 0);
    assert_eq!(run.count("/status/200"), answered);
    assert_eq!(run.count("/connections/opened"), log.connections());
    let most = log.requests_by_connection().into_values().max().unwrap_or(0);
    assert_eq!(run.count("/connections/requests_per_connection/max"), most);
    // As TCP carried them: what TLS adds is in it, and nginx's log is without.
    assert!(run.count("/bytes/sent") > log.received(), "{}", run.result["bytes"]);
    assert!(run.count("/bytes/received") > log.sent(), "{}", run.result["bytes"]);
    let tls = &run.result["connections"]["tls"];
    let secured = log.secured();
    assert_eq!(secured.len() as u64, log.connections(), "all over TLS");
    assert!(secured.values().all(|secured| tls["version"] == *secured.version), "{tls}");
    assert_eq!((&tls["full"], &tls["resumed"]), (&log.connections().into(), &0.into()), "{tls}");
    assert_eq!(log.resumed(), 0);
    assert_eq!(run.result["latency"]["tls"]["count"], tls["full"]);
    assert_eq!(run.result["latency"]["tls_resumed"]["count"], 0);
}

/// Runs against `path` of a server, in this version, and reads the log; `None` without nginx.
#[track_caller]
fn load(lines: &str, path: &str, version: &str, arguments: &[&str]) -> Option<(Run, Log)> {
    let (shown, _files, cacert) = in_order();
    let nginx = nginx(&shown, lines)?;
    let url = nginx.secure_url(path);
    let run = run(&[&[&*url, "--cacert", &cacert, "--tls", version], arguments].concat());
    Some((run, nginx.finish()))
}

/// The same in both versions; each must agree, and then the rest must hold.
#[track_caller]
fn in_both_versions(path: &str, arguments: &[&str], holds: impl Fn(&Run, &Log)) {
    for (version, _) in VERSIONS {
        let Some((run, log)) = load("", path, version, arguments) else { return };
        assert_agreement(&run, &log);
        holds(&run, &log);
    }
}

#[test]
fn keys_of_every_kind_in_both_versions() {
    for kind in [&PKCS_ECDSA_P256_SHA256, &PKCS_ECDSA_P384_SHA384, &PKCS_RSA_SHA256] {
        let (authority, files) = (Authority::named("The Authority"), Files::new());
        let cacert = files.write("authority.pem", authority.pem());
        let shown = authority.signs_as(&here(), kind);
        for (version, name) in VERSIONS {
            let Some(nginx) = nginx(&shown, "") else { return };
            let url = nginx.secure_url("/700");
            let line = [&*url, "--cacert", &cacert, "--tls", version, "-c", "4", "-n", "200"];
            let run = run(&line);
            assert_agreement(&run, &nginx.finish());
            let tls = &run.result["connections"]["tls"];
            assert_eq!(tls["version"], name, "{kind:?}");
            assert_eq!(tls["verified"], true, "{kind:?}");
            let suite = tls["suite"].as_str().unwrap();
            let of_the_key = if kind == &PKCS_RSA_SHA256 { "_RSA_" } else { "_ECDSA_" };
            assert!(version == "1.3" || suite.contains(of_the_key), "{suite} with {kind:?}");
        }
    }
}

#[test]
fn closed_model() {
    in_both_versions("/700", &["-c", "16", "-n", "2000"], |run, log| {
        assert_eq!(run.count("/counts/completed"), 2_000);
        assert_eq!(log.connections(), 16);
        assert_eq!(run.count("/bytes/body"), 2_000 * 700);
    });
}

#[test]
fn closed_model_by_time_on_several_threads() {
    in_both_versions("/700", &["-c", "8", "-d", "1s", "-t", "3"], |run, _| {
        assert!(run.count("/counts/completed") > 50);
    });
}

#[test]
fn open_model() {
    in_both_versions("/700", &["-r", "500", "-d", "2s"], |run, _| {
        assert!(run.count("/counts/scheduled").abs_diff(1_000) <= 1);
        assert_eq!(run.count("/counts/completed"), run.count("/counts/scheduled"));
    });
}

#[test]
fn open_model_on_preconnected_connections() {
    in_both_versions("/700", &["-r", "300", "-d", "2s", "--preconnect", "20"], |_, log| {
        // All are kept in use, in turn.
        assert!(log.connections() >= 20);
    });
}

#[test]
fn new_connection_per_request() {
    in_both_versions("/700", &["-c", "8", "-n", "300", "--new-connections"], |run, log| {
        assert_eq!(log.connections(), 300);
        assert_eq!(run.count("/connections/reused"), 0);
    });
}

#[test]
fn new_connection_per_arrival() {
    in_both_versions("/700", &["-r", "100", "-d", "2s", "--new-connections"], |run, log| {
        assert_eq!(log.connections(), run.count("/counts/started"));
    });
}

#[test]
fn seven_requests_per_connection() {
    let arguments = ["-c", "5", "-n", "350", "--requests-per-connection", "7"];
    in_both_versions("/700", &arguments, |_, log| {
        let requests = log.requests_by_connection();
        assert!(requests.values().all(|&n| n <= 7), "{requests:?}");
        // The end of the run finds each of the five places in the middle of a connection, at most.
        assert!(requests.values().filter(|&&n| n < 7).count() <= 5, "{requests:?}");
    });
}

#[test]
fn clients() {
    let arguments =
        ["-r", "30", "-d", "2s", "--arrive", "clients", "--requests-per-connection", "5"];
    in_both_versions("/700", &arguments, |run, log| {
        let started = run.count("/counts/clients/started");
        assert_eq!(run.count("/counts/clients/finished"), started);
        assert_eq!(log.connections(), started);
    });
}

#[test]
fn server_that_closes_after_ten_requests() {
    let (shown, _files, cacert) = in_order();
    for (version, _) in VERSIONS {
        let setup =
            Setup { keepalive_requests: 10, https: Some((&shown).into()), ..Setup::default() };
        let Some(nginx) = nginx::start_with(&setup) else { return };
        let url = nginx.secure_url("/700");
        let line = [&*url, "--cacert", &cacert, "--tls", version, "-c", "4", "-n", "400"];
        let run = run(&line);
        let log = nginx.finish();
        assert_agreement(&run, &log);
        assert!(log.requests_by_connection().into_values().all(|n| n <= 10));
        assert!(log.connections() >= 40);
    }
}

#[test]
fn pages_of_every_size_arrive_whole() {
    for (path, len) in PAGES {
        in_both_versions(path, &["-c", "6", "-n", "60"], |run, _| {
            assert_eq!(run.count("/bytes/body"), 60 * len as u64, "{path}");
        });
    }
}

#[test]
fn large_bodies_on_new_connections() {
    in_both_versions("/1m", &["-c", "3", "-n", "30", "--new-connections"], |run, _| {
        assert_eq!(run.count("/bytes/body"), 30 << 20);
    });
}

#[test]
fn chunked_bodies_arrive_whole() {
    for (path, len) in PAGES {
        for (version, _) in VERSIONS {
            // Server-side includes take the length away, so that nginx sends chunks.
            let load = load("ssi on;", path, version, &["-c", "4", "-n", "40"]);
            let Some((run, log)) = load else { return };
            assert_agreement(&run, &log);
            assert_eq!(run.count("/bytes/body"), 40 * len as u64, "{path}");
        }
    }
}

#[test]
fn small_records_arrive_whole() {
    for (version, _) in VERSIONS {
        let lines = "ssl_buffer_size 1k;";
        let load = load(lines, "/80k", version, &["-c", "4", "-n", "40"]);
        let Some((run, log)) = load else { return };
        assert_agreement(&run, &log);
        assert_eq!(run.count("/bytes/body"), 40 * 80 * 1024);
    }
}

#[test]
fn heads_have_no_body() {
    in_both_versions("/1m", &["-X", "HEAD", "-c", "4", "-n", "100"], |run, _| {
        assert_eq!(run.count("/bytes/body"), 0);
    });
}

#[test]
fn bodies_are_sent() {
    let body = "b".repeat(100_000);
    let files = Files::new();
    let data = format!("@{}", files.write("body", &body));
    let lines = "client_max_body_size 1m; client_body_buffer_size 256k; error_page 405 =200 /700;";
    for (version, _) in VERSIONS {
        let load = load(lines, "/700", version, &["--data", &data, "-c", "3", "-n", "30"]);
        let Some((run, log)) = load else { return };
        assert_agreement(&run, &log);
        assert!(run.count("/bytes/sent") > 30 * 100_000);
    }
}
