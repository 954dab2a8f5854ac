//! `sample`: what it takes.

use clap::Args;

use super::condition::job_id;
use super::here::Here;

/// Arguments of `sample`.
#[derive(Debug, Args)]
pub struct Sample {
    /// Id of the job, such as `j1`.
    #[arg(value_parser = job_id)]
    pub job: String,
    /// Text to go on from; at most as many tokens as the model's context.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub prompt: String,
    /// Tokens at most.
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub max_tokens: u64,
    /// 0 takes the most likely token, 1 draws as the model says, less is bolder, more is wilder.
    #[arg(long, value_name = "T", default_value_t = 1.0, value_parser = temperature, allow_negative_numbers = true)]
    pub temperature: f64,
    /// Draw from so many of the most likely tokens only.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    pub top_k: Option<u32>,
    /// Draw from the most likely tokens only that together have this probability.
    #[arg(long, value_name = "P", value_parser = share, allow_negative_numbers = true)]
    pub top_p: Option<f64>,
    /// Root of the draws: the same seed gives the same text.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print text as it comes, and not the prompt before it.
    #[arg(long)]
    pub stream: bool,
    /// How text becomes tokens: `bytes`, `gpt2`, `o200k`, or a tokenizer.json; else what the job's data was made with.
    #[arg(long, value_name = "NAME|PATH")]
    pub tokenizer: Option<String>,
    /// With what it is computed.
    #[command(flatten)]
    pub here: Here,
}

fn temperature(text: &str) -> Result<f64, String> {
    let found = text.parse().ok().filter(|t: &f64| (0.0..=100.0).contains(t));
    found.ok_or_else(|| "a number from 0 to 100 is needed".to_owned())
}

fn share(text: &str) -> Result<f64, String> {
    let found = text.parse().ok().filter(|p: &f64| *p > 0.0 && *p <= 1.0);
    found.ok_or_else(|| "a number above 0, up to 1, is needed".to_owned())
}
