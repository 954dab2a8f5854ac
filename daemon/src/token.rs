//! The cluster's token: whoever can read it may use the HTTP interface.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Random bytes of a token.
const BYTES: usize = 32;

/// The cluster's token, as hexadecimal digits.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// The token in a file; a new one if there is none. Only the file's owner may read it.
    ///
    /// # Errors
    /// If the file is there and cannot be read, or cannot be made.
    pub fn keep(path: &Path) -> io::Result<Self> {
        match fs::read_to_string(path) {
            Ok(text) if !text.trim().is_empty() => Ok(Self(text.trim().to_owned())),
            Ok(_) => Self::make(path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::make(path),
            Err(error) => Err(error),
        }
    }

    fn make(path: &Path) -> io::Result<Self> {
        let mut random = [0; BYTES];
        fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
        let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let aside = PathBuf::from(format!("{}.{}", path.display(), std::process::id()));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside)?;
        writeln!(file, "{token}").and_then(|()| file.sync_all()).and_then(|()| fs::rename(&aside, path))?;
        Ok(Self(token))
    }

    /// Whether `text` is the token. Takes as long whatever differs.
    #[must_use]
    pub fn is(&self, text: &str) -> bool {
        blake3::hash(self.0.as_bytes()) == blake3::hash(text.as_bytes())
    }
}

impl From<String> for Token {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_is_made_once_and_only_its_owner_can_read_it() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("token");
        let token = Token::keep(&path).expect("made");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        let text = fs::read_to_string(&path).expect("readable");
        assert_eq!(text.trim().len(), 2 * BYTES);
        assert!(token.is(text.trim()) && Token::keep(&path).expect("kept").is(text.trim()));
        assert!(!token.is("") && !token.is(&text.trim()[1..]));
        assert!(!format!("{token:?}").contains(text.trim()));
        let other = Token::keep(&dir.path().join("other")).expect("made");
        assert!(!other.is(text.trim()), "no two clusters have one token");
    }
}
