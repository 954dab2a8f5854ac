//! A file of the coordinator's, as it arrives.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use super::aside::Aside;
use crate::client::Client;
use crate::failure::Failure;

/// A job at a written step.
#[derive(Clone, Copy, Debug)]
pub struct Written<'c> {
    /// Whom to ask.
    pub client: &'c Client,
    /// Its id.
    pub job: &'c str,
    /// The step.
    pub step: u64,
    /// How long a file may take until it begins to come.
    pub wait: Duration,
}

impl Written<'_> {
    /// What is under `path` of the job.
    ///
    /// # Errors
    /// The coordinator does not have it, or does not answer.
    pub fn open(&self, path: &str) -> Result<impl Read + use<>, Failure> {
        self.client.download(&format!("jobs/{}/{path}", self.job), self.wait)
    }
}

/// Downloads what is under `path` to be the file `name` of a directory, once it is finished.
pub(super) fn aside(written: &Written<'_>, path: &str, dir: &Path, name: &str) -> Result<Aside, Failure> {
    let mut from = written.open(path)?;
    let mut file = Aside::begin(dir, name)?;
    let mut buffer = vec![0; 1 << 18];
    loop {
        let read = from.read(&mut buffer).map_err(|error| broke_off(name, &error))?;
        if read == 0 {
            return Ok(file);
        }
        file.write(&buffer[..read])?;
    }
}

/// The failure of a download in the middle.
pub fn broke_off(what: &str, error: &std::io::Error) -> Failure {
    Failure::Unreachable(format!("the download of {what} broke off: {error}; ask again"))
}
