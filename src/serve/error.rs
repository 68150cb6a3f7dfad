//! Why the server cannot start.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use crate::tls;

/// Why the server cannot start.
#[derive(Debug)]
pub enum ServeError {
    /// It cannot listen there.
    Listen {
        /// Where.
        address: SocketAddr,
        /// For HTTPS.
        secure: bool,
        /// What the kernel said.
        error: io::Error,
    },
    /// The certificate and the key cannot be used, or made.
    Certificate(tls::ServerError),
    /// A ring cannot be made (see [`KernelRing::new`](crate::ring::kernel::KernelRing::new)).
    Ring(io::Error),
    /// A thread cannot be started.
    Thread(io::Error),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen { address, secure, error } => {
                let flag = if *secure { "--https" } else { "--http" };
                write!(f, "cannot listen on {address} ({flag}): {error}; ")?;
                remedy(f, error, *address, flag)
            }
            Self::Certificate(error) => error.fmt(f),
            Self::Ring(error) => write!(f, "cannot set up io_uring: {error}"),
            Self::Thread(error) => write!(f, "cannot start a thread: {error}"),
        }
    }
}

impl std::error::Error for ServeError {}

/// What can be done where an address cannot be bound.
fn remedy(
    f: &mut fmt::Formatter<'_>,
    error: &io::Error,
    address: SocketAddr,
    flag: &str,
) -> fmt::Result {
    let (ip, port) = (address.ip(), address.port());
    match error.kind() {
        io::ErrorKind::AddrInUse => write!(
            f,
            "another program has that port (`ss -ltnp sport = :{port}` names it): end it, or \
             choose another port, or a free one with {flag} {}",
            SocketAddr::new(ip, 0)
        ),
        io::ErrorKind::AddrNotAvailable => write!(
            f,
            "{ip} is no address of this machine (`ip addr` lists them): choose one of them, or \
             all with 0.0.0.0"
        ),
        io::ErrorKind::PermissionDenied => write!(
            f,
            "ports below 1024 are for the system's administrator: choose another one, such as \
             {flag} {}",
            SocketAddr::new(ip, 8443)
        ),
        _ => f.write_str("choose another address or port"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_cannot_be_bound_has_a_remedy() {
        let told = |errno: i32| {
            let error = io::Error::from_raw_os_error(errno);
            let address = "127.0.0.1:443".parse().unwrap();
            ServeError::Listen { address, secure: true, error }.to_string()
        };
        let taken = told(libc::EADDRINUSE);
        for part in ["--https", "127.0.0.1:443", "sport = :443", "--https 127.0.0.1:0"] {
            assert!(taken.contains(part), "{part} in: {taken}");
        }
        assert!(told(libc::EADDRNOTAVAIL).contains("ip addr"));
        assert!(told(libc::EACCES).contains("1024"));
    }
}
