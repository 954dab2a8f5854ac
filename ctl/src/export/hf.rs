//! The form that `transformers` loads.

use std::path::Path;

use shoal_config::hf::SpecialTokens;
use shoal_config::spec::{Dtype, ModelSpec};
use shoal_plan::job::Job;

use super::Target;
use super::aside::publish;
use super::download::{Written, aside};
use crate::client::Client;
use crate::failure::Failure;

/// How the weights are stored, as a query of the coordinator.
#[must_use]
pub fn query(dtype: Option<Dtype>, shard_bytes: Option<u64>) -> String {
    let dtype = dtype.map(|dtype| format!("dtype={}", dtype.word()));
    let shards = shard_bytes.map(|bytes| format!("shard_bytes={bytes}"));
    dtype.into_iter().chain(shards).collect::<Vec<_>>().join("&")
}

/// Names of the files of this form.
///
/// # Errors
/// If the coordinator does not answer.
pub fn file_names(client: &Client, job: &str, query: &str) -> Result<Vec<String>, Failure> {
    client.hf_files(job, query)
}

/// Downloads the job's weights at a written step.
///
/// # Errors
/// If the coordinator has no such step, or a file cannot be written.
pub fn export(written: &Written<'_>, query: &str, target: &Target) -> Result<(), Failure> {
    let mut files = Vec::new();
    for name in file_names(written.client, written.job, query)? {
        // A name is joined to the directory.
        if Path::new(&name).file_name().is_none_or(|only| only != name.as_str()) {
            return Err(Failure::No(format!("the coordinator names a file {name:?}, which is none of a directory")));
        }
        files.push(aside(written, &format!("hf/{name}?step={}&{query}", written.step), target, &name)?);
    }
    publish(files, &FIRST)
}

/// What an operator has to know of tokens in an export that is written.
#[must_use]
pub fn notes(dir: &Path, job: &Job) -> Vec<String> {
    let began = job.weights.as_ref().map(|facts| facts.special.clone()).unwrap_or_default();
    let has = SpecialTokens::of_files(dir);
    let words = |tokens: &[u32]| match tokens {
        [] => "none".to_owned(),
        some => some.iter().map(u32::to_string).collect::<Vec<_>>().join(", "),
    };
    let of = |token: Option<u32>| words(token.as_slice());
    let changes = [
        ("bos", began.begin.is_some() && began.begin != has.begin, of(began.begin), of(has.begin)),
        ("eos", !began.end.is_empty() && began.end != has.end, words(&began.end), words(&has.end)),
        ("pad", began.pad.is_some() && began.pad != has.pad, of(began.pad), of(has.pad)),
    ];
    let changed = changes.into_iter().filter(|(_, differs, ..)| *differs).map(|(key, _, before, now)| {
        format!(
            "{key}_token_id is {now}, and was {before} in the files that the job began with: now it is what the tokenizer of the \
             job's data says"
        )
    });
    changed.collect()
}

/// What readers look for first.
const FIRST: [&str; 2] = ["model.safetensors.index.json", "config.json"];

/// Refuses a directory with an export of another family: its files would go without a word.
///
/// # Errors
/// If there is one.
pub fn check_family(dir: &Path, model: &ModelSpec) -> Result<(), Failure> {
    let Ok(there) = shoal_config::hf::model_of(dir) else { return Ok(()) };
    match (&there, model) {
        (ModelSpec::Gpt2(_), ModelSpec::Gpt2(_)) | (ModelSpec::Llama(_), ModelSpec::Llama(_)) => Ok(()),
        (ModelSpec::Gpt2(_), ModelSpec::Llama(_)) | (ModelSpec::Llama(_), ModelSpec::Gpt2(_)) => Err(Failure::Usage(
            format!("{} has an export of a model of another family; name a new or empty directory", dir.display()),
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use shoal_plan::ids::Digest;
    use shoal_plan::job::DataFacts;
    use shoal_plan::weights::{Dtypes, WeightFacts};

    use super::*;

    #[test]
    fn tokens_that_are_others_than_in_the_files_are_named() {
        let dir = tempfile::tempdir().expect("temp dir");
        let spec = shoal_config::preset("tiny", Path::new("/no/such/place")).expect("a preset");
        let data = DataFacts {
            digest: Digest::default(),
            train_tokens: 1,
            validation_digest: Digest::default(),
            validation_tokens: 0,
            tokenizer: None,
        };
        let special = SpecialTokens { begin: Some(1), end: vec![2], pad: None };
        let dtypes = Dtypes::All(Dtype::F32);
        let facts = WeightFacts { segment: 4096, digests: Vec::new(), dtypes, padded_vocab: None, special };
        let mut job = Job { spec, data, weights: Some(facts) };
        fs::write(dir.path().join("config.json"), r#"{"bos_token_id": null, "eos_token_id": [0, 2]}"#)
            .expect("written");
        let said = notes(dir.path(), &job);
        assert!(said[0].starts_with("bos_token_id is none, and was 1 in the files"), "{said:?}");
        assert!(said[1].starts_with("eos_token_id is 0, 2, and was 2 in the files") && said.len() == 2, "{said:?}");
        fs::write(dir.path().join("config.json"), r#"{"bos_token_id": 1, "eos_token_id": 2}"#).expect("written");
        assert!(notes(dir.path(), &job).is_empty());
        job.weights = None;
        assert!(notes(dir.path(), &job).is_empty());
    }
}
