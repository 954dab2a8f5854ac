//! PEM files that only their owner can read.

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use super::PkiError;

pub(super) fn refuse_existing(paths: &[PathBuf]) -> Result<(), PkiError> {
    match paths.iter().find(|path| path.exists()) {
        Some(path) => Err(PkiError::Exists { path: path.clone() }),
        None => Ok(()),
    }
}

pub(super) fn read(path: &Path) -> Result<String, PkiError> {
    fs::read_to_string(path).map_err(|source| PkiError::Read { path: path.to_owned(), source })
}

/// The first certificate of a file, and the file's text.
pub(super) fn read_certificate(path: &Path) -> Result<(CertificateDer<'static>, String), PkiError> {
    let text = read(path)?;
    match CertificateDer::from_pem_slice(text.as_bytes()) {
        Ok(certificate) => Ok((certificate, text)),
        Err(e) => Err(PkiError::Malformed { path: path.to_owned(), expected: "certificate", found: e.to_string() }),
    }
}

/// Writes aside, then renames: a reader never sees half a file. Mode 0600.
pub(super) fn write(path: &Path, text: &str) -> Result<(), PkiError> {
    let aside = path.with_extension("new");
    let write = || {
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        match fs::remove_file(&aside) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
            Ok(()) | Err(_) => {}
        }
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&aside, path)
    };
    write().map_err(|source| PkiError::Write { path: path.to_owned(), source })
}
