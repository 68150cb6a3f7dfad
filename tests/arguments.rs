//! Arguments, typed to the real binary: what is refused, what is printed where, what is sent.

mod support;

use std::io::{ErrorKind, Write};
use std::net::TcpListener;
use std::process::{Output, Stdio};

use support::ringload;

/// Runs the binary with arguments, nothing on stdin.
fn typed(arguments: &[&str]) -> Output {
    ringload().args(arguments).stdin(Stdio::null()).output().expect("the binary runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn wrong_use_ends_with_2_and_the_remedy_on_stderr() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["run"], &["URL is missing", "http://127.0.0.1:8080/"]),
        (&["run", "h", "--rate", "10kk"], &["10kk", "--rate", "10k"]),
        (&["run", "h", "-c", "1..5@1s,,5@1s"], &["--connections", "hole"]),
        (&["run", "http:///x"], &["host is missing"]),
        (&["run", "h", "-H", "X-Header"], &["X-Header", "no colon"]),
        (&["run", "http://a/", "http://b/"], &["http://a", "http://b", "one origin"]),
        (&["run", "h", "-c", "0"], &["--connections", "above 0"]),
        (&["run", "h", "-r", "5", "--arrive", "clients"], &["--requests-per-connection"]),
        (&["run", "h", "--expect", "status=200"], &["--expect"]),
        (&["run", "https://h/", "--cacert", "/no/such"], &["--cacert", "/no/such"]),
        (&["serve", "--http", "nowhere"], &["--http", "127.0.0.1:8080"]),
        (&["watch", "--port", "http"], &["--port", "1 to 65535"]),
        (&["watch", "--interval", "1ms"], &["--interval", "10ms"]),
        (&["ceiling", "h"], &["ceiling"]),
    ];
    for (arguments, parts) in cases {
        let output = typed(arguments);
        let told = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {told}");
        assert_eq!(stdout(&output), "", "{arguments:?}");
        for part in *parts {
            assert!(told.contains(part), "{arguments:?}: no \"{part}\" in: {told}");
        }
    }
}

/// Whoever sets these variables means certificates to trust, and no others.
#[test]
fn system_certificates_that_are_not_there_are_told() {
    let mut command = ringload();
    command.args(["run", "https://127.0.0.1:9/", "-n", "1"]).stdin(Stdio::null());
    command.env("SSL_CERT_FILE", "/no/such.pem").env_remove("SSL_CERT_DIR");
    let output = command.output().expect("the binary runs");
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{told}");
    for part in ["SSL_CERT_FILE", "/no/such.pem", "--cacert"] {
        assert!(told.contains(part), "no \"{part}\" in: {told}");
    }
}

#[test]
fn help_is_a_result() {
    for arguments in [
        &["--help"][..],
        &["run", "--help"],
        &["serve", "--help"],
        &["watch", "--help"],
        &["--version"],
    ] {
        let output = typed(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert!(stdout(&output).contains("ringload"), "{arguments:?}");
        assert_eq!(stderr(&output), "", "{arguments:?}");
    }
}

#[test]
fn dry_run_prints_the_plan_and_sends_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}/page", listener.local_addr().unwrap());
    let output = typed(&["run", &url, "-r", "600/m", "-n", "7", "--seed", "42", "--dry-run"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let plan = stdout(&output);
    for part in ["10 requests per second", "after 7 requests", "GET /page HTTP/1.1", &url, "42"] {
        assert!(plan.contains(part), "no \"{part}\" in: {plan}");
    }
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn secrets_of_the_environment_are_not_printed() {
    let output = ringload()
        .args(["run", "http://h/", "--dry-run", "-H", "X-Plain: env:RINGLOAD_TEST_SECRET"])
        .args(["-u", "bob:env:RINGLOAD_TEST_SECRET"])
        .env("RINGLOAD_TEST_SECRET", "s3cret")
        .output()
        .unwrap();
    let (plan, told) = (stdout(&output), stderr(&output));
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(plan.contains("X-Plain: ***") && plan.contains("Authorization: ***"), "{plan}");
    // "bob:s3cret" in base64.
    for shown in [&plan, &told] {
        assert!(!shown.contains("s3cret") && !shown.contains("Ym9iOnMzY3JldA"), "{shown}");
    }
}

#[test]
fn list_of_pages_may_come_from_stdin() {
    let mut child = ringload()
        .args(["run", "http://h/", "--urls", "-", "--dry-run"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"/first\nPOST /second weight=3\n").unwrap();
    let plan = stdout(&child.wait_with_output().unwrap());
    for part in ["GET http://h/first", "POST http://h/second  weight 3", "at random"] {
        assert!(plan.contains(part), "no \"{part}\" in: {plan}");
    }
}

#[test]
fn plan_file_is_read_and_typed_flags_win() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"url = \"http://h/\"\nconnections = 7\nduration = \"3s\"\n").unwrap();
    let path = &file.path().display().to_string();
    let plan = stdout(&typed(&["run", "--plan", path, "-c", "9", "--dry-run"]));
    assert!(plan.contains("9 connections kept busy") && plan.contains("after 3 s"), "{plan}");
    file.write_all(b"conections = 8\n").unwrap();
    let output = typed(&["run", "--plan", path, "--dry-run"]);
    assert_eq!(output.status.code(), Some(2));
    let told = stderr(&output);
    assert!(told.contains("\"conections\"") && told.contains("\"connections\""), "{told}");
}
