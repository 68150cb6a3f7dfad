//! Reading the texts of `/proc`: one buffer for all of them, and how their lines are made.

use std::fmt::{self, Write};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes of the buffer at first; the kernel's longest text on a small machine is `/proc/vmstat`
/// with about 5 KiB. It grows where a text does not fit.
const FIRST_CAPACITY: usize = 16 * 1024;

/// A text of more bytes than this is cut: `/proc/stat` of the largest machines has about 100 KiB.
const MAX_TEXT: usize = 8 * 1024 * 1024;

/// Holds one text at a time, in memory that is used again.
#[derive(Debug)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    path: String,
}

impl Buffer {
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; FIRST_CAPACITY], path: String::with_capacity(64) }
    }

    /// The whole text of an open file, from its start.
    pub(super) fn read(&mut self, file: &File) -> io::Result<&[u8]> {
        let mut length = 0;
        loop {
            if length == self.bytes.len() {
                if length >= MAX_TEXT {
                    break;
                }
                self.bytes.resize(length * 2, 0);
            }
            match file.read_at(&mut self.bytes[length..], length as u64) {
                Ok(0) => break,
                Ok(read) => length += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(&self.bytes[..length])
    }

    /// The whole text of a file.
    pub(super) fn read_path(&mut self, path: &Path) -> io::Result<&[u8]> {
        self.read(&File::open(path)?)
    }

    /// The whole text of a file whose path is written out: `format_args!("/proc/{pid}/stat")`.
    pub(super) fn read_named(&mut self, path: fmt::Arguments<'_>) -> io::Result<&[u8]> {
        self.path.clear();
        // Writing to a string does not fail.
        let _ = self.path.write_fmt(path);
        let file = File::open(&self.path)?;
        self.read(&file)
    }
}

/// The lines of a text, without their ends.
pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&byte| byte == b'\n')
}

/// The words of a line.
pub(super) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// A decimal number; `None` where there is anything else, or it does not fit.
pub(super) fn number(word: &[u8]) -> Option<u64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// The number behind a key at the start of a line: `Slab:   236400 kB`.
pub(super) fn value_of(text: &[u8], key: &str) -> Option<u64> {
    let rest = lines(text).find_map(|line| line.strip_prefix(key.as_bytes()))?;
    number(words(rest).next()?)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn long_texts_are_read_whole_and_short_ones_after_them() {
        let mut buffer = Buffer::new();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let text = b"0123456789".repeat(5_000);
        file.write_all(&text).unwrap();
        assert_eq!(buffer.read_path(file.path()).unwrap(), text);
        assert_eq!(buffer.read_named(format_args!("/proc/{}/comm", 0)).ok(), None);
        file.as_file().set_len(3).unwrap();
        assert_eq!(buffer.read_path(file.path()).unwrap(), b"012");
    }

    #[test]
    fn numbers_are_numbers() {
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        for odd in [&b""[..], b"-1", b"1.5", b"18446744073709551616", b"\xff", b"x"] {
            assert_eq!(number(odd), None);
        }
    }

    #[test]
    fn values_are_found_by_their_key() {
        let text = b"MemTotal:  1 kB\nMemFree:\nSlab:   236400 kB\n";
        assert_eq!(value_of(text, "Slab:"), Some(236_400));
        assert_eq!(value_of(text, "MemFree:"), None);
        assert_eq!(value_of(text, "Sla:"), None);
    }
}
