//! `export`: what it takes.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use shoal_config::Bytes;
use shoal_config::spec::Dtype;

use super::condition::{AtCommit, job_id};
use super::word;

/// Arguments of `export`.
#[derive(Debug, Args)]
#[group(skip)]
pub struct Export {
    /// Id of the job, such as `j1`.
    #[arg(value_parser = job_id)]
    pub job: String,
    /// Where to.
    #[command(flatten)]
    pub target: ExportTarget,
    /// Form of the files of `--to`.
    #[arg(long, value_enum, default_value_t = ModelForm::Hf, conflicts_with = "state")]
    pub format: ModelForm,
    /// How the weights of `--to` are stored; halves are rounded. Left out: as the files were that the job began with, each tensor
    /// by itself, or fp32.
    #[arg(long, value_parser = word::of(Dtype::ALL, Dtype::word), conflicts_with = "state")]
    pub dtype: Option<Dtype>,
    /// Largest file of weights in Hugging Face form, such as `5GB`; with more than one there is an index.
    #[arg(long, value_name = "SIZE", conflicts_with = "state")]
    pub shard_size: Option<Bytes>,
    /// After this committed step, `step=K`; else after the next one.
    #[arg(long, value_name = "step=K")]
    pub at: Option<AtCommit>,
    /// Give up after this long, with exit code 3.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = humantime::parse_duration)]
    pub timeout: Duration,
}

/// Forms of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModelForm {
    /// Hugging Face: config.json and safetensors.
    Hf,
    /// An llm.c checkpoint, for GPT-2.
    Llmc,
}

/// Where an export goes, and with it in which form.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct ExportTarget {
    /// A model that other programs read; `--format` says which.
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,
    /// The very tensors that the digest is defined over: weights and what the optimizer remembers.
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
}
