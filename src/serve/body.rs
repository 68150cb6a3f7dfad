//! The body of a request, read to its end and thrown away.

use super::request::{Framing, Refusal};

/// The most bytes of chunk extensions and trailers in one body.
const MAX_OVERHEAD: u32 = 64 * 1024;
/// The most digits of a chunk's size.
const MAX_DIGITS: u8 = 16;

/// Where in a body we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Body {
    state: State,
    /// Bytes of chunk extensions and trailers so far.
    overhead: u32,
}

/// The grammar of RFC 9112, 7.1, byte by byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Bytes that are left of a body without chunks.
    Length(u64),
    /// In a chunk's size: its value and its digits so far.
    Size(u64, u8),
    /// After white space: `;` comes, or `=` where a name is before it.
    Gap(u64, bool),
    /// Before the name of an extension.
    NameStart(u64),
    /// In the name of an extension.
    Name(u64),
    /// Before the value of an extension.
    ValueStart(u64),
    /// In a value that is a token.
    Value(u64),
    /// In a quoted value.
    Quoted(u64),
    /// After a backslash in a quoted value.
    Escaped(u64),
    /// After a quoted value.
    QuotedEnd(u64),
    /// After the CR behind a chunk's size.
    SizeEnd(u64),
    /// Bytes that are left of a chunk.
    Data(u64),
    /// Before the CR behind a chunk.
    DataCr,
    /// Before the LF behind a chunk.
    DataLf,
    /// At the start of a trailer line, or of the empty one.
    Line,
    /// In the name of a trailer.
    TrailerName,
    /// In the value of a trailer.
    TrailerValue,
    /// After the CR of a trailer.
    TrailerEnd,
    /// After the CR of the empty line.
    LastLf,
    /// The body is complete.
    Done,
}

impl Body {
    /// A body that begins.
    #[must_use]
    pub fn new(framing: Framing) -> Self {
        let state = match framing {
            Framing::Empty | Framing::Length(0) => State::Done,
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::Size(0, 0),
        };
        Self { state, overhead: 0 }
    }

    /// Whether it is complete.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Takes what belongs to the body from the start of `bytes`, and gives how many those were.
    ///
    /// # Errors
    /// The chunks are malformed, or their extensions and trailers too long.
    pub fn advance(&mut self, bytes: &[u8]) -> Result<usize, Refusal> {
        let mut at = 0;
        while at < bytes.len() && !self.is_done() {
            at += match &mut self.state {
                State::Length(left) | State::Data(left) => {
                    let taken =
                        (bytes.len() - at).min(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= taken as u64;
                    taken
                }
                state => {
                    *state = state.next(bytes[at]).ok_or(Refusal::Malformed)?;
                    if state.is_overhead() {
                        self.overhead += 1;
                        if self.overhead > MAX_OVERHEAD {
                            return Err(Refusal::TooLarge);
                        }
                    }
                    1
                }
            };
            match self.state {
                State::Length(0) => self.state = State::Done,
                State::Data(0) => self.state = State::DataCr,
                _ => {}
            }
        }
        Ok(at)
    }
}

impl State {
    /// The state after one byte of framing; `None`: the byte must not be there.
    fn next(self, byte: u8) -> Option<Self> {
        Some(match (self, byte) {
            (Self::Size(size, digits), _) if byte.is_ascii_hexdigit() && digits < MAX_DIGITS => {
                let digit = (byte as char).to_digit(16)?;
                Self::Size(size << 4 | u64::from(digit), digits + 1)
            }
            (Self::Size(_, 0), _) => return None,
            (
                Self::Size(size, _) | Self::Name(size) | Self::Value(size) | Self::QuotedEnd(size),
                b'\r',
            ) => Self::SizeEnd(size),
            (
                Self::Size(size, _)
                | Self::Gap(size, _)
                | Self::Name(size)
                | Self::Value(size)
                | Self::QuotedEnd(size),
                b';',
            ) => Self::NameStart(size),
            (Self::Name(size) | Self::Gap(size, true), b'=') => Self::ValueStart(size),
            (Self::Name(size) | Self::Gap(size, true), b' ' | b'\t') => Self::Gap(size, true),
            (
                Self::Size(size, _)
                | Self::Gap(size, false)
                | Self::Value(size)
                | Self::QuotedEnd(size),
                b' ' | b'\t',
            ) => Self::Gap(size, false),
            (Self::NameStart(_) | Self::ValueStart(_), b' ' | b'\t') => self,
            (Self::NameStart(size) | Self::Name(size), _) if is_token(byte) => Self::Name(size),
            (Self::ValueStart(size), b'"') => Self::Quoted(size),
            (Self::ValueStart(size) | Self::Value(size), _) if is_token(byte) => Self::Value(size),
            (Self::Quoted(size), b'"') => Self::QuotedEnd(size),
            (Self::Quoted(size), b'\\') => Self::Escaped(size),
            (Self::Quoted(size) | Self::Escaped(size), _) if is_text(byte) => Self::Quoted(size),
            (Self::SizeEnd(0), b'\n') => Self::Line,
            (Self::SizeEnd(size), b'\n') => Self::Data(size),
            (Self::DataCr, b'\r') => Self::DataLf,
            (Self::DataLf, b'\n') => Self::Size(0, 0),
            (Self::Line, b'\r') => Self::LastLf,
            (Self::LastLf, b'\n') => Self::Done,
            (Self::TrailerName, b':') => Self::TrailerValue,
            (Self::Line | Self::TrailerName, _) if is_token(byte) => Self::TrailerName,
            (Self::TrailerValue, b'\r') => Self::TrailerEnd,
            (Self::TrailerValue, _) if is_text(byte) => Self::TrailerValue,
            (Self::TrailerEnd, b'\n') => Self::Line,
            _ => return None,
        })
    }

    /// Whether a byte that led here is one of those that [`MAX_OVERHEAD`] bounds.
    fn is_overhead(self) -> bool {
        !matches!(self, Self::Size(..) | Self::SizeEnd(_) | Self::DataLf | Self::Data(_))
    }
}

/// `tchar` of RFC 9110, 5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// What may stand in a field's value or a quoted string: no control but the tab.
fn is_text(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What is left after the body, or why it is refused.
    fn read(bytes: &[u8], split: usize) -> Result<Option<usize>, Refusal> {
        let mut body = Body::new(Framing::Chunked);
        let mut taken = body.advance(&bytes[..split])?;
        if !body.is_done() {
            assert_eq!(taken, split);
            taken += body.advance(&bytes[split..])?;
        }
        Ok(body.is_done().then(|| bytes.len() - taken))
    }

    #[test]
    fn reads_chunks_wherever_they_are_split() {
        for (text, left) in [
            ("0\r\n\r\n", 0),
            ("5\r\nhello\r\n000\r\n\r\nGET", 3),
            ("A;a;b=c;d=\"e \\\" f\" ; g = h\r\n0123456789\r\n0\r\n\r\n", 0),
            ("1 ;a\r\nx\r\n0\r\nVary: *\r\nX:\r\n\r\nrest", 4),
        ] {
            for split in 0..=text.len() {
                assert_eq!(read(text.as_bytes(), split), Ok(Some(left)), "{text:?} at {split}");
            }
        }
    }

    #[test]
    fn refuses_malformed_chunks_wherever_they_are_split() {
        for text in [
            "\r\n",
            "g\r\n",
            "-1\r\n",
            "0x1\r\n",
            "1 \r\n",
            "1;\r\n",
            "1;a=\r\n",
            "1;a=\"b\r\n",
            "1\n",
            "1\r\r",
            "1\r\nab",
            "1\r\na\n",
            "00000000000000001\r\n",
            "0\r\n: a\r\n\r\n",
            "0\r\na\r\n\r\n",
            "0\r\na b: c\r\n",
            "0\r\na: b\nc: d",
            "0\r\n\n",
        ] {
            for split in 0..=text.len() {
                let found = read(text.as_bytes(), split);
                assert_eq!(found, Err(Refusal::Malformed), "{text:?} at {split}");
            }
        }
    }

    #[test]
    fn bounds_extensions_and_trailers() {
        let trailers = format!("0\r\n{}", "a: b\r\n".repeat(20_000));
        assert_eq!(read(trailers.as_bytes(), 0), Err(Refusal::TooLarge));
        let extension = format!("1;{}", "a".repeat(70_000));
        assert_eq!(read(extension.as_bytes(), 0), Err(Refusal::TooLarge));
    }

    #[test]
    fn a_body_of_a_length_ends_there() {
        let mut body = Body::new(Framing::Length(5));
        assert_eq!(body.advance(b"hel"), Ok(3));
        assert!(!body.is_done());
        assert_eq!(body.advance(b"loGET"), Ok(2));
        assert!(body.is_done());
    }

    proptest! {
        #[test]
        fn the_split_changes_nothing(
            bytes in proptest::collection::vec(
                proptest::sample::select(&b"01a;=\" \r\n:\\x"[..]), 0..40
            ),
            split in 0_usize..40,
        ) {
            let split = split.min(bytes.len());
            prop_assert_eq!(read(&bytes, split), read(&bytes, 0));
        }
    }
}
