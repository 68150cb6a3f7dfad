//! A client over TLS: rustls, buffered, over a stream that may be cut.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, PKCS_ECDSA_P256_SHA256,
    SignatureAlgorithm,
};
use ringload::plan::serve::ServePlan;
use ringload::serve::Server;
use ringload::tls::Identity;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};

use super::client::Client;

/// Both versions.
pub const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];

/// A stream over TLS.
pub type Stream = StreamOwned<ClientConnection, Cutting>;

/// A TCP stream that sends at most so many bytes at once.
pub struct Cutting {
    pub stream: TcpStream,
    pub most: usize,
}

impl Read for Cutting {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }
}

impl Write for Cutting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(&bytes[..bytes.len().min(self.most)])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// A server of both kinds, with a certificate of its own.
pub fn start(threads: usize) -> Server {
    start_as(threads, None)
}

pub fn start_as(threads: usize, identity: Option<Identity>) -> Server {
    let any = "127.0.0.1:0".parse().ok();
    let plan =
        ServePlan { http: any, https: any, identity, threads, cpus: Vec::new(), stall: None };
    Server::start(&plan).expect("a server")
}

/// A configuration that trusts this certificate.
pub fn trusting(
    certificate: CertificateDer<'static>,
    versions: &[&'static SupportedProtocolVersion],
) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(certificate).expect("a certificate");
    ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(versions)
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth()
}

/// A configuration that trusts the server.
pub fn config(server: &Server, versions: &[&'static SupportedProtocolVersion]) -> ClientConfig {
    trusting(server.certificate().expect("a certificate"), versions)
}

/// A session that has not begun.
pub fn session(config: &Arc<ClientConfig>) -> ClientConnection {
    let name = ServerName::try_from("localhost").expect("a name");
    ClientConnection::new(Arc::clone(config), name).expect("a session")
}

/// TCP to where the server speaks TLS.
pub fn dial(server: &Server) -> Client {
    let address = server.https_address().expect("it serves HTTPS");
    Client::from(TcpStream::connect(address).expect("connects"))
}

/// A connection whose handshake is made with the first bytes.
pub fn connect(server: &Server, config: &Arc<ClientConfig>) -> Client<Stream> {
    connect_cut(server, config, usize::MAX)
}

/// The same, sending at most so many bytes at once.
pub fn connect_cut(server: &Server, config: &Arc<ClientConfig>, most: usize) -> Client<Stream> {
    let stream = Cutting { stream: dial(server).stream, most };
    Client::over(StreamOwned::new(session(config), stream))
}

/// A certificate for `localhost` with this kind of key, an intermediate authority that signed it,
/// and the authority that signed that one, which is not in the chain.
pub fn chain(algorithm: &'static SignatureAlgorithm) -> (Identity, CertificateDer<'static>) {
    let authority = |name: &str| {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        (params, KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key"))
    };
    let (root, root_key) = authority("root");
    let root_certificate = root.self_signed(&root_key).expect("a certificate");
    let root = Issuer::new(root, root_key);
    let (middle, middle_key) = authority("intermediate");
    let middle_certificate = middle.signed_by(&middle_key, &root).expect("a certificate");
    let middle = Issuer::new(middle, middle_key);
    let key = KeyPair::generate_for(algorithm).expect("a key");
    let leaf = CertificateParams::new(vec!["localhost".into()]).expect("parameters");
    let leaf = leaf.signed_by(&key, &middle).expect("a certificate");
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let chain = vec![leaf.der().clone(), middle_certificate.der().clone()];
    (Identity { chain, key: Arc::new(key) }, root_certificate.der().clone())
}
