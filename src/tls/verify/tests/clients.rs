//! What clients show, and what servers say of it.

use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;

use super::*;
use crate::stats::Phase;
use crate::tls::Group;

/// A server that wants clients whom the authority vouches for, and the client's settings so far.
fn asking(authority: &Authority) -> (TestServer, Settings) {
    let mut roots = RootCertStore::empty();
    roots.add(authority.certificate.clone()).unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let clients =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
    let server = authority.signs(localhost()).server_asking(clients);
    (server, trusting(&[&authority.certificate]))
}

fn client_params() -> CertificateParams {
    let mut params = params(&[]);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params
}

#[test]
fn clients_certificate_is_missing() {
    let (server, settings) = asking(&Authority::named("The Authority"));
    let words = &["shown none", "--cert FILE --key FILE"];
    refused(&settings, &server, "client-certificate-required", words);
    let insecure = Settings { insecure: true, ..settings };
    refused(&insecure, &server, "client-certificate-required", words);
}

#[test]
fn clients_certificate_is_shown() {
    let authority = Authority::named("The Authority");
    let (server, settings) = asking(&authority);
    let identity = Some(authority.signs(client_params()).identity());
    accepted(&Settings { identity, ..settings.clone() }, &server);

    let intermediate = authority.intermediate("The Intermediate");
    let shown = intermediate.signs(client_params()).followed_by(&intermediate.certificate);
    accepted(&Settings { identity: Some(shown.identity()), ..settings }, &server);
}

#[test]
fn clients_certificate_is_refused_by_the_alerts_name() {
    let (server, settings) = asking(&Authority::named("The Authority"));
    let identity = Some(Authority::named("Another").signs(client_params()).identity());
    let settings = Settings { identity, ..settings };
    refused(&settings, &server, "unknown_ca", &["refuses the client's certificate", "--cert"]);
}

/// In TLS 1.3 the client is done, and may have sent its request, before the server looks.
#[test]
fn clients_certificate_belongs_to_the_handshake_whenever_it_is_missed() {
    let (server, settings) = asking(&Authority::named("The Authority"));
    let failure = handshake(&settings, &server).unwrap_err();
    let fault = failure.clone().fault(Phase::Head, 5);
    assert_eq!((fault.phase, fault.kind, fault.at_ns), (Phase::Tls, FaultKind::Certificate, 5));
    assert_eq!(fault.detail, "client-certificate-required");
    assert_eq!(fault.bytes, failure.example.into_bytes());

    let later = failure::of(&rustls::Error::DecryptError, false);
    assert_eq!(later.clone().fault(Phase::Tls, 5).kind, FaultKind::Handshake);
    let fault = later.fault(Phase::Body, 5);
    assert_eq!(
        (fault.phase, fault.kind, fault.detail),
        (Phase::Body, FaultKind::Other, "decrypt-error")
    );
}

#[test]
fn key_of_another_certificate_is_noticed_before_anything_is_sent() {
    let (one, other) = (self_signed(&localhost()), self_signed(&localhost()));
    let identity = Identity { chain: one.chain.clone(), key: Arc::clone(&other.key) };
    let settings = Settings { identity: Some(identity), ..insecure() };
    let error = Client::new(&settings, &Roots::none()).unwrap_err().to_string();
    assert!(error.contains("--cert") && error.contains("--key"), "{error}");
}

#[test]
fn versions_without_one_in_common() {
    let shown = self_signed(&localhost());
    let speaking = |version| {
        let mut server = shown.server();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(shown.chain.clone(), shown.key.clone_key())
            .unwrap();
        server.config = Arc::new(config);
        server
    };
    for (offered, spoken) in
        [(Versions::Tls12, &rustls::version::TLS13), (Versions::Tls13, &rustls::version::TLS12)]
    {
        let settings = Settings { versions: offered, ..insecure() };
        let failure = handshake(&settings, &speaking(spoken)).unwrap_err();
        let name = (failure.kind, failure.detail);
        assert_eq!(name, (FaultKind::Handshake, "protocol-version"), "{failure:?}");
        assert_eq!(handshake(&insecure(), &speaking(spoken)), Ok(()));
    }
}

#[test]
fn protocols_without_one_in_common() {
    let mut server = self_signed(&localhost()).server();
    let config = Arc::get_mut(&mut server.config).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    for versions in VERSIONS {
        let failure = handshake(&Settings { versions, ..insecure() }, &server).unwrap_err();
        let name = (failure.kind, failure.detail);
        assert_eq!(name, (FaultKind::Handshake, "no-application-protocol"));
        assert!(failure.example.contains("HTTP/1.1"), "{}", failure.example);
    }
}

#[test]
fn groups_without_one_in_common_are_an_alert() {
    let mut server = self_signed(&localhost()).server();
    let provider = rustls::crypto::CryptoProvider {
        kx_groups: vec![aws_lc_rs::kx_group::SECP384R1],
        ..aws_lc_rs::default_provider()
    };
    let shown = self_signed(&localhost());
    let config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(shown.chain.clone(), shown.key.clone_key())
        .unwrap();
    server.config = Arc::new(config);
    let settings = Settings { groups: vec![Group::X25519], ..insecure() };
    let failure = handshake(&settings, &server).unwrap_err();
    assert_eq!((failure.kind, failure.detail), (FaultKind::Handshake, "handshake_failure"));
    // Asked for late, it is sent late.
    let settings = Settings { groups: vec![Group::X25519, Group::Secp384r1], ..insecure() };
    assert_eq!(handshake(&settings, &server), Ok(()));
}
