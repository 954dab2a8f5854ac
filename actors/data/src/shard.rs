//! Token files as llm.c writes them: 256 i32 of header (magic, version, tokens, zeros), then the tokens, little-endian.
//!
//! * SH-1 (tokens fit their vocabulary's width): a width is chosen by the vocabulary, and the tokenizer makes no other
//!   tokens.
//! * SH-2 (a shard's length fits its header): nobody makes a shard of more than [`MOST_TOKENS`].

use std::io::{self, Write};

/// Bytes of the header.
pub const HEADER: u64 = 256 * 4;
/// Most tokens of a file: their number is an i32 in the header.
pub const MOST_TOKENS: u64 = i32::MAX as u64;

/// How wide a token is in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// u16, as llm.c stores GPT-2's tokens: magic 20240520, version 1.
    Two,
    /// u32, as llm.c stores Llama 3's tokens: magic 20240801, version 7.
    Four,
}

impl Width {
    /// What a vocabulary needs.
    #[must_use]
    pub fn of(vocab: u32) -> Self {
        if vocab <= 1 << 16 { Self::Two } else { Self::Four }
    }

    /// What begins with this number.
    #[must_use]
    pub fn of_magic(magic: i32) -> Option<Self> {
        [Self::Two, Self::Four].into_iter().find(|width| width.magic() == magic)
    }

    /// Bytes of a token.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            Self::Two => 2,
            Self::Four => 4,
        }
    }

    /// The number that a file begins with.
    #[must_use]
    pub fn magic(self) -> i32 {
        match self {
            Self::Two => 20_240_520,
            Self::Four => 20_240_801,
        }
    }

    /// The version that goes with it.
    #[must_use]
    pub fn version(self) -> i32 {
        match self {
            Self::Two => 1,
            Self::Four => 7,
        }
    }

    /// Writes tokens.
    ///
    /// # Errors
    /// As the writer.
    ///
    /// # Panics
    /// If a token does not fit: the width was chosen for its vocabulary.
    pub fn write(self, tokens: &[u32], out: &mut dyn Write) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(1 << 16);
        for run in tokens.chunks(1 << 14) {
            bytes.clear();
            match self {
                Self::Two => bytes.extend(run.iter().flat_map(|&token| {
                    u16::try_from(token).expect("SH-1 (tokens fit their vocabulary's width)").to_le_bytes()
                })),
                Self::Four => bytes.extend(run.iter().flat_map(|token| token.to_le_bytes())),
            }
            out.write_all(&bytes)?;
        }
        Ok(())
    }
}

/// The header of a file with so many tokens.
///
/// # Panics
/// If they are more than [`MOST_TOKENS`].
#[must_use]
pub fn header(width: Width, tokens: u64) -> Vec<u8> {
    let tokens = i32::try_from(tokens).expect("SH-2 (a shard's length fits its header)");
    let mut bytes: Vec<u8> =
        [width.magic(), width.version(), tokens].iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.resize(HEADER as usize, 0);
    bytes
}
