//! `ringload serve`: the embedded server, on its own.

use std::fmt::Write as _;
use std::io::{self, Write};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::{Exit, Failure};
use crate::plan::serve::ServePlan;
use crate::serve::{ServeError, Server};

/// Serves until SIGINT or SIGTERM. Once all threads accept, one line on standard error says where:
/// `serving http://ADDR:PORT/ and https://ADDR:PORT/ with N threads`, or one of both. Who started
/// this with port 0 reads the ports there.
///
/// # Errors
/// The server cannot be started, or one of its threads failed.
pub fn run(plan: &ServePlan) -> Result<Exit, Failure> {
    let internal = |error: io::Error| Failure::Internal(format!("the server failed: {error}"));
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(internal)?;
    let server = Server::start(plan)?;
    let line = serving(&server, plan.threads);
    let mut stderr = io::stderr().lock();
    stderr
        .write_all(line.as_bytes())
        .and_then(|()| stderr.flush())
        .map_err(|error| Failure::output("where it serves", &error))?;
    drop(stderr);
    signals.forever().next();
    server.stop().map_err(internal)?;
    Ok(Exit::Done)
}

/// Where the server listens, in one line.
fn serving(server: &Server, threads: usize) -> String {
    let http = server.http_address().map(|address| format!("http://{address}/"));
    let https = server.https_address().map(|address| format!("https://{address}/"));
    let urls: Vec<String> = http.into_iter().chain(https).collect();
    let mut line = format!("serving {} with {threads} thread", urls.join(" and "));
    let _ = writeln!(line, "{}", if threads == 1 { "" } else { "s" });
    line
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        match error {
            ServeError::Ring(error) => Self::ring(&error),
            ServeError::Certificate(_) => Self::Use(error.to_string()),
            ServeError::Listen { .. } | ServeError::Thread(_) => Self::Machine(error.to_string()),
        }
    }
}
