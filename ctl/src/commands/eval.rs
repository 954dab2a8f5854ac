//! `eval`: the loss of a job's weights on data, computed in this process.

use std::path::Path;

use indicatif::ProgressBar;
use serde::Serialize;
use shoal_config::spec::{DataFormat, DataSpec, Validation};
use shoal_daemon::whole::{DataError, LossError, Purpose, Room, Tokens, Whole, WholeError};
use shoal_data::documents::MOST_BYTES;
use shoal_data::{Tokenizer, manifest};
use shoal_plan::job::{Job, TokenizerKind};

use super::Context;
use crate::cli::{DataKind, Eval};
use crate::failure::{Failure, Verdict, whole};
use crate::output::table::facts;
use crate::output::units::{count, loss};
use crate::output::{Show, bar};
use crate::{machine, text_file, tokenizer, weights};

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
    let write = || client.write(&args.job, args.here.at.map(|at| at.0), args.here.timeout);
    if job.data.train_tokens == 0 {
        // Its data was not read, so there are no weights, and the cluster says why.
        write()?;
    }
    // Whatever is wrong with what was typed is said before the cluster writes anything, and what does not fit too.
    let given = match &args.data {
        Some(path) => given(&job, path, args)?,
        None => Given::Tokens(Tokens::validation(&job).map_err(|error| usage(&error.into()))?),
    };
    let own = job.spec.train.evaluate.map(|own| own.samples).filter(|_| args.data.is_none());
    let room = Room { text: given.bytes(), ..machine::room(args.here.memory, args.here.threads) };
    let mut model = Whole::new(&job.spec, Purpose::Evaluate, room).map_err(refused)?;
    let tokens = given.tokens(&job)?;
    let written = write()?;
    weights::load(client, (&args.job, &job), written.step, |block, interval, values| {
        model.write_weights(block, interval, values);
    })?;
    let bar = ProgressBar::new(0).with_style(bar::style("evaluating [{bar:32}] {pos} of {len} samples"));
    let evaluated = model.loss(&tokens, args.samples.or(own), |seen, of| {
        bar.set_length(of);
        bar.set_position(seen);
    });
    bar.finish_and_clear();
    let evaluated = evaluated.map_err(|error| match error {
        LossError::Data(_) | LossError::TooShort { .. } | LossError::Token { .. } => usage(&error.into()),
        LossError::Model(_) => Failure::No(whole(&error.into())),
    })?;
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

/// What a loss is wanted of.
enum Given {
    Tokens(Tokens),
    /// Tokens are made of it once there is room for that.
    Text {
        text: String,
        tokenizer: Box<Tokenizer>,
    },
}

impl Given {
    /// What making tokens of it takes.
    fn bytes(&self) -> u64 {
        match self {
            Self::Tokens(_) => 0,
            Self::Text { text, tokenizer } => tokenizer.bytes_to_encode(text.len() as u64),
        }
    }

    fn tokens(self, job: &Job) -> Result<Tokens, Failure> {
        match self {
            Self::Tokens(tokens) => Ok(tokens),
            Self::Text { text, tokenizer } => {
                let mut tokens = Vec::new();
                tokenizer.encode(&text, &mut tokens).map_err(|error| Failure::Usage(error.to_string()))?;
                here(tokens, job)
            }
        }
    }
}

/// What lies at a path.
fn given(job: &Job, path: &Path, args: &Eval) -> Result<Given, Failure> {
    let path = std::path::absolute(path).map_err(Failure::file("find", path))?;
    let prepared = path.join(manifest::FILE).is_file() || path.ends_with(manifest::FILE);
    let format = match (args.kind.map(DataKind::format), job.spec.data.format) {
        (Some(typed), _) => typed,
        (None, _) if prepared => DataFormat::Shards,
        (None, DataFormat::Shards) => DataFormat::Text,
        (None, own @ (DataFormat::Text | DataFormat::NanoGpt | DataFormat::LlmC)) => own,
    };
    let validation = match format {
        DataFormat::Shards => Validation::Prepared,
        DataFormat::Text => {
            let tokenizer = tokenizer::of(job, args.tokenizer.as_deref())?;
            if tokenizer.facts().kind != TokenizerKind::Bytes {
                let text = text_file::read(&path, MOST_BYTES).map_err(|error| Failure::Usage(error.to_string()))?;
                return Ok(Given::Text { text, tokenizer: Box::new(tokenizer) });
            }
            Validation::Tail { fraction: 0.0 }
        }
        DataFormat::NanoGpt | DataFormat::LlmC => Validation::Tail { fraction: 0.0 },
    };
    let data = DataSpec { format, path, tokenizer: None, validation };
    Tokens::all(&data, job, args.samples).map(Given::Tokens).map_err(unfit)
}

/// Tokens of a text.
fn here(tokens: Vec<u32>, job: &Job) -> Result<Tokens, Failure> {
    let vocab = job.spec.model.vocab();
    match tokens.iter().find(|token| **token >= vocab) {
        None => Ok(Tokens::Here(tokens)),
        Some(token) => Err(usage(&LossError::<WholeError>::Token { token: *token, vocab }.into())),
    }
}

/// Of data that was typed: no key of a job file mends it, and the model is trained.
fn unfit(error: DataError) -> Failure {
    Failure::Usage(match error {
        DataError::Missing { path } => format!("--data {} does not exist", path.display()),
        DataError::Empty { path } => format!("--data {} holds no token", path.display()),
        DataError::Format { path, format, found } => {
            format!("--data {} is not in format `{format}`: {found}; --kind says what the file is", path.display())
        }
        DataError::Vocabulary { path, position, token, vocab } => format!(
            "--data {} holds token {token} at position {position}, and the model's vocabulary ends at {vocab}: it is of another \
             tokenizer than the job's",
            path.display()
        ),
        DataError::Narrow { path, tokenizer, vocab } => format!(
            "--data {} was made with tokenizer {} of {} tokens, and the model's vocabulary ends at {vocab}: it is of another tokenizer \
             than the job's",
            path.display(),
            tokenizer.kind,
            tokenizer.vocab
        ),
        DataError::TooShort { path, need, found, .. } => {
            format!(
                "--data {} has {found} tokens, and one sample takes {need} (context + 1); give more",
                path.display()
            )
        }
        // These speak of files alone.
        error @ (DataError::Read { .. }
        | DataError::NoValidation { .. }
        | DataError::OtherTokenizer { .. }
        | DataError::Tokenizer(_)
        | DataError::Manifest(_)
        | DataError::Shard { .. }
        | DataError::Damaged { .. }
        | DataError::Stopped
        | DataError::Restless { .. }
        | DataError::Differs { .. }) => whole(&error.into()),
    })
}

fn usage(error: &anyhow::Error) -> Failure {
    Failure::Usage(whole(error))
}

fn refused(error: WholeError) -> Failure {
    Failure::No(whole(&error.into()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_that_was_typed_is_spoken_of_as_it_was_typed() {
        let path = || "/data/x".into();
        for (error, says) in [
            (DataError::Missing { path: path() }, "--data /data/x does not exist"),
            (
                DataError::Format { path: path(), format: "llmc", found: "no magic".into() },
                "; --kind says what the file is",
            ),
            (
                DataError::Vocabulary { path: path(), position: 3, token: 900, vocab: 512 },
                "of another tokenizer than the job's",
            ),
            (
                DataError::TooShort { path: path(), part: "training", prepared: false, need: 33, found: 4 },
                "has 4 tokens",
            ),
        ] {
            let said = unfit(error);
            assert_eq!(said.code(), 2);
            let said = said.to_string();
            assert!(said.starts_with("--data /data/x ") && said.contains(says) && !said.contains('['), "{said}");
        }
    }
}
