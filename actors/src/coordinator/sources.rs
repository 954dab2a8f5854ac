//! All that a job reads from files: its data, and the weights that it begins with.

use shoal_config::JobSpec;
use shoal_model::files::{Files, FilesError};
use shoal_plan::blocks::ModelTable;
use shoal_plan::job::DataFacts;
use shoal_plan::weights::WeightFacts;

use super::error::RequestError;
use crate::loader::{Corpus, DataError, Reading};

/// Opened, and not yet read.
#[derive(Debug)]
pub struct Sources {
    corpus: Corpus,
    /// Initial weights; none if they are drawn.
    files: Option<Files>,
    table: ModelTable,
}

/// How far the reading of both is.
#[derive(Debug, Default)]
pub(super) struct Readings {
    /// Counts tokens.
    pub(super) data: Reading,
    /// Counts elements; begins when the data is read.
    pub(super) weights: Reading,
}

/// What was found in both.
pub type Facts = (DataFacts, Option<WeightFacts>);

/// What is wrong with one of the two.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The tokens.
    #[error("the job's data cannot be used")]
    Data(#[source] DataError),
    /// The initial weights.
    #[error("the job's initial weights cannot be used")]
    Weights(#[source] FilesError),
}

impl From<SourceError> for RequestError {
    fn from(error: SourceError) -> Self {
        match error {
            SourceError::Data(error) => Self::Data(error),
            SourceError::Weights(error) => Self::Weights(error),
        }
    }
}

impl Sources {
    /// Opens the files and checks their form.
    ///
    /// # Errors
    /// As [`Corpus::open`], [`Corpus::check_evaluation`] and [`Files::open`].
    pub fn open(spec: &JobSpec) -> Result<Self, SourceError> {
        let corpus = Corpus::open(&spec.data, &spec.model).map_err(SourceError::Data)?;
        corpus.check_evaluation(spec.train.evaluate.as_ref()).map_err(SourceError::Data)?;
        let table = ModelTable::of(&spec.model);
        let files = Files::open(&spec.init, &spec.model, &table).map_err(SourceError::Weights)?;
        Ok(Self { corpus, files, table })
    }

    /// Reads everything once.
    pub(super) fn read(&self, readings: &Readings) -> Result<Facts, SourceError> {
        let data = self.corpus.read_facts_watched(&readings.data).map_err(SourceError::Data)?;
        let Some(files) = &self.files else { return Ok((data, None)) };
        readings.weights.begin(self.table.blocks.iter().map(|block| block.len).sum());
        let go_on = |elements| readings.weights.advance(elements).is_ok();
        let weights = files.facts(&self.table, go_on).map_err(SourceError::Weights)?;
        Ok((data, Some(weights)))
    }
}

impl Readings {
    /// Nobody wants the rest.
    pub(super) fn stop(&self) {
        self.data.stop();
        self.weights.stop();
    }
}
