//! Configuration errors: file, line, key, what was found, what is allowed.

use std::path::PathBuf;

/// Why a configuration file was refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Something in it is wrong.
    #[error("{place}: {problem}")]
    At {
        /// Where.
        place: Place,
        /// What.
        problem: Problem,
    },
}

/// Where in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, as the operator named it.
    pub file: String,
    /// Counted from 1; none for something that is missing from the file as a whole.
    pub line: Option<usize>,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}", self.file),
            None => f.write_str(&self.file),
        }
    }
}

/// What is wrong at a place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// It is not TOML.
    #[error("not valid TOML: {message}")]
    Syntax {
        /// What the parser says.
        message: String,
    },
    /// No such key.
    #[error("`{key}` is not a known key{}; known: {}", hint(*nearest), allowed.join(", "))]
    UnknownKey {
        /// As typed, with its section.
        key: String,
        /// Known keys of the section.
        allowed: Vec<&'static str>,
        /// The known key that is most like it, if one is.
        nearest: Option<&'static str>,
    },
    /// A key without a default is not there.
    #[error("`{key}` is missing; allowed: {allowed}")]
    Missing {
        /// With its section.
        key: String,
        /// What it takes.
        allowed: String,
    },
    /// Files that a value names are not what they have to be.
    #[error("`{key}` is {found}: {problem}")]
    Files {
        /// With its section.
        key: String,
        /// As typed.
        found: String,
        /// What is there, and what has to be.
        problem: String,
    },
    /// A value is not allowed.
    #[error("`{key}` is {found}; allowed: {allowed}")]
    Value {
        /// With its section.
        key: String,
        /// As typed.
        found: String,
        /// What it takes.
        allowed: String,
    },
}

/// An error and its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |said, cause| format!("{said}: {cause}"))
}

fn hint(nearest: Option<&'static str>) -> String {
    nearest.map_or_else(String::new, |key| format!(", did you mean `{key}`?"))
}
