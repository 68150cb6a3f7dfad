//! Debian's nginx in a folder of its own, with a log that can be counted.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;

/// The pages it serves: path and bytes.
pub const PAGES: [(&str, usize); 4] =
    [("/700", 700), ("/25k", 25 * 1024), ("/80k", 80 * 1024), ("/1m", 1024 * 1024)];

/// How it is set up.
pub struct Setup {
    /// Requests after which it closes a connection (`keepalive_requests`).
    pub keepalive_requests: u64,
    /// More lines for its `server` block.
    pub server: String,
}

impl Default for Setup {
    fn default() -> Self {
        Self { keepalive_requests: 1_000_000_000, server: String::new() }
    }
}

/// A running nginx; stopped when dropped.
pub struct Nginx {
    child: Child,
    folder: TempDir,
    port: u16,
}

/// A line of its log: one request.
#[derive(Debug)]
pub struct Line {
    /// The connection's number.
    pub connection: u64,
    /// Which request of its connection this is, from 1.
    pub request: u64,
    /// The status that was sent.
    pub status: u16,
    /// Bytes of the request.
    pub received: u64,
    /// Bytes of the response, head included.
    pub sent: u64,
    /// The path as it was asked for.
    pub path: String,
}

/// The log of a server that has ended, so that no line is missing.
#[derive(Debug)]
pub struct Log {
    /// A line for each request.
    pub lines: Vec<Line>,
}

/// Starts nginx as it is; `None`, with a word about it, where it is not installed.
///
/// # Panics
/// Where it is not installed and `RINGLOAD_REQUIRE_NGINX` is set, or does not start.
pub fn start() -> Option<Nginx> {
    start_with(&Setup::default())
}

/// Starts nginx; as [`start`].
///
/// # Panics
/// As [`start`].
pub fn start_with(setup: &Setup) -> Option<Nginx> {
    let Some(program) = program() else {
        assert!(
            std::env::var_os("RINGLOAD_REQUIRE_NGINX").is_none(),
            "nginx is not installed, and RINGLOAD_REQUIRE_NGINX asks for it"
        );
        println!("skipped: nginx is not installed");
        return None;
    };
    // Between choosing a port and listening there, another program may take it.
    for _ in 0..5 {
        if let Some(nginx) = Nginx::try_start(&program, setup) {
            return Some(nginx);
        }
    }
    panic!("nginx did not start in five tries");
}

/// Where nginx is. Debian has it in a folder that is not on everybody's path.
fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin")])
        .map(|folder| folder.join("nginx"))
        .find(|program| program.is_file())
}

impl Nginx {
    /// `None` where it ended at once, its reason on stderr.
    fn try_start(program: &Path, setup: &Setup) -> Option<Self> {
        let folder = TempDir::new().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let pages = folder.path().join("pages");
        fs::create_dir(&pages).unwrap();
        for (path, len) in PAGES {
            fs::write(pages.join(&path[1..]), "x".repeat(len)).unwrap();
        }
        let file = folder.path().join("nginx.conf");
        fs::write(&file, configuration(folder.path(), port, setup)).unwrap();
        let child = Command::new(program)
            .arg("-p")
            .arg(folder.path())
            .arg("-c")
            .arg(&file)
            .arg("-e")
            .arg(folder.path().join("error.log"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("nginx can be started");
        let mut nginx = Self { child, folder, port };
        nginx.wait_until_it_answers().then_some(nginx)
    }

    fn wait_until_it_answers(&mut self) -> bool {
        let deadline = Instant::now() + Duration::from_secs(10);
        while Instant::now() < deadline {
            if self.child.try_wait().unwrap().is_some() {
                return false;
            }
            // A connection without a request leaves no line in the log.
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return true;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("nginx does not answer: {}", self.errors());
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// The number of its first process, which has the workers for children.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The socket in the file system on which it listens as well.
    pub fn unix_socket(&self) -> PathBuf {
        self.folder.path().join("nginx.sock")
    }

    fn errors(&self) -> String {
        fs::read_to_string(self.folder.path().join("error.log")).unwrap_or_default()
    }

    /// Lets it answer what it has begun, ends it and reads its log.
    ///
    /// # Panics
    /// Where it does not end within 10 s, or a line cannot be read.
    pub fn finish(mut self) -> Log {
        self.signal(Signal::QUIT);
        let deadline = Instant::now() + Duration::from_secs(10);
        while self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "nginx does not end: {}", self.errors());
            thread::sleep(Duration::from_millis(5));
        }
        let text = fs::read_to_string(self.folder.path().join("access.log")).unwrap();
        Log { lines: text.lines().map(Line::read).collect() }
    }

    fn signal(&self, signal: Signal) {
        // It may have ended already.
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal(Signal::TERM);
            let _ = self.child.wait();
        }
    }
}

/// One worker, nothing outside of `folder`, a line for each request.
fn configuration(folder: &Path, port: u16, setup: &Setup) -> String {
    let folder = folder.display();
    let Setup { keepalive_requests, server } = setup;
    // A worker of root's nginx would else be `nobody`, who cannot read the folder.
    let user = if geteuid().is_root() { "user root;" } else { "" };
    let mut temporary = String::new();
    for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        writeln!(temporary, "    {kind}_temp_path {folder}/{kind};").unwrap();
    }
    format!(
        r#"
{user}
daemon off;
master_process on;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
events {{
    worker_connections 8192;
}}
http {{
{temporary}
    log_format counted '$connection $connection_requests $status $request_length $bytes_sent $request_uri';
    access_log {folder}/access.log counted;
    default_type text/html;
    keepalive_requests {keepalive_requests};
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        listen unix:{folder}/nginx.sock;
        root {folder}/pages;
        {server}
    }}
}}
"#
    )
}

impl Line {
    fn read(text: &str) -> Self {
        let words: Vec<&str> = text.split(' ').collect();
        let [connection, request, status, received, sent, path] = words[..] else {
            panic!("odd line in nginx's log: {text:?}");
        };
        Self {
            connection: connection.parse().unwrap(),
            request: request.parse().unwrap(),
            status: status.parse().unwrap(),
            received: received.parse().unwrap(),
            sent: sent.parse().unwrap(),
            path: path.to_owned(),
        }
    }
}

impl Log {
    /// Requests that were answered with this status.
    pub fn with_status(&self, status: u16) -> u64 {
        self.lines.iter().filter(|line| line.status == status).count() as u64
    }

    /// Requests of each connection, by its number.
    pub fn requests_by_connection(&self) -> BTreeMap<u64, u64> {
        let mut requests = BTreeMap::new();
        for line in &self.lines {
            *requests.entry(line.connection).or_default() += 1;
        }
        requests
    }

    /// Connections that carried a request.
    pub fn connections(&self) -> u64 {
        self.requests_by_connection().len() as u64
    }

    /// Bytes of all requests.
    pub fn received(&self) -> u64 {
        self.lines.iter().map(|line| line.received).sum()
    }

    /// Bytes of all responses, heads included.
    pub fn sent(&self) -> u64 {
        self.lines.iter().map(|line| line.sent).sum()
    }
}
