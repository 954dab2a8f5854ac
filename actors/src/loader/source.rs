//! A run of tokens over one or more files, read where they lie.
//!
//! LD-1 (a window lies inside the data): windows are cut from the length that this has.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use shoal_config::spec::DataFormat;
use shoal_plan::ids::Digest;

use super::files::{self, Stamp, TokenFile};
use super::{DataError, Reading, word};

/// Bytes read at a time when everything is read.
const BLOCK: usize = 1 << 20;
/// Up to here every token of a vocabulary fits two bytes.
const NARROW_VOCAB: u32 = 1 << 16;

/// Tokens `0..len`.
#[derive(Clone, Debug)]
pub struct TokenSource {
    format: DataFormat,
    parts: Vec<Part>,
    len: u64,
}

/// Consecutive tokens of one file.
#[derive(Clone, Debug)]
struct Part {
    file: Arc<TokenFile>,
    /// First token, counted in the file.
    first: u64,
    /// First token, counted in the source.
    at: u64,
    len: u64,
}

impl TokenSource {
    /// All tokens of a path.
    pub(super) fn open(format: DataFormat, path: &Path) -> Result<Self, DataError> {
        Ok(Self::of(format, files::open(format, path)?))
    }

    /// All tokens of some files.
    pub(super) fn of(format: DataFormat, files: Vec<Arc<TokenFile>>) -> Self {
        let mut len = 0;
        let parts = files
            .into_iter()
            .map(|file| {
                let part = Part { first: 0, at: len, len: file.tokens, file };
                len += part.len;
                part
            })
            .collect();
        Self { format, parts, len }
    }

    /// Tokens in all.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is no token.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Stamps of all files, in order.
    pub(super) fn stamps(&self) -> Result<Vec<Stamp>, DataError> {
        self.parts.iter().map(|part| part.file.stamp()).collect()
    }

    /// The first `count` tokens, or all there are.
    #[must_use]
    pub fn first(&self, count: u64) -> Self {
        self.clone().split_at(count).0
    }

    /// Tokens before `cut`, and the rest.
    pub(super) fn split_at(self, cut: u64) -> (Self, Self) {
        let (mut head, mut tail) = (Vec::new(), Vec::new());
        for part in self.parts {
            let inside = cut.saturating_sub(part.at).min(part.len);
            if inside > 0 {
                head.push(Part { len: inside, ..part.clone() });
            }
            if inside < part.len {
                let at = part.at + inside - cut;
                tail.push(Part { first: part.first + inside, at, len: part.len - inside, file: part.file });
            }
        }
        let len = cut.min(self.len);
        (Self { format: self.format, parts: head, len }, Self { format: self.format, parts: tail, len: self.len - len })
    }

    /// Copies tokens `start..start + out.len()`.
    ///
    /// # Errors
    /// A file cannot be read.
    ///
    /// # Panics
    /// If the window reaches beyond the last token: windows are cut by `plan::batch` from the same length.
    pub fn read(&self, start: u64, out: &mut [u32]) -> Result<(), DataError> {
        assert!(start + out.len() as u64 <= self.len, "LD-1 (a window lies inside the data)");
        let mut index = self.parts.partition_point(|part| part.at + part.len <= start);
        let (mut at, mut out) = (start, out);
        let mut bytes = Vec::new();
        while !out.is_empty() {
            let part = &self.parts[index];
            let here = (part.at + part.len - at).min(out.len() as u64) as usize;
            let (now, rest) = out.split_at_mut(here);
            part.read(part.first + (at - part.at), now, &mut bytes)?;
            (at, out, index) = (at + here as u64, rest, index + 1);
        }
        Ok(())
    }

    /// Checks every token and adds it to a hash, in the form that `DataFacts::digest` is defined over.
    pub(super) fn scan(&self, vocab: u32, hasher: &mut blake3::Hasher, reading: &Reading) -> Result<(), DataError> {
        let (mut bytes, mut tokens, mut hashed) = (Vec::new(), Vec::<u32>::new(), Vec::new());
        for part in &self.parts {
            let mut utf8 = Utf8::default();
            let mut whole = part.hasher()?;
            let mut done = 0;
            while done < part.len {
                let here = (part.len - done).min(BLOCK as u64 / part.file.width) as usize;
                tokens.resize(here, 0);
                part.read(part.first + done, &mut tokens, &mut bytes)?;
                if let Some((whole, _)) = &mut whole {
                    whole.update(&bytes);
                }
                if self.format == DataFormat::Text {
                    // A split may fall inside a character: what is left of it begins a later part.
                    let cut = if part.first > 0 && done == 0 { continuation(&bytes) } else { 0 };
                    utf8.feed(&bytes[cut..], part.first + done + cut as u64).map_err(|at| part.not_utf8(at))?;
                }
                if let Some(bad) = tokens.iter().position(|&t| t >= vocab) {
                    return Err(DataError::Vocabulary {
                        path: part.file.path.clone(),
                        position: part.first + done + bad as u64,
                        token: tokens[bad],
                        vocab,
                    });
                }
                hashed.clear();
                if vocab <= NARROW_VOCAB {
                    hashed.extend(tokens.iter().flat_map(|&t| (t as u16).to_le_bytes()));
                } else {
                    hashed.extend(tokens.iter().flat_map(|t| t.to_le_bytes()));
                }
                hasher.update(&hashed);
                done += here as u64;
                reading.advance(here as u64)?;
            }
            if let Some((whole, said)) = whole
                && Digest(*whole.finalize().as_bytes()) != said
            {
                return Err(DataError::Damaged { path: part.file.path.clone() });
            }
            if self.format == DataFormat::Text && part.first + part.len == part.file.tokens {
                utf8.finish(part.file.tokens).map_err(|at| part.not_utf8(at))?;
            }
        }
        Ok(())
    }
}

impl Part {
    /// Tokens from `token` on, counted in the file; `bytes` becomes what was read.
    fn read(&self, token: u64, out: &mut [u32], bytes: &mut Vec<u8>) -> Result<(), DataError> {
        let TokenFile { path, file, header, width, .. } = &*self.file;
        bytes.resize(out.len() * *width as usize, 0);
        file.read_exact_at(bytes, header + token * width)
            .map_err(|source| DataError::Read { path: path.clone(), source })?;
        for (token, stored) in out.iter_mut().zip(bytes.chunks_exact(*width as usize)) {
            let mut wide = [0; 4];
            wide[..stored.len()].copy_from_slice(stored);
            *token = u32::from_le_bytes(wide);
        }
        Ok(())
    }

    /// For the digest of a file that a manifest gives one for, its header in it already; of a file as a whole only.
    fn hasher(&self) -> Result<Option<(blake3::Hasher, Digest)>, DataError> {
        let TokenFile { path, file, header, tokens, blake3, .. } = &*self.file;
        let Some(said) = blake3.filter(|_| self.len == *tokens) else { return Ok(None) };
        let mut bytes = vec![0; *header as usize];
        file.read_exact_at(&mut bytes, 0).map_err(|source| DataError::Read { path: path.clone(), source })?;
        let mut hasher = blake3::Hasher::new();
        hasher.update(&bytes);
        Ok(Some((hasher, said)))
    }

    fn not_utf8(&self, at: u64) -> DataError {
        DataError::Format {
            path: self.file.path.clone(),
            format: word(DataFormat::Text),
            found: format!("byte {at} is not UTF-8"),
        }
    }
}

/// Bytes at the beginning that belong to a character begun before.
fn continuation(bytes: &[u8]) -> usize {
    bytes.iter().take(3).take_while(|&&b| b & 0b1100_0000 == 0b1000_0000).count()
}

/// Checks a stream that comes in blocks; a character may straddle two.
#[derive(Default)]
struct Utf8 {
    tail: Vec<u8>,
}

impl Utf8 {
    /// Takes the bytes at offset `at`; on failure the offset of the bad byte.
    fn feed(&mut self, bytes: &[u8], at: u64) -> Result<(), u64> {
        let start = at - self.tail.len() as u64;
        let mut joined = std::mem::take(&mut self.tail);
        let text = if joined.is_empty() {
            bytes
        } else {
            joined.extend_from_slice(bytes);
            &joined
        };
        match std::str::from_utf8(text) {
            Ok(_) => Ok(()),
            Err(error) if error.error_len().is_none() => {
                self.tail = text[error.valid_up_to()..].to_vec();
                Ok(())
            }
            Err(error) => Err(start + error.valid_up_to() as u64),
        }
    }

    fn finish(self, len: u64) -> Result<(), u64> {
        if self.tail.is_empty() { Ok(()) } else { Err(len - self.tail.len() as u64) }
    }
}
