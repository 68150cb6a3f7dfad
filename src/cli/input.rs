//! What arguments name: files, variables, stdin. Bounded, so that a device is no endless file.

use std::env;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::mistake::{Mistake, wrong};
use crate::units::format_bytes;

/// The most that a header's value or credentials may be: servers refuse less.
pub(super) const MAX_VALUE: u64 = 64 << 10;
/// The most that a request's body may be: it is kept in memory.
pub(super) const MAX_BODY: u64 = 256 << 20;
/// The most that certificates or a key may be: they are of a few kilobytes each.
pub(super) const MAX_PEM: u64 = 4 << 20;
/// The most that a plan file, a list of pages or a sitemap may be. A sitemap has at most 50 MiB
/// (sitemaps.org, protocol).
pub(super) const MAX_LIST: u64 = 64 << 20;

/// The bytes of the file, or of stdin where it is `-`.
///
/// `flag` is for the message. At most `limit` bytes are read.
pub(super) fn read(flag: &str, path: &Path, limit: u64) -> Result<Vec<u8>, Mistake> {
    let bytes = if path.as_os_str() == "-" {
        read_bounded(io::stdin().lock(), limit)
    } else {
        File::open(path).and_then(|file| read_bounded(file, limit))
    };
    let name = if path.as_os_str() == "-" { "stdin".into() } else { path.to_string_lossy() };
    let bytes = bytes.map_err(|error| {
        Mistake::new(format!("{flag}: \"{name}\" cannot be read: {error}; check the file's name"))
    })?;
    if bytes.len() as u64 > limit {
        wrong!("{flag}: \"{name}\" is too long; at most {} are taken", format_bytes(limit));
    }
    Ok(bytes)
}

/// One byte more than the limit at most.
fn read_bounded(from: impl Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(limit + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A value that stands elsewhere: `@FILE` (without the line end at its end) or `env:NAME`. `None`
/// where it is neither.
pub(super) fn kept_elsewhere(flag: &str, value: &str) -> Result<Option<Vec<u8>>, Mistake> {
    use std::os::unix::ffi::OsStringExt;

    if let Some(path) = value.strip_prefix('@') {
        let mut bytes = read(flag, Path::new(path), MAX_VALUE)?;
        while bytes.last().is_some_and(|b| matches!(b, b'\n' | b'\r')) {
            bytes.pop();
        }
        return Ok(Some(bytes));
    }
    if let Some(name) = value.strip_prefix("env:") {
        let is_name = !name.is_empty() && !name.contains(['=', '\0']);
        return match is_name.then(|| env::var_os(name)).flatten() {
            Some(value) => Ok(Some(value.into_vec())),
            None => wrong!(
                "{flag}: there is no variable \"{}\" in the environment; export it first",
                name.escape_debug()
            ),
        };
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn line_end_of_a_secret_file_is_no_part_of_it() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"s3cret \r\n").unwrap();
        let value = format!("@{}", file.path().display());
        assert_eq!(kept_elsewhere("-H", &value).unwrap().unwrap(), b"s3cret ");
    }

    #[test]
    fn variables_are_read() {
        let path = env::var("PATH").unwrap();
        assert_eq!(kept_elsewhere("-H", "env:PATH").unwrap().unwrap(), path.as_bytes());
        assert_eq!(kept_elsewhere("-H", "envy:PATH").unwrap(), None);
        let error = kept_elsewhere("-H", "env:NO_SUCH_VARIABLE_HERE").unwrap_err().to_string();
        assert!(error.contains("-H") && error.contains("NO_SUCH_VARIABLE_HERE"), "{error}");
    }

    #[test]
    fn missing_and_endless_files_are_refused() {
        let error = read("--data", Path::new("/no/such/file"), 10).unwrap_err().to_string();
        assert!(error.contains("--data") && error.contains("/no/such/file"), "{error}");
        let error = read("--data", Path::new("/dev/zero"), 10).unwrap_err().to_string();
        assert!(error.contains("at most 10B"), "{error}");
    }
}
