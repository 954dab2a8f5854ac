//! `eval`: what it takes.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use shoal_config::spec::DataFormat;

use super::condition::job_id;
use super::here::Here;

/// Arguments of `eval`.
#[derive(Debug, Args)]
pub struct Eval {
    /// Id of the job, such as `j1`.
    #[arg(value_parser = job_id)]
    pub job: String,
    /// What to look at [default: the job's own validation tokens, as many samples as its validation passes take].
    #[arg(long, value_name = "PATH")]
    pub data: Option<PathBuf>,
    /// What it is: `text` (one document, made tokens of as the job's data was; of bytes a directory too), `nanogpt`, `llmc` or `shards` (of which the validation
    /// tokens count, if there are any) [default: `shards` for a directory with a manifest, else what the job's data is, `text` if that is shards].
    #[arg(long, value_enum, value_name = "KIND", hide_possible_values = true, requires = "data")]
    pub kind: Option<DataKind>,
    /// What makes tokens of text: `bytes`, `gpt2`, `o200k`, or a tokenizer.json [default: what the job's data was made with].
    #[arg(long, value_name = "NAME|PATH", requires = "data")]
    pub tokenizer: Option<String>,
    /// Samples, from the beginning [default: all].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub samples: Option<u32>,
    /// With what it is computed.
    #[command(flatten)]
    pub here: Here,
}

/// Kinds of data, as a job file calls them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DataKind {
    /// UTF-8.
    Text,
    /// u16 tokens.
    Nanogpt,
    /// Tokens behind a header.
    Llmc,
    /// Made by `data prepare`.
    Shards,
}

impl DataKind {
    /// The format.
    #[must_use]
    pub fn format(self) -> DataFormat {
        match self {
            Self::Text => DataFormat::Text,
            Self::Nanogpt => DataFormat::NanoGpt,
            Self::Llmc => DataFormat::LlmC,
            Self::Shards => DataFormat::Shards,
        }
    }
}
