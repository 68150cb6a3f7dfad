//! The embedded server, asked over real sockets.

#[path = "../support/corpus.rs"]
mod cases;
mod client;
mod corpus;
mod framing;
mod load;
mod paths;
