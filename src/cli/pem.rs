//! Certificates and keys out of files: PEM (RFC 7468), or DER.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{Error, InconsistentKeys};

use super::input::{self, MAX_PEM};
use super::mistake::{Mistake, wrong};
use crate::tls::{Identity, is_certificate};

/// How everything begins in PEM.
const BEGIN: &[u8] = b"-----BEGIN ";

/// The certificates of `--cert`, the first with the key of `--key`, which may also stand in the
/// certificates' own file.
pub(super) fn identity(cert: &Path, key: Option<&Path>) -> Result<Identity, Mistake> {
    let bytes = input::read("--cert", cert, MAX_PEM)?;
    let chain = certificates("--cert", cert, &bytes)?;
    let private = match key {
        Some(key) => private_key("--key", key, &input::read("--key", key, MAX_PEM)?)?,
        None if pem_label(&bytes, "PRIVATE KEY") => private_key("--cert", cert, &bytes)?,
        None => wrong!(
            "--cert: \"{}\" holds no key; say with --key which file holds the certificate's key",
            cert.display()
        ),
    };
    let key_file = key.unwrap_or(cert).display();
    let identity = Identity { chain, key: Arc::new(private) };
    match identity.certified_key(&aws_lc_rs::default_provider()) {
        Ok(_) => Ok(identity),
        Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => wrong!(
            "--key: the key in \"{key_file}\" is not that of the first certificate in \"{}\"; give \
             the key that it was made with, and put the certificate before those of its issuers",
            cert.display()
        ),
        Err(error) => wrong!(
            "--cert: \"{}\" with the key in \"{key_file}\" cannot be used: {error}; keys of RSA, \
             ECDSA (P-256, P-384, P-521) and Ed25519 can",
            cert.display()
        ),
    }
}

/// The certificates in the bytes of a file, at least one: PEM with any number of them, or DER with
/// one.
pub(super) fn certificates(
    flag: &str,
    path: &Path,
    bytes: &[u8],
) -> Result<Vec<CertificateDer<'static>>, Mistake> {
    let path = path.display();
    if !is_pem(bytes) && !bytes.is_empty() {
        let der = CertificateDer::from(bytes.to_vec());
        if is_certificate(&der) {
            return Ok(vec![der]);
        }
        wrong!(
            "{flag}: \"{path}\" is no certificate, neither PEM (-----BEGIN CERTIFICATE-----) nor \
             DER; is it PKCS #12, `openssl pkcs12 -in {path} -nodes -out cert.pem` makes PEM of it"
        );
    }
    let chain: Result<Vec<CertificateDer<'static>>, _> =
        CertificateDer::pem_slice_iter(bytes).collect();
    let chain = match chain {
        Ok(chain) if !chain.is_empty() => chain,
        Ok(_) => wrong!(
            "{flag}: \"{path}\" holds no certificate (-----BEGIN CERTIFICATE-----); is it in another \
             form, `openssl x509 -in {path} -out cert.pem` makes one of it"
        ),
        Err(error) => {
            wrong!("{flag}: \"{path}\" is damaged: {}; copy the file once more", damage(&error))
        }
    };
    if let Some(index) = chain.iter().position(|certificate| !is_certificate(certificate)) {
        wrong!(
            "{flag}: certificate {} of {} in \"{path}\" cannot be read; copy the file once more",
            index + 1,
            chain.len()
        );
    }
    Ok(chain)
}

fn private_key(flag: &str, path: &Path, bytes: &[u8]) -> Result<PrivateKeyDer<'static>, Mistake> {
    let path = path.display();
    if !is_pem(bytes)
        && let Ok(key) = PrivateKeyDer::try_from(bytes.to_vec())
    {
        return Ok(key);
    }
    if is_encrypted(bytes) {
        wrong!(
            "{flag}: the key in \"{path}\" has a passphrase; \
             `openssl pkey -in {path} -out key.pem` writes it without one"
        );
    }
    match PrivateKeyDer::from_pem_slice(bytes) {
        Ok(key) => Ok(key),
        Err(pem::Error::NoItemsFound) => wrong!(
            "{flag}: \"{path}\" holds no key (-----BEGIN PRIVATE KEY-----); is it in another form, \
             `openssl pkey -in {path} -out key.pem` makes one of it"
        ),
        Err(error) => {
            wrong!("{flag}: \"{path}\" is damaged: {}; copy the file once more", damage(&error))
        }
    }
}

/// What is wrong with a file, in words and without its bytes, which may be a key's.
fn damage(error: &pem::Error) -> &'static str {
    match error {
        pem::Error::MissingSectionEnd { .. } => "what begins in it has no end (-----END ...-----)",
        pem::Error::IllegalSectionStart { .. } => "a line that begins with -----BEGIN is cut",
        pem::Error::Base64Decode(_) => "what stands between BEGIN and END is not base64",
        _ => "it cannot be read as PEM",
    }
}

/// Whether anything begins in these bytes as PEM does.
fn is_pem(bytes: &[u8]) -> bool {
    bytes.windows(BEGIN.len()).any(|window| window == BEGIN)
}

/// Whether there is a key that only a passphrase opens: PKCS #8, or the older form of OpenSSL.
fn is_encrypted(bytes: &[u8]) -> bool {
    let has_header =
        || String::from_utf8_lossy(bytes).lines().any(|line| line.starts_with("Proc-Type: 4,ENC"));
    pem_label(bytes, "ENCRYPTED PRIVATE KEY") || has_header()
}

/// Whether something begins in these bytes whose name ends so.
fn pem_label(bytes: &[u8], label: &str) -> bool {
    let end = format!("{label}-----");
    String::from_utf8_lossy(bytes)
        .lines()
        .any(|line| line.starts_with("-----BEGIN ") && line.trim_end().ends_with(&end))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use rcgen::KeyPair;
    use tempfile::NamedTempFile;

    use super::*;

    fn file(text: &str) -> NamedTempFile {
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    /// A certificate and its key.
    fn made() -> (String, String) {
        let rcgen::CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        (cert.pem(), signing_key.serialize_pem())
    }

    #[test]
    fn a_certificate_and_its_key_are_read_from_two_files_or_one() {
        let (cert, key) = made();
        let apart = identity(file(&cert).path(), Some(file(&key).path())).unwrap();
        assert_eq!(apart.chain.len(), 1);
        let chain = format!("{key}{cert}{}", made().0);
        let one = identity(file(&chain).path(), None).unwrap();
        assert_eq!((one.chain.len(), &one.chain[0], &one.key), (2, &apart.chain[0], &apart.key));
    }

    #[test]
    fn what_is_wrong_with_a_file_is_told_with_the_remedy() {
        let (cert, key) = made();
        let other = KeyPair::generate().unwrap().serialize_pem();
        let damaged = cert.replace("-----END CERTIFICATE-----", "");
        let locked = key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
        let locked_before = key.replacen("KEY-----", "KEY-----\nProc-Type: 4,ENCRYPTED", 1);
        let no_key = key.replace('M', "N");
        let not_one = cert.replace("MI", "NI");
        for (cert, key, parts) in [
            (&*cert, None, ["--cert", "holds no key", "--key"]),
            ("", Some(&*key), ["--cert", "no certificate", "openssl x509"]),
            (&*damaged, Some(&*key), ["--cert", "damaged", "once more"]),
            (&*cert, Some(""), ["--key", "holds no key", "openssl pkey"]),
            (&*cert, Some(&*locked), ["--key", "passphrase", "openssl pkey -in"]),
            (&*cert, Some(&*locked_before), ["--key", "passphrase", "openssl pkey -in"]),
            (&*not_one, Some(&*key), ["--cert", "certificate 1 of 1", "once more"]),
            ("0\x03bin", Some(&*key), ["--cert", "neither PEM", "openssl pkcs12"]),
            (&*cert, Some("0\x03bin"), ["--key", "holds no key", "openssl pkey"]),
            (&*cert, Some(&*other), ["--key", "not that of", "made with"]),
            (&*cert, Some(&*no_key), ["--cert", "cannot be used", "ECDSA"]),
        ] {
            let (cert, key) = (file(cert), key.map(file));
            let key = key.as_ref().map(NamedTempFile::path);
            let error = identity(cert.path(), key).unwrap_err().to_string();
            for part in parts {
                assert!(error.contains(part), "no \"{part}\" in: {error}");
            }
        }
        let error = identity(Path::new("/no/such.pem"), None).unwrap_err().to_string();
        assert!(error.contains("--cert") && error.contains("/no/such.pem"), "{error}");
    }
}
