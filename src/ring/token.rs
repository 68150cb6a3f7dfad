//! What an operation is submitted under: kind, generation and slot in 64 bits.

use super::Slot;

/// Which operation a completion belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Making a socket, its options or its source address.
    Socket = 0,
    /// Connecting.
    Connect = 1,
    /// Sending.
    Send = 2,
    /// A multishot receive.
    ReceiveMulti = 3,
    /// A single receive into a provided buffer.
    Receive = 4,
    /// A receive that is thrown away.
    Discard = 5,
    /// Cancelling a receive.
    Cancel = 6,
    /// Shutting down.
    Shutdown = 7,
    /// Closing.
    Close = 8,
    /// Accepting.
    Accept = 9,
    /// Sending bytes of a pool: the token's slot is their index there.
    SendPooled = 10,
}

impl Kind {
    const ALL: [Self; 11] = [
        Self::Socket,
        Self::Connect,
        Self::Send,
        Self::ReceiveMulti,
        Self::Receive,
        Self::Discard,
        Self::Cancel,
        Self::Shutdown,
        Self::Close,
        Self::Accept,
        Self::SendPooled,
    ];
}

/// Bits 63..56 kind, 55..32 generation, 31..0 slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token(u64);

impl Token {
    /// Generations are counted modulo this.
    pub const GENERATIONS: u32 = 1 << 24;

    /// A token; the generation is taken modulo [`Token::GENERATIONS`].
    #[must_use]
    pub fn new(kind: Kind, generation: u32, slot: Slot) -> Self {
        let generation = u64::from(generation % Self::GENERATIONS);
        Self((kind as u64) << 56 | generation << 32 | u64::from(slot))
    }

    /// The 64 bits of it.
    #[must_use]
    pub fn bits(self) -> u64 {
        self.0
    }

    /// From 64 bits that [`Token::bits`] gave.
    ///
    /// # Panics
    /// Where the kind is none of ours: a completion that nobody asked for.
    #[must_use]
    pub fn from_bits(bits: u64) -> Self {
        assert!((bits >> 56) < Kind::ALL.len() as u64, "completion of an unknown kind: {bits:#x}");
        Self(bits)
    }

    /// The kind of operation.
    #[must_use]
    pub fn kind(self) -> Kind {
        Kind::ALL[(self.0 >> 56) as usize]
    }

    /// The generation of the slot's user, below [`Token::GENERATIONS`].
    #[must_use]
    pub fn generation(self) -> u32 {
        ((self.0 >> 32) as u32) % Self::GENERATIONS
    }

    /// The slot.
    #[must_use]
    pub fn slot(self) -> Slot {
        self.0 as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_gives_back_what_went_in() {
        for kind in Kind::ALL {
            for generation in [0, 1, Token::GENERATIONS - 1] {
                for slot in [0, 1, u32::MAX] {
                    let token = Token::from_bits(Token::new(kind, generation, slot).bits());
                    assert_eq!(
                        (token.kind(), token.generation(), token.slot()),
                        (kind, generation, slot)
                    );
                }
            }
        }
    }

    #[test]
    fn generations_wrap() {
        assert_eq!(Token::new(Kind::Send, Token::GENERATIONS, 3), Token::new(Kind::Send, 0, 3));
    }
}
