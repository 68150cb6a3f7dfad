//! What is to be done: the validated plan of one load, without I/O.

pub mod describe;
pub mod hold;
pub mod pages;
pub mod profile;
pub mod random;
pub mod serve;
pub mod sitemap;
pub mod watching;

use std::net::IpAddr;
use std::path::PathBuf;

use crate::clock::Nanos;
use crate::tls::Settings;

pub use crate::net::IpFamily;
pub use hold::{HoldPlan, Traffic};
pub use pages::{Page, ParsedUrl, Pick};
pub use profile::{Profile, Ratio, Segment};
pub use watching::Watching;

/// The most threads that there may be: more than any machine has CPUs to pin them to.
pub const MAX_THREADS: usize = 1024;

/// One load, resolved from what was typed.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// A name for the result.
    pub label: Option<String>,
    /// Where the requests go.
    pub target: Target,
    /// How connections are made.
    pub dial: Dial,
    /// How TLS is spoken over them; `None`: plain HTTP.
    pub tls: Option<Tls>,
    /// What is asked for, at least one page.
    pub pages: Vec<Page>,
    /// How the next page is chosen.
    pub pick: Pick,
    /// Headers in the order in which they are sent, `Host` and `User-Agent` among them.
    pub headers: Vec<Header>,
    /// The body of each request.
    pub body: Option<Vec<u8>>,
    /// Closed or open model.
    pub load: Load,
    /// When it ends.
    pub end: End,
    /// Load before anything is recorded, nanoseconds.
    pub warmup_ns: Nanos,
    /// From the real start of a request to its last byte, nanoseconds.
    pub timeout_ns: Nanos,
    /// For a connection with its handshake, nanoseconds.
    pub connect_timeout_ns: Nanos,
    /// After the end, for what is in flight, nanoseconds.
    pub grace_ns: Nanos,
    /// How many requests a connection carries.
    pub lifetime: Lifetime,
    /// Wait between a response and the next request, nanoseconds, from and to.
    pub think_ns: Option<(Nanos, Nanos)>,
    /// Worker threads.
    pub threads: usize,
    /// The CPU of each thread; empty: not pinned.
    pub cpus: Vec<usize>,
    /// Polling before a due time.
    pub spin: Spin,
    /// Of every random choice.
    pub seed: u64,
    /// What is looked at beside the load.
    pub watching: Watching,
}

/// Where requests go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A server that is there.
    Origin {
        /// Host as typed: a name or an address, IPv6 without brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// The embedded server, started for this run on a free port of 127.0.0.1.
    Embedded {
        /// The CPUs of its threads, one each; at least one.
        cpus: Vec<usize>,
        /// Whether it serves HTTPS, with a certificate of its own making.
        tls: bool,
    },
}

/// How TLS is spoken.
#[derive(Clone, Debug, PartialEq)]
pub struct Tls {
    /// What is offered, shown and verified. Where nothing is said of whom to trust, the embedded
    /// server's certificate is trusted, and of any other server the system's authorities.
    pub settings: Settings,
    /// The share of connections that may resume an earlier session, 0 to 1.
    pub resume: f64,
}

/// How connections are made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dial {
    /// Connect here instead of to the URL's host (and port).
    pub connect_to: Option<(String, Option<u16>)>,
    /// Only addresses of this family.
    pub family: Option<IpFamily>,
    /// Source addresses, used in turn; empty: the kernel chooses.
    pub sources: Vec<IpAddr>,
    /// A socket in the file system instead of TCP.
    pub unix_socket: Option<PathBuf>,
    /// How a connection is closed.
    pub close: Close,
}

/// How a connection that we close is closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Close {
    /// In order, with FIN.
    #[default]
    Fin,
    /// With RST (`SO_LINGER` zero): no `TIME_WAIT`.
    Rst,
}

/// A header of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its name as it is sent.
    pub name: String,
    /// Its value; bytes, since a file or a variable may hold any.
    pub value: Vec<u8>,
    /// Whether the value may be shown (not where it is a credential or came from a file or variable).
    pub secret: bool,
}

/// Closed or open model, or connections that are held.
#[derive(Clone, Debug, PartialEq)]
pub enum Load {
    /// A number of places, each asking again when it has its answer.
    Closed {
        /// How many places, over time.
        places: Profile,
        /// How fast connections are opened, per second.
        open_rate: Option<Ratio>,
    },
    /// Arrivals at a rate, whatever the server does.
    Open {
        /// Arrivals per second, over time.
        rate: Profile,
        /// Their spacing.
        spacing: Spacing,
        /// What an arrival starts.
        arrive: Arrive,
        /// The most connections open at once, over time; `None`: what descriptors and ports allow.
        max_connections: Option<Profile>,
        /// Connections opened before the clock starts, all kept in use in turn.
        preconnect: u32,
        /// An arrival that found no place for so long is dropped, nanoseconds.
        drop_after_ns: Option<Nanos>,
        /// How fast connections are opened, per second.
        open_rate: Option<Ratio>,
    },
    /// Connections in levels, until it is told to end.
    Hold {
        /// Connections at each level, ascending, at least one level.
        levels: Vec<u32>,
        /// How long each is held once its connections are there, nanoseconds.
        dwell_ns: Nanos,
        /// What goes over them.
        traffic: Traffic,
        /// Whether each connection makes a request when it is open.
        first_request: bool,
        /// How fast connections are opened, per second.
        open_rate: Option<Ratio>,
    },
}

/// Spacing of arrivals in the open model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spacing {
    /// Equal gaps.
    #[default]
    Even,
    /// Exponential gaps.
    Poisson,
}

/// What an arrival starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrive {
    /// A request on any free connection.
    #[default]
    Requests,
    /// A client with a connection of its own, which makes its requests and leaves.
    Clients,
}

/// When a load ends; whichever comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// Requests (clients, with [`Arrive::Clients`]) started, failures included.
    pub requests: Option<u64>,
    /// Nanoseconds from the start of the recorded time.
    pub duration_ns: Option<Nanos>,
}

/// How many requests a connection carries.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Lifetime {
    /// As many as the server lets it.
    #[default]
    All,
    /// Exactly this many.
    Exactly(u64),
    /// Uniform between both, inclusive.
    Uniform(u64, u64),
    /// Geometric with this mean, at least 1.
    Geometric(f64),
}

/// Polling before a due time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spin {
    /// The last stretch, where the CPU would else be idle.
    #[default]
    Auto,
    /// Never.
    Never,
    /// All the time.
    Always,
}
