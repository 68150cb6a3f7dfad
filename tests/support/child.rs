//! Children of a test: none outlives it.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::ringload;

/// The longest that a child may take to begin or to end, however slow the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

/// A child that is killed when dropped.
pub struct Owned(pub Option<Child>);

/// `ringload serve`, on ports that were free.
pub struct Serve {
    child: Owned,
    /// Where it serves: the URLs, HTTP before HTTPS.
    pub urls: Vec<String>,
    // It must stay open, else the child could not write to it.
    _stderr: BufReader<ChildStderr>,
}

impl Owned {
    /// Sends a signal; it may have ended already.
    pub fn signal(&self, signal: Signal) {
        if let Some(child) = &self.0 {
            let _ = kill_process(Pid::from_child(child), signal);
        }
    }

    /// What it wrote, once it has ended.
    ///
    /// # Panics
    /// Where it does not end.
    #[track_caller]
    pub fn output(mut self) -> Output {
        let mut child = self.0.take().expect("a child");
        let read = |from: Option<Box<dyn Read + Send>>| {
            thread::spawn(move || {
                let mut bytes = Vec::new();
                from.map(|mut from| from.read_to_end(&mut bytes));
                bytes
            })
        };
        let stdout = read(child.stdout.take().map(|from| Box::new(from) as _));
        let stderr = read(child.stderr.take().map(|from| Box::new(from) as _));
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() >= deadline {
                drop(Self(Some(child)));
                panic!("it does not end: {}", String::from_utf8_lossy(&stderr.join().unwrap()));
            }
            thread::sleep(Duration::from_millis(5));
        };
        Output { status, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Starts `ringload` with these arguments, its outputs read by [`Owned::output`].
pub fn start(arguments: &[&str]) -> Owned {
    let mut command = ringload();
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    Owned(Some(command.spawn().expect("ringload starts")))
}

/// Starts `ringload serve` with these arguments, on one thread.
#[track_caller]
pub fn serve(arguments: &[&str]) -> Serve {
    let mut child = start(&[&["serve", "-t", "1"], arguments].concat());
    let stderr = child.0.as_mut().and_then(|child| child.stderr.take()).expect("it is piped");
    let mut stderr = BufReader::new(stderr);
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    let urls = line.split_whitespace().filter(|word| word.contains("://")).map(str::to_owned);
    let urls: Vec<String> = urls.collect();
    assert!(!urls.is_empty(), "it does not serve: {line}");
    Serve { child, urls, _stderr: stderr }
}

impl Serve {
    /// The last URL, which is that of HTTPS where there is one.
    pub fn url(&self) -> &str {
        self.urls.last().expect("at least one")
    }

    /// Ends it at once.
    pub fn kill(&self) {
        self.child.signal(Signal::KILL);
    }
}
