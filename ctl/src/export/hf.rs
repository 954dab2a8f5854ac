//! The form that `transformers` loads.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::aside::Aside;
use crate::client::Client;
use crate::failure::Failure;

/// Files of the form.
const FILES: [&str; 2] = ["config.json", "model.safetensors"];

/// Names of the files of this form.
#[must_use]
pub fn file_names() -> BTreeSet<String> {
    FILES.map(str::to_owned).into()
}

/// Downloads the job's weights at a written step.
///
/// # Errors
/// If the coordinator has no such step, or a file cannot be written.
pub fn export(client: &Client, job: &str, step: u64, dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut begun = Vec::new();
    for name in FILES {
        let mut from = client.download(&format!("jobs/{job}/hf/{name}?step={step}"))?;
        let mut file = Aside::begin(dir, name)?;
        let mut buffer = vec![0; 1 << 18];
        loop {
            let read = from.read(&mut buffer).map_err(|error| broke_off(name, &error))?;
            if read == 0 {
                break;
            }
            file.write(&buffer[..read])?;
        }
        begun.push(file);
    }
    // Named only when all are here, so that weights never lie beside another step's configuration.
    begun.into_iter().map(Aside::finish).collect()
}

/// The failure of a download in the middle.
pub(super) fn broke_off(what: &str, error: &std::io::Error) -> Failure {
    Failure::Unreachable(format!("the download of {what} broke off: {error}; ask again"))
}
