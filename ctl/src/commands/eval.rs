//! `eval`: the loss of a job's weights on data, computed in this process.

use std::fs;
use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use shoal_config::spec::{DataFormat, DataSpec, Validation};
use shoal_daemon::eval::{EvalError, Evaluator, Tokens};
use shoal_data::documents::MOST_BYTES;
use shoal_data::manifest;
use shoal_plan::job::{Job, TokenizerKind};

use super::Context;
use crate::cli::Eval;
use crate::failure::{Failure, Verdict};
use crate::output::Show;
use crate::output::table::facts;
use crate::output::units::{count, loss};
use crate::{tokenizer, weights};

#[derive(Serialize)]
struct Answer {
    job: String,
    step: u64,
    samples: u64,
    tokens: u64,
    /// Mean a token, in nats; null if something was not finite.
    loss: Option<f64>,
    /// The exponential of that.
    perplexity: Option<f64>,
}

pub(super) fn run(context: &Context, args: &Eval) -> Result<Verdict, Failure> {
    let client = &context.client;
    let job = client.job(&args.job)?;
    // Whatever is wrong with the data is said before the cluster writes anything.
    let tokens = match &args.data {
        Some(path) => tokens(&job, path, args)?,
        None => Tokens::validation(&job).map_err(|error| failed(error.into()))?,
    };
    let own = job.spec.train.evaluate.map(|own| own.samples).filter(|_| args.data.is_none());
    let written = client.write(&args.job, args.at.map(|at| at.0), args.timeout)?;
    let mut evaluator = Evaluator::new(&job, args.threads as usize).map_err(failed)?;
    weights::load(client, (&args.job, &job), written.step, |block, interval, values| {
        evaluator.write_weights(block, interval, values);
    })?;
    let bar = ProgressBar::new(0).with_style(
        ProgressStyle::with_template("evaluating [{bar:32}] {pos} of {len} samples")
            .expect("UI-1 (the template is valid)")
            .progress_chars("=> "),
    );
    let evaluated = evaluator.loss(&tokens, args.samples.or(own), |seen, of| {
        bar.set_length(of);
        bar.set_position(seen);
    });
    bar.finish_and_clear();
    let evaluated = evaluated.map_err(failed)?;
    context.format.print(&Answer {
        job: args.job.clone(),
        step: written.step,
        samples: evaluated.samples,
        tokens: evaluated.tokens,
        loss: evaluated.loss,
        perplexity: evaluated.loss.map(f64::exp),
    })?;
    Ok(Verdict::True)
}

/// The tokens of a path.
fn tokens(job: &Job, path: &Path, args: &Eval) -> Result<Tokens, Failure> {
    let path = std::path::absolute(path).map_err(Failure::file("find", path))?;
    let prepared = path.join(manifest::FILE).is_file() || path.ends_with(manifest::FILE);
    let format = match (args.kind.as_deref(), job.spec.data.format) {
        (Some("text"), _) => DataFormat::Text,
        (Some("nanogpt"), _) => DataFormat::NanoGpt,
        (Some("llmc"), _) => DataFormat::LlmC,
        (Some(_), _) => DataFormat::Shards,
        (None, _) if prepared => DataFormat::Shards,
        (None, DataFormat::Shards) => DataFormat::Text,
        (None, own @ (DataFormat::Text | DataFormat::NanoGpt | DataFormat::LlmC)) => own,
    };
    let validation = match format {
        DataFormat::Shards => Validation::Prepared,
        DataFormat::Text => {
            let tokenizer = tokenizer::of(job, args.tokenizer.as_deref())?;
            if tokenizer.facts().kind != TokenizerKind::Bytes {
                let meta = fs::metadata(&path).map_err(Failure::file("find", &path))?;
                if !meta.is_file() {
                    let path = path.display();
                    let said =
                        format!("{path} is no file; a text for the job's tokenizer is one file, or use `data prepare`");
                    return Err(Failure::Usage(said));
                }
                let bytes = meta.len();
                if bytes > MOST_BYTES {
                    let path = path.display();
                    let said =
                        format!("{path} has {bytes} bytes; allowed for a text: {MOST_BYTES}; use `data prepare` on it");
                    return Err(Failure::Usage(said));
                }
                let text = fs::read_to_string(&path).map_err(Failure::file("read as text", &path))?;
                let mut tokens = Vec::new();
                tokenizer.encode(&text, &mut tokens).map_err(|error| Failure::Usage(error.to_string()))?;
                return Ok(Tokens::Here(tokens));
            }
            Validation::Tail { fraction: 0.0 }
        }
        DataFormat::NanoGpt | DataFormat::LlmC => Validation::Tail { fraction: 0.0 },
    };
    let data = DataSpec { format, path, tokenizer: None, validation };
    Tokens::all(&data, job).map_err(|error| failed(error.into()))
}

/// Data is the operator's.
fn failed(error: EvalError) -> Failure {
    let usage = error.is_of_the_data();
    let said = format!("{:#}", anyhow::Error::from(error));
    if usage { Failure::Usage(said) } else { Failure::No(said) }
}

impl Show for Answer {
    fn show(&self) -> String {
        facts([
            ("job", format!("{} at step {}", self.job, self.step)),
            ("loss", loss(self.loss)),
            ("perplexity", self.perplexity.map_or_else(|| "-".to_owned(), |p| format!("{p:.3}"))),
            ("over", format!("{} tokens of {} samples", count(self.tokens), count(self.samples))),
        ])
    }
}
