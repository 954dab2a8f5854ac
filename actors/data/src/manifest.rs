//! What a directory of token shards says of itself.
//!
//! * MF-1 (a manifest is plain data): words, numbers and lists of them, which JSON always has a form for.
//! * MF-2 (a manifest that was read is checked): [`Manifest::read`] takes only words and digests that it knows, and nobody
//!   else makes one to be asked.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use shoal_plan::ids::Digest;
use shoal_plan::job::{TokenizerFacts, TokenizerKind};

use crate::shard::{self, Width};
use crate::small::{self, Unread};
use crate::tokenizer::MOST_VOCAB;

/// Its name in the directory.
pub const FILE: &str = "manifest.json";
/// Name of the tokenizer's own file beside it, if it has one.
pub const TOKENIZER_FILE: &str = "tokenizer.json";
/// What `format` says.
const FORMAT: &str = "shoal token shards";
const VERSION: u32 = 1;

/// `manifest.json`. It is written last: where it is, all shards are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Always the same words.
    pub format: String,
    /// Of this form.
    pub version: u32,
    /// What made the tokens.
    pub tokenizer: TokenizerEntry,
    /// Bytes of a token in the shards, 2 or 4.
    pub token_bytes: u64,
    /// Documents that went in.
    pub documents: u64,
    /// Documents that were no documents and were left out.
    pub skipped: u64,
    /// Training tokens.
    pub train: Part,
    /// Validation tokens.
    pub validation: Part,
    /// How it was asked for.
    pub options: Options,
    /// What was read, in order.
    pub sources: Vec<Source>,
    /// blake3 of all that the bytes of the shards depend on.
    pub request: String,
}

/// What made the tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenizerEntry {
    /// `bytes`, `gpt2`, `o200k` or `hf` (then `tokenizer.json` lies beside the manifest).
    pub kind: String,
    /// blake3 of its definition.
    pub blake3: String,
    /// One more than its last token.
    pub vocab: u32,
    /// The token between documents.
    pub end_of_text: Option<u32>,
}

/// Shards that follow one another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// In all shards.
    pub tokens: u64,
    /// In order.
    pub shards: Vec<Shard>,
}

/// One token file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shard {
    /// Name in the directory.
    pub file: String,
    /// Tokens in it.
    pub tokens: u64,
    /// Of the whole file.
    pub blake3: String,
}

/// How it was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Where the end-of-text token stands: `append`, `prepend` or `none`.
    pub separate: String,
    /// Field or column of a document's text.
    pub field: String,
    /// What separates documents of a text file, if not its end.
    pub split_on: Option<String>,
    /// Share of the tokens that validates, if no sources of their own do.
    pub validation: Option<f64>,
    /// Tokens of a full shard.
    pub shard_tokens: u64,
    /// Whether what is no document was left out.
    pub skip_bad: bool,
}

/// One file that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// As it was named.
    pub path: String,
    /// `text`, `jsonl` or `parquet`.
    pub form: String,
    /// `train` or `validation`; of sources that give both, `train`.
    pub part: String,
    /// Its length.
    pub bytes: u64,
    /// Of all its bytes.
    pub blake3: String,
}

/// Why a manifest is not to be used.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// It cannot be read.
    #[error("{path} cannot be read; data of kind \"shards\" is a directory that `shoalctl data prepare` has finished")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It says something that cannot be.
    #[error("{path} is not a manifest that this build understands: {found}; prepare the data again")]
    Format {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        found: String,
    },
}

impl Manifest {
    /// Reads the manifest of a directory, or the one that is named; and where it lies.
    ///
    /// # Errors
    /// It cannot be read, or is not of this form.
    pub fn read(path: &Path) -> Result<(Self, PathBuf), ManifestError> {
        let path = &if path.is_dir() { path.join(FILE) } else { path.to_owned() };
        let wrong = |found: String| ManifestError::Format { path: path.clone(), found };
        let bytes = small::read(path).map_err(|unread| match unread {
            Unread::Read(source) => ManifestError::Read { path: path.clone(), source },
            Unread::Other(found) => wrong(found),
        })?;
        let manifest: Self = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
        manifest.check().map_err(wrong)?;
        Ok((manifest, path.parent().unwrap_or(Path::new(".")).to_owned()))
    }

    /// An empty one of this form.
    pub(crate) fn new(tokenizer: &TokenizerFacts, options: Options, sources: Vec<Source>, request: &Digest) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            tokenizer: TokenizerEntry {
                kind: tokenizer.kind.to_string(),
                blake3: tokenizer.digest.to_hex(),
                vocab: tokenizer.vocab,
                end_of_text: tokenizer.end_of_text,
            },
            token_bytes: Width::of(tokenizer.vocab).bytes(),
            documents: 0,
            skipped: 0,
            train: Part::default(),
            validation: Part::default(),
            options,
            sources,
            request: request.to_hex(),
        }
    }

    /// As bytes of a file.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).expect("MF-1 (a manifest is plain data)");
        bytes.push(b'\n');
        bytes
    }

    /// What a job records of the tokenizer.
    ///
    /// # Panics
    /// If it was not read by [`Manifest::read`], which checks the words.
    #[must_use]
    pub fn tokenizer(&self) -> TokenizerFacts {
        let entry = &self.tokenizer;
        TokenizerFacts {
            kind: TokenizerKind::named(&entry.kind).expect("MF-2 (a manifest that was read is checked)"),
            digest: digest(&entry.blake3).expect("MF-2 (a manifest that was read is checked)"),
            vocab: entry.vocab,
            end_of_text: entry.end_of_text,
        }
    }

    fn check(&self) -> Result<(), String> {
        if self.format != FORMAT || self.version != VERSION {
            return Err(format!("it says format \"{}\", version {}", self.format, self.version));
        }
        if TokenizerKind::named(&self.tokenizer.kind).is_none() {
            return Err(format!("tokenizer \"{}\" is not known", self.tokenizer.kind));
        }
        if digest(&self.tokenizer.blake3).is_none() {
            return Err("the tokenizer's blake3 is not 64 hexadecimal digits".to_owned());
        }
        let (vocab, end) = (self.tokenizer.vocab, self.tokenizer.end_of_text);
        if !(1..=MOST_VOCAB).contains(&vocab) {
            return Err(format!("a vocabulary of {vocab}; allowed: 1 to {MOST_VOCAB}"));
        }
        if let Some(end) = end.filter(|end| *end >= vocab) {
            return Err(format!("end of text {end} in a vocabulary of {vocab}"));
        }
        let width = Width::of(vocab).bytes();
        if self.token_bytes != width {
            return Err(format!("{} bytes a token for a vocabulary of {}", self.token_bytes, self.tokenizer.vocab));
        }
        for part in [&self.train, &self.validation] {
            let mut tokens: u64 = 0;
            for shard in &part.shards {
                if shard.file.contains('/') || shard.file.starts_with('.') || shard.file.is_empty() {
                    return Err(format!("shard \"{}\" is not a file name", shard.file));
                }
                if shard.tokens > shard::MOST_TOKENS || digest(&shard.blake3).is_none() {
                    return Err(format!("shard {} has impossible tokens or blake3", shard.file));
                }
                tokens = tokens.saturating_add(shard.tokens);
            }
            if tokens != part.tokens {
                return Err(format!("{} tokens, and its shards have {tokens}", part.tokens));
            }
        }
        Ok(())
    }
}

/// A digest of 64 hexadecimal digits.
#[must_use]
pub fn digest(hex: &str) -> Option<Digest> {
    blake3::Hash::from_hex(hex).ok().map(|hash| Digest(*hash.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::tokenizer::Tokenizer;

    #[test]
    fn what_is_no_manifest_is_named_and_not_read_into_memory() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("train.bin");
        let big = fs::File::create(&path).expect("made");
        big.set_len(small::MOST + 1).expect("a hole");
        let said = |path: &Path| Manifest::read(path).expect_err("refused").to_string();
        assert!(said(&path).contains("it has 268435457 bytes; allowed: at most 268435456"), "{}", said(&path));
        let spec = shoal_config::spec::TokenizerSpec::Hf(path.clone());
        let error = Tokenizer::open(&spec).expect_err("refused").to_string();
        assert!(error.contains("it has 268435457 bytes"), "{error}");
        let pipe = dir.path().join("pipe");
        let user = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, user, 0).expect("a pipe");
        assert!(said(&pipe).contains("it is not a regular file"), "{}", said(&pipe));
        let spec = shoal_config::spec::TokenizerSpec::Hf(pipe);
        assert!(Tokenizer::open(&spec).expect_err("refused").to_string().contains("it is not a regular file"));
    }

    #[test]
    fn vocabularies_that_no_model_has_are_refused() {
        let options = Options {
            separate: "none".to_owned(),
            field: "text".to_owned(),
            split_on: None,
            validation: None,
            shard_tokens: 1,
            skip_bad: false,
        };
        let facts = |vocab, end_of_text| TokenizerFacts {
            kind: TokenizerKind::Hf,
            digest: Digest::of(b"any"),
            vocab,
            end_of_text,
        };
        let of =
            |vocab, end| Manifest::new(&facts(vocab, end), options.clone(), Vec::new(), &Digest::of(b"any")).check();
        assert_eq!(of(1 << 20, Some((1 << 20) - 1)), Ok(()));
        assert!(of((1 << 20) + 1, None).expect_err("refused").contains("allowed: 1 to 1048576"));
        assert!(of(0, None).is_err() && of(100, Some(100)).expect_err("refused").contains("end of text 100"));
    }
}
