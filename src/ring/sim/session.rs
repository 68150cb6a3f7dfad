//! One connection's TLS at the simulated server: what the worker sends must be what a session
//! takes, and what the server says leaves in records.

use std::collections::VecDeque;

use rustls::Error;

use super::dice::Dice;
use super::response::{End, Response};
use super::tls::{self, HandshakeEnd, TlsModel};
use super::wire::ConnectionId;
use crate::tls::{ServerSession, encrypted_len};

/// Bytes of a record's header (RFC 8446, 5.1), and the types that are told apart.
const HEADER_LEN: usize = 5;
const CHANGE_CIPHER_SPEC: u8 = 20;
/// About so many records a response at most.
const RECORDS_MAX: usize = 200;

/// What is no TLS, or not where it comes: an answer in plaintext, nothing but zeros, a message of the
/// handshake that is out of turn, a record that cannot be decrypted, one that is too long, and one
/// that is not all there.
const GARBAGE: [&[u8]; 7] = [
    b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
    &[0; 400],
    &[22, 3, 3, 0, 4, 14, 0, 0, 0],
    &[23, 3, 3, 0, 20, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7],
    &[23, 3, 3, 0xff, 0xff, 1, 2, 3],
    &[22, 3, 3, 2, 0, 2, 0],
    &[20, 3, 3, 0, 1, 1, 20, 3, 3, 0, 1, 1, 20, 3, 3, 0, 1, 1],
];
/// internal_error, handshake_failure, protocol_version, unrecognized_name as a warning, and a
/// close_notify (RFC 8446, 6).
const ALERTS: [[u8; 2]; 5] = [[2, 80], [2, 40], [2, 70], [1, 112], [1, 0]];

/// What the session has to say, once the worker's bytes up to `at` have arrived.
pub(super) struct Reply {
    at: u64,
    pub bytes: Vec<u8>,
    /// It ends with the server's Finished; and whether a session is resumed.
    pub finishes: Option<bool>,
    /// Where it is complete.
    pub complete_at: usize,
    /// It is the server's first flight.
    pub is_first: bool,
    /// What becomes of the handshake within it, or after it.
    pub end: Option<HandshakeEnd>,
}

/// The session of one connection.
pub(super) struct Secure {
    session: ServerSession,
    /// What the worker sent and is no whole record yet.
    cut: Vec<u8>,
    /// What it sent: bytes of the wire, up to the last whole record, and of plaintext.
    wire: u64,
    plain: u64,
    /// Where records end that did not arrive yet, on the wire and in the plaintext.
    records: VecDeque<(u64, u64)>,
    replies: VecDeque<Reply>,
    /// The handshake fails in this one of the replies.
    fate: Option<(HandshakeEnd, u32)>,
    spoken: u32,
    /// Something other than the session has spoken: it cannot tell right from wrong any more.
    ruined: bool,
    established: bool,
    /// The worker has said that it sends no more.
    ended: bool,
    said_end: bool,
    omits_end: bool,
}

impl Secure {
    pub(super) fn new(model: &TlsModel, dice: &mut Dice) -> Self {
        let fate = dice
            .chance(model.fails)
            .then(|| (dice.weighted(&model.failures), u32::from(dice.chance(model.fails_late))));
        let wants_certificate = matches!(fate, Some((HandshakeEnd::CertificateWanted, _)));
        Self {
            session: tls::session(model.tickets, wants_certificate),
            cut: Vec::new(),
            wire: 0,
            plain: 0,
            records: VecDeque::new(),
            replies: VecDeque::new(),
            fate,
            spoken: 0,
            ruined: false,
            established: false,
            ended: false,
            said_end: false,
            omits_end: dice.chance(model.omits_close_notify),
        }
    }

    /// The worker's bytes enter the connection. Gives the plaintext of each record that is whole.
    /// Panics where they are no TLS.
    pub(super) fn take(&mut self, id: ConnectionId, bytes: &[u8]) -> Vec<Vec<u8>> {
        if self.ruined {
            return Vec::new();
        }
        assert!(!self.ended, "worker bug: connection {id}: bytes after its own close_notify");
        self.cut.extend_from_slice(bytes);
        let mut all = Vec::new();
        while let Some(len) = whole_record(&self.cut) {
            let mut record: Vec<u8> = self.cut.drain(..len).collect();
            self.wire += len as u64;
            let mut plain = Vec::new();
            self.take_record(id, &mut record, &mut plain);
            self.plain += plain.len() as u64;
            self.records.push_back((self.wire, self.plain));
            all.push(plain);
            if self.ruined {
                break;
            }
            assert!(
                !self.ended || self.cut.is_empty(),
                "worker bug: connection {id}: bytes after its own close_notify"
            );
        }
        assert!(
            self.ruined || may_begin_a_record(&self.cut),
            "worker bug: connection {id}: what it sends is no TLS: {}",
            self.cut.escape_ascii()
        );
        all
    }

    fn take_record(&mut self, id: ConnectionId, record: &mut [u8], plain: &mut Vec<u8>) {
        let mut output = Vec::new();
        let taken =
            self.session.advance(record, &mut output, |bytes| plain.extend_from_slice(bytes));
        let end = match taken {
            Ok(progress) => {
                assert_eq!(
                    progress.used,
                    record.len(),
                    "worker bug: connection {id}: a message of the handshake is torn"
                );
                self.established |= progress.established;
                self.ended |= progress.peer_closed;
                None
            }
            Err(Error::NoCertificatesPresented) => {
                self.ruined = true;
                Some(HandshakeEnd::CertificateWanted)
            }
            Err(error) => panic!("worker bug: connection {id}: what it sends is no TLS: {error}"),
        };
        if output.is_empty() {
            return;
        }
        let number = self.replies.len() as u32 + self.spoken;
        self.replies.push_back(Reply {
            at: self.wire,
            // In TLS 1.3 for the sake of middleboxes, in 1.2 before the Finished: either way it is
            // the flight that the Finished ends.
            finishes: has_record(&output, CHANGE_CIPHER_SPEC).then(|| self.session.is_resumed()),
            is_first: number == 0,
            complete_at: output.len(),
            bytes: output,
            end: end.or(match self.fate {
                Some((end, place)) if end != HandshakeEnd::CertificateWanted && place == number => {
                    Some(end)
                }
                _ => None,
            }),
        });
    }

    /// The worker's bytes up to `upto` have arrived. Gives how much plaintext that is.
    pub(super) fn arrived(&mut self, upto: u64, before: u64) -> u64 {
        let mut arrived = before;
        while let Some(&(wire, plain)) = self.records.front()
            && wire <= upto
        {
            arrived = plain;
            self.records.pop_front();
        }
        arrived
    }

    /// What is to be said now that the bytes up to `upto` have arrived.
    pub(super) fn next_reply(&mut self, upto: u64) -> Option<Reply> {
        if self.replies.front()?.at > upto {
            return None;
        }
        let reply = self.replies.pop_front()?;
        self.spoken += 1;
        self.ruined |= reply.end.is_some();
        Some(reply)
    }

    /// Puts a response into records.
    pub(super) fn seal(&mut self, response: &mut Response, model: &TlsModel, dice: &mut Dice) {
        let len = response.bytes.len();
        let orderly = response.cut && response.end == End::Fin && dice.chance(0.3);
        // What follows it after this is in other records: it ends where it is cut.
        let upto = if orderly { dice.index(len) } else { len };
        let complete_at = response.complete_at.min(len);
        let mut wire = Vec::with_capacity(encrypted_len(len) + 100);
        let (mut at, mut complete) = (0, None);
        while at < upto {
            if dice.chance(model.key_update) {
                self.session.update_keys(&mut wire);
            }
            let to = upto.min(at + record_len(model, len, dice));
            self.encrypt(&response.bytes[at..to], &mut wire);
            at = to;
            if at >= complete_at {
                complete.get_or_insert(wire.len());
            }
        }
        if response.cut && !orderly {
            // Also within a record, but never with the last one that the response needs.
            wire.truncate(dice.index(complete.unwrap_or(wire.len()).max(1)));
            self.said_end = true;
        } else if response.end == End::Fin && !self.omits_end && dice.chance(0.5) {
            self.say_end(&mut wire);
        }
        let ends_by_fin = !response.delimited && self.omits_end;
        response.complete_at = match complete {
            Some(complete) if response.complete_at <= len && !ends_by_fin => complete,
            _ => usize::MAX,
        };
        response.bytes = wire;
    }

    fn encrypt(&mut self, plain: &[u8], wire: &mut Vec<u8>) {
        let from = wire.len();
        wire.resize(from + encrypted_len(plain.len()), 0);
        let len = self.session.encrypt(plain, &mut wire[from..]);
        wire.truncate(from + len.expect("an answer is given on a session that is established"));
    }

    /// Whether what is put into a record now is the next that is said: the session is ahead of what
    /// has arrived.
    fn may_speak(&self) -> bool {
        self.established && !self.ruined && self.replies.is_empty()
    }

    /// Changes the keys, where it still can.
    pub(super) fn update_keys(&mut self, wire: &mut Vec<u8>) {
        if self.may_speak() && !self.said_end {
            self.session.update_keys(wire);
        }
    }

    /// Appends a close_notify, unless there is none any more.
    pub(super) fn say_end(&mut self, wire: &mut Vec<u8>) {
        if self.may_speak() && !self.said_end && !self.omits_end {
            self.said_end = true;
            self.session.close_notify(wire);
        }
    }
}

/// What a handshake ends in, in place of what it would have gone on with.
pub(super) fn false_end(end: HandshakeEnd, dice: &mut Dice) -> (Vec<u8>, End) {
    let silent = [End::Fin, End::Fin, End::Reset, End::Silent];
    match end {
        HandshakeEnd::Garbage => (dice.pick(&GARBAGE).to_vec(), dice.pick(&silent)),
        HandshakeEnd::Alert => {
            let alert = dice.pick(&ALERTS);
            ([&[21, 3, 3, 0, 2], &alert[..]].concat(), dice.pick(&silent))
        }
        HandshakeEnd::Fin => (Vec::new(), End::Fin),
        HandshakeEnd::Reset => (Vec::new(), End::Reset),
        HandshakeEnd::Silence => (Vec::new(), End::Silent),
        HandshakeEnd::CertificateWanted => (Vec::new(), dice.pick(&silent)),
    }
}

fn record_len(model: &TlsModel, len: usize, dice: &mut Dice) -> usize {
    let (low, high) = model.record_len;
    let least = len / RECORDS_MAX + 1;
    (dice.between(u64::from(low), u64::from(high)) as usize).max(least)
}

/// Whether this may be the beginning of a record (RFC 8446, 5.1 and 5.2).
fn may_begin_a_record(bytes: &[u8]) -> bool {
    let kind = bytes.first().is_none_or(|kind| (20..=23).contains(kind));
    let version = bytes.get(1).is_none_or(|&major| major == 3);
    let len = bytes
        .get(3..HEADER_LEN)
        .is_none_or(|len| u16::from_be_bytes([len[0], len[1]]) <= (1 << 14) + 256);
    kind && version && len
}

/// The length of the record at the start of `bytes`, if it is all there.
fn whole_record(bytes: &[u8]) -> Option<usize> {
    let &[_, _, _, high, low] = bytes.get(..HEADER_LEN)? else { return None };
    let len = HEADER_LEN + usize::from(u16::from_be_bytes([high, low]));
    (len <= bytes.len()).then_some(len)
}

/// Whether one of these records is of this type.
fn has_record(mut bytes: &[u8], kind: u8) -> bool {
    while let Some(len) = whole_record(bytes) {
        if bytes[0] == kind {
            return true;
        }
        bytes = &bytes[len..];
    }
    false
}
