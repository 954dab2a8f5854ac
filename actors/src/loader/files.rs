//! From a path and a format to files with a known number of tokens each.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use shoal_config::regular;
use shoal_config::spec::DataFormat;
use shoal_data::shard::{HEADER, Width};
use shoal_plan::ids::Digest;

use super::{DataError, word};

/// One file and where its tokens lie.
#[derive(Debug)]
pub(super) struct TokenFile {
    pub(super) path: PathBuf,
    pub(super) file: File,
    /// Bytes before the first token.
    pub(super) header: u64,
    /// Bytes of a token: 1, 2 or 4.
    pub(super) width: u64,
    pub(super) tokens: u64,
    /// Of the whole file, where a manifest says so.
    pub(super) blake3: Option<Digest>,
}

/// What the file system says of a file's content: equal stamps, equal bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    bytes: u64,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
    /// Seconds and nanoseconds; nobody can set it.
    changed: (i64, i64),
}

impl TokenFile {
    /// Its stamp now.
    pub(super) fn stamp(&self) -> Result<Stamp, DataError> {
        let meta = self.file.metadata().map_err(|source| DataError::Read { path: self.path.clone(), source })?;
        let (modified, changed) = ((meta.mtime(), meta.mtime_nsec()), (meta.ctime(), meta.ctime_nsec()));
        Ok(Stamp { bytes: meta.len(), modified, changed })
    }
}

/// The files of a path, in order. Of llm.c's files a path may be a pattern, or a directory whose `.bin` files are meant.
pub(super) fn open(format: DataFormat, path: &Path) -> Result<Vec<Arc<TokenFile>>, DataError> {
    let paths = match (format, path.to_str()) {
        (DataFormat::LlmC, Some(pattern)) if pattern.contains(['*', '?', '[']) && !path.exists() => {
            let none = || DataError::Missing { path: path.to_owned() };
            let found = glob::glob(pattern).map_err(|_| none())?.map(|found| {
                found.map_err(|error| DataError::Read { path: error.path().to_owned(), source: error.into() })
            });
            let mut found = found.collect::<Result<Vec<PathBuf>, _>>()?;
            found.sort();
            if found.is_empty() {
                return Err(none());
            }
            found
        }
        (DataFormat::LlmC | DataFormat::Text | DataFormat::NanoGpt | DataFormat::Shards, _) => inside(format, path)?,
    };
    let mut files = Vec::with_capacity(paths.len());
    for path in paths {
        let file = open_one(format, path)?;
        if file.tokens > 0 {
            files.push(Arc::new(file));
        }
    }
    if files.is_empty() {
        return Err(DataError::Empty { path: path.to_owned() });
    }
    Ok(files)
}

/// A file, or those of a directory.
fn inside(format: DataFormat, path: &Path) -> Result<Vec<PathBuf>, DataError> {
    let meta = fs::metadata(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => DataError::Missing { path: path.to_owned() },
        _ => DataError::Read { path: path.to_owned(), source },
    })?;
    if !meta.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let below =
        || regular::below(path).map_err(|unlisted| DataError::Read { path: unlisted.path, source: unlisted.source });
    match format {
        DataFormat::Text => below(),
        DataFormat::LlmC => {
            let mut found = below()?;
            found.retain(|file| file.parent() == Some(path) && file.extension().is_some_and(|e| e == "bin"));
            Ok(found)
        }
        DataFormat::NanoGpt | DataFormat::Shards => Err(DataError::Format {
            path: path.to_owned(),
            format: word(format),
            found: "it is a directory, which only text, llmc and shards may be".to_owned(),
        }),
    }
}

/// One file and its form.
pub(super) fn open_one(format: DataFormat, path: PathBuf) -> Result<TokenFile, DataError> {
    let failed = |source| DataError::Read { path: path.clone(), source };
    let file = regular::open(&path).map_err(failed)?;
    let bytes = file.metadata().map_err(failed)?.len();
    let other = |found: String| DataError::Format { path: path.clone(), format: word(format), found };
    let (header, width, tokens) = match format {
        DataFormat::Text => (0, 1, bytes),
        DataFormat::NanoGpt => {
            if bytes % 2 == 1 {
                return Err(other(format!("{bytes} bytes are not a whole number of 16-bit tokens")));
            }
            if bytes >= HEADER && Width::of_magic(read_i32(&file, 0).map_err(failed)?).is_some() {
                return Err(other("it begins with the header of an llm.c file".to_owned()));
            }
            (0, 2, bytes / 2)
        }
        // Shards are llm.c's files.
        DataFormat::LlmC | DataFormat::Shards => {
            if bytes < HEADER {
                return Err(other(format!("{bytes} bytes are shorter than the header of {HEADER}")));
            }
            let magic = read_i32(&file, 0).map_err(failed)?;
            let version = read_i32(&file, 4).map_err(failed)?;
            let said = read_i32(&file, 8).map_err(failed)?;
            let Some(width) = Width::of_magic(magic) else {
                return Err(other(format!("it begins with {magic}, not with 20240520 (u16 tokens) or 20240801 (u32)")));
            };
            let (known, width) = (width.version(), width.bytes());
            if version != known {
                return Err(other(format!(
                    "its header has magic {magic} and version {version}, and only {known} is known"
                )));
            }
            let there = bytes - HEADER;
            if u64::try_from(said).ok().map(|said| said * width) != Some(there) {
                return Err(other(format!("its header says {said} tokens of {width} bytes and {there} bytes follow")));
            }
            (HEADER, width, there / width)
        }
    };
    Ok(TokenFile { path, file, header, width, tokens, blake3: None })
}

fn read_i32(file: &File, at: u64) -> io::Result<i32> {
    let mut bytes = [0; 4];
    file.read_exact_at(&mut bytes, at)?;
    Ok(i32::from_le_bytes(bytes))
}
