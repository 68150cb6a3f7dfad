//! What the flags of `serve` mean.

use std::net::{Ipv4Addr, SocketAddr};

use super::mistake::{Mistake, wrong};
use super::pem;
use super::typed::ServeArgs;
use super::workers::{self, Machine};
use crate::plan::serve::ServePlan;
use crate::tls::Identity;

/// Where the server listens unless told.
const DEFAULT_ADDRESS: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 8080);

/// The plan of the server.
pub(super) fn meaning(args: &ServeArgs, machine: &Machine) -> Result<ServePlan, Mistake> {
    let (threads, cpus) = workers::server(args.threads, &args.cpus, machine)?;
    let default = args.https.is_none().then(|| SocketAddr::from(DEFAULT_ADDRESS));
    let http = args.http.or(default);
    if let (Some(http), Some(https)) = (http, args.https)
        && http == https
        && http.port() != 0
    {
        wrong!("--http and --https are both {http}; give each a port of its own");
    }
    let identity = identity(args)?;
    Ok(ServePlan { http, https: args.https, identity, threads, cpus, stall: args.stall })
}

fn identity(args: &ServeArgs) -> Result<Option<Identity>, Mistake> {
    let Some(cert) = &args.cert else {
        if args.key.is_some() {
            wrong!("--key: the certificate that it belongs to is missing; give it with --cert");
        }
        return Ok(None);
    };
    if args.https.is_none() {
        wrong!("--cert: a certificate is shown over HTTPS alone; add --https ADDR:PORT");
    }
    pem::identity(cert, args.key.as_deref()).map(Some)
}
