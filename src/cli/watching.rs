//! What is looked at beside the load: `--watch`, `--probe`, `--link`.

use clap::{ArgAction, Args};

use super::mistake::{Mistake, wrong};
use super::pages::{EMBEDDED, Place};
use super::tls::{self, TlsArgs};
use super::values;
use crate::observe::watch::Source;
use crate::plan::Watching;
use crate::plan::pages::{ParsedUrl, Scheme, parse_url};

/// What is looked at beside the load.
#[derive(Debug, Args)]
#[command(next_help_heading = "Watching")]
pub(super) struct WatchingArgs {
    /// Sample a server beside the load (repeatable): name:nginx, pid:N, port:8080 (whoever listens
    /// there), cgroup:PATH, system, file:vmstat.log, cmd:'ssh host ringload watch --name nginx'
    /// [default: of a local target, who listens on its port]
    #[arg(long, value_name = "SOURCE", action = ArgAction::Append)]
    pub(super) watch: Vec<Source>,
    /// Each second a fresh connection and one request to this URL, timed apart, with a 1 s limit
    #[arg(long, value_name = "URL", value_parser = url)]
    pub(super) probe: Option<ParsedUrl>,
    /// What the line can carry, for the verdict, as in 267Mbit/s [default: the interface's speed]
    #[arg(long, value_name = "RATE", value_parser = values::bits)]
    pub(super) link: Option<u64>,
}

/// What the flags mean together, beside a load of these places.
pub(super) fn watching(
    args: WatchingArgs,
    tls: &TlsArgs,
    places: &[Place],
) -> Result<Watching, Mistake> {
    let WatchingArgs { watch: sources, probe, link: link_bits } = args;
    let mut earlier = sources.iter().enumerate();
    if let Some((_, twice)) = earlier.find(|(index, source)| sources[..*index].contains(source)) {
        wrong!("--watch {twice} is given twice; give each source once");
    }
    let probe_tls = match &probe {
        Some(url) if url.scheme == Scheme::Https => Some(tls::probe(tls, url, places)?),
        _ => None,
    };
    Ok(Watching { sources, probe, probe_tls, link_bits })
}

/// A probe's URL; without a scheme it is `http`.
fn url(text: &str) -> Result<ParsedUrl, String> {
    if text.starts_with(EMBEDDED) && !text.contains("://") {
        return Err(
            "nobody knows the embedded server's port before it runs; run `ringload serve` \
                    and give its URL"
                .into(),
        );
    }
    let full = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    parse_url(&full).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::tls::Versions;

    /// Clap's own view of the flags of this file.
    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        watching: WatchingArgs,
        #[command(flatten)]
        tls: TlsArgs,
    }

    fn read(words: &[&str]) -> Result<Watching, String> {
        let words = ["run"].iter().chain(words);
        let flags = Flags::try_parse_from(words).map_err(|error| error.to_string())?;
        let place = Place::read(&["https://h:8443/".to_owned()]).unwrap();
        watching(flags.watching, &flags.tls, &[place]).map_err(|mistake| mistake.to_string())
    }

    #[test]
    fn nothing_is_looked_at_unless_asked_for() {
        assert_eq!(read(&[]), Ok(Watching::default()));
    }

    #[test]
    fn sources_come_in_their_order() {
        let command = "cmd:ssh host ringload watch --name nginx,a";
        let words = ["--watch", "name:nginx", "--watch", "port:8080", "--watch", command];
        let sources = read(&words).unwrap().sources;
        let shown: Vec<String> = sources.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["name:nginx", "port:8080", command]);
    }

    #[test]
    fn a_probe_may_leave_the_scheme_out() {
        for (text, shown) in [
            ("h:8080/status", "http://h:8080/status"),
            ("https://h", "https://h/"),
            ("[::1]:81", "http://[::1]:81/"),
            ("http://bob:secret@h/", "http://h/"),
        ] {
            let probe = read(&["--probe", text]).unwrap().probe.unwrap();
            assert_eq!(probe.to_string(), shown, "{text}");
        }
    }

    #[test]
    fn tls_flags_are_a_probes_too() {
        let read = |url: &str| {
            let words = ["-k", "--sni", "other.example", "--tls", "1.2", "--probe", url];
            self::read(&words).unwrap().probe_tls
        };
        let tls = read("https://h:81/").unwrap();
        assert!(tls.insecure && tls.server_name == "other.example");
        assert_eq!(tls.versions, Versions::Tls12);
        // The name is the target's.
        assert_eq!(read("https://elsewhere/").unwrap().server_name, "elsewhere");
        assert_eq!(read("http://h/"), None);
    }

    #[test]
    fn a_line_is_read_in_bits() {
        assert_eq!(read(&["--link", "267Mbit/s"]).unwrap().link_bits, Some(267_000_000));
    }

    #[test]
    fn mistakes_come_with_a_remedy() {
        let cases: &[(&[&str], &[&str])] = &[
            (&["--watch", "nginx"], &["nginx", "name:"]),
            (&["--watch", "port:http"], &["port"]),
            (&["--watch", "system", "--watch", "system"], &["--watch system", "once"]),
            (&["--probe", "/status"], &["host"]),
            (&["--probe", "ftp://h/"], &["http"]),
            (&["--probe", "embedded"], &["ringload serve"]),
            (&["--link", "1000"], &["unit", "267Mbit/s"]),
            (&["--link", "0Mbit/s"], &["above 0"]),
        ];
        for (words, parts) in cases {
            let told = read(words).unwrap_err();
            for part in *parts {
                assert!(told.contains(part), "{words:?}: no \"{part}\" in: {told}");
            }
        }
    }
}
