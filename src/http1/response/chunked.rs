//! The chunked transfer coding (RFC 9112, 7.1), one byte of framing at a time, so that nothing of
//! it has to be kept between two pieces of input.

use super::{ScanError, is_value_byte};
use crate::http1::is_token_byte;
use crate::stats::{FaultKind, Phase};

/// The most digits of a chunk's size; they fill 64 bits.
const SIZE_DIGITS_LIMIT: u8 = 16;

/// The longest chunk line with its extensions, and the longest trailer section, in bytes.
const LINE_LIMIT: u32 = 64 * 1024;

/// Where in the coding the next byte stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// In a chunk's size.
    #[default]
    Size,
    /// White space that only another extension may follow.
    Space,
    /// Before an extension's name.
    ExtensionStart,
    /// In an extension's name.
    ExtensionName,
    /// White space after an extension's name.
    ExtensionNameEnd,
    /// Before an extension's value.
    ValueStart,
    /// In an extension's value.
    Value,
    /// In a quoted value.
    Quoted,
    /// After a backslash in a quoted value.
    Escaped,
    /// After a quoted value.
    QuotedEnd,
    /// The line feed of a chunk line.
    SizeFeed,
    /// In the chunk's data.
    Data,
    /// The line end after the data.
    DataEnd,
    /// The line feed after the data.
    DataFeed,
    /// At the first line of the trailer section.
    Trailers,
    /// At a later line of it.
    TrailerStart,
    /// In a trailer's name.
    TrailerName,
    /// In a trailer's value.
    TrailerValue,
    /// The line feed of a trailer.
    TrailerFeed,
    /// The line feed of the blank line at the end.
    LastFeed,
    /// The body is complete.
    End,
}

/// Takes the chunked coding off a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Dechunker {
    /// The chunk's size, then what of its data is still to come.
    remaining: u64,
    /// Bytes of this chunk line, or of the trailer section.
    line: u32,
    /// Digits of the chunk's size.
    digits: u8,
    place: Place,
}

impl Dechunker {
    /// Takes what it needs out of `bytes` and adds the data to `body`: how many bytes that was,
    /// and whether the body is complete. A body that is not complete takes all.
    pub fn push(&mut self, bytes: &[u8], body: &mut u64) -> Result<(usize, bool), ScanError> {
        let mut used = 0;
        while used < bytes.len() {
            if self.place == Place::Data {
                let left = bytes.len() - used;
                let taken = usize::try_from(self.remaining).map_or(left, |most| most.min(left));
                used += taken;
                *body += taken as u64;
                self.remaining -= taken as u64;
                if self.remaining == 0 {
                    self.place = Place::DataEnd;
                }
                continue;
            }
            self.place = self.step(bytes[used]).map_err(|(kind, detail)| {
                ScanError::new(Phase::Body, kind, detail, &bytes[used..])
            })?;
            used += 1;
            if self.place == Place::End {
                return Ok((used, true));
            }
        }
        Ok((used, false))
    }

    /// Where the byte after this byte of framing stands.
    fn step(&mut self, byte: u8) -> Result<Place, (FaultKind, &'static str)> {
        self.line += 1;
        match self.place {
            Place::Size => self.size(byte),
            Place::Space
            | Place::ExtensionStart
            | Place::ExtensionName
            | Place::ExtensionNameEnd
            | Place::ValueStart
            | Place::Value
            | Place::Quoted
            | Place::Escaped
            | Place::QuotedEnd => self.extension(byte),
            Place::SizeFeed if byte == b'\n' => Ok(self.end_size()),
            Place::SizeFeed => Err((FaultKind::Malformed, "chunk-size")),
            Place::DataEnd if byte == b'\r' => Ok(Place::DataFeed),
            Place::DataEnd | Place::DataFeed if byte == b'\n' => {
                *self = Self::default();
                Ok(Place::Size)
            }
            Place::Data | Place::DataEnd | Place::DataFeed | Place::End => {
                Err((FaultKind::Malformed, "chunk-end"))
            }
            Place::Trailers
            | Place::TrailerStart
            | Place::TrailerName
            | Place::TrailerValue
            | Place::TrailerFeed
            | Place::LastFeed => self.trailer(byte),
        }
    }

    fn size(&mut self, byte: u8) -> Result<Place, (FaultKind, &'static str)> {
        if let Some(digit) = char::from(byte).to_digit(16) {
            if self.digits == SIZE_DIGITS_LIMIT {
                return Err((FaultKind::TooLarge, "chunk-size"));
            }
            self.digits += 1;
            self.remaining = self.remaining << 4 | u64::from(digit);
            return Ok(Place::Size);
        }
        match byte {
            _ if self.digits == 0 => Err((FaultKind::Malformed, "chunk-size")),
            b'\r' => Ok(Place::SizeFeed),
            b'\n' => Ok(self.end_size()),
            b';' => Ok(Place::ExtensionStart),
            b' ' | b'\t' => Ok(Place::Space),
            _ => Err((FaultKind::Malformed, "chunk-size")),
        }
    }

    /// `*( BWS ";" BWS chunk-ext-name [ BWS "=" BWS chunk-ext-val ] )`, RFC 9112, 7.1.1.
    fn extension(&mut self, byte: u8) -> Result<Place, (FaultKind, &'static str)> {
        if self.line > LINE_LIMIT {
            return Err((FaultKind::TooLarge, "chunk-extension"));
        }
        let may_end = matches!(self.place, Place::ExtensionName | Place::Value | Place::QuotedEnd);
        match (self.place, byte) {
            (_, b'\r') if may_end => Ok(Place::SizeFeed),
            (_, b'\n') if may_end => Ok(self.end_size()),
            (Place::Quoted, b'"') => Ok(Place::QuotedEnd),
            (Place::Quoted, b'\\') => Ok(Place::Escaped),
            (Place::Quoted | Place::Escaped, _) if is_value_byte(byte) => Ok(Place::Quoted),
            (Place::Quoted | Place::Escaped, _) => Err((FaultKind::Malformed, "chunk-extension")),
            (Place::ExtensionName, b' ' | b'\t') => Ok(Place::ExtensionNameEnd),
            (Place::Value | Place::QuotedEnd, b' ' | b'\t') => Ok(Place::Space),
            (_, b' ' | b'\t') => Ok(self.place),
            (Place::ExtensionName | Place::ExtensionNameEnd, b'=') => Ok(Place::ValueStart),
            (Place::ValueStart, b'"') => Ok(Place::Quoted),
            (Place::ExtensionStart | Place::ValueStart, b';') => {
                Err((FaultKind::Malformed, "chunk-extension"))
            }
            (_, b';') => Ok(Place::ExtensionStart),
            (Place::ExtensionStart | Place::ExtensionName, _) if is_token_byte(byte) => {
                Ok(Place::ExtensionName)
            }
            (Place::ValueStart | Place::Value, _) if is_token_byte(byte) => Ok(Place::Value),
            _ => Err((FaultKind::Malformed, "chunk-extension")),
        }
    }

    /// The chunk line is complete.
    fn end_size(&mut self) -> Place {
        self.line = 0;
        if self.remaining == 0 { Place::Trailers } else { Place::Data }
    }

    fn trailer(&mut self, byte: u8) -> Result<Place, (FaultKind, &'static str)> {
        if self.line > LINE_LIMIT {
            return Err((FaultKind::TooLarge, "trailer"));
        }
        match (self.place, byte) {
            (Place::Trailers | Place::TrailerStart, b'\r') => Ok(Place::LastFeed),
            (Place::Trailers | Place::TrailerStart | Place::LastFeed, b'\n') => Ok(Place::End),
            // A folded line.
            (Place::TrailerStart, b' ' | b'\t') => Ok(Place::TrailerValue),
            (Place::TrailerName, b':') => Ok(Place::TrailerValue),
            (Place::Trailers | Place::TrailerStart | Place::TrailerName, _)
                if is_token_byte(byte) =>
            {
                Ok(Place::TrailerName)
            }
            (Place::TrailerValue, b'\r') => Ok(Place::TrailerFeed),
            (Place::TrailerValue | Place::TrailerFeed, b'\n') => Ok(Place::TrailerStart),
            (Place::TrailerValue, _) if is_value_byte(byte) => Ok(Place::TrailerValue),
            _ => Err((FaultKind::Malformed, "trailer")),
        }
    }
}
