//! `export`: a job's weights as files.

use serde::Serialize;
use shoal_config::llmc::Version;
use shoal_config::spec::Dtype;
use shoal_data::manifest::TOKENIZER_FILE;
use shoal_plan::blocks::ModelTable;
use shoal_plan::job::{Job, TokenizerKind};
use shoal_plan::weights::Dtypes;

use super::Context;
use crate::cli::{Export, ModelForm};
use crate::export::{Target, Written, hf, llmc, source, state};
use crate::failure::{Failure, Verdict};
use crate::output::Show;
use crate::output::units::short;

#[derive(Serialize)]
struct Exported {
    job: String,
    step: u64,
    dir: String,
    state_blake3: String,
    /// Digest of the files that were written; only the state form has all it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    recomputed_blake3: Option<String>,
    /// Types of the weights, in words.
    dtype: String,
    /// What readers of such files may look for and is not there, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<String>,
    /// What else is to be known of the files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

pub(super) fn run(context: &Context, args: &Export) -> Result<Verdict, Failure> {
    let (client, job) = (&context.client, &args.job);
    // Before the cluster writes anything.
    let submitted = client.job(job)?;
    let table = ModelTable::of_job(&submitted.spec);
    let form = Form::of(args, &submitted)?;
    let dir = args.target.to.as_deref().or(args.target.state.as_deref());
    let dir = dir.expect("CT-2 (the command line asks for one of --to and --state)");
    if dir.symlink_metadata().is_ok() && !dir.is_dir() {
        return Err(Failure::Usage(format!(
            "{} is there and no directory; an export takes one, or a name that is free",
            dir.display()
        )));
    }
    let mut left_out = None;
    let target = match &form {
        Form::State => {
            let names = state::file_names(&table);
            Target::prepare(dir, |name| names.contains(name))?
        }
        Form::Hf { query, .. } => {
            hf::check_family(dir, &submitted.spec.model)?;
            let names = hf::file_names(client, job, query)?;
            left_out = without_tokenizer(&submitted, &names);
            let is_ours = |name: &str| names.iter().any(|known| known == name);
            source::spare(&submitted.spec.init, dir, is_ours)?;
            Target::prepare(dir, is_ours)?
        }
        Form::LlmC { .. } => Target::prepare(dir, llmc::is_file)?,
    };
    let written = client.write(job, args.at.map(|at| at.0), args.timeout)?;
    let from = Written { client, job, step: written.step, wait: args.timeout };
    let (recomputed, notes) = match &form {
        Form::State => {
            state::export(&from, &table, &target)?;
            (Some(state::recompute(dir, &table)?.to_hex()), Vec::new())
        }
        Form::Hf { query, .. } => {
            hf::export(&from, query, &target)?;
            (None, hf::notes(dir, &submitted))
        }
        Form::LlmC { dtype } => {
            source::spare(&submitted.spec.init, dir, |name| name == llmc::file_name(written.step))?;
            llmc::export(&from, *dtype, &target)?;
            (None, Vec::new())
        }
    };
    let same = recomputed.as_ref().is_none_or(|digest| *digest == written.state_blake3);
    context.format.print(&Exported {
        job: job.clone(),
        step: written.step,
        dir: dir.display().to_string(),
        state_blake3: written.state_blake3,
        recomputed_blake3: recomputed,
        dtype: form.dtype(),
        left_out,
        notes,
    })?;
    Ok(if same { Verdict::True } else { Verdict::False })
}

/// What is written.
enum Form {
    State,
    Hf { query: String, dtype: String },
    LlmC { dtype: Dtype },
}

impl Form {
    fn of(args: &Export, job: &Job) -> Result<Self, Failure> {
        let usage = |text: &str| Err(Failure::Usage(text.to_owned()));
        match (&args.target.state, args.format) {
            (Some(_), _) => Ok(Self::State),
            (None, ModelForm::Hf) if !job.spec.model.is_of_transformers() => {
                usage("transformers has no GPT-2 without biases; export the tensors with --state DIR")
            }
            (None, ModelForm::Hf) => {
                let dtype = args.dtype.map_or_else(|| job.export_dtypes(), Dtypes::All).words();
                Ok(Self::Hf { query: hf::query(args.dtype, args.shard_size.map(|size| size.0)), dtype })
            }
            (None, ModelForm::Llmc) if args.shard_size.is_some() => {
                usage("an llm.c checkpoint is one file; leave --shard-size out")
            }
            (None, ModelForm::Llmc) if !job.spec.model.is_of_llmc() => {
                let instead = if job.spec.model.is_of_transformers() {
                    "leave --format out"
                } else {
                    "export the tensors with --state DIR"
                };
                Err(Failure::Usage(format!(
                    "llm.c has GPT-2 only, with biases and one table for both ends, and the job's model is another; {instead}"
                )))
            }
            (None, ModelForm::Llmc) => {
                let began = || job.export_dtypes().llmc();
                match args.dtype.map_or_else(|| Some(began()), Version::of) {
                    Some(version) => Ok(Self::LlmC { dtype: version.dtype() }),
                    None => usage("llm.c checkpoints have --dtype fp32 or bf16, not fp16"),
                }
            }
        }
    }

    /// Types of the weights, in words.
    fn dtype(&self) -> String {
        match self {
            Self::State => Dtype::F32.word().to_owned(),
            Self::Hf { dtype, .. } => dtype.clone(),
            Self::LlmC { dtype } => dtype.word().to_owned(),
        }
    }
}

/// Readers make up a tokenizer of their own where they find none, or fail late.
fn without_tokenizer(job: &Job, names: &[String]) -> Option<String> {
    let made = job.data.tokenizer.filter(|_| !names.iter().any(|name| name == TOKENIZER_FILE))?;
    Some(match made.kind {
        TokenizerKind::Bytes | TokenizerKind::Gpt2 | TokenizerKind::O200k => {
            format!("{TOKENIZER_FILE}: the job's tokens are of the built-in {}, which has no such file", made.kind)
        }
        TokenizerKind::Hf => format!(
            "{TOKENIZER_FILE}: the file that the job's data in {} was made with is not there on the coordinator's machine, or \
             another by now; copy the one with blake3 {}... beside the weights",
            job.spec.data.path.display(),
            short(&made.digest.to_hex())
        ),
    })
}

impl Show for Exported {
    fn show(&self) -> String {
        let head = format!("{} at step {} is in {}, in {}", self.job, self.step, self.dir, self.dtype);
        match &self.recomputed_blake3 {
            None => {
                let without = self.left_out.iter().map(|left_out| format!("\nwithout {left_out}"));
                let notes = self.notes.iter().map(|note| format!("\nnote: {note}"));
                without.chain(notes).fold(head, |head, line| head + &line)
            }
            Some(digest) if *digest == self.state_blake3 => {
                format!("{head}; the files have the digest of the job, {}...", short(digest))
            }
            Some(digest) => format!(
                "{head}; but the files have digest {}... and the job {}...: do not use them, export again",
                short(digest),
                short(&self.state_blake3)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use shoal_plan::ids::Digest;
    use shoal_plan::job::{DataFacts, TokenizerFacts};

    use super::*;

    #[test]
    fn a_model_without_its_tokenizer_is_said_to_be() {
        let spec = shoal_config::preset("tiny", Path::new("/corpus")).expect("a preset");
        let job = |kind: Option<TokenizerKind>| {
            let tokenizer =
                kind.map(|kind| TokenizerFacts { kind, digest: Digest::of(b"t"), vocab: 256, end_of_text: None });
            let (digest, validation_digest) = (Digest::default(), Digest::default());
            let data = DataFacts { digest, train_tokens: 1, validation_digest, validation_tokens: 0, tokenizer };
            Job { spec: spec.clone(), data, weights: None }
        };
        let names = ["config.json".to_owned(), "model.safetensors".to_owned()];
        let whole: Vec<String> = names.iter().cloned().chain([TOKENIZER_FILE.to_owned()]).collect();
        assert_eq!(without_tokenizer(&job(None), &names), None, "nothing is known of one");
        assert_eq!(without_tokenizer(&job(Some(TokenizerKind::Hf)), &whole), None);
        let said = without_tokenizer(&job(Some(TokenizerKind::Hf)), &names).expect("it is missing");
        let digest = Digest::of(b"t").to_hex();
        assert!(said.contains("tokenizer.json: the file that the job's data in /corpus was made with"), "{said}");
        assert!(said.contains(&format!("blake3 {}...", &digest[..16])), "{said}");
        let said = without_tokenizer(&job(Some(TokenizerKind::Gpt2)), &names).expect("there is none");
        assert!(said.contains("the built-in gpt2"), "{said}");
    }
}
