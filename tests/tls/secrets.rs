//! A private key, and where it lies, are in nothing that is written.

use std::fs;

use rcgen::{DnType, ExtendedKeyUsagePurpose};
use rustls::version::{TLS12, TLS13};

use super::support::certificates::{Authority, Files, here, named};
use super::support::{ringload, secure};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// What must not be written: the key's path, and its lines of base64, which are long.
struct Secret {
    path: String,
    lines: Vec<String>,
}

impl Secret {
    fn of(path: String) -> Self {
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().filter(|line| !line.contains("-----")).map(str::to_owned);
        Self { lines: lines.collect(), path }
    }

    #[track_caller]
    fn is_not_in(&self, what: &str, text: &str) {
        for line in &self.lines {
            assert!(!text.contains(line), "the key is in {what}: {text}");
        }
        assert!(!text.contains("PRIVATE KEY"), "{what}: {text}");
        assert!(!text.contains(&self.path), "the key's path is in {what}: {text}");
    }
}

#[test]
fn a_clients_key_is_in_no_output() {
    let (authority, files) = (Authority::named("The Authority"), Files::new());
    let mut params = named(&[]);
    params.distinguished_name.push(DnType::CommonName, "the-client");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let client = authority.signs(&params);
    let cert = files.write("client.pem", client.chain_pem());
    let secret = Secret::of(files.write("secret-place.key", client.key_pem()));
    let cacert = files.write("authority.pem", authority.pem());
    let config = authority.signs(&here()).config(&[&TLS12, &TLS13], authority.clients());
    let server = secure::start(config, |mut session| {
        while secure::read_request(&mut session) && secure::send(&mut session, OK) {}
    });
    let url = secure::url(server.address);
    let json = files.path().join("result.json");
    let json = json.to_str().unwrap();
    let line = [&*url, "--cacert", &cacert, "--cert", &cert, "--key", &secret.path];
    let ends = ["-n", "4", "-c", "1", "--progress", "line"];
    let levels = ["--levels", "0,2", "--dwell", "300ms", "--progress", "line"];
    let outputs = ["--json", json, "--label", "secrets"];
    let shown = [&["run"], &line[..]].concat();
    let held = [&["hold"], &line[..]].concat();
    let strange = [&["run", &*url, "-k", "--cert", &cert, "--key", &secret.path][..], &ends];
    let mistyped = ["--tls", "1.1"];
    let refused = ["--sni", "c.example"];
    let cases: [(&str, Vec<&str>, i32); 8] = [
        ("a dry run", [&shown[..], &["--dry-run"]].concat(), 0),
        ("a dry run of hold", [&held[..], &["--dry-run"]].concat(), 0),
        ("the text", [&shown[..], &ends, &outputs].concat(), 0),
        ("the JSON", [&shown[..], &ends, &["--json", "-"]].concat(), 0),
        ("a hold", [&held[..], &levels, &outputs].concat(), 0),
        ("a refusal", [&shown[..], &ends, &refused, &outputs].concat(), 4),
        ("an insecure run", strange.concat(), 0),
        ("a mistake", [&shown[..], &mistyped].concat(), 2),
    ];
    for (what, arguments, code) in cases {
        let output = ringload().args(&arguments).output().unwrap();
        let [stdout, stderr] =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(output.status.code(), Some(code), "{what}: {stderr}");
        secret.is_not_in(what, &stdout);
        secret.is_not_in(what, &stderr);
        if arguments.contains(&json) {
            secret.is_not_in(what, &fs::read_to_string(json).unwrap());
        }
    }
}

/// Whoever typed a wrong path wants it back, but never what is in a file.
#[test]
fn what_is_wrong_with_a_key_is_said_without_the_key() {
    let (authority, files) = (Authority::named("The Authority"), Files::new());
    let (one, other) = (authority.signs(&here()), authority.signs(&here()));
    let cert = files.write("one.pem", one.chain_pem());
    let key = other.key_pem();
    let truncated = &key[..key.len() / 2];
    let lines: Vec<String> = key.lines().skip(1).map(str::to_owned).collect();
    for (name, bytes) in [
        ("other.key", &*key),
        ("cut.key", truncated),
        ("odd.key", &key.replace('M', "!")),
        ("empty.key", ""),
        ("text.key", &lines.join("\n")),
        ("locked.key", &key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY")),
    ] {
        let key = files.write(name, bytes);
        let client = ["run", "https://127.0.0.1:1/", "--cert", &cert, "--key", &key];
        let server = ["serve", "--https", "127.0.0.1:0", "--cert", &cert, "--key", &key];
        for line in [&client[..], &server] {
            let output = ringload().args(line).output().unwrap();
            let told = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{name}: {told}");
            assert!(told.contains("--key") && told.contains(name), "{told}");
            assert!(lines.iter().all(|line| !told.contains(line)), "{told}");
        }
    }
}
