//! The embedded server, asked over real sockets.

#[path = "../support/corpus.rs"]
mod cases;
mod client;
mod corpus;
mod framing;
mod https;
mod load;
mod paths;
mod secure;
