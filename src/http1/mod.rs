//! A response scanner and a request encoder: bytes in, events out, no I/O.
pub mod request;
pub mod response;

/// A byte of a token (RFC 9110, 5.6.2).
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
