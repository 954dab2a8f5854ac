//! A file of the coordinator's, as it arrives.

use std::io::Read;
use std::time::Duration;

use super::aside::{Aside, Complete};
use super::target::Target;
use crate::client::{Client, Download, Told};
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
    pub fn open(&self, path: &str) -> Result<Download, Failure> {
        self.client.download(&format!("jobs/{}/{path}", self.job), self.wait)
    }
}

/// Downloads what is under `path` to be the file `name` of a directory.
pub(super) fn aside<'t>(
    written: &Written<'_>,
    path: &str,
    target: &'t Target,
    name: &str,
) -> Result<Complete<'t>, Failure> {
    let mut from = written.open(path)?;
    let mut file = Aside::begin(target, name)?;
    let mut buffer = vec![0; 1 << 18];
    loop {
        let read = from.read(&mut buffer).map_err(|error| broke_off(name, error))?;
        if read == 0 {
            return file.complete();
        }
        file.write(&buffer[..read])?;
    }
}

/// The failure of a download in the middle.
pub fn broke_off(what: &str, error: std::io::Error) -> Failure {
    match error.downcast::<Told>() {
        Ok(Told(reason)) => Failure::No(format!("{what} did not come whole: {reason}")),
        Err(error) => Failure::Unreachable(format!("the download of {what} broke off: {error}; ask again")),
    }
}
