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

use super::certificates::Shown;

/// The pages it serves: path and bytes.
pub const PAGES: [(&str, usize); 4] =
    [("/700", 700), ("/25k", 25 * 1024), ("/80k", 80 * 1024), ("/1m", 1024 * 1024)];

/// How it is set up.
pub struct Setup {
    /// Requests after which it closes a connection (`keepalive_requests`).
    pub keepalive_requests: u64,
    /// More lines for its `server` block.
    pub server: String,
    /// What it shows over HTTPS, in TLS 1.2 and 1.3; without it there is no HTTPS.
    pub https: Option<Certificate>,
}

/// A certificate and its key, in PEM.
pub struct Certificate {
    chain: String,
    key: String,
}

impl From<&Shown> for Certificate {
    fn from(shown: &Shown) -> Self {
        Self { chain: shown.chain_pem(), key: shown.key_pem() }
    }
}

impl Default for Setup {
    fn default() -> Self {
        Self { keepalive_requests: 1_000_000_000, server: String::new(), https: None }
    }
}

/// A running nginx; stopped when dropped.
pub struct Nginx {
    child: Child,
    folder: TempDir,
    port: u16,
    secure_port: u16,
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
    /// Bytes of the response, head included; over TLS without what TLS adds.
    pub sent: u64,
    /// Over what it came; `None` over plain HTTP.
    pub tls: Option<Secured>,
    /// The path as it was asked for.
    pub path: String,
}

/// What nginx says of a connection over TLS. What it does not know is `-`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secured {
    /// Such as `TLSv1.3`.
    pub version: String,
    /// Whether an earlier session was resumed.
    pub resumed: bool,
    /// The name that was sent (SNI).
    pub server_name: String,
    /// The protocol that was agreed on (ALPN).
    pub protocol: String,
    /// The group of the key exchange, as OpenSSL names it.
    pub group: String,
    /// The groups that were offered, as OpenSSL names them, with `:` between them.
    pub groups: String,
    /// Whom the client's certificate is for.
    pub client: String,
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
        let [port, secure_port] = free_ports();
        let pages = folder.path().join("pages");
        fs::create_dir(&pages).unwrap();
        for (path, len) in PAGES {
            fs::write(pages.join(&path[1..]), "x".repeat(len)).unwrap();
        }
        let file = folder.path().join("nginx.conf");
        if let Some(Certificate { chain, key }) = &setup.https {
            fs::write(folder.path().join("chain.pem"), chain).unwrap();
            fs::write(folder.path().join("key.pem"), key).unwrap();
        }
        fs::write(&file, configuration(folder.path(), port, secure_port, setup)).unwrap();
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
        let mut nginx = Self { child, folder, port, secure_port };
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

    /// The same over HTTPS.
    pub fn secure_url(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}{path}", self.secure_port)
    }

    /// The number of its first process, which has the workers for children.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The port on 127.0.0.1 for HTTPS.
    pub fn secure_port(&self) -> u16 {
        self.secure_port
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

/// Ports that nobody listens on.
fn free_ports<const N: usize>() -> [u16; N] {
    let listeners = std::array::from_fn(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener: TcpListener| listener.local_addr().unwrap().port())
}

/// One worker, nothing outside of `folder`, a line for each request.
fn configuration(folder: &Path, port: u16, secure_port: u16, setup: &Setup) -> String {
    let folder = folder.display();
    let Setup { keepalive_requests, server, https } = setup;
    let mut secure = String::new();
    if https.is_some() {
        write!(
            secure,
            "listen 127.0.0.1:{secure_port} ssl backlog=4096;
        ssl_certificate {folder}/chain.pem;
        ssl_certificate_key {folder}/key.pem;
        ssl_protocols TLSv1.2 TLSv1.3;"
        )
        .unwrap();
    }
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
    log_format counted '$connection $connection_requests $status $request_length $bytes_sent '
        '$ssl_protocol $ssl_session_reused $ssl_server_name $ssl_alpn_protocol '
        '$ssl_curve $ssl_curves $ssl_client_s_dn $request_uri';
    access_log {folder}/access.log counted;
    default_type text/html;
    keepalive_requests {keepalive_requests};
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        listen unix:{folder}/nginx.sock;
        {secure}
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
        let [
            connection,
            request,
            status,
            received,
            sent,
            version,
            reused,
            server_name,
            protocol,
            group,
            groups,
            client,
            path,
        ] = words[..]
        else {
            panic!("odd line in nginx's log: {text:?}");
        };
        let secured = || Secured {
            version: version.to_owned(),
            resumed: reused == "r",
            server_name: server_name.to_owned(),
            protocol: protocol.to_owned(),
            group: group.to_owned(),
            groups: groups.to_owned(),
            client: client.to_owned(),
        };
        Self {
            connection: connection.parse().unwrap(),
            request: request.parse().unwrap(),
            status: status.parse().unwrap(),
            received: received.parse().unwrap(),
            sent: sent.parse().unwrap(),
            tls: (version != "-").then(secured),
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

    /// What it says of each connection over TLS, by its number.
    pub fn secured(&self) -> BTreeMap<u64, Secured> {
        let secured = |line: &Line| Some((line.connection, line.tls.clone()?));
        self.lines.iter().filter_map(secured).collect()
    }

    /// Connections over TLS that resumed an earlier session.
    pub fn resumed(&self) -> u64 {
        self.secured().values().filter(|secured| secured.resumed).count() as u64
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
