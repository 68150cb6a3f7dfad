//! Every kind of certificate, shown by `ringload serve`: refused under its own name, with what to
//! do about it, and accepted where that was asked for.

use std::process::Command;

use rcgen::{BasicConstraints, CertificateParams, IsCa, date_time_ymd};

use super::support::certificates::{Authority, Files, Shown, here, named};
use super::support::child::{self, Serve};
use super::support::{ringload, run};
use super::{VERSIONS, answered, only_error};

/// A server and what to trust.
struct Site {
    server: Serve,
    files: Files,
    cacert: String,
}

/// A server that shows this, and whom to trust.
#[track_caller]
fn site(shown: &Shown, trusted: &str) -> Site {
    let files = Files::new();
    let cert = files.write("server.pem", shown.chain_pem());
    let key = files.write("server.key", shown.key_pem());
    let cacert = files.write("trusted.pem", trusted);
    let server = child::serve(&["--https", "127.0.0.1:0", "--cert", &cert, "--key", &key]);
    Site { server, files, cacert }
}

impl Site {
    fn url(&self) -> &str {
        self.server.url()
    }

    /// Refused under this name in both versions, in words with these parts; and accepted with -k.
    #[track_caller]
    fn refused(&self, detail: &str, parts: &[&str]) {
        self.refused_as(&[], detail, parts);
    }

    /// The same with more flags.
    #[track_caller]
    fn refused_as(&self, flags: &[&str], detail: &str, parts: &[&str]) {
        let line = [&[self.url(), "--cacert", &self.cacert, "-n", "3", "-c", "1"], flags].concat();
        for (version, _) in VERSIONS {
            let run = run(&[&line[..], &["--tls", version]].concat());
            assert_eq!(only_error(&run), ("tls", "certificate", detail), "{version}");
            assert_eq!((run.code, run.count("/counts/failed")), (4, 3), "{}", run.stderr);
            assert_eq!(run.count("/connections/tls/full"), 0);
        }
        let text = ringload().arg("run").args(&line).args(["--progress", "none"]).output().unwrap();
        assert_eq!(text.status.code(), Some(4));
        let text = String::from_utf8(text.stdout).unwrap();
        // It is wrapped.
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(&format!("tls certificate ({detail}): 3 times")), "{text}");
        for part in [&["-k"], parts].concat() {
            assert!(words.contains(part), "no \"{part}\" in:\n{text}");
        }
        self.accepted(&["-k"], false);
    }

    #[track_caller]
    fn accepted(&self, flags: &[&str], verified: bool) {
        for (version, name) in VERSIONS {
            let line = [self.url(), "-n", "4", "-c", "2", "--tls", version];
            let run = answered(&[&line[..], flags].concat());
            let tls = &run.result["connections"]["tls"];
            assert_eq!(tls["verified"], verified, "{flags:?}");
            assert_eq!(tls["version"], name);
        }
    }
}

/// A certificate that is in order but for this.
fn but(change: impl FnOnce(&mut CertificateParams)) -> CertificateParams {
    let mut params = here();
    change(&mut params);
    params
}

#[test]
fn in_order() {
    let authority = Authority::named("The Authority");
    let site = site(&authority.signs(&here()), &authority.pem());
    site.accepted(&["--cacert", &site.cacert], true);
    site.accepted(&["-k"], false);
}

#[test]
fn expired() {
    let authority = Authority::named("The Authority");
    let params = but(|params| {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 2, 3);
    });
    let site = site(&authority.signs(&params), &authority.pem());
    site.refused("expired", &["expired on 2021-02-03T00:00:00Z", "days ago", "renew"]);
}

#[test]
fn not_yet_valid() {
    let authority = Authority::named("The Authority");
    let params = but(|params| {
        params.not_before = date_time_ymd(2999, 12, 1);
        params.not_after = date_time_ymd(3000, 1, 1);
    });
    let site = site(&authority.signs(&params), &authority.pem());
    site.refused("not-yet-valid", &["not valid before 2999-12-01T00:00:00Z", "clock"]);
}

#[test]
fn wrong_host() {
    let authority = Authority::named("The Authority");
    let shown = authority.signs(&named(&["a.example", "b.example"]));
    let site = site(&shown, &authority.pem());
    let words = "for a.example, b.example, not for 127.0.0.1";
    site.refused("wrong-host", &[words, "--sni"]);
    site.accepted(&["--cacert", &site.cacert, "--sni", "b.example"], true);
    let other = ["--sni", "c.example"];
    site.refused_as(&other, "wrong-host", &["not for c.example"]);
}

#[test]
fn unknown_issuer() {
    let (authority, other) = (Authority::named("The Authority"), Authority::named("Another"));
    let shown = authority.signs(&here());
    let site = site(&shown, &other.pem());
    site.refused("unknown-issuer", &["signed by CN=The Authority", "--cacert"]);
    let both = site.files.write("both.pem", other.pem() + &authority.pem());
    site.accepted(&["--cacert", &both], true);
    let leaf = site.files.write("leaf.pem", shown.leaf_pem());
    site.accepted(&["--cacert", &leaf], true);
}

/// Without --cacert, by the system's roots or those that are built in.
#[test]
fn the_systems_roots_do_not_know_it() {
    let site = site(&Authority::named("The Authority").signs(&here()), "");
    for (version, _) in VERSIONS {
        let run = run(&[site.url(), "-n", "2", "-c", "1", "--tls", version]);
        assert_eq!(only_error(&run), ("tls", "certificate", "unknown-issuer"), "{version}");
        assert_eq!(run.code, 4);
    }
}

#[test]
fn self_signed() {
    let (shown, other) = (Shown::by_itself(&here()), Authority::named("Another"));
    let site = site(&shown, &other.pem());
    site.refused("self-signed", &["CN=the-server", "signed by itself", "--cacert"]);
    let given = site.files.write("given.pem", shown.leaf_pem());
    site.accepted(&["--cacert", &given], true);
}

/// As `openssl req -x509` makes them.
#[test]
fn authority_as_a_leaf() {
    let params = but(|params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained));
    let (authority, by_itself) = (Authority::named("The Authority"), Shown::by_itself(&params));
    let site_of_its_own = site(&by_itself, &authority.pem());
    site_of_its_own.refused("self-signed", &["CN=the-server", "--cacert"]);
    let given = site_of_its_own.files.write("given.pem", by_itself.leaf_pem());
    site_of_its_own.accepted(&["--cacert", &given], true);

    let signed = authority.signs(&params);
    let site = site(&signed, &authority.pem());
    site.refused("ca-as-end-entity", &["CA:TRUE", "CN=the-server", "--cacert"]);
    let given = site.files.write("given.pem", signed.leaf_pem());
    site.accepted(&["--cacert", &given], true);
}

/// Given whole, it is trusted and not believed: its name and its time still count.
#[test]
fn given_and_wrong_all_the_same() {
    let late = but(|params| params.not_after = date_time_ymd(2021, 2, 3));
    for (params, detail) in [(late, "expired"), (named(&["a.example"]), "wrong-host")] {
        let shown = Shown::by_itself(&params);
        site(&shown, &shown.leaf_pem()).refused(detail, &[]);
    }
}

/// What OpenSSL's own command makes, where it is there.
#[test]
fn authority_as_a_leaf_by_openssl() {
    let files = Files::new();
    let [key, cert] = ["key.pem", "cert.pem"].map(|name| files.path().join(name));
    for kind in [&["rsa:2048"][..], &["ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]] {
        let made = Command::new("openssl")
            .args(["req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=the-server"])
            .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-newkey"])
            .args(kind)
            .args(["-keyout".as_ref(), key.as_os_str(), "-out".as_ref(), cert.as_os_str()])
            .output();
        let Ok(made) = made else {
            println!("skipped: openssl is not installed");
            return;
        };
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let [cert, key] = [&cert, &key].map(|path| path.to_str().unwrap());
        let server = child::serve(&["--https", "127.0.0.1:0", "--cert", cert, "--key", key]);
        for (version, _) in VERSIONS {
            let line = [server.url(), "--tls", version, "-n", "4", "-c", "2"];
            let run = answered(&[&line[..], &["--cacert", cert]].concat());
            assert_eq!(run.result["connections"]["tls"]["verified"], true);
            let run = super::run(&line);
            assert_eq!(only_error(&run), ("tls", "certificate", "self-signed"), "{version}");
        }
    }
}

#[test]
fn incomplete_chain() {
    let root = Authority::named("The Root");
    let intermediate = root.intermediate("The Intermediate");
    let shown = intermediate.signs(&here());
    let incomplete = site(&shown, &root.pem());
    let words = "an intermediate certificate may be missing";
    incomplete.refused("unknown-issuer", &["signed by CN=The Intermediate", words]);
    let given = incomplete.files.write("intermediate.pem", intermediate.pem());
    incomplete.accepted(&["--cacert", &given], true);

    let complete = site(&shown.followed_by(&intermediate), &root.pem());
    complete.accepted(&["--cacert", &complete.cacert], true);
}

/// The certificate is refused once a connection, in the open model too; none is left out.
#[test]
fn each_arrival_is_told() {
    let site = site(&Shown::by_itself(&here()), &Authority::named("Another").pem());
    let line = [site.url(), "--cacert", &site.cacert, "-r", "100", "-d", "1s"];
    let run = run(&line);
    assert_eq!(only_error(&run), ("tls", "certificate", "self-signed"));
    assert_eq!(run.count("/counts/failed"), run.count("/counts/started"));
    assert_eq!((run.code, run.count("/counts/completed")), (4, 0));
}
