//! What was typed: the flags of every command, each value read on its own.
//!
//! Whether values fit together is not asked here; see [`super::run`] and [`super::serve`].

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use super::tls::TlsArgs;
use super::values;
use super::watching::WatchingArgs;
use crate::clock::Nanos;
use crate::judge::objective::Objective;
use crate::observe::watch::Source;
use crate::plan::serve::Stall;
use crate::plan::{Lifetime, Profile, Ratio, Traffic};

/// The program's arguments.
#[derive(Debug, Parser)]
#[command(
    name = "ringload",
    bin_name = "ringload",
    version,
    about = "A load generator for HTTP/1.1 on Linux io_uring",
    after_help = "Examples:
  ringload run http://127.0.0.1:8080/            50 connections, 10 seconds
  ringload run http://127.0.0.1:8080/ -r 10k     10,000 requests a second, whatever the server does
  ringload run embedded                          a first look, with its own server
  ringload doctor                                what this machine lacks, and the remedy"
)]
pub(super) struct Typed {
    #[command(subcommand)]
    pub(super) command: TypedCommand,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(super) enum TypedCommand {
    /// One load, closed or open
    Run(Box<RunArgs>),
    /// Opens connections in levels and holds them: bytes of server memory per connection
    Hold(Box<HoldArgs>),
    /// The embedded server, on its own
    Serve(ServeArgs),
    /// Samples this machine once a second, as JSON lines on stdout
    Watch(WatchArgs),
    /// Checks this machine and says what to change
    Doctor,
}

/// `ringload run`.
#[derive(Debug, Args)]
#[command(after_help = "Values:
  counts 10k 1.5M; durations 500us 20ms 30s 1m30s 2h; rates 500 or 500/s, 600/m, 10k
  PROFILE is a value, or segments joined with commas: VALUE@DURATION (constant) and
  FROM..TO@DURATION (linear), as in 0..1200@300s,1200@1m,1200..0@10s

Examples:
  ringload run http://127.0.0.1:8080/ -c 200 -d 30s
  ringload run http://127.0.0.1:8080/ -r 10k -d 10s --new-connections
  ringload run http://127.0.0.1:8080/ -r 100..5k@2m --json result.json
  ringload run http://127.0.0.1:8080/ -r 200 --arrive clients --requests-per-connection mean:7.6
  ringload run http://127.0.0.1:8080/ -c 0..1200@5m,1200@1m --think 1s..3s --sitemap sitemap.xml
  ringload run https://127.0.0.1:8443/ --cacert server.pem --new-connections --tls-resume 20%
  ringload run http://127.0.0.1:8080/ --watch name:nginx --probe http://127.0.0.1:8080/status
  ringload run http://127.0.0.1:8080/api -H 'Authorization: env:TOKEN' --data @body.json")]
pub(super) struct RunArgs {
    /// Where to: URLs of one origin, each a page; or `embedded` for the embedded server,
    /// `embedded+tls` for it over HTTPS
    #[arg(value_name = "URL")]
    pub(super) url: Vec<String>,
    #[command(flatten)]
    pub(super) load: LoadArgs,
    #[command(flatten)]
    pub(super) request: RequestArgs,
    #[command(flatten)]
    pub(super) pages: PageArgs,
    #[command(flatten)]
    pub(super) dial: DialArgs,
    #[command(flatten)]
    pub(super) tls: TlsArgs,
    #[command(flatten)]
    pub(super) workers: WorkerArgs,
    #[command(flatten)]
    pub(super) watching: WatchingArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    /// Read flags from a TOML file with the same names; flags typed here win over it
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) plan: Option<PathBuf>,
    /// Print the plan and send nothing
    #[arg(long, help_heading = "Output")]
    pub(super) dry_run: bool,
}

/// `ringload hold`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ringload hold http://127.0.0.1:8080/ --watch name:nginx
  ringload hold http://127.0.0.1:8080/ https://127.0.0.1:8443/ -k --levels 0,1k,5k,10k
  ringload hold http://host/ --source 10.0.0.2-10.0.0.5 --levels 0,50k,100k --open-rate 5k \\
      --watch cmd:'ssh host ringload watch --name nginx' --probe http://host/status \\
      --abort-if 'target_mem_available<200MiB' --abort-if 'probe_failed>50%'")]
pub(super) struct HoldArgs {
    /// Where to: one URL, or two that are looked at one after the other; or `embedded`
    #[arg(value_name = "URL")]
    pub(super) url: Vec<String>,
    #[command(flatten)]
    pub(super) levels: LevelArgs,
    #[command(flatten)]
    pub(super) request: RequestArgs,
    #[command(flatten)]
    pub(super) dial: DialArgs,
    #[command(flatten)]
    pub(super) tls: TlsArgs,
    #[command(flatten)]
    pub(super) workers: WorkerArgs,
    #[command(flatten)]
    pub(super) watching: WatchingArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    /// Read flags from a TOML file with the same names; flags typed here win over it
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) plan: Option<PathBuf>,
    /// Print the plan and send nothing
    #[arg(long, help_heading = "Output")]
    pub(super) dry_run: bool,
}

/// How many connections, for how long, and what goes over them.
#[derive(Debug, Args)]
#[command(next_help_heading = "Levels")]
pub(super) struct LevelArgs {
    /// Connections at each level, ascending
    #[arg(
        long,
        value_name = "N,N..",
        value_delimiter = ',',
        default_value = "0,1k,5k,10k",
        value_parser = values::count_u32
    )]
    pub(super) levels: Vec<u32>,
    /// How long a level is held once its connections are there
    #[arg(long, value_name = "T", default_value = "10s", value_parser = values::positive_duration)]
    pub(super) dwell: Nanos,
    /// How fast connections are opened, per second
    #[arg(long, value_name = "RATE", default_value = "1k", value_parser = values::positive_rate)]
    pub(super) open_rate: Ratio,
    /// What goes over them: nothing (idle), each asks again when it has its answer (busy), or so
    /// many requests a second in turn over all (N/s)
    #[arg(long, value_name = "WHAT", default_value = "idle", value_parser = values::traffic)]
    pub(super) traffic: Traffic,
    /// Send nothing at all; else each connection makes one request when it is open
    #[arg(long)]
    pub(super) no_request: bool,
    /// From the real start of a request to its last byte [default: 10s]
    #[arg(long, value_name = "T", value_parser = values::positive_duration)]
    pub(super) timeout: Option<Nanos>,
    /// Of a connection with its handshake [default: 5s, at most --timeout]
    #[arg(long, value_name = "T", value_parser = values::positive_duration)]
    pub(super) connect_timeout: Option<Nanos>,
    /// End before the target goes down (repeatable): probe_failed>50% and failed>10% (of the last
    /// 5 s), target_mem_available<200MiB
    #[arg(long, value_name = "EXPR", action = ArgAction::Append)]
    pub(super) abort_if: Vec<Objective>,
}

/// How much, for how long.
#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
pub(super) struct LoadArgs {
    /// Closed model: connections kept busy [default: 50]; with -r: the most open at once
    #[arg(short, long, value_name = "PROFILE", value_parser = Profile::parse_count)]
    pub(super) connections: Option<Profile>,
    /// Open model: arrivals per second, whatever the server does
    #[arg(
        short,
        long,
        short_aliases = ['R', 'q'],
        alias = "rps",
        value_name = "PROFILE",
        value_parser = Profile::parse_rate
    )]
    pub(super) rate: Option<Profile>,
    /// The end, whichever comes first [default: 10s without -n and without segments]
    #[arg(
        short,
        long,
        short_alias = 'z',
        value_name = "T",
        value_parser = values::run_duration
    )]
    pub(super) duration: Option<Nanos>,
    /// The end, by requests started, failures included (with --arrive clients: by clients)
    #[arg(short = 'n', long, value_name = "N", value_parser = values::positive_count)]
    pub(super) requests: Option<u64>,
    /// A new connection for each request
    #[arg(long, alias = "disable-keepalive")]
    pub(super) new_connections: bool,
    /// How long a connection lives: all, N, A..B (uniform) or mean:X (geometric) [default: all]
    #[arg(long, value_name = "N", value_parser = values::lifetime)]
    pub(super) requests_per_connection: Option<Lifetime>,
    /// Open model: the spacing of arrivals [default: even]
    #[arg(long, value_name = "HOW")]
    pub(super) arrivals: Option<ArrivalsArg>,
    /// Open model: an arrival starts a request on any free connection, or a client with a
    /// connection of its own [default: requests]
    #[arg(long, value_name = "WHAT")]
    pub(super) arrive: Option<ArriveArg>,
    /// Wait between a response and the next request, T or T..T (closed model and clients)
    #[arg(long, value_name = "T", value_parser = values::think)]
    pub(super) think: Option<(Nanos, Nanos)>,
    /// Open model: connections opened before the clock starts, and all kept in use in turn
    #[arg(long, value_name = "N", value_parser = values::positive_u32)]
    pub(super) preconnect: Option<u32>,
    /// How fast connections are opened, per second [default: 256 at once per worker]
    #[arg(long, value_name = "RATE", value_parser = values::positive_rate)]
    pub(super) open_rate: Option<Ratio>,
    /// Open model: an arrival that found no place for T is dropped, not sent [default: never]
    #[arg(long, value_name = "T", value_parser = values::positive_duration)]
    pub(super) drop_after: Option<Nanos>,
    /// Load at the profile's first value before anything is recorded [default: 0]
    #[arg(long, value_name = "T", value_parser = values::duration)]
    pub(super) warmup: Option<Nanos>,
    /// From the real start of a request to its last byte [default: 10s]
    #[arg(long, value_name = "T", value_parser = values::positive_duration)]
    pub(super) timeout: Option<Nanos>,
    /// Of a connection [default: 5s, at most --timeout]
    #[arg(long, value_name = "T", value_parser = values::positive_duration)]
    pub(super) connect_timeout: Option<Nanos>,
    /// After the end, for what is in flight [default: --timeout, at most 5s]
    #[arg(long, value_name = "T", value_parser = values::duration)]
    pub(super) grace: Option<Nanos>,
}

/// What is asked.
#[derive(Debug, Args)]
#[command(next_help_heading = "Request")]
pub(super) struct RequestArgs {
    /// The method [default: GET, with --data POST]
    #[arg(short = 'X', visible_short_alias = 'm', long, value_parser = values::method)]
    pub(super) method: Option<String>,
    /// Add a header; 'K;' sends it empty, 'K:' removes a default one; a value @FILE or env:NAME
    /// keeps a secret off the command line (repeatable)
    #[arg(short = 'H', long, value_name = "'K: V'")]
    pub(super) header: Vec<String>,
    /// Basic authentication; @FILE and env:NAME too
    #[arg(short, long, value_name = "USER:PASS")]
    pub(super) user: Option<String>,
    /// The body of each request, or @FILE with it
    #[arg(long, value_name = "S|@FILE", allow_hyphen_values = true)]
    pub(super) data: Option<String>,
    /// Instead of ringload/VERSION
    #[arg(long, value_name = "S")]
    pub(super) user_agent: Option<String>,
}

/// Many pages.
#[derive(Debug, Args)]
#[command(next_help_heading = "Pages")]
pub(super) struct PageArgs {
    /// Pages, one '[METHOD] URL-or-path [weight=N]' a line; - is stdin. Only their paths are
    /// taken, on the given URL's origin
    #[arg(long, value_name = "FILE|-")]
    pub(super) urls: Option<PathBuf>,
    /// Every <loc> of a sitemap; index files are followed, gzip is read. Only their paths are
    /// taken, on the given URL's origin
    #[arg(long, value_name = "FILE|URL")]
    pub(super) sitemap: Option<String>,
    /// How the next page is chosen [default: random]
    #[arg(long, value_name = "HOW")]
    pub(super) pick: Option<PickArg>,
}

/// Where and how to connect.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Network")]
pub(super) struct DialArgs {
    /// Connect here instead of to the URL's host
    #[arg(long, value_name = "HOST[:PORT]", value_parser = values::host_port)]
    pub(super) connect_to: Option<(String, Option<u16>)>,
    /// IPv4 only
    #[arg(short = '4', long)]
    pub(super) ipv4: bool,
    /// IPv6 only
    #[arg(short = '6', long)]
    pub(super) ipv6: bool,
    /// Source addresses, used in turn: ADDR, A-B or CIDR, joined with commas
    #[arg(
        long,
        value_name = "ADDR",
        value_delimiter = ',',
        action = ArgAction::Append,
        value_parser = values::source
    )]
    pub(super) source: Vec<values::AddressRange>,
    /// A socket in the file system instead of TCP
    #[arg(long, value_name = "PATH")]
    pub(super) unix_socket: Option<PathBuf>,
    /// How a connection is closed; rst leaves no TIME_WAIT [default: fin]
    #[arg(long, value_name = "HOW")]
    pub(super) close: Option<CloseArg>,
}

/// Threads, CPUs, chance.
#[derive(Debug, Args)]
#[command(next_help_heading = "Workers")]
pub(super) struct WorkerArgs {
    /// Worker threads [default: one per CPU that the process may use]
    #[arg(short, long, value_name = "N", value_parser = values::threads)]
    pub(super) threads: Option<usize>,
    /// Their CPUs, as in 0,2-5
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        action = ArgAction::Append,
        value_parser = values::cpu_range
    )]
    pub(super) cpus: Vec<values::CpuRange>,
    /// Polling before a due time [default: auto: the last stretch, where the CPU is idle]
    #[arg(long, value_name = "WHEN")]
    pub(super) spin: Option<SpinArg>,
    /// Of every random choice [default: drawn, printed]
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
}

/// What comes back.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(super) struct OutputArgs {
    /// A name for this result, in reports
    #[arg(long, value_name = "S")]
    pub(super) label: Option<String>,
    /// The result as JSON; - is stdout, and then the text is not printed
    #[arg(long, value_name = "F", value_parser = values::sink)]
    pub(super) json: Option<super::Sink>,
    /// One line a second as CSV; - is stdout
    #[arg(long, value_name = "F", value_parser = values::sink)]
    pub(super) csv: Option<super::Sink>,
    /// Percentiles of the response time as HdrHistogram prints them; - is stdout
    #[arg(long, value_name = "F", value_parser = values::sink)]
    pub(super) hgrm: Option<super::Sink>,
    /// Progress on stderr [default: auto: a bar on a terminal, else one line a second]
    #[arg(long, value_name = "HOW")]
    pub(super) progress: Option<super::Progress>,
    /// No progress; the text stays
    #[arg(long)]
    pub(super) quiet: bool,
    /// Colours [default: auto]
    #[arg(long, value_name = "WHEN")]
    pub(super) color: Option<super::Color>,
}

/// `ringload serve`.
#[derive(Debug, Args)]
#[command(after_help = "Paths:
  / (2 bytes)  /bytes/N  /chunked/N  /status/CODE  /delay/T  /delay/T..T  /cpu/T  /close  /reset
  /truncate/N  /never  /slow/N/T (N bytes over T)  /stats  /stats/reset

Examples:
  ringload serve
  ringload serve --http 127.0.0.1:9000 -t 1 --cpus 1
  ringload serve --http 127.0.0.1:9000 --stall 1s@5s
  ringload serve --http 127.0.0.1:8080 --https 127.0.0.1:8443
  ringload serve --https 0.0.0.0:8443 --cert fullchain.pem --key privkey.pem

Over TLS /truncate ends without close_notify. Plain HTTP on the HTTPS port is answered with 400.")]
pub(super) struct ServeArgs {
    /// Where to listen for HTTP [default: 127.0.0.1:8080 without --https]
    #[arg(long, value_name = "ADDR:PORT", value_parser = values::listen)]
    pub(super) http: Option<SocketAddr>,
    /// Where to listen for HTTPS, beside it or instead
    #[arg(long, value_name = "ADDR:PORT", value_parser = values::listen)]
    pub(super) https: Option<SocketAddr>,
    /// Certificate to show over HTTPS, and those it is signed with (PEM) [default: one for
    /// localhost, made and signed by the server itself; clients take it with -k]
    #[arg(long, value_name = "FILE")]
    pub(super) cert: Option<PathBuf>,
    /// Its key (PEM) [default: the key in --cert's file]
    #[arg(long, value_name = "FILE")]
    pub(super) key: Option<PathBuf>,
    /// Threads [default: one per CPU that the process may use]
    #[arg(short, long, value_name = "N", value_parser = values::threads)]
    pub(super) threads: Option<usize>,
    /// Their CPUs, as in 0,2-5
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        action = ArgAction::Append,
        value_parser = values::cpu_range
    )]
    pub(super) cpus: Vec<values::CpuRange>,
    /// Freeze all of it once: how long @ when after the start
    #[arg(long, value_name = "T@T", value_parser = values::stall)]
    pub(super) stall: Option<Stall>,
}

/// `ringload watch`.
#[derive(Debug, Args)]
#[command(
    after_help = "A line is one sample: unix_s (seconds since 1970, by this machine's clock), and then the keys of
`watch` in a result. Without a selection the machine alone is sampled. docs/watch.md has it all.

Examples:
  ringload watch --name nginx
  ringload watch --port 443 --interval 500ms > server.log
  ringload run http://host/ --watch cmd:'ssh host ringload watch --name nginx'"
)]
pub(super) struct WatchArgs {
    /// All processes of this name (repeatable, as all selections are)
    #[arg(long, value_name = "N", value_parser = values::watched_name)]
    pub(super) name: Vec<Source>,
    /// A process and its descendants
    #[arg(long, value_name = "N", value_parser = values::watched_pid)]
    pub(super) pid: Vec<Source>,
    /// Whoever listens on this port, and their descendants
    #[arg(long, value_name = "N", value_parser = values::watched_port)]
    pub(super) port: Vec<Source>,
    /// A control group, as one row
    #[arg(long, value_name = "PATH", value_parser = values::watched_group)]
    pub(super) cgroup: Vec<Source>,
    /// How often, at least 10ms [default: 1s]
    #[arg(long, value_name = "T", value_parser = values::watch_interval)]
    pub(super) interval: Option<Nanos>,
}

/// `--arrivals`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum ArrivalsArg {
    Even,
    Poisson,
}

/// `--arrive`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ArriveArg {
    Requests,
    Clients,
}

/// `--pick`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum PickArg {
    Random,
    InOrder,
}

/// `--close`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum CloseArg {
    Fin,
    Rst,
}

/// `--spin`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum SpinArg {
    Auto,
    Never,
    Always,
}
