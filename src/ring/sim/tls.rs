//! What the simulated server is like over TLS.

use std::sync::{Arc, OnceLock};

use rcgen::{CertificateParams, DistinguishedName, KeyPair, PKCS_ED25519, date_time_ymd};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, UnbufferedServerConnection, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};

use super::dice::{Delay, Dice};
use crate::clock::MILLISECOND;
use crate::tls::ServerSession;

/// How a server speaks TLS.
#[derive(Clone, Debug)]
pub struct TlsModel {
    /// From the ClientHello to the server's first flight.
    pub handshake_ns: Delay,
    /// Sessions may be resumed.
    pub tickets: bool,
    /// The probability that a handshake fails.
    pub fails: f64,
    /// How, and how often.
    pub failures: Vec<(HandshakeEnd, u32)>,
    /// The probability that it does so in the server's second flight.
    pub fails_late: f64,
    /// How much of the flight is said before; `None`: drawn.
    pub fails_at: Option<u32>,
    /// The probability that a connection ends without close_notify.
    pub omits_close_notify: f64,
    /// The probability that the keys are changed between two records, or after a response.
    pub key_update: f64,
    /// Bytes of plaintext in a record, from and to. A long body takes larger ones, so that its
    /// records are some hundreds at most.
    pub record_len: (u32, u32),
}

/// How a handshake fails: the server says a part of a flight, up to any byte, and then this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HandshakeEnd {
    /// Something that is not TLS, or not now.
    Garbage,
    /// An alert.
    Alert,
    /// FIN.
    Fin,
    /// RST.
    Reset,
    /// Nothing.
    Silence,
    /// It wants a certificate that the client does not have. The flights are whole.
    CertificateWanted,
}

impl HandshakeEnd {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Garbage,
        Self::Alert,
        Self::Fin,
        Self::Reset,
        Self::Silence,
        Self::CertificateWanted,
    ];
}

impl TlsModel {
    /// Flights at once, a response in one record, everything in order.
    #[must_use]
    pub fn exact() -> Self {
        Self {
            handshake_ns: Delay::Constant(0),
            tickets: true,
            fails: 0.0,
            failures: HandshakeEnd::ALL.map(|end| (end, 1)).to_vec(),
            fails_late: 0.0,
            fails_at: None,
            omits_close_notify: 0.0,
            key_update: 0.0,
            record_len: (16_384, 16_384),
        }
    }

    /// Draws every trait.
    pub(super) fn drawn(dice: &mut Dice) -> Self {
        Self {
            handshake_ns: dice.pick(&[
                Delay::Constant(0),
                Delay::Constant(MILLISECOND),
                Delay::Wide(20 * MILLISECOND),
            ]),
            tickets: dice.chance(0.8),
            fails: dice.pick(&[0.0, 0.0, 0.1, 0.5]),
            fails_late: 0.3,
            omits_close_notify: dice.pick(&[0.0, 0.5, 1.0]),
            key_update: dice.pick(&[0.0, 0.0, 0.1, 0.5]),
            record_len: dice.pick(&[(16_384, 16_384), (1, 20), (1, 16_384), (1, 1)]),
            ..Self::exact()
        }
    }
}

/// The server's side of a new connection.
pub(super) fn session(tickets: bool, wants_certificate: bool) -> ServerSession {
    static SERVERS: OnceLock<Servers> = OnceLock::new();
    let servers = SERVERS.get_or_init(Servers::new);
    let config = match (wants_certificate, tickets) {
        (true, _) => &servers.demanding,
        (false, true) => &servers.resuming,
        (false, false) => &servers.plain,
    };
    let connection = UnbufferedServerConnection::new(Arc::clone(config));
    ServerSession::over(connection.expect("the configuration can serve"))
}

/// Made once a process: the key differs from process to process, the lengths of all that is sent do
/// not.
struct Servers {
    plain: Arc<ServerConfig>,
    resuming: Arc<ServerConfig>,
    demanding: Arc<ServerConfig>,
}

impl Servers {
    fn new() -> Self {
        let key = KeyPair::generate_for(&PKCS_ED25519).expect("the system gives random bytes");
        let mut params = CertificateParams::new(["sim".to_owned()]).expect("a name");
        // All of one length: an ECDSA signature is not, nor is a serial number that is drawn.
        params.serial_number = Some(vec![1; 8].into());
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2040, 1, 1);
        params.distinguished_name = DistinguishedName::new();
        let certificate = params.self_signed(&key).expect("a certificate can be signed");
        let certificate = certificate.der().clone();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).expect("the certificate can be read");
        let provider = Arc::new(aws_lc_rs::default_provider());
        let demands = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .expect("there is a root");
        let key = key.serialize_der();
        let plain = config(&certificate, &key, WebPkiClientVerifier::no_client_auth());
        let mut resuming = plain.clone();
        resuming.ticketer = aws_lc_rs::Ticketer::new().expect("the system gives random bytes");
        resuming.send_tls13_tickets = 2;
        Self {
            plain: Arc::new(plain),
            resuming: Arc::new(resuming),
            demanding: Arc::new(config(&certificate, &key, demands)),
        }
    }
}

fn config(
    certificate: &CertificateDer<'static>,
    key: &[u8],
    verifier: Arc<dyn ClientCertVerifier>,
) -> ServerConfig {
    let key = PrivateKeyDer::try_from(key.to_vec()).expect("a key of our own making");
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider's own versions")
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certificate.clone()], key)
        .expect("the key is the certificate's");
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config
}
