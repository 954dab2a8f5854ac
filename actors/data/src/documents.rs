//! Where documents begin and end in files.

use std::path::{Path, PathBuf};

use crate::runs::{self, Run};
use crate::tokenizer::Cuts;

mod cut;
mod jsonl;
mod parquet;
mod segments;
mod text;

pub(crate) use cut::cuts;
pub(crate) use parquet::row_groups;

/// Bytes of a document that is held whole, at most.
pub const MOST_BYTES: u64 = 64 << 20;

/// The same, for a `tokenizer.json`: making tokens takes many times the bytes of the text
/// ([`crate::Tokenizer::bytes_to_encode`]).
const MOST_BYTES_HF: u64 = 8 << 20;

/// What a file is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// UTF-8; a file is a document, or several with something between them.
    Text,
    /// An object a line; one of its fields is a document.
    Jsonl,
    /// A table; a row of one of its columns is a document.
    Parquet,
}

impl Form {
    /// All there are.
    pub const ALL: [Self; 3] = [Self::Text, Self::Jsonl, Self::Parquet];

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Jsonl => "jsonl",
            Self::Parquet => "parquet",
        }
    }

    /// What the name of a file says, if anything. A file without an extension is text.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        let Some(extension) = path.extension() else { return Some(Self::Text) };
        match extension.to_ascii_lowercase().to_str()? {
            "txt" | "text" | "md" => Some(Self::Text),
            "jsonl" | "ndjson" => Some(Self::Jsonl),
            "parquet" => Some(Self::Parquet),
            _ => None,
        }
    }
}

/// How the text of a document is found.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    /// Field or column.
    pub(crate) field: String,
    /// Between documents of a text file.
    pub(crate) split_on: Option<String>,
    /// Of the tokenizer that the documents are for.
    pub(crate) cuts: Cuts,
    /// Bytes of a document that is held whole, at most.
    pub(crate) most: u64,
}

impl Reading {
    /// Bytes of a document that a tokenizer with such cuts can be given, at most.
    pub(crate) fn most(cuts: Cuts) -> u64 {
        match cuts {
            Cuts::Anywhere | Cuts::LineStarts => MOST_BYTES,
            Cuts::Nowhere => MOST_BYTES_HF,
        }
    }

    /// What is wrong with a document of so many bytes.
    pub(crate) fn too_large(&self, bytes: u64) -> String {
        let most = self.most;
        format!(
            "it is a document of {bytes} bytes; allowed: at most {most} (--split-on cuts a text file into documents)"
        )
    }

    /// Where in a document and why its tokenizer cannot take it, if so.
    fn refuses(&self, text: &str) -> Option<(usize, String)> {
        if text.len() as u64 > self.most {
            return Some((0, self.too_large(text.len() as u64)));
        }
        match self.cuts {
            Cuts::Anywhere => None,
            Cuts::LineStarts | Cuts::Nowhere => Run::default().over(text).map(|at| (at, runs::too_long())),
        }
    }
}

/// A run of a file: bytes, or row groups of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// Which source.
    pub(crate) source: usize,
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// It ends where the file ends.
    pub(crate) last: bool,
}

/// A document, or the part of one that lies in a span.
#[derive(Debug)]
pub(crate) struct Piece<'t> {
    pub(crate) text: &'t str,
    /// The document begins here.
    pub(crate) begins: bool,
    /// The document ends here.
    pub(crate) ends: bool,
}

/// Takes documents, or what is none.
pub(crate) type Take<'a, E> = dyn FnMut(Result<Piece<'_>, BadDocument>) -> Result<(), E> + 'a;

/// What is no document, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}{place}: {what}")]
pub struct BadDocument {
    /// Which file.
    pub path: PathBuf,
    /// Where in it.
    pub place: Place,
    /// What is wrong.
    pub what: String,
}

/// Where in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line, counted from 1.
    Line(u64),
    /// A row, counted from 1.
    Row(u64),
    /// All of it.
    File,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Line(line) => write!(f, ":{line}"),
            Self::Row(row) => write!(f, ", row {row}"),
            Self::File => Ok(()),
        }
    }
}

/// Why a file could not be read to its end.
#[derive(Debug)]
pub(crate) enum Stop<E> {
    /// The file.
    Source(SourceError),
    /// Whoever takes the documents.
    Taker(E),
}

impl<E> From<SourceError> for Stop<E> {
    fn from(error: SourceError) -> Self {
        Self::Source(error)
    }
}

/// A file that cannot be read, or cannot hold documents of the asked form.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The system does not give it.
    #[error("{path} cannot be read")]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It is no table, or has no such column.
    #[error("{path}: {found}")]
    Parquet {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        found: String,
    },
}

impl SourceError {
    pub(crate) fn read(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Read { path: path.to_owned(), source }
    }
}

/// Gives the documents of a span in order to `take`: pieces of them, or what is none.
pub(crate) fn each<E>(
    path: &Path,
    form: Form,
    span: &Span,
    reading: &Reading,
    take: &mut Take<'_, E>,
) -> Result<(), Stop<E>> {
    match form {
        Form::Text => text::each(path, span, reading, take),
        Form::Jsonl => jsonl::each(path, span, reading, take),
        Form::Parquet => parquet::each(path, span, reading, take),
    }
}

/// Line of a byte of a file, counted from 1.
fn line_of(path: &Path, byte: u64) -> Result<u64, SourceError> {
    use std::io::Read;
    let mut file = std::fs::File::open(path).map_err(SourceError::read(path))?.take(byte);
    let (mut line, mut buffer) = (1, vec![0; 1 << 16]);
    loop {
        let count = file.read(&mut buffer).map_err(SourceError::read(path))?;
        if count == 0 {
            return Ok(line);
        }
        line += buffer[..count].iter().filter(|&&byte| byte == b'\n').count() as u64;
    }
}

/// Bytes of a span.
fn bytes_of(path: &Path, span: &Span) -> Result<Vec<u8>, SourceError> {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::open(path).map_err(SourceError::read(path))?;
    let mut bytes = vec![0; (span.to - span.from) as usize];
    file.read_exact_at(&mut bytes, span.from).map_err(SourceError::read(path))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
