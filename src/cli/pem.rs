//! Certificates and keys out of PEM files (RFC 7468).

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};

use super::input::{self, MAX_PEM};
use super::mistake::{Mistake, wrong};
use crate::tls::Identity;

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
    match CertifiedKey::from_der(chain.clone(), private.clone_key(), &aws_lc_rs::default_provider())
    {
        Ok(_) => Ok(Identity { chain, key: Arc::new(private) }),
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

/// The certificates in the bytes of a file, at least one.
pub(super) fn certificates(
    flag: &str,
    path: &Path,
    bytes: &[u8],
) -> Result<Vec<CertificateDer<'static>>, Mistake> {
    let path = path.display();
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
    match chain {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        Ok(_) => wrong!(
            "{flag}: \"{path}\" holds no certificate (-----BEGIN CERTIFICATE-----); is it in another \
             form, `openssl x509 -inform der -in {path} -out cert.pem` makes one of it"
        ),
        Err(error) => wrong!("{flag}: \"{path}\" is damaged: {error}; copy the file once more"),
    }
}

fn private_key(flag: &str, path: &Path, bytes: &[u8]) -> Result<PrivateKeyDer<'static>, Mistake> {
    let path = path.display();
    match PrivateKeyDer::from_pem_slice(bytes) {
        Ok(key) => Ok(key),
        Err(pem::Error::NoItemsFound) if pem_label(bytes, "ENCRYPTED PRIVATE KEY") => wrong!(
            "{flag}: the key in \"{path}\" has a passphrase; \
             `openssl pkey -in {path} -out key.pem` writes it without one"
        ),
        Err(pem::Error::NoItemsFound) => wrong!(
            "{flag}: \"{path}\" holds no key (-----BEGIN PRIVATE KEY-----); is it in another form, \
             `openssl pkey -inform der -in {path} -out key.pem` makes one of it"
        ),
        Err(error) => wrong!("{flag}: \"{path}\" is damaged: {error}; copy the file once more"),
    }
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
        let no_key = key.replace('M', "N");
        for (cert, key, parts) in [
            (&*cert, None, ["--cert", "holds no key", "--key"]),
            ("", Some(&*key), ["--cert", "no certificate", "openssl x509"]),
            (&*damaged, Some(&*key), ["--cert", "damaged", "once more"]),
            (&*cert, Some(""), ["--key", "holds no key", "openssl pkey"]),
            (&*cert, Some(&*locked), ["--key", "passphrase", "openssl pkey -in"]),
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
