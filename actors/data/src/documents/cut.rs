//! Where a file can be cut so that its parts can be worked on apart.
//!
//! DC-1 (a table is cut by its row groups): whoever cuts a table does not ask here.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::{Form, SourceError};
use crate::tokenizer::Cuts;

/// Bytes looked at at once.
const WINDOW: usize = 1 << 16;

/// A file's bytes in runs of about `size`, cut where it does not show. The runs depend on the file alone.
pub(crate) fn cuts(
    path: &Path,
    (form, bytes): (Form, u64),
    split_on: Option<&str>,
    tokenizer: Cuts,
    size: u64,
) -> Result<Vec<(u64, u64)>, SourceError> {
    let place = match (form, split_on, tokenizer) {
        (Form::Jsonl, ..) => Seam::Newline,
        (Form::Text, Some(separator), _) => Seam::Separator(separator.as_bytes()),
        (Form::Text, None, Cuts::Anywhere) => Seam::Character,
        (Form::Text, None, Cuts::LineStarts) => Seam::LineStart,
        (Form::Text, None, Cuts::Nowhere) => return Ok(whole(bytes)),
        (Form::Parquet, ..) => unreachable!("DC-1 (a table is cut by its row groups)"),
    };
    if bytes <= size {
        return Ok(whole(bytes));
    }
    let file = File::open(path).map_err(SourceError::read(path))?;
    let (mut runs, mut from) = (Vec::new(), 0);
    while from < bytes {
        let to = if bytes - from <= size { bytes } else { next(&file, path, bytes, from + size, &place)? };
        runs.push((from, to));
        from = to;
    }
    Ok(runs)
}

fn whole(bytes: u64) -> Vec<(u64, u64)> {
    if bytes == 0 { Vec::new() } else { vec![(0, bytes)] }
}

/// What a cut looks like.
enum Seam<'a> {
    /// After the end of a line.
    Newline,
    /// After what separates documents, where no earlier separator can overlap it.
    Separator(&'a [u8]),
    /// Before a character.
    Character,
    /// See [`Cuts::LineStarts`].
    LineStart,
}

/// The first cut at `least` or later, else the end.
fn next(file: &File, path: &Path, end: u64, least: u64, seam: &Seam<'_>) -> Result<u64, SourceError> {
    // Windows overlap by what it takes to know a cut from its surroundings.
    let (before, after) = match seam {
        Seam::Newline => (1, 0),
        Seam::Separator(separator) => (2 * separator.len(), 0),
        Seam::Character => (0, 1),
        Seam::LineStart => (2, 1),
    };
    let mut buffer = vec![0; WINDOW + before + after];
    let mut at = least;
    while at < end {
        let start = at.saturating_sub(before as u64);
        let length = (end - start).min(buffer.len() as u64) as usize;
        let bytes = &mut buffer[..length];
        file.read_exact_at(bytes, start).map_err(SourceError::read(path))?;
        let first = (at - start) as usize;
        let found = (first..=length.saturating_sub(after)).find(|&cut| is_cut(bytes, cut, seam));
        if let Some(cut) = found {
            return Ok(start + cut as u64);
        }
        at = start + (length - after) as u64 + 1;
    }
    Ok(end)
}

fn is_cut(bytes: &[u8], cut: usize, seam: &Seam<'_>) -> bool {
    match seam {
        Seam::Newline => cut > 0 && bytes[cut - 1] == b'\n',
        Seam::Separator(separator) => {
            let Some(start) = cut.checked_sub(separator.len()) else { return false };
            bytes[start..cut] == **separator
                && (start.saturating_sub(separator.len() - 1)..start)
                    .all(|earlier| !bytes[earlier..].starts_with(separator))
        }
        Seam::Character => bytes.get(cut).is_some_and(|byte| byte & 0b1100_0000 != 0b1000_0000),
        Seam::LineStart => {
            cut >= 2
                && bytes[cut - 2].is_ascii_graphic()
                && bytes[cut - 1] == b'\n'
                && bytes.get(cut).is_some_and(u8::is_ascii_alphanumeric)
        }
    }
}
