//! What can be wrong with data, and what to do about it.

use std::io;
use std::path::PathBuf;

use shoal_data::manifest::ManifestError;
use shoal_data::tokenizer::TokenizerError;
use shoal_plan::job::{DataFacts, TokenizerFacts, TokenizerKind};

/// What was asked, what was found, what to do.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// Nothing is there.
    #[error("data path {path} does not exist; correct [data] path, it must be readable on every node")]
    Missing {
        /// As asked.
        path: PathBuf,
    },
    /// Something is there and cannot be read.
    #[error("data file {path} cannot be read; it must be a regular file that the daemons may read")]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// No token at all.
    #[error("data path {path} holds no token; point [data] path at a file (or, for text, a directory) with some")]
    Empty {
        /// As asked.
        path: PathBuf,
    },
    /// Not one sample.
    #[error(
        "{path} gives {found} {part} tokens, and one sample takes {need} (context + 1); give more data, lower [model] \
         context, or {}", if *.prepared { "prepare the data again with another --validation" } else { "change [data] validation" }
    )]
    TooShort {
        /// As asked.
        path: PathBuf,
        /// `training` or `validation`.
        part: &'static str,
        /// Whether it was `data prepare` that set tokens apart.
        prepared: bool,
        /// Tokens of one sample.
        need: u64,
        /// Tokens there.
        found: u64,
    },
    /// Nothing to evaluate with.
    #[error(
        "{path} gives no validation tokens, and the job asks for a validation pass every {every} steps; set [train] eval_every \
         = 0, or {}", if *.prepared { "prepare the data again with --validation" } else { "change [data] validation" }
    )]
    NoValidation {
        /// As asked.
        path: PathBuf,
        /// Steps from one pass to the next.
        every: u64,
        /// Whether it was `data prepare` that set no tokens apart.
        prepared: bool,
    },
    /// Not what `[data]` kind says.
    #[error("data file {path} is not in format `{format}`: {found}; set [data] kind to what the file is")]
    Format {
        /// Which file.
        path: PathBuf,
        /// As asked.
        format: &'static str,
        /// What is there instead.
        found: String,
    },
    /// A token that the model has no row for.
    #[error(
        "data file {path} holds token {token} at position {position}, and [model] vocab is {vocab}; raise vocab or \
         tokenize the data for it"
    )]
    Vocabulary {
        /// Which file.
        path: PathBuf,
        /// Tokens before it in this file.
        position: u64,
        /// The token.
        token: u32,
        /// Rows of the token table.
        vocab: u32,
    },
    /// A tokenizer whose tokens the model has not all rows for.
    #[error(
        "{path} was made with tokenizer {} of {} tokens, and [model] vocab is {vocab}; set vocab to at least {}",
        tokenizer.kind, tokenizer.vocab, tokenizer.vocab
    )]
    Narrow {
        /// As asked.
        path: PathBuf,
        /// What made the tokens.
        tokenizer: TokenizerFacts,
        /// Rows of the token table.
        vocab: u32,
    },
    /// Another tokenizer than the job names.
    #[error(
        "[data] tokenizer is {} ({}), and {path} was made with {} ({}); name that one, or leave the key out{}",
        asked.kind, asked.digest, found.kind, found.digest,
        if found.kind == TokenizerKind::Bytes { "; `shoalctl data prepare` makes shards of text with another" } else { "" }
    )]
    OtherTokenizer {
        /// As asked.
        path: PathBuf,
        /// The one that the job names.
        asked: Box<TokenizerFacts>,
        /// The one that the data was made with.
        found: Box<TokenizerFacts>,
    },
    /// The tokenizer that the job names.
    #[error("[data] tokenizer cannot be used")]
    Tokenizer(#[from] TokenizerError),
    /// The manifest.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// A shard of another length than the manifest says.
    #[error("shard {path} has {found}, and its manifest says {said}; prepare the data again, or copy all of it")]
    Shard {
        /// Which.
        path: PathBuf,
        /// What is there.
        found: String,
        /// What should be.
        said: String,
    },
    /// A shard with other bytes than the manifest says.
    #[error("shard {path} has not the bytes that its manifest says; prepare the data again, or copy all of it")]
    Damaged {
        /// Which.
        path: PathBuf,
    },
    /// Whoever wanted it does not any more.
    #[error("reading the data was stopped")]
    Stopped,
    /// Somebody touches the files all the time.
    #[error(
        "the data files were touched during each of {readings} readings; let nobody write to them while a job trains on them"
    )]
    Restless {
        /// Readings in a row during which a file's stamp changed.
        readings: u32,
    },
    /// Not what was submitted.
    #[error(
        "the data here has {} + {} tokens (training + validation) with digests {} + {}, the job was submitted with {} + {} and \
         digests {} + {}; copy the submitted files to this node",
        found.train_tokens, found.validation_tokens, found.digest, found.validation_digest,
        submitted.train_tokens, submitted.validation_tokens, submitted.digest, submitted.validation_digest
    )]
    Differs {
        /// At submission.
        submitted: Box<DataFacts>,
        /// Here and now.
        found: Box<DataFacts>,
    },
}
