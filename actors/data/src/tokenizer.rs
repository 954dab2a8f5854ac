//! Text to tokens and back.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use shoal_config::spec::TokenizerSpec;
use shoal_plan::ids::Digest;
use shoal_plan::job::{TokenizerFacts, TokenizerKind};
use tiktoken_rs::CoreBPE;

use crate::runs::{self, Run};
use crate::small::{self, Unread};

mod stream;

pub use stream::TextStream;

/// What an end-of-text token may be called in a `tokenizer.json`; the first of these that is there is taken.
const ENDS: [&str; 5] = ["<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|eos|>"];

/// Tokens of a vocabulary, at most: no model has more.
pub(crate) const MOST_VOCAB: u32 = *shoal_config::VOCAB.end() as u32;

/// What a byte of text takes while tokens are made of it: the text, tokens in a buffer that grows, and their copy.
const BUILT_IN_BYTES: u64 = 16;

/// With a `tokenizer.json`: every word and every token of a text is a text of its own there, with places in the original.
/// Measured: 220 for prose, 385 where every byte is a word.
const HF_BYTES: u64 = 400;

/// Why there is no tokenizer, or no tokens.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// The file cannot be read.
    #[error("tokenizer {path} cannot be read; give bytes, gpt2, o200k or a tokenizer.json")]
    Read {
        /// As asked.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is no tokenizer.
    #[error("tokenizer {path} is no tokenizer.json of Hugging Face tokenizers: {found}")]
    Format {
        /// As asked.
        path: PathBuf,
        /// What is wrong.
        found: String,
    },
    /// The vocabulary that is built in cannot be loaded.
    #[error("the built-in vocabulary {kind} cannot be loaded: {found}")]
    BuiltIn {
        /// Which.
        kind: TokenizerKind,
        /// What is wrong.
        found: String,
    },
    /// It has no such token.
    #[error("tokenizer {kind} has no token `{token}`; name one of its own with --end-of-text")]
    NoToken {
        /// Which tokenizer.
        kind: TokenizerKind,
        /// As asked.
        token: String,
    },
    /// It cannot take this text.
    #[error("tokenizer {kind} cannot take this text: {found}")]
    Encode {
        /// Which tokenizer.
        kind: TokenizerKind,
        /// What it says.
        found: String,
    },
    /// A token that it does not have.
    #[error("token {token} is not in the vocabulary of tokenizer {kind}, which has {vocab}")]
    Unknown {
        /// Which tokenizer.
        kind: TokenizerKind,
        /// The token.
        token: u32,
        /// Tokens it has.
        vocab: u32,
    },
}

/// Where a text may be cut so that the tokens of the parts, one after the other, are those of the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cuts {
    /// Between any two characters.
    Anywhere,
    /// Before an ASCII letter or digit that begins a line whose predecessor ends in a visible ASCII character: the split
    /// into words that comes before the merging of bytes always ends a word there.
    LineStarts,
    /// Nowhere that is known without knowing the tokenizer.
    Nowhere,
}

/// A tokenizer. What looks like a special token in a text is text: only [`Tokenizer::end_of_text`] is ever put between
/// documents, by whoever puts them together.
pub struct Tokenizer {
    facts: TokenizerFacts,
    machine: Machine,
}

enum Machine {
    Bytes,
    Bpe(Box<CoreBPE>),
    Hf { tokenizer: Box<tokenizers::Tokenizer>, definition: Vec<u8> },
}

impl Tokenizer {
    /// Loads it. Vocabularies of GPT-2 and o200k are built in; nothing is fetched.
    ///
    /// # Errors
    /// A file cannot be read or is no `tokenizer.json`.
    pub fn open(spec: &TokenizerSpec) -> Result<Self, TokenizerError> {
        match spec {
            TokenizerSpec::Bytes => Ok(Self::bytes()),
            TokenizerSpec::Gpt2 => Self::bpe(TokenizerKind::Gpt2, 50_257, 50_256, tiktoken_rs::r50k_base()),
            TokenizerSpec::O200k => Self::bpe(TokenizerKind::O200k, 200_019, 199_999, tiktoken_rs::o200k_base()),
            TokenizerSpec::Hf(path) => Self::hf(path),
        }
    }

    fn bytes() -> Self {
        let digest = Digest::of(b"shoal tokenizer: bytes");
        let facts = TokenizerFacts { kind: TokenizerKind::Bytes, digest, vocab: 256, end_of_text: None };
        Self { facts, machine: Machine::Bytes }
    }

    fn bpe<E: std::fmt::Display>(
        kind: TokenizerKind,
        vocab: u32,
        end: u32,
        loaded: Result<CoreBPE, E>,
    ) -> Result<Self, TokenizerError> {
        let bpe = loaded.map_err(|error| TokenizerError::BuiltIn { kind, found: error.to_string() })?;
        // The way a text is split into words is part of the name.
        let mut hasher = blake3::Hasher::new();
        hasher.update(format!("shoal tokenizer: {kind}").as_bytes());
        for token in 0..vocab {
            // o200k has numbers without a token between its words and its special tokens.
            let bytes = bpe.decode_bytes(&[token]).unwrap_or_default();
            hasher.update(&token.to_le_bytes()).update(&(bytes.len() as u32).to_le_bytes()).update(&bytes);
        }
        let digest = Digest(*hasher.finalize().as_bytes());
        let facts = TokenizerFacts { kind, digest, vocab, end_of_text: Some(end) };
        Ok(Self { facts, machine: Machine::Bpe(Box::new(bpe)) })
    }

    fn hf(path: &Path) -> Result<Self, TokenizerError> {
        let path = &if path.is_dir() { path.join("tokenizer.json") } else { path.to_owned() };
        let format = |found: String| TokenizerError::Format { path: path.clone(), found };
        let definition = small::read(path).map_err(|unread| match unread {
            Unread::Read(source) => TokenizerError::Read { path: path.clone(), source },
            Unread::Other(found) => format(found),
        })?;
        let mut tokenizer =
            tokenizers::Tokenizer::from_bytes(&definition).map_err(|error| format(other(&definition, &error)))?;
        tokenizer.with_truncation(None).map_err(|error| format(error.to_string()))?;
        tokenizer.with_padding(None);
        tokenizer.set_encode_special_tokens(true);
        let last =
            tokenizer.get_vocab(true).into_values().max().ok_or_else(|| format("it has no tokens".to_owned()))?;
        if last >= MOST_VOCAB {
            return Err(format(format!("its last token is {last}; allowed: below {MOST_VOCAB}")));
        }
        let vocab = last + 1;
        let facts = TokenizerFacts {
            kind: TokenizerKind::Hf,
            digest: Digest::of(&definition),
            vocab,
            end_of_text: ENDS.iter().find_map(|name| tokenizer.token_to_id(name)),
        };
        Ok(Self { facts, machine: Machine::Hf { tokenizer: Box::new(tokenizer), definition } })
    }

    /// The same, with another token between documents.
    ///
    /// # Errors
    /// It has no such token.
    pub fn ending_with(mut self, token: &str) -> Result<Self, TokenizerError> {
        let found = match &self.machine {
            Machine::Bytes => None,
            Machine::Bpe(bpe) => bpe
                .encode_with_special_tokens(token)
                .first()
                .copied()
                .filter(|&id| bpe.decode_bytes(&[id]).is_ok_and(|bytes| bytes == token.as_bytes())),
            Machine::Hf { tokenizer, .. } => tokenizer.token_to_id(token),
        };
        let kind = self.facts.kind;
        let found = found.ok_or_else(|| TokenizerError::NoToken { kind, token: token.to_owned() })?;
        self.facts.end_of_text = Some(found);
        Ok(self)
    }

    /// What a job records of it.
    #[must_use]
    pub fn facts(&self) -> TokenizerFacts {
        self.facts
    }

    /// Its file, if it has one.
    #[must_use]
    pub fn definition(&self) -> Option<&[u8]> {
        match &self.machine {
            Machine::Bytes | Machine::Bpe(_) => None,
            Machine::Hf { definition, .. } => Some(definition),
        }
    }

    /// One more than its last token.
    #[must_use]
    pub fn vocab(&self) -> u32 {
        self.facts.vocab
    }

    /// Which numbers of its vocabulary have a text; not all need to.
    #[must_use]
    pub fn texts(&self) -> Vec<bool> {
        let has = |token| match &self.machine {
            Machine::Bytes | Machine::Bpe(_) => self.bytes_of(token).is_some(),
            Machine::Hf { tokenizer, .. } => tokenizer.id_to_token(token).is_some(),
        };
        (0..self.facts.vocab).map(has).collect()
    }

    /// What a token is called in its file, if it has one.
    #[must_use]
    pub fn name_of(&self, token: u32) -> Option<String> {
        match &self.machine {
            Machine::Bytes | Machine::Bpe(_) => None,
            Machine::Hf { tokenizer, .. } => tokenizer.id_to_token(token),
        }
    }

    /// The token between documents, if it has one.
    #[must_use]
    pub fn end_of_text(&self) -> Option<u32> {
        self.facts.end_of_text
    }

    /// Where a text may be cut.
    #[must_use]
    pub fn cuts(&self) -> Cuts {
        match &self.machine {
            Machine::Bytes => Cuts::Anywhere,
            Machine::Bpe(_) => Cuts::LineStarts,
            Machine::Hf { .. } => Cuts::Nowhere,
        }
    }

    /// Bytes that [`Tokenizer::encode`] takes for a text of so many bytes, text and tokens included.
    #[must_use]
    pub fn bytes_to_encode(&self, text: u64) -> u64 {
        text.saturating_mul(match &self.machine {
            Machine::Bytes | Machine::Bpe(_) => BUILT_IN_BYTES,
            Machine::Hf { .. } => HF_BYTES,
        })
    }

    /// Appends the tokens of a text.
    ///
    /// # Errors
    /// The text has a run of characters that is too long to be split, unless tokens are bytes. A `tokenizer.json` may have no
    /// token for something and none for the unknown.
    pub fn encode(&self, text: &str, out: &mut Vec<u32>) -> Result<(), TokenizerError> {
        let cannot = |found: String| TokenizerError::Encode { kind: self.facts.kind, found };
        let splits = || Run::default().over(text).map_or(Ok(()), |_| Err(cannot(runs::too_long())));
        match &self.machine {
            Machine::Bytes => out.extend(text.bytes().map(u32::from)),
            Machine::Bpe(bpe) => {
                splits()?;
                // No special token is allowed, so this is `encode_ordinary`, which panics where this gives an error.
                let (tokens, _) = bpe.encode(text, &HashSet::new()).map_err(|error| cannot(error.to_string()))?;
                out.extend(tokens);
            }
            Machine::Hf { tokenizer, .. } => {
                splits()?;
                let encoding = tokenizer.encode_fast(text, false).map_err(|error| cannot(error.to_string()))?;
                out.extend_from_slice(encoding.get_ids());
            }
        }
        Ok(())
    }

    /// The text of tokens; what is not UTF-8 in it becomes U+FFFD.
    ///
    /// # Errors
    /// A token is not in the vocabulary.
    pub fn decode(&self, tokens: &[u32]) -> Result<String, TokenizerError> {
        let unknown = |token| TokenizerError::Unknown { kind: self.facts.kind, token, vocab: self.facts.vocab };
        match &self.machine {
            Machine::Bytes | Machine::Bpe(_) => {
                let mut bytes = Vec::with_capacity(tokens.len() * 4);
                for &token in tokens {
                    bytes.extend(self.bytes_of(token).ok_or_else(|| unknown(token))?);
                }
                Ok(String::from_utf8_lossy(&bytes).into_owned())
            }
            Machine::Hf { tokenizer, .. } => {
                if let Some(&token) = tokens.iter().find(|&&token| tokenizer.id_to_token(token).is_none()) {
                    return Err(unknown(token));
                }
                tokenizer
                    .decode(tokens, false)
                    .map_err(|error| TokenizerError::Encode { kind: self.facts.kind, found: error.to_string() })
            }
        }
    }

    /// Text of tokens that come one by one.
    #[must_use]
    pub fn stream(&self) -> TextStream<'_> {
        TextStream::new(self)
    }

    /// The tokens by their text, special ones included.
    #[must_use]
    pub fn special_tokens(&self) -> BTreeMap<String, u32> {
        match &self.machine {
            Machine::Bytes => BTreeMap::new(),
            Machine::Bpe(bpe) => {
                let of = |name: &str| bpe.encode_with_special_tokens(name).first().copied();
                bpe.special_tokens().into_iter().filter_map(|name| Some((name.to_owned(), of(name)?))).collect()
            }
            Machine::Hf { tokenizer, .. } => {
                let added = tokenizer.get_added_tokens_decoder().into_iter();
                added.filter(|(_, token)| token.special).map(|(id, token)| (token.content, id)).collect()
            }
        }
    }

    /// Bytes of a token of a tokenizer that works on bytes.
    fn bytes_of(&self, token: u32) -> Option<Vec<u8>> {
        match &self.machine {
            Machine::Bytes => u8::try_from(token).ok().map(|byte| vec![byte]),
            Machine::Bpe(bpe) => bpe.decode_bytes(&[token]).ok(),
            Machine::Hf { .. } => None,
        }
    }
}

/// What a file is instead of a tokenizer, in words; `error` is the crate's, which takes every other JSON for a broken one.
fn other(definition: &[u8], error: &tokenizers::Error) -> String {
    match serde_json::from_slice::<serde_json::Value>(definition) {
        Ok(serde_json::Value::Object(keys)) if !keys.contains_key("model") => {
            let found: Vec<&str> = keys.keys().take(3).map(String::as_str).collect();
            format!("it is a JSON object without the key \"model\" (it begins with {})", found.join(", "))
        }
        Ok(serde_json::Value::Object(_)) => error.to_string(),
        Ok(_) => "it is JSON, but no object".to_owned(),
        Err(error) => format!("it is no JSON: {error}"),
    }
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokenizer").field("facts", &self.facts).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
