//! What servers show.

use rcgen::{
    CustomExtension, KeyPair, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256, RsaKeySize,
    date_time_ymd,
};
use rustls::pki_types::pem::PemObject;

use super::*;

#[test]
fn what_is_in_order_is_accepted() {
    let authority = Authority::named("The Authority");
    let server = authority.signs(localhost()).server();
    accepted(&trusting(&[&authority.certificate]), &server);
    accepted(&insecure(), &server);
}

#[test]
fn keys_of_every_kind_are_accepted() {
    let authority = Authority::named("The Authority");
    let keys = [
        KeyPair::generate().unwrap(),
        KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap(),
        KeyPair::generate_for(&PKCS_ED25519).unwrap(),
        KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).unwrap(),
    ];
    for key in keys {
        let server = authority.signs_key(localhost(), key).server();
        accepted(&trusting(&[&authority.certificate]), &server);
        refused(&trusting(&[]), &server, "unknown-issuer", &[]);
    }
}

#[test]
fn expired() {
    let authority = Authority::named("The Authority");
    let mut params = localhost();
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2021, 2, 3);
    let trusting = trusting(&[&authority.certificate]);
    let server = authority.signs(params).server();
    refused(&trusting, &server, "expired", &["expired on 2021-02-03T00:00:00Z", "days ago"]);
    accepted(&insecure(), &server);
}

#[test]
fn not_yet_valid() {
    let authority = Authority::named("The Authority");
    let mut params = localhost();
    params.not_before = date_time_ymd(2999, 12, 1);
    params.not_after = date_time_ymd(3000, 1, 1);
    let trusting = trusting(&[&authority.certificate]);
    let server = authority.signs(params).server();
    refused(&trusting, &server, "not-yet-valid", &["2999-12-01T00:00:00Z", "days from now"]);
    accepted(&insecure(), &server);
}

#[test]
fn wrong_host() {
    let authority = Authority::named("The Authority");
    let trusting = trusting(&[&authority.certificate]);
    let names = ["a.example", "*.b.example", "10.0.0.1"];
    let server = authority.signs(params(&names)).server();
    let told = "for a.example, *.b.example, 10.0.0.1, not for localhost";
    refused(&trusting, &server, "wrong-host", &[told, "--sni"]);
    accepted(&insecure(), &server);

    let many: Vec<String> = (0..9).map(|n| format!("{n}.example")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let server = authority.signs(params(&many)).server();
    refused(&trusting, &server, "wrong-host", &["4.example and 4 more"]);
    let server = authority.signs(params(&[])).server();
    refused(&trusting, &server, "wrong-host", &["holds no name"]);
}

#[test]
fn names_are_hosts_wildcards_and_addresses() {
    let authority = Authority::named("The Authority");
    let shown = authority.signs(params(&["A.example", "*.b.example", "127.0.0.1", "::1"]));
    let given = self_signed(&params(&["A.example", "*.b.example", "127.0.0.1", "::1"]));
    for (shown, trusted) in [(&shown, &authority.certificate), (&given, given.leaf())] {
        let server = shown.server();
        let named = |name: &str| Settings { server_name: name.into(), ..trusting(&[trusted]) };
        for name in ["a.example", "a.EXAMPLE", "x.b.example", "127.0.0.1", "::1"] {
            accepted(&named(name), &server);
        }
        for name in ["b.example", "x.y.b.example", "xb.example", "127.0.0.2", "::2"] {
            refused(&named(name), &server, "wrong-host", &[name]);
        }
    }
}

#[test]
fn unknown_issuer() {
    let (authority, other) = (Authority::named("The Authority"), Authority::named("Another"));
    let shown = authority.signs(localhost());
    let words = &["signed by CN=The Authority", "--cacert"];
    for trusting in [trusting(&[&other.certificate]), trusting(&[])] {
        refused(&trusting, &shown.server(), "unknown-issuer", words);
    }
    accepted(&insecure(), &shown.server());
    // The whole chain does not help as long as nobody trusts its end.
    let server = shown.followed_by(&authority.certificate).server();
    refused(&trusting(&[&other.certificate]), &server, "unknown-issuer", words);
}

#[test]
fn issuer_with_the_name_of_a_trusted_one() {
    let (authority, other) = (Authority::named("One Name"), Authority::named("One Name"));
    let server = authority.signs(localhost()).server();
    let words = &["CN=One Name", "another key"];
    refused(&trusting(&[&other.certificate]), &server, "unknown-issuer", words);
    accepted(&trusting(&[&other.certificate, &authority.certificate]), &server);
}

#[test]
fn incomplete_chain() {
    let root = Authority::named("The Root");
    let intermediate = root.intermediate("The Intermediate");
    let shown = intermediate.signs(localhost());
    let trusting_root = trusting(&[&root.certificate]);
    let words = &["CN=The Intermediate", "an intermediate certificate may be missing"];
    refused(&trusting_root, &shown.server(), "unknown-issuer", words);
    accepted(&insecure(), &shown.server());
    accepted(&trusting(&[&intermediate.certificate]), &shown.server());
    accepted(&trusting_root, &shown.followed_by(&intermediate.certificate).server());
}

#[test]
fn expired_intermediate_is_told_from_the_servers_own() {
    let root = Authority::named("The Root");
    let key = KeyPair::generate().unwrap();
    let mut params = authority_params("The Intermediate");
    params.not_after = date_time_ymd(2021, 2, 3);
    let certificate = params.signed_by(&key, &root.issuer).unwrap().der().clone();
    let intermediate = Authority { issuer: Issuer::new(params, key), certificate };
    let server = intermediate.signs(localhost()).followed_by(&intermediate.certificate).server();
    let words = &["that the server's is signed with expired on 2021-02-03"];
    refused(&trusting(&[&root.certificate]), &server, "expired", words);
}

#[test]
fn self_signed_is_accepted_where_it_was_given() {
    let (shown, other) = (self_signed(&localhost()), self_signed(&localhost()));
    let server = shown.server();
    refused(&trusting(&[]), &server, "self-signed", &["CN=the server", "--cacert"]);
    let trusting_other = trusting(&[other.leaf()]);
    refused(&trusting_other, &server, "self-signed", &["another certificate of the same name"]);
    accepted(&trusting(&[shown.leaf()]), &server);
    accepted(&trusting(&[other.leaf(), shown.leaf()]), &server);
    accepted(&insecure(), &server);
}

/// As `openssl req -x509` makes them.
#[test]
fn authority_as_a_server_is_accepted_where_it_was_given() {
    let mut params = localhost();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let shown = self_signed(&params);
    refused(&trusting(&[]), &shown.server(), "self-signed", &["CN=the server"]);
    accepted(&trusting(&[shown.leaf()]), &shown.server());
    accepted(&insecure(), &shown.server());

    let root = Authority::named("The Root");
    let shown = root.signs(params);
    let words = &["CA:TRUE", "CN=the server"];
    refused(&trusting(&[&root.certificate]), &shown.server(), "ca-as-end-entity", words);
    accepted(&trusting(&[shown.leaf()]), &shown.server());
    accepted(&insecure(), &shown.server());
}

#[test]
fn given_certificate_must_still_be_valid_and_for_the_host() {
    for is_ca in [IsCa::NoCa, IsCa::ExplicitNoCa, IsCa::Ca(BasicConstraints::Unconstrained)] {
        let refused_as = |change: &dyn Fn(&mut CertificateParams), detail: &str, part: &str| {
            let mut params = localhost();
            params.is_ca = is_ca;
            change(&mut params);
            let shown = self_signed(&params);
            refused(&trusting(&[shown.leaf()]), &shown.server(), detail, &[part]);
            accepted(&insecure(), &shown.server());
        };
        refused_as(&|p| p.not_after = date_time_ymd(2021, 2, 3), "expired", "2021-02-03");
        refused_as(&|p| p.not_before = date_time_ymd(2999, 1, 2), "not-yet-valid", "2999-01-02");
        let elsewhere = |p: &mut CertificateParams| {
            p.subject_alt_names = params(&["elsewhere.example"]).subject_alt_names;
        };
        refused_as(&elsewhere, "wrong-host", "for elsewhere.example, not for localhost");
    }
}

/// Whoever has copied a certificate lacks its key.
#[test]
fn given_certificate_must_be_shown_by_who_has_its_key() {
    let given = self_signed(&localhost());
    let thief = Shown { key: Arc::clone(&self_signed(&localhost()).key), ..given.clone() };
    refused(&trusting(&[given.leaf()]), &thief.server(), "bad-signature", &["handshake"]);
    accepted(&insecure(), &thief.server());
}

#[test]
fn common_name_counts_in_a_given_certificate_without_other_names() {
    for (common_name, name) in [("localhost", "localhost"), ("127.0.0.1", "127.0.0.1")] {
        let mut params = params(&[]);
        params.distinguished_name.push(DnType::CommonName, common_name);
        let shown = self_signed(&params);
        let settings = Settings { server_name: name.into(), ..trusting(&[shown.leaf()]) };
        accepted(&settings, &shown.server());
        let other = Settings { server_name: "h.example".into(), ..settings };
        refused(&other, &shown.server(), "wrong-host", &[common_name, "not for h.example"]);
    }
}

/// A critical extension that nobody knows makes webpki read no further.
#[test]
fn given_certificate_that_webpki_cannot_read_is_accepted() {
    let mut params = localhost();
    let mut unknown = CustomExtension::from_oid_content(&[1, 2, 3, 4], vec![5, 0]);
    unknown.set_criticality(true);
    params.custom_extensions.push(unknown);
    let keys = [
        KeyPair::generate().unwrap(),
        KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).unwrap(),
    ];
    for key in keys {
        let shown = Shown::new(&params.self_signed(&key).unwrap(), &key);
        refused(&trusting(&[]), &shown.server(), "unsupported-extension", &["CN=the server"]);
        accepted(&trusting(&[shown.leaf()]), &shown.server());
        let thief = Shown { key: self_signed(&localhost()).key, ..shown.clone() };
        if key.is_compatible(&rcgen::PKCS_ECDSA_P256_SHA256) {
            let settings = trusting(&[shown.leaf()]);
            refused(&settings, &thief.server(), "bad-signature", &["handshake"]);
        }
    }
}

/// As `openssl x509 -req` makes them without an extension file.
#[test]
fn given_certificate_of_version_1_is_accepted() {
    let chain = vec![CertificateDer::from_pem_slice(include_bytes!("version-1.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("version-1.pem")).unwrap();
    let shown = Shown { chain, key: Arc::new(key) };
    accepted(&trusting(&[shown.leaf()]), &shown.server());
    refused(&trusting(&[]), &shown.server(), "unsupported-version", &["CN=localhost"]);
}

#[test]
fn certificate_for_clients_is_no_servers() {
    let authority = Authority::named("The Authority");
    let mut params = localhost();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let server = authority.signs(params).server();
    refused(&trusting(&[&authority.certificate]), &server, "invalid-purpose", &["server"]);
}

#[test]
fn what_a_certificate_says_cannot_steer_a_terminal() {
    let mut params = localhost();
    params.distinguished_name.push(DnType::CommonName, "\u{1b}[31mred");
    let failure = handshake(&trusting(&[]), &self_signed(&params).server()).unwrap_err();
    assert_eq!(failure.detail, "self-signed");
    assert!(failure.example.contains(r"\u{1b}[31mred"), "{}", failure.example);
    assert!(!failure.example.contains('\u{1b}'));
}

#[test]
fn system_has_roots_or_the_built_in_ones_are_taken() {
    use crate::tls::RootsOrigin;

    let roots = Roots::system().unwrap();
    assert!(matches!(roots.origin(), RootsOrigin::System | RootsOrigin::BuiltIn));
    assert!(!roots.store().is_empty());
    // Nobody there has signed what was made here.
    let server = Authority::named("The Authority").signs(localhost()).server();
    refused(&Settings::new("localhost"), &server, "unknown-issuer", &["CN=The Authority"]);
    assert_eq!(Roots::for_settings(&insecure()).unwrap().origin(), RootsOrigin::None);
    assert_eq!(Roots::for_settings(&trusting(&[])).unwrap().origin(), RootsOrigin::Given);
}
