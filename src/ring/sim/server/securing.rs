//! What a connection says over TLS beside its answers: flights of the handshake, and how they fail.

use std::rc::Rc;

use super::super::dice::Dice;
use super::super::response::End;
use super::super::session::{Reply, false_end};
use super::super::tls::HandshakeEnd;
use super::super::truth::HandshakeTruth;
use super::super::wire::{ConnectionId, Segment, Subject, ToClient, Wire};
use super::{Server, cuts};
use crate::clock::Nanos;

impl Server {
    /// Says what the worker's bytes that are here call for, over TLS.
    pub(super) fn reply(&mut self, id: ConnectionId, at: Nanos, wire: &mut Wire) {
        loop {
            let connection = &mut self.connections[id as usize];
            let Some(secure) = &mut connection.secure else { return };
            let Some(mut reply) = secure.next_reply(connection.received) else { return };
            let handshake_ns = match &self.model.tls {
                Some(tls) if reply.is_first => wire.dice.delay(tls.handshake_ns),
                _ => 0,
            };
            let at_byte = self.model.tls.as_ref().and_then(|tls| tls.fails_at);
            let end = reply.end.map(|end| spoil(&mut reply, end, at_byte, &mut wire.dice));
            let (subject, complete_at) = match reply.finishes {
                Some(resumed) => {
                    let (connection, handed_ns) = (id, None);
                    self.handshakes.push(HandshakeTruth { connection, resumed, handed_ns });
                    (Subject::Handshake(self.handshakes.len() - 1), reply.complete_at)
                }
                None => (Subject::Records, usize::MAX),
            };
            let at = at + handshake_ns;
            self.say(id, at, reply.bytes, subject, complete_at, wire);
            // A server gives each step its time.
            self.wait_for_request(id, at, wire);
            if let Some(end) = end {
                self.end_handshake(id, at, end, wire);
                return;
            }
        }
    }

    /// The handshake is over, and so is all that the server has to say.
    fn end_handshake(&mut self, id: ConnectionId, at: Nanos, end: End, wire: &mut Wire) {
        let connection = &mut self.connections[id as usize];
        connection.busy = true;
        connection.serial += 1;
        match end {
            End::Fin => self.close_after_answer(id, at, wire),
            End::Reset => self.reset(id, at, wire),
            End::Silent | End::Open => {}
        }
    }

    pub(super) fn update_keys(&mut self, id: ConnectionId, at: Nanos, wire: &mut Wire) {
        let mut bytes = Vec::new();
        if let Some(secure) = &mut self.connections[id as usize].secure {
            secure.update_keys(&mut bytes);
        }
        self.say(id, at, bytes, Subject::Records, usize::MAX, wire);
    }

    /// Sends this in pieces, the first one at once.
    pub(super) fn say(
        &mut self,
        id: ConnectionId,
        at: Nanos,
        bytes: Vec<u8>,
        subject: Subject,
        complete_at: usize,
        wire: &mut Wire,
    ) {
        let connection = &mut self.connections[id as usize];
        let mut ends =
            cuts(bytes.len(), usize::MAX, connection.said, self.model.cuts, &mut wire.dice);
        connection.said += bytes.len() as u64;
        self.bytes_sent += bytes.len() as u64;
        let bytes = Rc::new(bytes);
        let (mut at, mut from) = (at, 0);
        while let Some(to) = ends.pop() {
            let segment = Segment { bytes: Rc::clone(&bytes), from, to, subject, complete_at };
            self.towards_client(id, at, ToClient::Data(segment), wire);
            at += wire.dice.delay(self.model.piece_gap_ns);
            from = to;
        }
    }
}

/// Cuts a flight, and puts in its place what the handshake ends in.
fn spoil(reply: &mut Reply, end: HandshakeEnd, at: Option<u32>, dice: &mut Dice) -> End {
    if end != HandshakeEnd::CertificateWanted {
        let len = reply.bytes.len();
        let said = at.map_or_else(|| dice.between(0, len as u64) as usize, |at| at as usize);
        reply.bytes.truncate(said);
        if reply.bytes.len() < len {
            reply.complete_at = usize::MAX;
        }
    }
    let (bytes, end) = false_end(end, dice);
    reply.bytes.extend_from_slice(&bytes);
    end
}
