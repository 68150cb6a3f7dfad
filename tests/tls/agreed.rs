//! What both sides agree on, as the server sees it: names, protocols, versions, groups.

use super::support::nginx::Secured;
use super::{VERSIONS, answered, in_order, nginx};

/// What nginx saw of one connection, and what the result says of it.
fn seen(lines: &str, url: &str, arguments: &[&str]) -> Option<(Secured, serde_json::Value)> {
    let (shown, _files, cacert) = in_order();
    let nginx = nginx(&shown, lines)?;
    let port = nginx.secure_port().to_string();
    let url = url.replace("PORT", &port);
    let to = format!("127.0.0.1:{port}");
    let line = [&*url, "--connect-to", &to, "--cacert", &cacert, "-n", "1", "-c", "1"];
    let run = answered(&[&line[..], arguments].concat());
    let secured = nginx.finish().secured().into_values().next().expect("a connection");
    let tls = run.result["connections"]["tls"].clone();
    assert_eq!(tls["version"], *secured.version);
    Some((secured, tls))
}

#[test]
fn the_newest_version_that_both_speak() {
    for (lines, arguments, version) in [
        ("", &[][..], "TLSv1.3"),
        ("", &["--tls", "1.2"], "TLSv1.2"),
        ("", &["--tls", "1.3"], "TLSv1.3"),
    ] {
        let Some((_, tls)) = seen(lines, "https://127.0.0.1:PORT/700", arguments) else { return };
        assert_eq!(tls["version"], version, "{lines} {arguments:?}");
    }
}

#[test]
fn the_name_is_that_of_the_url_or_of_sni() {
    for (version, _) in VERSIONS {
        for (url, arguments, name) in [
            ("https://site.example:PORT/700", &[][..], "site.example"),
            ("https://127.0.0.1:PORT/700", &[], "-"),
            ("https://127.0.0.1:PORT/700", &["--sni", "site.example"], "site.example"),
            ("https://other.example:PORT/700", &["--sni", "localhost"], "localhost"),
            ("https://site.example:PORT/700", &["--sni", "127.0.0.1"], "-"),
        ] {
            let arguments = [&["--tls", version], arguments].concat();
            let Some((secured, _)) = seen("", url, &arguments) else { return };
            assert_eq!(secured.server_name, name, "{url} {arguments:?}");
        }
    }
}

#[test]
fn the_protocol_is_http_1_1() {
    for (version, _) in VERSIONS {
        let url = "https://127.0.0.1:PORT/700";
        let Some((secured, _)) = seen("", url, &["--tls", version]) else { return };
        assert_eq!(secured.protocol, "http/1.1");
    }
}

#[test]
fn groups_are_offered_in_order() {
    let url = "https://127.0.0.1:PORT/700";
    for (version, _) in VERSIONS {
        for (typed, offered, agreed) in [
            (None, "X25519:prime256v1:secp384r1", "x25519"),
            // In TLS 1.2 the group of the certificate's key must be among them (RFC 8422, 5.1.1).
            (Some("secp384r1,secp256r1"), "secp384r1:prime256v1", "secp384r1"),
            (Some("secp256r1,x25519"), "prime256v1:X25519", "secp256r1"),
        ] {
            let mut arguments = vec!["--tls", version];
            typed.iter().for_each(|typed| arguments.extend(["--tls-groups", typed]));
            // The client's order counts with OpenSSL, as long as nginx has none of its own.
            let Some((secured, tls)) = seen("", url, &arguments) else { return };
            assert_eq!(secured.groups, offered, "{arguments:?}");
            assert_eq!(tls["group"], agreed, "{arguments:?}, which nginx calls {}", secured.group);
        }
    }
}

/// The first one's share is of no use to the server: it asks for another (HelloRetryRequest).
#[test]
fn a_group_that_only_the_server_wants_costs_a_turn_and_no_failure() {
    let url = "https://127.0.0.1:PORT/700";
    for groups in ["x25519,secp384r1", "x25519mlkem768,secp384r1"] {
        let arguments = ["--tls", "1.3", "--tls-groups", groups];
        let Some((_, tls)) = seen("ssl_ecdh_curve secp384r1;", url, &arguments) else { return };
        assert_eq!(tls["group"], "secp384r1", "{groups}");
    }
}
