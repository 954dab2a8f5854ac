//! What lies between separators, in as much memory as the longest document may have.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::text::find;
use super::{SourceError, Span, Stop};

/// Bytes read at once.
const CHUNK: usize = 1 << 20;

/// From one separator to the next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Segment<'b> {
    /// All of it.
    Whole(&'b [u8]),
    /// So many bytes, which are more than a document may have.
    Long(u64),
}

/// Gives the segments of a span with the bytes of the file at which they begin. What follows the last separator is one too,
/// unless nothing does.
pub(super) fn each<E>(
    path: &Path,
    span: &Span,
    separator: &[u8],
    most: usize,
    mut take: impl FnMut(u64, Segment<'_>) -> Result<(), Stop<E>>,
) -> Result<(), Stop<E>> {
    let file = File::open(path).map_err(SourceError::read(path))?;
    let mut bytes: Vec<u8> = Vec::new();
    // Bytes of the file: the first of `bytes`, and the first of the segment, which may be forgotten.
    let (mut first, mut begin) = (span.from, span.from);
    // No separator of the segment begins before this one of `bytes`.
    let mut looked = 0;
    loop {
        while let Some(found) = find(&bytes[looked..], separator) {
            let end = looked + found;
            take(begin, segment(&bytes[..end], first, begin, most))?;
            looked = end + separator.len();
            begin = first + looked as u64;
        }
        looked = looked.max((bytes.len() + 1).saturating_sub(separator.len()));
        let long = first + bytes.len() as u64 > begin + most as u64;
        let useless = if long { looked } else { begin.saturating_sub(first) as usize };
        bytes.drain(..useless);
        (first, looked) = (first + useless as u64, looked - useless);
        let at = first + bytes.len() as u64;
        let count = (span.to - at).min(CHUNK as u64) as usize;
        if count == 0 {
            let there = at > begin;
            return if there { take(begin, segment(&bytes, first, begin, most)) } else { Ok(()) };
        }
        let old = bytes.len();
        bytes.resize(old + count, 0);
        file.read_exact_at(&mut bytes[old..], at).map_err(SourceError::read(path))?;
    }
}

fn segment(bytes: &[u8], first: u64, begin: u64, most: usize) -> Segment<'_> {
    let length = first + bytes.len() as u64 - begin;
    match begin.checked_sub(first) {
        Some(start) if length <= most as u64 => Segment::Whole(&bytes[start as usize..]),
        Some(_) | None => Segment::Long(length),
    }
}
