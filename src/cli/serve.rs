//! What the flags of `serve` mean.

use std::net::{Ipv4Addr, SocketAddr};

use super::mistake::Mistake;
use super::typed::ServeArgs;
use super::workers::{self, Machine};
use crate::plan::serve::ServePlan;

/// Where the server listens unless told.
const DEFAULT_ADDRESS: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 8080);

/// The plan of the server.
pub(super) fn meaning(args: &ServeArgs, machine: &Machine) -> Result<ServePlan, Mistake> {
    let (threads, cpus) = workers::server(args.threads, &args.cpus, machine)?;
    let default = args.https.is_none().then(|| SocketAddr::from(DEFAULT_ADDRESS));
    let http = args.http.or(default);
    Ok(ServePlan { http, https: args.https, identity: None, threads, cpus, stall: args.stall })
}
