//! Clients' certificates: nginx answers 400 without one, others end the handshake.

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose};
use rustls::version::{TLS12, TLS13};

use super::support::certificates::{Authority, Files, Shown, here, named};
use super::support::raw::Raw;
use super::support::{run, secure};
use super::{VERSIONS, answered, nginx, only_error};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// An authority of both sides, its file, and files of a client's certificate and key.
struct Sides {
    authority: Authority,
    files: Files,
    cacert: String,
    cert: String,
    key: String,
}

fn client() -> CertificateParams {
    let mut params = named(&[]);
    params.distinguished_name.push(DnType::CommonName, "the-client");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params
}

impl Sides {
    fn new() -> Self {
        let (authority, files) = (Authority::named("The Authority"), Files::new());
        let shown = authority.signs(&client());
        let cacert = files.write("authority.pem", authority.pem());
        let cert = files.write("client.pem", shown.chain_pem());
        let key = files.write("client.key", shown.key_pem());
        Self { authority, files, cacert, cert, key }
    }

    /// A server that wants clients whom the authority vouches for.
    fn server(&self) -> Raw {
        let config =
            self.authority.signs(&here()).config(&[&TLS12, &TLS13], self.authority.clients());
        secure::start(config, |mut session| {
            while secure::read_request(&mut session) && secure::send(&mut session, OK) {}
        })
    }
}

#[test]
fn nginx_answers_400_without_and_200_with_one() {
    let sides = Sides::new();
    let shown = sides.authority.signs(&here());
    let lines = format!("ssl_client_certificate {}; ssl_verify_client on;", sides.cacert);
    for (version, _) in VERSIONS {
        let Some(nginx) = nginx(&shown, &lines) else { return };
        let url = nginx.secure_url("/700");
        let line = [&*url, "--cacert", &sides.cacert, "--tls", version, "-c", "2", "-n", "20"];
        let without = run(&line);
        without.assert_identities();
        assert_eq!((without.code, without.count("/status/400")), (0, 20), "{}", without.stderr);
        assert_eq!(without.count("/counts/http_errors"), 20);
        let with = answered(&[&line[..], &["--cert", &sides.cert, "--key", &sides.key]].concat());
        assert_eq!(with.count("/status/200"), 20);
        let log = nginx.finish();
        assert_eq!((log.with_status(400), log.with_status(200)), (20, 20));
        for line in log.lines {
            let client = line.tls.expect("it came over TLS").client;
            assert_eq!(client, if line.status == 200 { "CN=the-client" } else { "-" });
        }
    }
}

#[test]
fn one_that_is_missing_is_said_by_its_name() {
    let sides = Sides::new();
    let server = sides.server();
    let url = secure::url(server.address);
    for (version, _) in VERSIONS {
        let line = [&*url, "--tls", version, "--cacert", &sides.cacert, "-c", "2", "-n", "6"];
        let insecure = [&*url, "--tls", version, "-k", "-r", "50", "-n", "6"];
        for line in [&line[..], &insecure] {
            let run = run(line);
            let found = only_error(&run);
            assert_eq!(found, ("tls", "certificate", "client-certificate-required"), "{line:?}");
            assert_eq!((run.code, run.count("/counts/failed")), (4, 6));
            let example = run.result["errors"][0]["example"].as_str().unwrap();
            assert!(example.contains("--cert FILE --key FILE"), "{example}");
        }
        let shown = [&line[..], &["--cert", &sides.cert, "--key", &sides.key]].concat();
        assert_eq!(answered(&shown).count("/counts/completed"), 6);
        let every = [&shown[..], &["--new-connections", "--tls-resume", "on"]].concat();
        assert_eq!(answered(&every).count("/counts/completed"), 6);
    }
}

#[test]
fn one_file_may_hold_both() {
    let sides = Sides::new();
    let both = [&sides.cert, &sides.key].map(|file| std::fs::read_to_string(file).unwrap());
    let both = sides.files.write("both.pem", both.concat());
    let server = sides.server();
    let url = secure::url(server.address);
    answered(&[&url, "--cacert", &sides.cacert, "--cert", &both, "-n", "2", "-c", "1"]);
}

#[test]
fn one_that_is_not_wanted_is_refused_by_the_alerts_name() {
    let sides = Sides::new();
    let (server, stranger) = (sides.server(), Authority::named("Another"));
    let url = secure::url(server.address);
    let shown: Shown = stranger.signs(&client());
    let cert = sides.files.write("stranger.pem", shown.chain_pem());
    let key = sides.files.write("stranger.key", shown.key_pem());
    for (version, _) in VERSIONS {
        let line = ["--tls", version, "--cacert", &sides.cacert, "-n", "3", "-c", "1"];
        let run = run(&[&[&*url, "--cert", &cert, "--key", &key], &line[..]].concat());
        assert_eq!(only_error(&run), ("tls", "certificate", "unknown_ca"), "{version}");
        assert_eq!(run.code, 4);
    }
}
