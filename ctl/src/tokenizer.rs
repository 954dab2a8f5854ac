//! The tokenizer of a job's data.

use shoal_config::spec::{DataFormat, TokenizerSpec};
use shoal_data::manifest::TOKENIZER_FILE;
use shoal_data::{Manifest, Tokenizer};
use shoal_plan::job::{Job, TokenizerKind};

use crate::failure::Failure;

/// The one that was typed, or the one that the job's data was made with.
///
/// # Errors
/// None is known, it cannot be loaded, or it is not the one that the job's data was made with.
pub fn of(job: &Job, typed: Option<&str>) -> Result<Tokenizer, Failure> {
    let usage = |text: String| Failure::Usage(text);
    let recorded = job.data.tokenizer;
    let spec = match (typed, &job.spec.data.tokenizer, recorded) {
        (Some(typed), ..) => TokenizerSpec::named(typed),
        (None, Some(named), _) => named.clone(),
        (None, None, Some(recorded)) => match recorded.kind {
            TokenizerKind::Bytes => TokenizerSpec::Bytes,
            TokenizerKind::Gpt2 => TokenizerSpec::Gpt2,
            TokenizerKind::O200k => TokenizerSpec::O200k,
            TokenizerKind::Hf => TokenizerSpec::Hf(beside(job)?),
        },
        (None, None, None) => {
            return Err(usage(format!(
                "nothing says what made the tokens of {}; name it: --tokenizer bytes, gpt2, o200k, or a tokenizer.json",
                job.spec.data.path.display()
            )));
        }
    };
    let tokenizer = Tokenizer::open(&spec).map_err(|error| usage(format!("{:#}", anyhow::Error::from(error))))?;
    let facts = tokenizer.facts();
    match recorded.filter(|recorded| typed.is_none() && recorded.digest != facts.digest) {
        None => Ok(tokenizer),
        Some(recorded) => Err(usage(format!(
            "the job's data was made with tokenizer {} ({}), and here is {} ({}); name the right one with --tokenizer",
            recorded.kind, recorded.digest, facts.kind, facts.digest
        ))),
    }
}

/// The file that lies beside a manifest.
fn beside(job: &Job) -> Result<std::path::PathBuf, Failure> {
    let path = &job.spec.data.path;
    match (job.spec.data.format, Manifest::read(path)) {
        (DataFormat::Shards, Ok((_, dir))) => Ok(dir.join(TOKENIZER_FILE)),
        (DataFormat::Shards | DataFormat::Text | DataFormat::NanoGpt | DataFormat::LlmC, _) => Err(Failure::Usage(
            format!("the job's tokenizer.json is not here in {}; name it with --tokenizer", path.display()),
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use shoal_plan::ids::Digest;
    use shoal_plan::job::DataFacts;

    use super::*;

    fn job(tokenizer: Option<TokenizerKind>) -> Job {
        let tokenizer = tokenizer.map(|kind| {
            let spec = TokenizerSpec::named(kind.word());
            Tokenizer::open(&spec).expect("built in").facts()
        });
        let data = DataFacts {
            digest: Digest::default(),
            train_tokens: 1,
            validation_digest: Digest::default(),
            validation_tokens: 0,
            tokenizer,
        };
        Job { spec: shoal_config::preset("tiny", Path::new("/no/such/place")).expect("a preset"), data, weights: None }
    }

    #[test]
    fn the_typed_one_goes_before_the_named_and_the_recorded_one() {
        let vocab = |job: &Job, typed| of(job, typed).map(|tokenizer| tokenizer.vocab()).map_err(|e| e.to_string());
        let mut job = job(Some(TokenizerKind::Gpt2));
        assert_eq!(vocab(&job, None), Ok(50_257));
        assert_eq!(vocab(&job, Some("bytes")), Ok(256));
        job.spec.data.tokenizer = Some(TokenizerSpec::Bytes);
        let error = vocab(&job, None).expect_err("another than recorded");
        assert!(error.contains("made with tokenizer gpt2") && error.contains("--tokenizer"), "{error}");
        job.data.tokenizer = None;
        assert_eq!(vocab(&job, None), Ok(256));
    }

    #[test]
    fn data_that_does_not_say_what_made_it_needs_a_name() {
        let error = of(&job(None), None).expect_err("nothing is known").to_string();
        assert!(error.contains("nothing says what made the tokens") && error.contains("--tokenizer"), "{error}");
        let mut of_a_file = job(Some(TokenizerKind::Gpt2));
        let recorded = of_a_file.data.tokenizer.as_mut().expect("recorded");
        recorded.kind = TokenizerKind::Hf;
        let error = of(&of_a_file, None).expect_err("its file is not here").to_string();
        assert!(error.contains("tokenizer.json is not here"), "{error}");
    }
}
