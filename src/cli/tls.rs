//! How TLS is spoken: what is offered, shown and verified.

use std::path::{Path, PathBuf};

use clap::Args;
use rustls::pki_types::{CertificateDer, ServerName};

use super::input::{self, MAX_PEM};
use super::mistake::{Mistake, wrong};
use super::pages::Place;
use super::pem;
use crate::plan::Tls;
use crate::plan::pages::ParsedUrl;
use crate::tls::{Group, Identity, Settings, Versions};
use crate::units;

/// The name in the embedded server's certificate.
const EMBEDDED_NAME: &str = "localhost";

/// How TLS is spoken; on an `http` URL nothing of it counts, and no file is read.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "TLS (of no effect on an http URL)")]
pub(super) struct TlsArgs {
    /// Take any certificate for the server's: nothing about it is verified
    #[arg(short = 'k', long)]
    pub(super) insecure: bool,
    /// Certificates to trust instead of the system's, PEM or DER: authorities, or the server's own
    #[arg(long, value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// Certificate to show where the server asks for one, and those it is signed with (PEM)
    #[arg(long, value_name = "FILE")]
    cert: Option<PathBuf>,
    /// Its key (PEM or DER) [default: the key in --cert's file]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// The server's name, which is sent and which its certificate must hold [default: the URL's
    /// host]
    #[arg(long, value_name = "NAME", value_parser = server_name)]
    sni: Option<String>,
    /// The only version that is spoken, 1.2 or 1.3 [default: both]
    #[arg(long, value_name = "VERSION", value_parser = version)]
    tls: Option<Versions>,
    /// Whether connections resume an earlier session: off, on, or a share of them such as 20%
    /// [default: off]
    #[arg(long, value_name = "SHARE", value_parser = resumption)]
    tls_resume: Option<f64>,
    /// Groups of the key exchange, the best first: x25519, secp256r1, secp384r1, x25519mlkem768
    /// [default: the first three]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = group)]
    tls_groups: Vec<Group>,
}

/// What the flags mean for a server; `None` where it is asked over plain HTTP.
pub(super) fn tls(args: &TlsArgs, place: &Place) -> Result<Option<Tls>, Mistake> {
    if !place.is_https() {
        return Ok(None);
    }
    if place.embedded && args.cacert.is_some() {
        wrong!(
            "embedded+tls makes its certificate anew and it is trusted already, so --cacert does \
             not go with it; leave --cacert out"
        );
    }
    let host = if place.embedded { EMBEDDED_NAME } else { &place.origin().host };
    let settings = settings(args, args.sni.as_deref().unwrap_or(host))?;
    Ok(Some(Tls { settings, resume: args.tls_resume.unwrap_or(0.0) }))
}

/// What the flags mean for a probe of an https URL beside a load of these places. `--sni` is the
/// name of their host, and of no other.
pub(super) fn probe(
    args: &TlsArgs,
    url: &ParsedUrl,
    places: &[Place],
) -> Result<Settings, Mistake> {
    let of_target = places.iter().any(|place| place.origin().host == url.host);
    settings(args, args.sni.as_deref().filter(|_| of_target).unwrap_or(&url.host))
}

fn settings(args: &TlsArgs, server_name: &str) -> Result<Settings, Mistake> {
    if args.insecure && args.cacert.is_some() {
        wrong!("-k verifies nothing, so --cacert would be of no use; leave one of them out");
    }
    let versions = args.tls.unwrap_or_default();
    if let Err(why) = self::server_name(server_name) {
        wrong!("the URL's host \"{}\": {why}; give one with --sni", server_name.escape_debug());
    }
    Ok(Settings {
        insecure: args.insecure,
        trusted: args.cacert.as_deref().map(trusted).transpose()?,
        identity: identity(args)?,
        versions,
        groups: groups(&args.tls_groups, versions)?,
        ..Settings::new(server_name)
    })
}

/// The certificates of `--cacert`.
fn trusted(path: &Path) -> Result<Vec<CertificateDer<'static>>, Mistake> {
    pem::certificates("--cacert", path, &input::read("--cacert", path, MAX_PEM)?)
}

/// What there is to show.
fn identity(args: &TlsArgs) -> Result<Option<Identity>, Mistake> {
    match (&args.cert, &args.key) {
        (Some(cert), key) => pem::identity(cert, key.as_deref()).map(Some),
        (None, Some(_)) => {
            wrong!("--key: the certificate that it belongs to is missing; give it with --cert")
        }
        (None, None) => Ok(None),
    }
}

/// Each once, at least one that the versions know.
fn groups(typed: &[Group], versions: Versions) -> Result<Vec<Group>, Mistake> {
    if typed.is_empty() {
        return Ok(Group::DEFAULT.to_vec());
    }
    let mut groups: Vec<Group> = Vec::new();
    for group in typed {
        if !groups.contains(group) {
            groups.push(*group);
        }
    }
    if versions == Versions::Tls12 && !groups.iter().any(|group| group.is_in_tls12()) {
        wrong!(
            "--tls-groups: TLS 1.2 knows no {}; add x25519, or leave --tls 1.2 out",
            groups[0].name()
        );
    }
    Ok(groups)
}

/// A host name or an address.
fn server_name(text: &str) -> Result<String, String> {
    match ServerName::try_from(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err("it is no name of a TLS server; write a host name or an address, without a \
                       port: example.org"
            .into()),
    }
}

fn version(text: &str) -> Result<Versions, String> {
    match text {
        "1.2" => Ok(Versions::Tls12),
        "1.3" => Ok(Versions::Tls13),
        _ => Err("write 1.2 or 1.3, or leave it out for both".into()),
    }
}

/// `off`, `on` or a share.
fn resumption(text: &str) -> Result<f64, String> {
    match text {
        "off" => Ok(0.0),
        "on" => Ok(1.0),
        // Below 1 it is clear what a number without the sign means.
        _ if text.starts_with("0.") || text.starts_with('.') => text
            .parse::<f64>()
            .map_err(|_| "write off, on, or a share of the connections such as 20%".into()),
        _ => units::parse_share(text)
            .map_err(|error| format!("{error}; write off, on, or a share such as 20%")),
    }
}

/// A group by its name; P-256 and P-384 are known by several.
fn group(text: &str) -> Result<Group, String> {
    let name = text.to_ascii_lowercase();
    let name = match &*name {
        "p-256" | "p256" | "prime256v1" => "secp256r1",
        "p-384" | "p384" => "secp384r1",
        name => name,
    };
    Group::ALL.into_iter().find(|group| group.name() == name).ok_or_else(|| {
        let known: Vec<&str> = Group::ALL.iter().map(|group| group.name()).collect();
        format!("known are {}", known.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use clap::Parser;
    use proptest::prelude::*;
    use tempfile::NamedTempFile;

    use super::*;

    /// Clap's own view of the flags of this file.
    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        tls: TlsArgs,
    }

    fn read(url: &str, line: &str) -> Result<Option<Tls>, String> {
        let flags = Flags::try_parse_from(format!("run {line}").split_whitespace());
        let flags = flags.map_err(|error| error.to_string())?;
        let place = Place::read(&[url.to_owned()]).map_err(|mistake| mistake.to_string())?;
        tls(&flags.tls, &place).map_err(|mistake| mistake.to_string())
    }

    fn settings(url: &str, line: &str) -> Settings {
        read(url, line).unwrap().expect("it is https").settings
    }

    fn file(text: &[u8]) -> NamedTempFile {
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(text).unwrap();
        file
    }

    fn shown(path: &Path) -> String {
        path.display().to_string()
    }

    /// A certificate and its key.
    fn made() -> rcgen::CertifiedKey<rcgen::KeyPair> {
        rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap()
    }

    #[test]
    fn without_flags_the_url_decides() {
        let tls = read("https://Example.org:8443/x", "").unwrap().unwrap();
        assert_eq!(tls, Tls { settings: Settings::new("example.org"), resume: 0.0 });
        assert_eq!(settings("https://[::1]/", "").server_name, "::1");
        assert_eq!(settings("https://127.0.0.1/", "").server_name, "127.0.0.1");
        assert_eq!(settings("embedded+tls/bytes/7", "").server_name, "localhost");
    }

    #[test]
    fn on_plain_http_nothing_counts_and_no_file_is_read() {
        let line = "-k --cacert /no/such --key /no/such --sni h --tls 1.2 --tls-resume on \
                    --tls-groups x25519mlkem768";
        for url in ["http://h/", "h:443", "embedded"] {
            assert_eq!(read(url, line), Ok(None), "{url}");
        }
        assert!(read("http://h/", "--tls 1.1").unwrap_err().contains("1.2 or 1.3"));
    }

    #[test]
    fn flags_are_taken_over() {
        let line = "-k --sni other.example --tls 1.3 --tls-groups X25519MLKEM768,P-256,p256";
        let read = settings("https://h/", line);
        assert!(read.insecure);
        assert_eq!((&*read.server_name, read.versions), ("other.example", Versions::Tls13));
        assert_eq!(read.groups, [Group::X25519MlKem768, Group::Secp256r1]);
    }

    #[test]
    fn shares_of_resumption() {
        for (typed, share) in
            [("off", 0.0), ("on", 1.0), ("20%", 0.2), ("0.2", 0.2), ("100%", 1.0), ("0%", 0.0)]
        {
            let line = format!("--tls-resume {typed}");
            assert_eq!(read("https://h/", &line).unwrap().unwrap().resume, share, "{typed}");
        }
    }

    #[test]
    fn certificates_to_trust_are_pem_or_der() {
        let (one, other) = (made().cert, made().cert);
        let both = file(format!("# both\n{}\n{}", one.pem(), other.pem()).as_bytes());
        let trusted = |file: &NamedTempFile| {
            settings("https://h/", &format!("--cacert {}", shown(file.path()))).trusted.unwrap()
        };
        assert_eq!(trusted(&both), [one.der().clone(), other.der().clone()]);
        assert_eq!(trusted(&file(one.der())), [one.der().clone()]);
    }

    #[test]
    fn certificate_to_show_comes_with_its_key() {
        let made = made();
        let (cert, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let (cert_file, key_file) = (file(cert.as_bytes()), file(key.as_bytes()));
        let apart = format!("--cert {} --key {}", shown(cert_file.path()), shown(key_file.path()));
        let one_file = file(format!("{cert}{key}").as_bytes());
        let together = format!("--cert {}", shown(one_file.path()));
        let der = file(&made.signing_key.serialize_der());
        let in_der = format!("--cert {} --key {}", shown(cert_file.path()), shown(der.path()));
        for line in [apart, together, in_der] {
            let identity = settings("https://h/", &line).identity.unwrap();
            assert_eq!(identity.chain, [made.cert.der().clone()]);
            assert_eq!(identity.key.secret_der(), made.signing_key.serialize_der());
        }
    }

    #[test]
    fn mistakes_come_with_a_remedy() {
        let cases = [
            ("https://h/", "--key /x", &["--key", "--cert"][..]),
            ("https://h/", "--cacert /no/such.pem", &["--cacert", "/no/such.pem"]),
            ("https://h/", "--cert /no/such.pem", &["--cert", "/no/such.pem"]),
            ("https://h/", "--cacert /dev/null", &["--cacert", "/dev/null", "no certificate"]),
            ("https://h/", "-k --cacert /dev/null", &["-k", "--cacert", "leave one"]),
            ("embedded+tls", "--cacert /dev/null", &["embedded+tls", "leave --cacert out"]),
            ("https://h/", "--sni h:443", &["--sni", "h:443", "without a port"]),
            ("https://-h-/", "", &["-h-", "give one with --sni"]),
            ("https://h/", "--tls 1.1", &["--tls", "1.1", "1.2 or 1.3"]),
            ("https://h/", "--tls-resume 20", &["--tls-resume", "20", "20%"]),
            ("https://h/", "--tls-resume 120%", &["--tls-resume", "120%"]),
            ("https://h/", "--tls-resume 0.x", &["--tls-resume", "0.x", "20%"]),
            ("https://h/", "--tls-groups x448", &["--tls-groups", "x448", "x25519mlkem768"]),
            (
                "https://h/",
                "--tls 1.2 --tls-groups x25519mlkem768",
                &["--tls-groups", "add x25519", "--tls 1.2"],
            ),
        ];
        for (url, line, parts) in cases {
            let told = read(url, line).unwrap_err();
            for part in parts {
                assert!(told.contains(part), "{url} {line}: no \"{part}\" in: {told}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_value_is_read_or_refused(text in "\\PC{0,20}", near in "[0-9.%onf]{0,6}") {
            for text in [&text, &near] {
                if let Ok(share) = resumption(text) {
                    prop_assert!((0.0..=1.0).contains(&share), "{text}");
                }
                let _ = (group(text), version(text), server_name(text));
            }
        }
    }
}
