//! One connection's session.

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{
    CommonState, Error, HandshakeKind, NamedGroup, ProtocolVersion, SupportedCipherSuite,
};

/// The most plaintext in a record (RFC 8446, 5.1).
const RECORD_LEN: usize = 16 * 1024;
/// Bytes of a record's header, the last two of which are the length of what follows.
pub const RECORD_HEADER_LEN: usize = 5;
/// The most that a record adds to its plaintext: its header of 5 bytes, and what encryption adds
/// (TLS 1.2 with AES-GCM: an explicit nonce of 8 and a tag of 16, RFC 5288, 3; TLS 1.3: a content
/// type and a tag, 17 in all, RFC 8446, 5.2).
const RECORD_OVERHEAD: usize = RECORD_HEADER_LEN + 8 + 16;
/// Two changes of keys, the answer to the peer's and one of our own: they leave before what is
/// encrypted next (RFC 8446, 4.6.3; a record's header, a message of 5 bytes, 17).
const KEY_UPDATES_LEN: usize = 2 * (RECORD_HEADER_LEN + 5 + 17);

/// What the handshake came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// The version, such as "TLSv1.3".
    pub version: &'static str,
    /// The cipher suite, as IANA names it.
    pub suite: &'static str,
    /// The group of the key exchange; none where a TLS 1.2 session was resumed.
    pub group: Option<&'static str>,
    /// An earlier session was resumed.
    pub resumed: bool,
}

/// What came of a piece of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the input that are of no more use; what is left is the beginning of something
    /// that is cut, and goes before the next piece, as it is now.
    pub used: usize,
    /// The handshake is complete: plaintext may be sent.
    pub established: bool,
    /// The peer has said that it sends no more (close_notify).
    pub peer_closed: bool,
}

/// A kind of connection that takes records.
pub trait Records: std::ops::DerefMut<Target: std::ops::Deref<Target = CommonState>> {
    /// rustls' data of this side.
    type Data;
    /// Takes records up to the next state.
    fn process<'c, 'i>(
        &'c mut self,
        incoming: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self::Data>;
}

impl Records for UnbufferedClientConnection {
    type Data = ClientConnectionData;
    fn process<'c, 'i>(
        &'c mut self,
        incoming: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }
}

impl Records for UnbufferedServerConnection {
    type Data = ServerConnectionData;
    fn process<'c, 'i>(
        &'c mut self,
        incoming: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }
}

/// One connection's session. It holds keys and the handshake's state, and no traffic.
pub struct Session<C> {
    connection: C,
    /// Bytes at the start of what [`Session::advance`] left over: whole records with the beginning
    /// of a handshake message. The connection knows where they are, and wants them there each time.
    held: usize,
}

impl<C: Records> Session<C> {
    /// A session over a connection of rustls' that nothing went through yet.
    pub(crate) fn over(connection: C) -> Self {
        Self { connection, held: 0 }
    }

    /// Takes a piece of what the peer sent (or nothing, to begin), appends what is to be sent to
    /// `output`, and gives each piece of plaintext to `plain`. The input is changed in place.
    ///
    /// # Errors
    /// What is wrong with the handshake or a record. The alert that tells the peer is in `output`.
    pub fn advance(
        &mut self,
        input: &mut [u8],
        output: &mut Vec<u8>,
        mut plain: impl FnMut(&[u8]),
    ) -> Result<Progress, Error> {
        let mut progress = Progress { used: 0, established: false, peer_closed: false };
        let whole = self.held + whole_records(input.get(self.held..).unwrap_or_default());
        // Whether something was encoded that the connection does not know to be sent.
        let mut speaking = false;
        loop {
            let status = self.connection.process(&mut input[progress.used..]);
            let mut used = status.discard;
            let ended = match status.state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    append(output, |room| data.encode(room))?;
                    speaking = true;
                    false
                }
                Ok(ConnectionState::TransmitTlsData(data)) => {
                    data.done();
                    speaking = false;
                    false
                }
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        used += record.discard;
                        plain(record.payload);
                    }
                    // The usual end: one look fewer at a session that has no more to say. Where it
                    // has (a server's tickets, when the first request came right behind the
                    // client's last flight), nothing can be encrypted before that is done with.
                    let quiet = !speaking && !self.connection.wants_write();
                    let ended = quiet && progress.used + used == input.len();
                    progress.established |= ended;
                    ended
                }
                Ok(ConnectionState::PeerClosed) => {
                    progress.peer_closed = true;
                    false
                }
                Ok(ConnectionState::WriteTraffic(_)) => {
                    progress.established = true;
                    true
                }
                // More input is needed, or all is said. (Early data is never accepted.)
                Ok(_) => true,
                Err(error) => {
                    self.take_alert(output);
                    return Err(error);
                }
            };
            progress.used += used;
            if ended {
                self.held = whole.saturating_sub(progress.used);
                return Ok(progress);
            }
        }
    }

    /// Appends the alert that a failure left to be sent.
    fn take_alert(&mut self, output: &mut Vec<u8>) {
        // What waits to be sent comes before any input is looked at, which must not happen again.
        while self.connection.wants_write()
            && let Ok(ConnectionState::EncodeTlsData(mut data)) =
                self.connection.process(&mut []).state
            && append(output, |room| data.encode(room)).is_ok()
        {}
    }

    /// Encrypts plaintext into the beginning of `output`, which has at least
    /// [`encrypted_len`] bytes; gives how many were written.
    ///
    /// # Errors
    /// Where the session is not established, or has used up its keys.
    pub fn encrypt(&mut self, plain: &[u8], output: &mut [u8]) -> Result<usize, Error> {
        match self.connection.process(&mut vec![0; self.held]).state? {
            ConnectionState::WriteTraffic(mut traffic) => {
                traffic.encrypt(plain, output).map_err(|error| match error {
                    EncryptError::EncryptExhausted => Error::EncryptError,
                    EncryptError::InsufficientSize(size) => Error::General(format!(
                        "encryption needs {} bytes of room",
                        size.required_size
                    )),
                })
            }
            _ => Err(Error::HandshakeNotComplete),
        }
    }

    /// Appends close_notify, which tells the peer that nothing more is sent; nothing where the
    /// session cannot send.
    pub fn close_notify(&mut self, output: &mut Vec<u8>) {
        let mut held = vec![0; self.held];
        let state = self.connection.process(&mut held).state;
        if let Ok(ConnectionState::WriteTraffic(mut traffic)) = state {
            let from = output.len();
            output.resize(from + RECORD_OVERHEAD + 2 + KEY_UPDATES_LEN, 0);
            let written = traffic.queue_close_notify(&mut output[from..]).unwrap_or(0);
            output.truncate(from + written);
        }
    }

    /// Appends a request that both sides change their keys (RFC 8446, 4.6.3); nothing where the
    /// session cannot, as with TLS 1.2.
    pub fn update_keys(&mut self, output: &mut Vec<u8>) {
        let mut held = vec![0; self.held];
        if let Ok(ConnectionState::WriteTraffic(traffic)) = self.connection.process(&mut held).state
            && traffic.refresh_traffic_keys().is_err()
        {
            return;
        }
        loop {
            match self.connection.process(&mut held).state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    if append(output, |room| data.encode(room)).is_err() {
                        return;
                    }
                }
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                _ => return,
            }
        }
    }

    /// Whether an earlier session is resumed, as far as the handshake tells yet.
    pub fn is_resumed(&self) -> bool {
        self.connection.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// What the handshake came to, once it is complete.
    pub fn handshake(&self) -> Option<Handshake> {
        let state: &CommonState = &self.connection;
        if state.is_handshaking() {
            return None;
        }
        Some(Handshake {
            version: version_name(state.protocol_version()?),
            suite: suite_name(state.negotiated_cipher_suite()?),
            group: state.negotiated_key_exchange_group().map(|group| group_name(group.name())),
            resumed: state.handshake_kind() == Some(HandshakeKind::Resumed),
        })
    }

    #[cfg(test)]
    pub(super) fn connection(&self) -> &C {
        &self.connection
    }
}

/// The most bytes that so much plaintext becomes, with what has to leave before it.
#[must_use]
pub const fn encrypted_len(plain: usize) -> usize {
    let records = plain.div_ceil(RECORD_LEN);
    let records = if records == 0 { 1 } else { records };
    plain + records * RECORD_OVERHEAD + KEY_UPDATES_LEN
}

/// The length of the record that `input` begins with, its header included; `None` where too little
/// of the header is there to tell (RFC 8446, 5.1).
#[must_use]
pub fn record_len(input: &[u8]) -> Option<usize> {
    let &[high, low] = input.get(3..RECORD_HEADER_LEN)? else { return None };
    Some(RECORD_HEADER_LEN + usize::from(u16::from_be_bytes([high, low])))
}

/// Bytes of the whole records at the start of `input`.
fn whole_records(input: &[u8]) -> usize {
    let mut whole = 0;
    while let Some(len) = record_len(&input[whole..]).filter(|len| whole + len <= input.len()) {
        whole += len;
    }
    whole
}

/// Appends what `encode` writes, with as much room as it asks for.
fn append(
    output: &mut Vec<u8>,
    mut encode: impl FnMut(&mut [u8]) -> Result<usize, EncodeError>,
) -> Result<(), Error> {
    let from = output.len();
    let mut room = 512;
    loop {
        output.resize(from + room, 0);
        match encode(&mut output[from..]) {
            Ok(written) => {
                output.truncate(from + written);
                return Ok(());
            }
            Err(EncodeError::InsufficientSize(size)) if size.required_size > room => {
                room = size.required_size;
            }
            Err(error) => {
                output.truncate(from);
                return Err(Error::General(error.to_string()));
            }
        }
    }
}

fn version_name(version: ProtocolVersion) -> &'static str {
    match version {
        ProtocolVersion::TLSv1_2 => "TLSv1.2",
        ProtocolVersion::TLSv1_3 => "TLSv1.3",
        other => other.as_str().unwrap_or("unknown"),
    }
}

fn suite_name(suite: SupportedCipherSuite) -> &'static str {
    // rustls writes TLS 1.3's suites as TLS13_..., which IANA names TLS_...
    match suite.suite().as_str() {
        Some("TLS13_AES_256_GCM_SHA384") => "TLS_AES_256_GCM_SHA384",
        Some("TLS13_AES_128_GCM_SHA256") => "TLS_AES_128_GCM_SHA256",
        Some("TLS13_CHACHA20_POLY1305_SHA256") => "TLS_CHACHA20_POLY1305_SHA256",
        other => other.unwrap_or("unknown"),
    }
}

/// A group's name, as `--tls-groups` takes it.
fn group_name(group: NamedGroup) -> &'static str {
    match group {
        NamedGroup::X25519 => "x25519",
        NamedGroup::secp256r1 => "secp256r1",
        NamedGroup::secp384r1 => "secp384r1",
        NamedGroup::X25519MLKEM768 => "x25519mlkem768",
        NamedGroup::secp256r1MLKEM768 => "secp256r1mlkem768",
        NamedGroup::MLKEM768 => "mlkem768",
        NamedGroup::MLKEM1024 => "mlkem1024",
        other => other.as_str().unwrap_or("unknown"),
    }
}
