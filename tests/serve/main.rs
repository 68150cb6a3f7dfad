//! The embedded server, asked over real sockets.

mod client;
mod corpus;
mod framing;
mod load;
mod paths;
