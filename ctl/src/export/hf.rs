//! The form that `transformers` loads.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use shoal_config::spec::{Dtype, ModelSpec};

use super::aside::Aside;
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
pub fn export(written: &Written<'_>, query: &str, dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut begun = Vec::new();
    for name in file_names(written.client, written.job, query)? {
        // A name is joined to the directory.
        if Path::new(&name).file_name().is_none_or(|only| only != name.as_str()) {
            return Err(Failure::No(format!("the coordinator names a file {name:?}, which is none of a directory")));
        }
        begun.push(aside(written, &format!("hf/{name}?step={}&{query}", written.step), dir, &name)?);
    }
    // Readers begin with the configuration: while files are named one by one, there is none, and they find no mixture of steps.
    for first in FIRST {
        match fs::remove_file(dir.join(first)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(Failure::file("remove", dir.join(first))(error));
            }
            Ok(()) | Err(_) => {}
        }
    }
    let (first, others): (Vec<Aside>, Vec<Aside>) =
        begun.into_iter().partition(|file| FIRST.iter().any(|name| file.is_called(name)));
    others.into_iter().chain(first).map(Aside::finish).collect()
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
