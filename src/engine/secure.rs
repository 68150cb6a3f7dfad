//! What a worker and a connection hold for TLS.

use rustls::Error;

use super::pool::{Index, Pool};
use crate::clock::Nanos;
use crate::tls::{
    Client, ClientSession, Handshake, Progress, RECORD_HEADER_LEN, Roots, Settings, encrypted_len,
    record_len,
};

/// How a worker's connections are made over TLS.
#[derive(Clone, Debug)]
pub struct Tls {
    /// What is offered and what is verified.
    pub settings: Settings,
    /// Authorities that are trusted.
    pub roots: Roots,
    /// Share of the connections that resume an earlier session where they can, 0 to 1.
    pub resume: f64,
}

/// A worker's part.
pub(super) struct Security {
    pub(super) client: Client,
    pub(super) resume: f64,
    pub(super) pool: Pool,
    /// What a session gave to be sent and was not handed to the ring yet.
    pub(super) output: Vec<u8>,
    /// What the last handshake came to, a full one if there was one.
    pub(super) handshake: Option<Handshake>,
}

/// A connection's part. It owns no buffer while no record is cut.
pub(super) struct Secure {
    pub(super) session: ClientSession,
    /// The beginning of a record that is cut.
    pub(super) incoming: Vec<u8>,
    /// When TCP was connected.
    pub(super) connected_ns: Nanos,
    pub(super) established: bool,
    /// The server has said that it sends no more, or nothing more can be said to it.
    pub(super) peer_closed: bool,
    /// The server asked for a client's certificate, and there was none to show.
    pub(super) certificate_missed: bool,
    /// Bytes on their way that the socket did not take at once.
    pub(super) pending: Option<Index>,
    /// What goes behind them: nothing may overtake a part of a record.
    pub(super) behind: Vec<u8>,
}

impl Security {
    pub(super) fn new(client: Client, resume: f64) -> Self {
        Self { client, resume, pool: Pool::default(), output: Vec::new(), handshake: None }
    }

    /// Notes what a handshake came to.
    pub(super) fn note(&mut self, handshake: Handshake) {
        if !handshake.resumed || self.handshake.is_none() {
            self.handshake = Some(handshake);
        }
    }
}

impl Secure {
    pub(super) fn new(session: ClientSession) -> Self {
        Self {
            session,
            incoming: Vec::new(),
            connected_ns: 0,
            established: false,
            peer_closed: false,
            certificate_missed: false,
            pending: None,
            behind: Vec::new(),
        }
    }

    /// Takes bytes off the wire. What lies behind a record that was cut is read where it is.
    pub(super) fn take(
        &mut self,
        mut input: &mut [u8],
        output: &mut Vec<u8>,
        mut plain: impl FnMut(&[u8]),
    ) -> Result<Progress, Error> {
        let mut all = Progress { used: 0, established: self.established, peer_closed: false };
        while !self.incoming.is_empty() && !input.is_empty() {
            let (head, tail) = input.split_at_mut(self.missing().min(input.len()));
            self.incoming.extend_from_slice(head);
            input = tail;
            let progress = self.session.advance(&mut self.incoming, output, &mut plain)?;
            self.incoming.drain(..progress.used);
            all.established |= progress.established;
            all.peer_closed |= progress.peer_closed;
        }
        if !input.is_empty() {
            let progress = self.session.advance(input, output, &mut plain)?;
            self.incoming.extend_from_slice(&input[progress.used..]);
            all.established |= progress.established;
            all.peer_closed |= progress.peer_closed;
        }
        Ok(all)
    }

    /// Puts what is to be sent behind what is on its way.
    pub(super) fn queue_behind(&mut self, output: &mut Vec<u8>, plain: &[u8]) {
        self.behind.append(output);
        if plain.is_empty() {
            return;
        }
        let from = self.behind.len();
        self.behind.resize(from + encrypted_len(plain.len()), 0);
        // Where the keys are used up the connection has ended.
        let written = self.session.encrypt(plain, &mut self.behind[from..]);
        self.peer_closed |= written.is_err();
        self.behind.truncate(from + written.unwrap_or(0));
    }

    /// How many bytes at least are missing from the record that is cut, as far as it tells; at
    /// least 1.
    fn missing(&self) -> usize {
        let have = self.incoming.len();
        let whole = record_len(&self.incoming).unwrap_or(RECORD_HEADER_LEN);
        // What is waiting may also be whole records that a handshake message is spread over.
        if whole > have { whole - have } else { usize::MAX }
    }
}
