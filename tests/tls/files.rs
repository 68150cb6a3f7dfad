//! Files of certificates and keys that are odd: each message names the flag and the file, and what
//! would be right.

use std::process::Command;

use super::support::certificates::{Authority, Shown, here};
use super::support::{child, ringload};
use super::{answered, in_order};

/// Refused before anything is sent, by a client or a server, with these words.
#[track_caller]
fn refused(arguments: &[&str], parts: &[&str]) {
    let output = ringload().args(arguments).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {told}");
    assert_eq!(output.stdout, b"", "{arguments:?}");
    for part in parts {
        assert!(told.contains(part), "{arguments:?}: no \"{part}\" in: {told}");
    }
    // What a library prints of bytes is for nobody.
    assert!(!told.contains("[67, ") && !told.contains("Error("), "{told}");
}

#[test]
fn what_is_to_be_trusted() {
    let (shown, files, _) = in_order();
    let whole = shown.leaf_pem();
    let folder = files.path();
    for (path, parts) in [
        (folder.to_str().unwrap(), ["directory", "file's name"]),
        ("/no/such.pem", ["/no/such.pem", "file's name"]),
        ("/dev/zero", ["/dev/zero", "at most 4MiB"]),
        ("/dev/null", ["/dev/null", "no certificate"]),
        (&files.write("huge.pem", vec![b'A'; 5 << 20]), ["huge.pem", "at most 4MiB"]),
        (&files.write("empty.pem", ""), ["empty.pem", "no certificate"]),
        (&files.write("text.pem", "certificate"), ["text.pem", "neither PEM"]),
        (&files.write("key.pem", shown.key_pem()), ["key.pem", "no certificate"]),
        (&files.write("cut.pem", &whole[..whole.len() / 2]), ["cut.pem", "has no end"]),
        (&files.write("odd.pem", whole.replace('M', "!")), ["odd.pem", "not base64"]),
        (&files.write("bytes", [0xff, 0xfe, 0, 1]), ["bytes", "neither PEM"]),
        (
            &files.write("two.pem", whole.clone() + &whole.replace("MII", "NII")),
            ["two.pem", "certificate 2 of 2"],
        ),
    ] {
        let flags: [&[&str]; 2] = [&["run", "https://127.0.0.1:9/"], &["hold", "https://h/"]];
        for flags in flags {
            refused(&[flags, &["--cacert", path]].concat(), &[&["--cacert"], &parts[..]].concat());
        }
    }
}

#[test]
fn what_is_to_be_shown() {
    let (shown, files, _) = in_order();
    let other = Shown::by_itself(&here());
    let folder = files.path();
    let folder = folder.to_str().unwrap();
    let cert = files.write("cert.pem", shown.leaf_pem());
    let key = files.write("key.pem", shown.key_pem());
    let others = files.write("other.key", other.key_pem());
    let client = ["run", "https://127.0.0.1:9/"];
    let server = ["serve", "--https", "127.0.0.1:0"];
    for who in [&client[..], &server] {
        for (flags, parts) in [
            (&["--cert", &*cert][..], &["--cert", "holds no key", "--key"][..]),
            (&["--key", &key], &["--key", "give it with --cert"]),
            (&["--cert", &key, "--key", &cert], &["--cert", "key.pem", "no certificate"]),
            (&["--cert", folder, "--key", &key], &["--cert", "directory"]),
            (&["--cert", &cert, "--key", folder], &["--key", "directory"]),
            (&["--cert", &cert, "--key", "/no/such"], &["--key", "/no/such"]),
            (&["--cert", &cert, "--key", &cert], &["--key", "cert.pem", "holds no key"]),
            (&["--cert", &cert, "--key", &others], &["--key", "other.key", "not that of"]),
        ] {
            refused(&[who, flags].concat(), parts);
        }
    }
}

/// A file that may not be read; root may read all.
#[test]
fn a_key_that_may_not_be_read() {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    if rustix::process::geteuid().is_root() {
        println!("skipped: root may read every file");
        return;
    }
    let (shown, files, _) = in_order();
    let cert = files.write("cert.pem", shown.leaf_pem());
    let key = files.write("key.pem", shown.key_pem());
    set_permissions(&key, Permissions::from_mode(0o000)).unwrap();
    let line = ["run", "https://127.0.0.1:9/", "--cert", &cert, "--key", &key];
    refused(&line, &["--key", "key.pem", "ermission denied"]);
}

#[test]
fn many_certificates_are_no_burden() {
    let (shown, files, cacert) = in_order();
    let authority = std::fs::read_to_string(&cacert).unwrap();
    let other = Authority::named("Another").pem();
    let many = files.write("many.pem", other.repeat(2_000) + &authority);
    let cert = files.write("cert.pem", shown.leaf_pem());
    let key = files.write("key.pem", shown.key_pem());
    let server = child::serve(&["--https", "127.0.0.1:0", "--cert", &cert, "--key", &key]);
    answered(&[server.url(), "--cacert", &many, "-n", "4", "-c", "2"]);
}

/// In every form that OpenSSL writes; skipped without it.
#[test]
fn keys_and_certificates_in_every_form() {
    let (shown, files, cacert) = in_order();
    let cert = files.write("cert.pem", shown.leaf_pem());
    let key = files.write("key.pem", shown.key_pem());
    let convert = |arguments: &[&str], name: &str| {
        let path = files.path().join(name).to_str().unwrap().to_owned();
        let done = Command::new("openssl").args(arguments).args(["-out", &path]).output().ok()?;
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        Some(path)
    };
    let forms = [
        (convert(&["ec", "-in", &key], "sec1.pem"), true),
        (convert(&["pkey", "-in", &key, "-outform", "DER"], "key.der"), true),
        (convert(&["ec", "-in", &key, "-outform", "DER"], "sec1.der"), true),
        (convert(&["pkey", "-in", &key, "-aes128", "-passout", "pass:x"], "locked.pem"), false),
    ];
    let Some(der) = convert(&["x509", "-in", &cert, "-outform", "DER"], "cert.der") else {
        println!("skipped: openssl is not installed");
        return;
    };
    for (form, fits) in forms {
        let form = form.unwrap();
        for cert in [&cert, &der] {
            let line = ["serve", "--https", "127.0.0.1:0", "--cert", cert, "--key", &form];
            if fits {
                let server = child::serve(&line[1..]);
                answered(&[server.url(), "--cacert", &cacert, "-n", "2", "-c", "1"]);
            } else {
                refused(&line, &["--key", "passphrase", "openssl pkey -in"]);
            }
        }
    }
}
