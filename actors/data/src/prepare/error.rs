//! Why data was not prepared.

use std::io;
use std::path::PathBuf;

use shoal_plan::job::TokenizerKind;

use crate::documents::{BadDocument, SourceError};
use crate::manifest::ManifestError;
use crate::tokenizer::TokenizerError;

/// What was asked, what was found, what to do.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// The tokenizer.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// A source.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// An input that is nowhere.
    #[error("input {input} names no file; give a file, a directory or a pattern such as 'data/*.jsonl'")]
    NoInput {
        /// As asked.
        input: String,
    },
    /// An input that is neither there nor a pattern.
    #[error("input {input} is not there, and as a pattern it is wrong: {found}; `[*]` stands for a star itself")]
    Pattern {
        /// As asked.
        input: String,
        /// What is wrong.
        found: String,
    },
    /// A file whose name does not say what it is made of.
    #[error(
        "{path} is neither .txt, .md, .jsonl, .ndjson nor .parquet; say what it is with --format text, jsonl or parquet"
    )]
    Unknown {
        /// Which.
        path: PathBuf,
    },
    /// An input that is compressed.
    #[error("{path} is compressed; decompress it first (Parquet's own compression is read)")]
    Compressed {
        /// Which.
        path: PathBuf,
    },
    /// The same file twice.
    #[error("{path} is named twice; each source is read once")]
    Twice {
        /// Which.
        path: PathBuf,
    },
    /// Nothing in it.
    #[error("the inputs hold no token; is --field \"{field}\" where the text is?")]
    Nothing {
        /// Field or column of a document's text.
        field: String,
    },
    /// A separator of nothing.
    #[error("--split-on is empty; give what stands between documents, or leave it out: then a file is a document")]
    Separator,
    /// A shard of nothing or too much.
    #[error("--shard-tokens is {found}; allowed: a whole number from 1 to {most}")]
    ShardTokens {
        /// As asked.
        found: u64,
        /// What the format holds.
        most: u64,
    },
    /// Shards beyond what their names count.
    #[error(
        "--shard-tokens {asked} makes {shards} shards of {tokens} tokens, and {most} can be named; ask for larger ones"
    )]
    Shards {
        /// As asked.
        asked: u64,
        /// How many that makes.
        shards: u64,
        /// Tokens in all.
        tokens: u64,
        /// How many there may be.
        most: u64,
    },
    /// Not a share.
    #[error("--validation is {found}; allowed: a share from 0 to 0.5, or paths")]
    Share {
        /// As asked.
        found: f64,
    },
    /// Something to put between documents that is not there.
    #[error(
        "tokenizer {kind} has no end-of-text token to {separate}; use --separate none, or name one with --end-of-text"
    )]
    NoEnd {
        /// Which tokenizer.
        kind: TokenizerKind,
        /// As asked.
        separate: &'static str,
    },
    /// Not a document.
    #[error("{0}; mend it, or leave such documents out with --skip-bad")]
    Bad(BadDocument),
    /// Written to while it was read.
    #[error(
        "{path} was changed while it was read; let nobody write to the inputs. If the change is wanted, remove {out} and run the \
         same command again; if not, put the file back and run it: what is done is kept"
    )]
    Changed {
        /// Which source.
        path: PathBuf,
        /// The directory.
        out: PathBuf,
    },
    /// A directory of something else.
    #[error("{out} is not empty and holds no unfinished preparation; give --out a new directory")]
    NotEmpty {
        /// The directory.
        out: PathBuf,
    },
    /// Another request's.
    #[error(
        "{out} holds {what} of other inputs or options than these; run it as it was begun, give --out another directory, \
         or remove this one"
    )]
    Other {
        /// The directory.
        out: PathBuf,
        /// `an unfinished preparation` or `shards`.
        what: &'static str,
    },
    /// Two at once.
    #[error("another `shoalctl data prepare` works in {out}; wait for it, or give --out another directory")]
    Busy {
        /// The directory.
        out: PathBuf,
    },
    /// A file of ours.
    #[error("cannot {action} {path}")]
    File {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The disk is full.
    #[error("no room is left for {path}; what is done stays: free some on that disk, then run the same command again")]
    Full {
        /// What was to be written.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A shard that is not what the manifest says.
    #[error("{path} is not what the manifest says of it; remove {out} and prepare the data again")]
    Damaged {
        /// The shard.
        path: PathBuf,
        /// The directory.
        out: PathBuf,
    },
    /// A manifest that is none.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

impl PrepareError {
    /// For `map_err` on file operations.
    pub(super) fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { path, source },
            _ => Self::File { action, path, source },
        }
    }
}
