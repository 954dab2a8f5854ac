//! The files to be read: found, hashed, and told apart by what they are made of.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use shoal_config::regular;
use shoal_plan::ids::Digest;

use super::work::on_threads;
use super::{Asked, Phase, PrepareError, Validation, Watch};
use crate::documents::{BadDocument, Form, Place, SourceError};
use crate::runs::{self, Run};
use crate::tokenizer::Cuts;

/// Names of what has to be unpacked first.
const COMPRESSED: [&str; 7] = ["gz", "zst", "xz", "bz2", "zip", "tar", "tgz"];

/// What its tokens are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Training, the last share of it for validation.
    Train,
    /// Validation alone.
    Validation,
}

impl Use {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Validation => "validation",
        }
    }
}

/// A file that was read once.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) form: Form,
    pub(super) part: Use,
    pub(super) bytes: u64,
    pub(super) digest: Digest,
    /// Of before it was read.
    stamp: Stamp,
    /// Of a text that is one document: where it is none.
    pub(super) bad: Option<BadDocument>,
}

impl Source {
    /// Holds the file against what it was before it was read: what was read in between is what was hashed.
    pub(super) fn check(&self, out: &Path) -> Result<(), PrepareError> {
        if Stamp::of(&self.path)? == self.stamp {
            return Ok(());
        }
        Err(PrepareError::Changed { path: self.path.clone(), out: out.to_owned() })
    }
}

/// What the system says of a file: another one has another, and so has this one when it was written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    modified: (i64, i64),
    bytes: u64,
    file: (u64, u64),
}

impl Stamp {
    fn of(path: &Path) -> Result<Self, SourceError> {
        let meta = fs::metadata(path).map_err(SourceError::read(path))?;
        let modified = (meta.mtime(), meta.mtime_nsec());
        Ok(Self { modified, bytes: meta.len(), file: (meta.dev(), meta.ino()) })
    }
}

/// All sources in order: those of training, then those of validation.
pub(super) fn read(asked: &Asked<'_>, watch: &dyn Watch, stop: &AtomicBool) -> Result<Vec<Source>, PrepareError> {
    let request = asked.request;
    // What is being made is nobody's input, also where it lies below one.
    let ours = fs::canonicalize(&request.out).ok();
    let mut found = list(&request.inputs, Use::Train, ours.as_deref())?;
    if let Validation::Inputs(inputs) = &request.validation {
        found.extend(list(inputs, Use::Validation, ours.as_deref())?);
    }
    let form = |path: &Path| {
        request.form.or_else(|| Form::of(path)).ok_or_else(|| PrepareError::Unknown { path: path.to_owned() })
    };
    let mut seen = BTreeSet::new();
    let mut total = 0;
    for (path, _) in &found {
        let extension = path.extension().map(|e| e.to_ascii_lowercase());
        if extension.as_ref().and_then(|e| e.to_str()).is_some_and(|e| COMPRESSED.contains(&e)) {
            return Err(PrepareError::Compressed { path: path.clone() });
        }
        form(path)?;
        if !seen.insert(fs::canonicalize(path).map_err(SourceError::read(path))?) {
            return Err(PrepareError::Twice { path: path.clone() });
        }
        total += fs::metadata(path).map_err(SourceError::read(path))?.len();
    }
    watch.phase(Phase::Reading, total);
    on_threads(request.threads, found.len(), stop, |index| {
        let (path, part) = &found[index];
        let form = form(path)?;
        let check = match (form, &request.split_on) {
            (Form::Text, None) => Check::Text(asked.tokenizer.cuts()),
            (Form::Text, Some(_)) | (Form::Jsonl | Form::Parquet, _) => Check::Nothing,
        };
        let stamp = Stamp::of(path)?;
        Ok(hash(path, check, watch, stop).map(|(bytes, digest, bad)| Source {
            path: path.clone(),
            form,
            part: *part,
            bytes,
            digest,
            stamp,
            bad: bad.map(|(line, what)| BadDocument { path: path.clone(), place: Place::Line(line), what }),
        })?)
    })
}

/// Regular files, in the order of the inputs, those of a directory or pattern by name, but none of ours.
fn list(inputs: &[String], part: Use, ours: Option<&Path>) -> Result<Vec<(PathBuf, Use)>, PrepareError> {
    let mut found = Vec::new();
    for input in inputs {
        let none = || PrepareError::NoInput { input: input.clone() };
        let mut here = if Path::new(input).exists() {
            files(Path::new(input))?
        } else {
            let paths = glob::glob(input)
                .map_err(|error| PrepareError::Pattern { input: input.clone(), found: error.to_string() })?;
            let paths = paths.map(|found| {
                found.map_err(|error| SourceError::Read { path: error.path().to_owned(), source: error.into() })
            });
            let mut paths = paths.collect::<Result<Vec<PathBuf>, _>>()?;
            paths.sort();
            paths.iter().map(|path| files(path)).collect::<Result<Vec<_>, _>>()?.concat()
        };
        here.retain(|path| ours.is_none_or(|ours| fs::canonicalize(path).is_ok_and(|path| !path.starts_with(ours))));
        if here.is_empty() {
            return Err(none());
        }
        found.extend(here);
    }
    Ok(found.into_iter().map(|path| (path, part)).collect())
}

/// A file, or all files below a directory.
fn files(path: &Path) -> Result<Vec<PathBuf>, SourceError> {
    if path.is_dir() {
        return regular::below(path)
            .map_err(|unlisted| SourceError::Read { path: unlisted.path, source: unlisted.source });
    }
    regular::check(path).map_err(SourceError::read(path))?;
    Ok(vec![path.to_owned()])
}

/// A line, and what is wrong with it.
type Wrong = (u64, String);

/// What is looked at while a file is hashed.
#[derive(Clone, Copy, Debug)]
enum Check {
    /// Nothing: its documents are looked at one by one when they are read.
    Nothing,
    /// That it is a text that such a tokenizer takes.
    Text(Cuts),
}

/// Length, digest and, if asked for, the first line that makes it no document, and why.
fn hash(
    path: &Path,
    check: Check,
    watch: &dyn Watch,
    stop: &AtomicBool,
) -> Result<(u64, Digest, Option<Wrong>), SourceError> {
    let mut file = File::open(path).map_err(SourceError::read(path))?;
    let mut hasher = blake3::Hasher::new();
    let (mut bytes, mut text) = (0, Text::new(check));
    let mut buffer = vec![0; 1 << 20];
    // Bytes at the beginning of the buffer that begin a character.
    let mut open = 0;
    while !stop.load(Ordering::Relaxed) {
        let count = file.read(&mut buffer[open..]).map_err(SourceError::read(path))?;
        hasher.update(&buffer[open..open + count]);
        bytes += count as u64;
        watch.advance(count as u64);
        let taken = text.take(&buffer[..open + count], count == 0);
        buffer.copy_within(taken..open + count, 0);
        open = open + count - taken;
        if count == 0 {
            break;
        }
    }
    Ok((bytes, Digest(*hasher.finalize().as_bytes()), text.bad))
}

/// A text that is looked at from its beginning on.
struct Text {
    check: Check,
    run: Run,
    line: u64,
    bad: Option<Wrong>,
}

impl Text {
    fn new(check: Check) -> Self {
        Self { check, run: Run::default(), line: 1, bad: None }
    }

    /// Takes bytes, all but the beginning of a character at their end; how many.
    fn take(&mut self, bytes: &[u8], last: bool) -> usize {
        let (Check::Text(cuts), None) = (self.check, &self.bad) else { return bytes.len() };
        let (good, wrong) = match std::str::from_utf8(bytes) {
            Ok(_) => (bytes.len(), false),
            Err(error) => (error.valid_up_to(), error.error_len().is_some() || last),
        };
        let text = std::str::from_utf8(&bytes[..good]).expect("PR-8 (it was found to be text up to here)");
        let long = match cuts {
            Cuts::Anywhere => None,
            Cuts::LineStarts | Cuts::Nowhere => self.run.over(text),
        };
        let lines = |bytes: &[u8]| bytes.iter().filter(|&&byte| byte == b'\n').count() as u64;
        self.bad = match long {
            Some(at) => Some((self.line + lines(&bytes[..at]), runs::too_long())),
            None if wrong => Some((self.line + lines(&bytes[..good]), "it is not UTF-8".to_owned())),
            None => None,
        };
        self.line += lines(&bytes[..good]);
        if self.bad.is_some() { bytes.len() } else { good }
    }
}
