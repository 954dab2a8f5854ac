//! The form that `transformers` loads.

use std::path::{Path, PathBuf};

use shoal_config::spec::Dtype;

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
        begun.push(aside(written, &format!("hf/{name}?step={}&{query}", written.step), dir, &name)?);
    }
    // Named only when all are here, so that weights never lie beside another step's configuration.
    begun.into_iter().map(Aside::finish).collect()
}
