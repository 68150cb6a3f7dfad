//! `ringload serve`: the embedded server, on its own.

use std::io::{self, Write};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::plan::serve::ServePlan;
use crate::serve::Server;

/// Serves until SIGINT or SIGTERM, and gives which of them came. The address goes to standard
/// error once all threads accept.
///
/// # Errors
/// The server cannot be started, or one of its threads failed.
pub fn run(plan: &ServePlan) -> io::Result<i32> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let server = Server::start(plan)?;
    let mut stderr = io::stderr().lock();
    let threads = if plan.threads == 1 { "1 thread" } else { &format!("{} threads", plan.threads) };
    writeln!(stderr, "serving http://{}/ with {threads}", server.address())?;
    stderr.flush()?;
    drop(stderr);
    let signal = signals.forever().next().unwrap_or(SIGTERM);
    server.stop()?;
    Ok(signal)
}
