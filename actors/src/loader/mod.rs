//! Where tokens come from.
//!
//! [`Corpus`] is the token stream of a job: training tokens, then validation tokens, whatever files they lie in.
//! It keeps file handles and lengths, never the tokens: windows are read where they lie, so a worker's memory does not
//! grow with its data. [`facts`] reads everything once, at submission; a worker opens the same files and
//! refuses them if [`Corpus::verify`] finds other tokens than were submitted, at its start and whenever a file was touched.

mod actor;
mod checked;
mod error;
mod files;
mod reading;
mod shards;
mod source;

use shoal_config::spec::{DataFormat, DataSpec, EvalSpec, ModelSpec, TokenizerSpec, Validation};
use shoal_data::Tokenizer;
use shoal_plan::ids::Digest;
use shoal_plan::job::{DataFacts, TokenizerFacts};

pub use actor::{Loader, LoaderActor, LoaderMsg, Reply, Split, Windows};
pub use error::DataError;
pub use reading::Reading;
pub use source::TokenSource;

use files::Stamp;

/// Training and validation tokens of a job.
#[derive(Debug)]
pub struct Corpus {
    train: TokenSource,
    validation: TokenSource,
    vocab: u32,
    /// What the manifest says that the tokens were made with.
    prepared: Option<TokenizerFacts>,
    data: DataSpec,
}

/// What is in the data: reads every token once.
///
/// # Errors
/// The data is missing, empty, too short for one sample, not in its format, or holds a token outside the vocabulary.
pub fn facts(data: &DataSpec, model: &ModelSpec) -> Result<DataFacts, DataError> {
    Corpus::open(data, model)?.read_facts()
}

impl Corpus {
    /// Opens the files and checks their form and length, not yet their tokens.
    ///
    /// # Errors
    /// As [`facts`], token values apart.
    pub fn open(data: &DataSpec, model: &ModelSpec) -> Result<Self, DataError> {
        let mut prepared = None;
        let (train, validation) = match &data.validation {
            Validation::Tail { fraction } => {
                let whole = TokenSource::open(data.format, &data.path)?;
                // The product is exact enough: both ends compute the same f64 operation.
                let tail = (whole.len() as f64 * fraction).floor() as u64;
                let cut = whole.len() - tail.min(whole.len());
                whole.split_at(cut)
            }
            Validation::Path(path) => {
                (TokenSource::open(data.format, &data.path)?, TokenSource::open(data.format, path)?)
            }
            Validation::Prepared => {
                let found = shards::open(&data.path, model.vocab())?;
                prepared = Some(found.tokenizer);
                (found.train, found.validation)
            }
        };
        let need = u64::from(model.context()) + 1;
        let prepared_apart = data.validation == Validation::Prepared;
        if train.len() < need {
            let (path, found) = (data.path.clone(), train.len());
            return Err(DataError::TooShort { path, part: "training", prepared: prepared_apart, need, found });
        }
        if (1..need).contains(&validation.len()) {
            let path = match &data.validation {
                Validation::Tail { .. } | Validation::Prepared => data.path.clone(),
                Validation::Path(path) => path.clone(),
            };
            let found = validation.len();
            return Err(DataError::TooShort { path, part: "validation", prepared: prepared_apart, need, found });
        }
        Ok(Self { train, validation, vocab: model.vocab(), prepared, data: data.clone() })
    }

    /// Whether there is something for the passes that a job asks for.
    ///
    /// # Errors
    /// There is nothing.
    pub fn check_evaluation(&self, evaluate: Option<&EvalSpec>) -> Result<(), DataError> {
        match evaluate {
            Some(EvalSpec { every, .. }) if self.validation.is_empty() => Err(DataError::NoValidation {
                path: self.data.path.clone(),
                every: *every,
                prepared: self.data.validation == Validation::Prepared,
            }),
            Some(_) | None => Ok(()),
        }
    }

    /// Reads every token once.
    ///
    /// # Errors
    /// A file cannot be read, is not UTF-8 though it is declared as text, holds a token outside the vocabulary, or is not what
    /// its manifest says; or the data was made with another tokenizer than the job names.
    pub fn read_facts(&self) -> Result<DataFacts, DataError> {
        self.read_facts_watched(&Reading::default())
    }

    /// As [`Corpus::read_facts`]; `reading` shows how far it is and can stop it.
    ///
    /// # Errors
    /// As [`Corpus::read_facts`], or it was stopped.
    pub fn read_facts_watched(&self, reading: &Reading) -> Result<DataFacts, DataError> {
        let tokenizer = self.tokenizer()?;
        Ok(DataFacts { tokenizer, ..self.read_tokens(reading)? })
    }

    /// What made the tokens, as far as it is known.
    fn tokenizer(&self) -> Result<Option<TokenizerFacts>, DataError> {
        let found = match self.data.format {
            DataFormat::Text => Some(Tokenizer::open(&TokenizerSpec::Bytes)?.facts()),
            DataFormat::NanoGpt | DataFormat::LlmC => None,
            DataFormat::Shards => self.prepared,
        };
        let Some(asked) = &self.data.tokenizer else { return Ok(found) };
        let asked = Tokenizer::open(asked)?.facts();
        let path = &self.data.path;
        // What was made with another tokenizer is said so first: neither's vocabulary would help.
        if let Some(found) = found.filter(|found| found.digest != asked.digest) {
            return Err(DataError::OtherTokenizer { path: path.clone(), asked: asked.into(), found: found.into() });
        }
        shards::check_vocab(path, &asked, self.vocab)?;
        Ok(Some(found.unwrap_or(asked)))
    }

    fn read_tokens(&self, reading: &Reading) -> Result<DataFacts, DataError> {
        reading.begin(self.train.len() + self.validation.len());
        let digest = |tokens: &TokenSource| {
            let mut hasher = blake3::Hasher::new();
            tokens.scan(self.vocab, &mut hasher, reading)?;
            Ok::<_, DataError>(Digest(*hasher.finalize().as_bytes()))
        };
        Ok(DataFacts {
            digest: digest(&self.train)?,
            train_tokens: self.train.len(),
            validation_digest: digest(&self.validation)?,
            validation_tokens: self.validation.len(),
            tokenizer: None,
        })
    }

    /// Refuses data that differs from what was submitted.
    ///
    /// # Errors
    /// As [`Corpus::read_facts`], or the tokens differ.
    pub fn verify(&self, submitted: &DataFacts) -> Result<(), DataError> {
        // It is the tokens that enter bits; what made them was looked at when the job was submitted.
        let found = DataFacts { tokenizer: submitted.tokenizer, ..self.read_tokens(&Reading::default())? };
        if found == *submitted {
            Ok(())
        } else {
            Err(DataError::Differs { submitted: Box::new(*submitted), found: Box::new(found) })
        }
    }

    /// Refuses validation tokens that differ from what was submitted; training tokens are not read.
    ///
    /// # Errors
    /// As [`Corpus::read_facts`], or the tokens differ.
    pub fn verify_validation(&self, submitted: &DataFacts) -> Result<(), DataError> {
        let mut hasher = blake3::Hasher::new();
        self.validation.scan(self.vocab, &mut hasher, &Reading::default())?;
        let digest = Digest(*hasher.finalize().as_bytes());
        let found = DataFacts { validation_digest: digest, validation_tokens: self.validation.len(), ..*submitted };
        if found == *submitted {
            Ok(())
        } else {
            Err(DataError::Differs { submitted: Box::new(*submitted), found: Box::new(found) })
        }
    }

    /// Tokens of this corpus, each looked at once.
    ///
    /// # Errors
    /// As [`Corpus::read_facts`].
    pub fn check(&self, tokens: TokenSource) -> Result<TokenSource, DataError> {
        tokens.scan(self.vocab, &mut blake3::Hasher::new(), &Reading::default())?;
        Ok(tokens)
    }

    /// What the file system says of all files; equal as long as nobody touched one.
    fn stamps(&self) -> Result<Vec<Stamp>, DataError> {
        let mut stamps = self.train.stamps()?;
        stamps.extend(self.validation.stamps()?);
        Ok(stamps)
    }

    /// Training tokens.
    #[must_use]
    pub fn train(&self) -> &TokenSource {
        &self.train
    }

    /// Validation tokens.
    #[must_use]
    pub fn validation(&self) -> &TokenSource {
        &self.validation
    }
}

/// A format by the word that job files use.
fn word(format: DataFormat) -> &'static str {
    match format {
        DataFormat::Text => "text",
        DataFormat::NanoGpt => "nanogpt",
        DataFormat::LlmC => "llmc",
        DataFormat::Shards => "shards",
    }
}

#[cfg(test)]
mod tests;
