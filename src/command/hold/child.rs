//! The embedded server as a process of its own, so that its memory is its own.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustls::pki_types::CertificateDer;

use super::super::Failure;
use crate::tls::self_signed_pem;

/// How long it may take to end once it is told to.
const END: Duration = Duration::from_secs(2);
/// How often it is looked whether it has ended.
const TICK: Duration = Duration::from_millis(5);

/// A running `ringload serve`. It is ended when this is dropped.
pub(super) struct Served {
    child: Child,
    address: SocketAddr,
    certificate: Option<CertificateDer<'static>>,
}

impl Served {
    /// Starts it on a free port of 127.0.0.1, with so many threads on these CPUs; over HTTPS with a
    /// certificate that is made for it here, so that it is known.
    ///
    /// # Errors
    /// Where it cannot be started, with what it said.
    pub(super) fn start(threads: usize, cpus: &[usize], tls: bool) -> Result<Self, Failure> {
        let failed =
            |why: String| Failure::Machine(format!("the embedded server cannot start: {why}"));
        let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
        let mut command = Command::new(program);
        let flag = if tls { "--https" } else { "--http" };
        command.args(["serve", flag, "127.0.0.1:0", "--threads", &threads.to_string()]);
        let own =
            tls.then(self_signed_pem).transpose().map_err(|error| failed(error.to_string()))?;
        if own.is_some() {
            command.args(["--cert", "-"]);
        }
        if !cpus.is_empty() {
            let list: Vec<String> = cpus.iter().map(ToString::to_string).collect();
            command.args(["--cpus", &list.join(",")]);
        }
        let mut child = command
            .stdin(if tls { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // Ctrl-C is ours: it has to stay until its memory is read.
            .process_group(0)
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let stderr = child.stderr.take().expect("it was asked for");
        let stdin = child.stdin.take();
        let (certificate, pem) = own.unzip();
        let address_unknown = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut served = Self { child, address: address_unknown, certificate };
        if let (Some(mut stdin), Some(pem)) = (stdin, pem) {
            stdin.write_all(pem.as_bytes()).map_err(|error| failed(error.to_string()))?;
        }
        served.address = address(stderr).map_err(failed)?;
        Ok(served)
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The certificate that it shows, over HTTPS.
    pub(super) fn certificate(&self) -> Option<CertificateDer<'static>> {
        self.certificate.clone()
    }

    /// Its process.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let deadline = Instant::now() + END;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(TICK);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads where it listens from what it says: `serving http://127.0.0.1:1234/ with 1 thread`, or
/// `https`. What it says later is passed on.
fn address(stderr: ChildStderr) -> Result<SocketAddr, String> {
    let mut lines = BufReader::new(stderr).lines();
    let mut said = String::new();
    for line in lines.by_ref() {
        let line = line.map_err(|error| error.to_string())?;
        if let Some(address) = listening(&line) {
            thread::spawn(move || lines.map_while(Result::ok).for_each(|line| eprintln!("{line}")));
            return Ok(address);
        }
        said += &line;
    }
    Err(if said.is_empty() { "it ended without a word".to_owned() } else { said })
}

/// The address in a line that names a URL.
fn listening(line: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once("https://").or_else(|| line.split_once("http://"))?;
    rest.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_read() {
        let address = listening("serving http://127.0.0.1:40123/ with 2 threads");
        assert_eq!(address, Some(SocketAddr::from(([127, 0, 0, 1], 40_123))));
        let address = listening("serving https://127.0.0.1:40124/ with 1 thread");
        assert_eq!(address, Some(SocketAddr::from(([127, 0, 0, 1], 40_124))));
        assert_eq!(listening("error: cannot serve on 127.0.0.1:80: refused"), None);
    }
}
