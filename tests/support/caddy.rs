//! Debian's Caddy in a folder of its own, with a log that can be counted.

use std::collections::BTreeMap;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use super::certificates::Shown;
use super::child::Owned;
use super::nginx::PAGES;

/// A running Caddy; ended when dropped.
pub struct Caddy {
    child: Owned,
    folder: TempDir,
    port: u16,
}

/// A line of its log: one request.
#[derive(Debug)]
pub struct Line {
    /// The port that the client asked from, which tells its connections apart.
    pub port: u16,
    /// The status that was sent.
    pub status: u16,
    /// Bytes of the body.
    pub body: u64,
    /// The version of TLS, such as `TLSv1.3`.
    pub version: String,
    /// Whether an earlier session was resumed.
    pub resumed: bool,
    /// The name that was sent (SNI), or nothing.
    pub server_name: String,
}

/// Starts Caddy with this certificate; `None`, with a word about it, where it is not installed.
///
/// # Panics
/// Where it is not installed and `RINGLOAD_REQUIRE_CADDY` is set, or does not start.
pub fn start(shown: &Shown) -> Option<Caddy> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program = std::env::split_paths(&path)
        .map(|folder| folder.join("caddy"))
        .find(|program| program.is_file());
    let Some(program) = program else {
        assert!(
            std::env::var_os("RINGLOAD_REQUIRE_CADDY").is_none(),
            "caddy is not installed, and RINGLOAD_REQUIRE_CADDY asks for it"
        );
        println!("skipped: caddy is not installed");
        return None;
    };
    // Between choosing a port and listening there, another program may take it.
    for _ in 0..5 {
        if let Some(caddy) = Caddy::try_start(&program, shown) {
            return Some(caddy);
        }
    }
    panic!("caddy did not start in five tries");
}

impl Caddy {
    /// `None` where it ended at once.
    fn try_start(program: &Path, shown: &Shown) -> Option<Self> {
        let folder = TempDir::new().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        fs::create_dir(folder.path().join("pages")).unwrap();
        for (path, len) in PAGES {
            fs::write(folder.path().join("pages").join(&path[1..]), "x".repeat(len)).unwrap();
        }
        fs::write(folder.path().join("chain.pem"), shown.chain_pem()).unwrap();
        fs::write(folder.path().join("key.pem"), shown.key_pem()).unwrap();
        let file = folder.path().join("Caddyfile");
        fs::write(&file, configuration(folder.path(), port)).unwrap();
        let child = Command::new(program)
            .args(["run", "--adapter", "caddyfile", "--config"])
            .arg(&file)
            // All that it keeps, it keeps in its folder.
            .env("HOME", folder.path())
            .env("XDG_DATA_HOME", folder.path())
            .env("XDG_CONFIG_HOME", folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.path().join("errors")).unwrap())
            .spawn()
            .expect("caddy can be started");
        let mut caddy = Self { child: Owned(Some(child)), folder, port };
        caddy.wait_until_it_answers().then_some(caddy)
    }

    fn wait_until_it_answers(&mut self) -> bool {
        let deadline = Instant::now() + Duration::from_secs(30);
        while Instant::now() < deadline {
            if self.has_ended() {
                return false;
            }
            // A connection without a request leaves no line in the log.
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return true;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("caddy does not answer: {}", self.errors());
    }

    fn has_ended(&mut self) -> bool {
        self.child.0.as_mut().is_none_or(|child| child.try_wait().unwrap().is_some())
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}{path}", self.port)
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn errors(&self) -> String {
        fs::read_to_string(self.path("errors")).unwrap_or_default()
    }

    /// Lets it answer what it has begun, ends it and reads its log.
    ///
    /// # Panics
    /// Where it does not end within 30 s, or a line cannot be read.
    pub fn finish(mut self) -> Vec<Line> {
        self.child.signal(Signal::TERM);
        let deadline = Instant::now() + Duration::from_secs(30);
        while !self.has_ended() {
            assert!(Instant::now() < deadline, "caddy does not end: {}", self.errors());
            thread::sleep(Duration::from_millis(5));
        }
        let text = fs::read_to_string(self.path("access.log")).unwrap();
        text.lines().map(Line::read).collect()
    }
}

/// Nothing outside of `folder`, no administration, a line for each request.
fn configuration(folder: &Path, port: u16) -> String {
    let folder = folder.display();
    format!(
        "{{
    admin off
    auto_https off
    grace_period 5s
    default_sni site.example
    servers {{
        protocols h1
    }}
}}
https://:{port} {{
    bind 127.0.0.1
    tls {folder}/chain.pem {folder}/key.pem
    root * {folder}/pages
    file_server
    log {{
        output file {folder}/access.log
        format json
    }}
}}
"
    )
}

impl Line {
    fn read(text: &str) -> Self {
        let line: Value = serde_json::from_str(text).unwrap();
        let word = |path: &str| line.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let number = |path: &str| line.pointer(path).and_then(Value::as_u64);
        // As Go counts versions: as they are on the wire (RFC 8446, 4.2.1).
        let version = match number("/request/tls/version") {
            Some(0x0303) => "TLSv1.2",
            Some(0x0304) => "TLSv1.3",
            _ => panic!("no version in {text}"),
        };
        Self {
            port: word("/request/remote_port").parse().unwrap(),
            status: number("/status").unwrap() as u16,
            body: number("/size").unwrap(),
            version: version.to_owned(),
            resumed: line.pointer("/request/tls/resumed") == Some(&Value::Bool(true)),
            server_name: word("/request/tls/server_name").to_owned(),
        }
    }
}

/// Whether each connection, told by its port, resumed an earlier session.
pub fn resumed(lines: &[Line]) -> BTreeMap<u16, bool> {
    lines.iter().map(|line| (line.port, line.resumed)).collect()
}
