//! A file of the coordinator's, as it arrives.

use std::io::Read;
use std::path::Path;

use super::aside::Aside;
use crate::client::Client;
use crate::failure::Failure;

/// Downloads what is under `path` to be the file `name` of a directory, once it is finished.
pub(super) fn aside(client: &Client, path: &str, dir: &Path, name: &str) -> Result<Aside, Failure> {
    let mut from = client.download(path)?;
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
pub(super) fn broke_off(what: &str, error: &std::io::Error) -> Failure {
    Failure::Unreachable(format!("the download of {what} broke off: {error}; ask again"))
}
