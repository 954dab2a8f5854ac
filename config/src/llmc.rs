//! The header of an llm.c checkpoint: 256 little-endian i32, of which the first eight say something.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::regular;
use crate::spec::{Dtype, Gpt2Spec, ModelSpec};

/// First number of a checkpoint.
const MAGIC: i32 = 20_240_326;
/// First numbers of llm.c's other files, in words.
const OTHERS: [(i32, &str); 5] = [
    (20_240_327, "a debug state"),
    (20_240_328, "a tokenizer"),
    (20_240_520, "a token file"),
    (20_240_522, "an evaluation file"),
    (20_240_527, "an optimizer state"),
];

/// Versions of checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// 3: f32 values.
    Single = 3,
    /// 5: bf16 values.
    Half = 5,
}

impl Version {
    /// The version whose values have this type, if there is one.
    #[must_use]
    pub fn of(dtype: Dtype) -> Option<Self> {
        match dtype {
            Dtype::F32 => Some(Self::Single),
            Dtype::Bf16 => Some(Self::Half),
            Dtype::F16 => None,
        }
    }

    /// The type of its values.
    #[must_use]
    pub fn dtype(self) -> Dtype {
        match self {
            Self::Single => Dtype::F32,
            Self::Half => Dtype::Bf16,
        }
    }
}

/// Sizes of a checkpoint's model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What its values are.
    pub version: Version,
    /// Rows of the position table.
    pub context: u32,
    /// Distinct tokens.
    pub vocab: u32,
    /// Layers.
    pub layers: u32,
    /// Attention heads.
    pub heads: u32,
    /// Width.
    pub width: u32,
    /// Rows of the token table.
    pub padded_vocab: u32,
}

/// Reads and checks the header of a file of `len` bytes; what is there instead otherwise.
///
/// # Errors
/// If the file cannot be read.
pub fn read(file: &File, len: u64) -> io::Result<Result<Header, String>> {
    if len < Header::BYTES {
        return Ok(Err(format!("{len} bytes are shorter than its header of {}", Header::BYTES)));
    }
    let mut bytes = [0; Header::BYTES as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(Header::parse(&bytes, len))
}

/// The model of a checkpoint; what is there instead otherwise.
pub(crate) fn model_of(path: &Path) -> Result<ModelSpec, String> {
    let named = |problem: String| format!("{}: {problem}", path.display());
    let file = regular::open(path).map_err(|error| named(error.to_string()))?;
    let len = file.metadata().map_err(|error| named(error.to_string()))?.len();
    let header = read(&file, len).map_err(|error| named(error.to_string()))?;
    header.map(|header| header.model()).map_err(named)
}

impl Header {
    /// Bytes of a header.
    pub const BYTES: u64 = 256 * 4;

    fn parse(bytes: &[u8], len: u64) -> Result<Self, String> {
        let mut numbers = bytes.as_chunks().0.iter().map(|word| i32::from_le_bytes(*word));
        let mut next = || numbers.next().unwrap_or_default();
        let (magic, version) = (next(), next());
        if magic != MAGIC {
            let other = OTHERS.iter().find(|(number, _)| *number == magic);
            let other = other.map_or(String::new(), |(_, what)| format!(", which is {what}"));
            return Err(format!("it begins with {magic}{other}, not with the number {MAGIC}"));
        }
        let known = [Version::Single, Version::Half].into_iter().find(|known| *known as i32 == version);
        let Some(version) = known else {
            return Err(format!("it has version {version}, and 3 (fp32) and 5 (bf16) are known"));
        };
        let mut size = |what: &str| {
            let found = next();
            u32::try_from(found).ok().filter(|n| *n > 0).ok_or_else(|| format!("its {what} is {found}"))
        };
        let context = size("context")?;
        let vocab = size("vocabulary")?;
        let layers = size("number of layers")?;
        let heads = size("number of heads")?;
        let width = size("width")?;
        let padded_vocab = size("padded vocabulary")?;
        let header = Self { version, context, vocab, layers, heads, width, padded_vocab };
        if padded_vocab < vocab {
            return Err(format!("its padded vocabulary is {padded_vocab}, and the vocabulary {vocab}"));
        }
        match header.bytes() {
            Some(bytes) if bytes == len => Ok(header),
            Some(bytes) => Err(format!("it has {len} bytes, and {bytes} belong to the sizes in its header")),
            None => Err("the sizes in its header are too large for any file".to_owned()),
        }
    }

    /// Bytes of a file of these sizes; none if they are too many.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        let [context, layers, width, rows] = [self.context, self.layers, self.width, self.padded_vocab].map(u128::from);
        let layer = 12 * width * width + 13 * width;
        let elements = (rows + context + 2) * width + layers.checked_mul(layer)?;
        u64::try_from(elements.checked_mul(u128::from(self.version.dtype().bytes()))?).ok()?.checked_add(Self::BYTES)
    }

    /// As it stands in a file.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let sizes = [self.context, self.vocab, self.layers, self.heads, self.width, self.padded_vocab];
        let mut bytes = [MAGIC, self.version as i32].map(i32::to_le_bytes).concat();
        bytes.extend(sizes.iter().flat_map(|size| size.to_le_bytes()));
        bytes.resize(Self::BYTES as usize, 0);
        bytes
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> ModelSpec {
        ModelSpec::Gpt2(Gpt2Spec {
            layers: self.layers,
            heads: self.heads,
            width: self.width,
            context: self.context,
            vocab: self.vocab,
            dropout: 0.0,
            layer_norm_epsilon: 1e-5,
            init_range: 0.02,
            bias: true,
            tied_head: true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header =
        Header { version: Version::Half, context: 8, vocab: 65, layers: 2, heads: 2, width: 16, padded_vocab: 128 };

    #[test]
    fn what_a_header_says_is_held_against_the_file() {
        let len = HEADER.bytes().expect("small");
        assert_eq!(Header::parse(&HEADER.to_bytes(), len), Ok(HEADER));
        // GPT-2 (124M) with 50,304 rows, in f32.
        let gpt2 = Header {
            version: Version::Single,
            context: 1024,
            vocab: 50_257,
            layers: 12,
            heads: 12,
            width: 768,
            padded_vocab: 50_304,
        };
        assert_eq!(gpt2.bytes(), Some(1024 + 4 * (124_439_808 + 47 * 768)));
        let with = |at: usize, number: i32| {
            let mut bytes = HEADER.to_bytes();
            bytes[at * 4..at * 4 + 4].copy_from_slice(&number.to_le_bytes());
            Header::parse(&bytes, len).expect_err("wrong")
        };
        assert_eq!(with(0, 20_240_520), "it begins with 20240520, which is a token file, not with the number 20240326");
        assert_eq!(with(1, 4), "it has version 4, and 3 (fp32) and 5 (bf16) are known");
        assert_eq!(with(4, -2), "its number of layers is -2");
        assert_eq!(with(7, 64), "its padded vocabulary is 64, and the vocabulary 65");
        assert!(with(4, 3).ends_with("belong to the sizes in its header"), "{}", with(4, 3));
        assert!(with(6, i32::MAX).contains("bytes, and ") || with(6, i32::MAX).contains("too large"));
    }
}
