//! TLS over byte slices: no I/O, no clock of its own.
//!
//! [`Session`] is one connection's: encrypted bytes in, plain bytes and bytes to send out. It
//! stands on rustls' unbuffered connections, so that a session keeps no buffers of its own; the
//! caller keeps what a record that is cut needs, and only while it is cut.

mod client;
pub mod failure;
mod server;
mod session;
mod settings;
#[cfg(test)]
mod tests;
mod tickets;
mod verify;

use rustls::pki_types::CertificateDer;

pub use client::{Client, ClientError, ClientSession};
pub use server::{Server, ServerError, ServerSession, self_signed_pem};
pub use session::{
    Handshake, Progress, RECORD_HEADER_LEN, Records, Session, encrypted_len, record_len,
};
pub use settings::{Group, Identity, Settings, Versions};
pub use verify::{Roots, RootsError, RootsOrigin};

/// Whether these bytes are a certificate.
#[must_use]
pub fn is_certificate(der: &CertificateDer<'_>) -> bool {
    verify::Leaf::read(der).is_some()
}

/// The only protocol that is spoken over TLS, as ALPN names it (RFC 7301, 6).
const HTTP_1_1: &[u8] = b"http/1.1";
