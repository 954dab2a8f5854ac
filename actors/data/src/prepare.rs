//! Text, JSONL or Parquet files to token shards and a manifest.
//!
//! 1. *Sources* are listed, read once and hashed.
//! 2. They are cut into *units* of some megabytes, by what the files hold and nothing else.
//! 3. Threads turn units into tokens, each into a file of its own under `.prepare/`.
//! 4. The units' tokens, one after the other, are cut into *shards*; a unit's file goes when the shards that hold its tokens
//!    are durable.
//! 5. The manifest is written.
//!
//! * PR-1 (the same bytes): shards and manifest are a function of the request and of what the sources hold; neither threads
//!   nor kills enter.
//! * PR-2 (whole or not there): every file that counts is written aside, made durable, then named. A run that finds
//!   `.prepare/` of the same request goes on with what is there.
//! * PR-3 (nothing of others): a directory that holds anything else is refused.
//! * PR-4 (counts are plain data): numbers only, which JSON always has a form for.
//! * PR-5 (a request is plain data): likewise words, numbers and lists of them.
//! * PR-6 (no thread panics with results in hand): a thread holds the lock only to put its own result there.
//! * PR-7 (three numbers): a unit's header is three u64 long, and is read whole.
//! * PR-8 (it was found to be text up to here): what is cut off for a look lies before the first byte that is no text.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use shoal_config::spec::TokenizerSpec;

use crate::documents::{BadDocument, Form, Reading};
use crate::manifest::Manifest;
use crate::shard;
use crate::tokenizer::Tokenizer;

mod assemble;
mod error;
mod place;
mod sources;
mod units;
mod work;

pub use error::PrepareError;

use place::{Place, Standing};

/// Bytes of a unit, about: what a thread holds at a time.
const UNIT_BYTES: u64 = 4 << 20;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// What makes tokens.
    pub tokenizer: TokenizerSpec,
    /// The token between documents, if not the tokenizer's own.
    pub end_of_text: Option<String>,
    /// Where that token stands; `None` for after each document if there is one.
    pub separate: Option<Separate>,
    /// Files, directories, or patterns.
    pub inputs: Vec<String>,
    /// What files are made of, if their names do not say so.
    pub form: Option<Form>,
    /// Field or column of a document's text.
    pub field: String,
    /// What separates documents of a text file; else a file is one.
    pub split_on: Option<String>,
    /// Which tokens validate.
    pub validation: Validation,
    /// Tokens of a full shard.
    pub shard_tokens: u64,
    /// Whether what is no document is left out and counted, or ends the work.
    pub skip_bad: bool,
    /// Threads.
    pub threads: usize,
    /// Where to.
    pub out: PathBuf,
}

/// Which tokens validate.
#[derive(Clone, Debug, PartialEq)]
pub enum Validation {
    /// The last share of all tokens.
    Share(f64),
    /// Files of their own.
    Inputs(Vec<String>),
}

/// Where the end-of-text token stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Separate {
    /// After each document, as nanoGPT does.
    Append,
    /// Before each document, as llm.c does.
    Prepend,
    /// Nowhere.
    Nothing,
}

impl Separate {
    /// All there are.
    pub const ALL: [Self; 3] = [Self::Append, Self::Prepend, Self::Nothing];

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Append => "append",
            Self::Prepend => "prepend",
            Self::Nothing => "none",
        }
    }
}

/// What is being done, and in what its progress is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Reading and hashing sources, in bytes.
    Reading,
    /// Making tokens, in bytes of the sources.
    Tokenizing,
    /// Writing shards, in tokens.
    Writing,
    /// Hashing shards, in tokens.
    Hashing,
}

/// Follows the work; called from its threads.
pub trait Watch: Sync {
    /// A phase begins, of which so much is to be done.
    fn phase(&self, phase: Phase, total: u64);
    /// So much more is done.
    fn advance(&self, amount: u64);
    /// Something was left out.
    fn skipped(&self, bad: &BadDocument);
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Prepared {
    /// What is in the directory.
    pub manifest: Manifest,
    /// Whether it was all there before, of the same request.
    pub already: bool,
    /// Units that an earlier run had done.
    pub resumed_units: u64,
}

/// Does it, or goes on with it.
///
/// # Errors
/// The request makes no sense, a file cannot be read or written, something is no document and is not to be skipped, or the
/// directory holds something else.
pub fn prepare(request: &Request, watch: &dyn Watch) -> Result<Prepared, PrepareError> {
    prepare_in_units(request, UNIT_BYTES, watch)
}

fn prepare_in_units(request: &Request, unit_bytes: u64, watch: &dyn Watch) -> Result<Prepared, PrepareError> {
    let asked = Asked::of(request)?;
    let place = Place::take(&request.out)?;
    let stop = AtomicBool::new(false);
    let sources = sources::read(&asked, watch, &stop)?;
    let plan = units::plan(&asked, sources, unit_bytes)?;
    match place.standing(&plan.request)? {
        Standing::Done(manifest) => {
            let manifest = *manifest;
            assemble::verify(&place, &manifest, request.threads, watch)?;
            place.clear()?;
            return Ok(Prepared { manifest, already: true, resumed_units: 0 });
        }
        Standing::Begun => {}
        Standing::Empty => place.begin(&plan.request)?,
    }
    let (counts, resumed_units) = match place.counts(plan.units.len())? {
        Some(counts) => (counts, plan.units.len() as u64),
        None => work::tokenize(&asked, &plan, &place, watch, &stop)?,
    };
    let manifest = assemble::assemble(&asked, &plan, &counts, &place, watch)?;
    place.clear()?;
    Ok(Prepared { manifest, already: false, resumed_units })
}

/// A request that makes sense, its tokenizer loaded.
struct Asked<'r> {
    request: &'r Request,
    tokenizer: Tokenizer,
    separate: Separate,
    reading: Reading,
}

impl<'r> Asked<'r> {
    fn of(request: &'r Request) -> Result<Self, PrepareError> {
        let mut tokenizer = Tokenizer::open(&request.tokenizer)?;
        if let Some(token) = &request.end_of_text {
            tokenizer = tokenizer.ending_with(token)?;
        }
        let separate = match (request.separate, tokenizer.end_of_text()) {
            (Some(Separate::Nothing), _) | (None, None) => Separate::Nothing,
            (None, Some(_)) => Separate::Append,
            (Some(separate), Some(_)) => separate,
            (Some(separate), None) => {
                return Err(PrepareError::NoEnd { kind: tokenizer.facts().kind, separate: separate.word() });
            }
        };
        if request.split_on.as_deref() == Some("") {
            return Err(PrepareError::Separator);
        }
        if !(1..=shard::MOST_TOKENS).contains(&request.shard_tokens) {
            return Err(PrepareError::ShardTokens { found: request.shard_tokens, most: shard::MOST_TOKENS });
        }
        match request.validation {
            Validation::Share(share) if !(0.0..=0.5).contains(&share) => Err(PrepareError::Share { found: share }),
            Validation::Share(_) | Validation::Inputs(_) => {
                let reading = Reading {
                    field: request.field.clone(),
                    split_on: request.split_on.clone(),
                    cuts: tokenizer.cuts(),
                    most: Reading::most(tokenizer.cuts()),
                };
                Ok(Self { request, tokenizer, separate, reading })
            }
        }
    }
}

#[cfg(test)]
mod tests;
