//! A job as every decision sees it: what was asked for, and the facts about its data.

use std::fmt;

use serde::{Deserialize, Serialize};
use shoal_config::JobSpec;
use shoal_config::spec::Dtype;

use crate::ids::Digest;
use crate::weights::{Dtypes, WeightFacts};

/// A submitted job. Immutable; its digest seeds the ledger chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// What the operator asked for, resolved.
    pub spec: JobSpec,
    /// What was found in the data.
    pub data: DataFacts,
    /// What was found in the files of its initial weights; none if they are drawn from the seed.
    pub weights: Option<WeightFacts>,
}

impl Job {
    /// The types of the tensors that an export has by itself: those of the files that the job began with.
    #[must_use]
    pub fn export_dtypes(&self) -> Dtypes {
        self.weights.as_ref().map_or(Dtypes::All(Dtype::F32), |weights| weights.dtypes.clone())
    }
}

/// What was found in the data, read once at submission; loaders refuse files that differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataFacts {
    /// blake3 of the training tokens, each little-endian: as u16 if the model's vocabulary has at most 65,536 tokens, else
    /// as u32. The width of the files does not enter it.
    pub digest: Digest,
    /// Training tokens.
    pub train_tokens: u64,
    /// The same of the validation tokens, which enter no bits.
    pub validation_digest: Digest,
    /// Validation tokens.
    pub validation_tokens: u64,
    /// What made the tokens, as far as it is known. The tokens are what enters bits, not this.
    pub tokenizer: Option<TokenizerFacts>,
}

/// What made the tokens, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenizerFacts {
    /// Which kind.
    pub kind: TokenizerKind,
    /// blake3 of its definition.
    pub digest: Digest,
    /// One more than its last token.
    pub vocab: u32,
    /// The token between documents, if it has one.
    pub end_of_text: Option<u32>,
}

/// Kinds of tokenizers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TokenizerKind {
    /// A byte is a token.
    Bytes,
    /// GPT-2's.
    Gpt2,
    /// OpenAI's o200k.
    O200k,
    /// A `tokenizer.json` of Hugging Face tokenizers.
    Hf,
}

impl TokenizerKind {
    /// By the word for it.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        [Self::Bytes, Self::Gpt2, Self::O200k, Self::Hf].into_iter().find(|kind| kind.word() == word)
    }

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Gpt2 => "gpt2",
            Self::O200k => "o200k",
            Self::Hf => "hf",
        }
    }
}

impl fmt::Display for TokenizerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
