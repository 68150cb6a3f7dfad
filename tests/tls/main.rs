//! HTTPS: the real binary against nginx, Caddy, `ringload serve`, and servers that misbehave.

#[path = "../support/mod.rs"]
mod support;

mod agreed;
mod caddy;
mod certificates;
mod clients;
mod embedded;
mod files;
mod interrupts;
mod loads;
mod misbehaving;
mod resumption;
mod secrets;

use support::certificates::{Authority, Files, Shown, here};
use support::nginx::{self, Nginx, Setup};
use support::{Run, run};

/// Both versions, as they are typed and as results name them.
const VERSIONS: [(&str, &str); 2] = [("1.2", "TLSv1.2"), ("1.3", "TLSv1.3")];

/// A certificate that is in order, and the file of the authority to trust.
fn in_order() -> (Shown, Files, String) {
    let (authority, files) = (Authority::named("The Authority"), Files::new());
    let cacert = files.write("authority.pem", authority.pem());
    (authority.signs(&here()), files, cacert)
}

/// nginx with this certificate and more lines for its `server` block.
fn nginx_showing(shown: &Shown, lines: &str) -> Option<Nginx> {
    let https = Some(shown.into());
    nginx::start_with(&Setup { https, server: lines.to_owned(), ..Setup::default() })
}

/// The one error of a run: phase, kind and detail.
#[track_caller]
fn only_error(run: &Run) -> (&str, &str, &str) {
    run.assert_identities();
    let errors = run.result["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 1, "{errors:?}");
    let text = |key: &str| errors[0][key].as_str().unwrap();
    (text("phase"), text("kind"), text("detail"))
}

/// A run in which all is answered.
#[track_caller]
fn answered(arguments: &[&str]) -> Run {
    let run = run(arguments);
    run.assert_identities();
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(run.count("/counts/failed"), 0, "{}", run.result["errors"]);
    run
}
