//! Requests that were seen before.
//!
//! A load generator sends the same bytes again and again. A head that was
//! parsed once is remembered with what it asks for, so that the next one costs
//! a comparison of its bytes and no parsing.

use super::action::Action;

/// Heads that are remembered; a power of two.
const ENTRIES: usize = 256;
/// The longest head that is remembered, bytes.
const MAX_LEN: usize = 1024;
/// Bytes of a head that choose its place: its method, its target, or the start of it.
const HASHED: usize = 48;

/// Heads without a body that were seen before; each place holds the last of its kind.
pub struct Recall {
    places: Vec<Option<Known>>,
}

struct Known {
    head: Box<[u8]>,
    action: Action,
}

impl Recall {
    /// Remembers nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self { places: (0..ENTRIES).map(|_| None).collect() }
    }

    /// A known head at the start of `bytes`: its length and what it asks for.
    #[inline]
    #[must_use]
    pub fn find(&self, bytes: &[u8]) -> Option<(usize, Action)> {
        let known = self.places[place(bytes)].as_ref()?;
        bytes.starts_with(&known.head).then_some((known.head.len(), known.action))
    }

    /// Remembers a complete head, its empty line included.
    pub fn remember(&mut self, head: &[u8], action: Action) {
        if head.len() <= MAX_LEN {
            self.places[place(head)] = Some(Known { head: head.into(), action });
        }
    }
}

/// A multiplicative hash of the first bytes (Knuth, The Art of Computer Programming 3, 6.4).
fn place(bytes: &[u8]) -> usize {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let (words, rest) = bytes[..bytes.len().min(HASHED)].as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let hash = words.iter().chain([&last]).fold(0_u64, |hash, &word| {
        (hash.rotate_left(23) ^ u64::from_le_bytes(word)).wrapping_mul(GOLDEN)
    });
    (hash >> (u64::BITS - ENTRIES.trailing_zeros())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &[u8] = b"GET /bytes/700 HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: x\r\n\r\n";

    #[test]
    fn finds_what_it_remembers_and_nothing_else() {
        let mut recall = Recall::new();
        assert_eq!(recall.find(HEAD), None);
        recall.remember(HEAD, Action::Never);
        assert_eq!(recall.find(HEAD), Some((HEAD.len(), Action::Never)));
        let pipelined = [HEAD, HEAD].concat();
        assert_eq!(recall.find(&pipelined), Some((HEAD.len(), Action::Never)));
        assert_eq!(recall.find(&HEAD[..HEAD.len() - 1]), None);
        let mut other = HEAD.to_vec();
        other[60] ^= 1;
        assert_eq!(recall.find(&other), None);
    }

    #[test]
    fn short_and_long_heads_do_no_harm() {
        let mut recall = Recall::new();
        recall.remember(b"GET / HTTP/1.1\r\n\r\n", Action::Never);
        assert_eq!(recall.find(b"GET / HTTP/1.1\r\n\r\n"), Some((18, Action::Never)));
        assert_eq!(recall.find(b""), None);
        let long = vec![b'a'; MAX_LEN + 1];
        recall.remember(&long, Action::Never);
        assert_eq!(recall.find(&long), None);
    }
}
