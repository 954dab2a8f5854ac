//! `data`: what can be typed.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use shoal_data::documents::Form;
use shoal_data::prepare::Separate;

use super::word;

/// Data for jobs.
#[derive(Debug, Subcommand)]
pub enum Data {
    /// Turn text, JSONL or Parquet files into token shards with a manifest, for jobs with `kind = "shards"`. Can be killed and
    /// run again at any time: the same command goes on where it was, and ends with the same bytes.
    Prepare(Box<Prepare>),
}

/// Arguments of `data prepare`.
#[derive(Debug, Args)]
pub struct Prepare {
    /// `bytes`, `gpt2`, `o200k`, or the path of a tokenizer.json.
    #[arg(long, value_name = "NAME|PATH")]
    pub tokenizer: String,
    /// Files, directories (all files below, hidden ones apart) or patterns such as 'data/*.jsonl', in order.
    #[arg(long, value_name = "PATH", required = true, num_args = 1..)]
    pub input: Vec<String>,
    /// Where to; a new or empty directory, or the one of an unfinished run.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// What the files are, whatever their names say: `text`, `jsonl` or `parquet` [default: by their names; .txt, .text, .md or none, .jsonl, .ndjson, .parquet; others are refused].
    #[arg(long, value_name = "FORM", value_parser = word::of(Form::ALL, Form::word))]
    pub format: Option<Form>,
    /// Field of a JSONL object, or column of a Parquet table, that holds a document.
    #[arg(long, value_name = "NAME", default_value = "text")]
    pub field: String,
    /// What stands between documents of a text file; \n, \t and \\ are understood [default: a file is a document].
    #[arg(long, value_name = "TEXT")]
    pub split_on: Option<String>,
    /// What validates: a share of the tokens, cut from the end, or paths.
    #[arg(long, value_name = "SHARE|PATH", default_value = "0.1", num_args = 1..)]
    pub validation: Vec<String>,
    /// Tokens of a full shard.
    #[arg(long, value_name = "N", default_value_t = 100_000_000)]
    pub shard_tokens: u64,
    /// Where the end-of-text token stands: after each document (`append`, as nanoGPT does), before (`prepend`, as llm.c does)
    /// or nowhere (`none`) [default: append, if the tokenizer has such a token].
    #[arg(long, value_name = "WHERE", value_parser = word::of(Separate::ALL, Separate::word))]
    pub separate: Option<Separate>,
    /// The token to put there, if not the tokenizer's own.
    #[arg(long, value_name = "TOKEN")]
    pub end_of_text: Option<String>,
    /// Leave out and count what is no document, rather than end at the first.
    #[arg(long)]
    pub skip_bad: bool,
    /// Threads; they do not show in the result [default: one a core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
}
