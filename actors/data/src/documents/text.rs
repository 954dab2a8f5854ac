//! UTF-8 files.

use std::path::Path;

use super::segments::{self, Segment};
use super::{BadDocument, Piece, Place, Reading, SourceError, Span, Stop, Take, bytes_of, line_of};

/// The documents of a span; without a separator the file is one, and a span may hold a part of it.
pub(super) fn each<E>(path: &Path, span: &Span, reading: &Reading, take: &mut Take<'_, E>) -> Result<(), Stop<E>> {
    let Some(separator) = &reading.split_on else {
        let bytes = bytes_of(path, span)?;
        // The whole file was found to be a text that can be split when its sources were read, unless somebody writes to it.
        let piece = match std::str::from_utf8(&bytes) {
            Ok(text) => Ok(Piece { text, begins: span.from == 0, ends: span.last }),
            Err(error) => {
                let place = Place::Line(line_of(path, span.from + error.valid_up_to() as u64)?);
                Err(not_utf8(path, place))
            }
        };
        return take(piece).map_err(Stop::Taker);
    };
    let most = reading.most as usize;
    segments::each(path, span, separator.as_bytes(), most, |begin, segment| {
        let bad = |byte: usize, what: String| {
            let place = Place::Line(line_of(path, begin + byte as u64)?);
            Ok::<_, SourceError>(Err(BadDocument { path: path.to_owned(), place, what }))
        };
        let piece = match segment {
            Segment::Whole([]) => return Ok(()),
            Segment::Long(bytes) => bad(0, reading.too_large(bytes))?,
            Segment::Whole(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => match reading.refuses(text) {
                    None => Ok(Piece { text, begins: true, ends: true }),
                    Some((byte, what)) => bad(byte, what)?,
                },
                Err(error) => bad(error.valid_up_to(), NOT_UTF8.to_owned())?,
            },
        };
        take(piece).map_err(Stop::Taker)
    })
}

const NOT_UTF8: &str = "it is not UTF-8";

pub(crate) fn not_utf8(path: &Path, place: Place) -> BadDocument {
    BadDocument { path: path.to_owned(), place, what: NOT_UTF8.to_owned() }
}

/// Where a needle first stands.
pub(super) fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    let first = *needle.first()?;
    let mut at = 0;
    while at + needle.len() <= bytes.len() {
        at += bytes[at..].iter().position(|&byte| byte == first)?;
        if bytes[at..].starts_with(needle) {
            return Some(at);
        }
        at += 1;
    }
    None
}
