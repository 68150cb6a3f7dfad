//! A response scanner and a request encoder: bytes in, events out, no I/O.
pub mod request;
pub mod response;
