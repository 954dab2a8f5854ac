//! UTF-8 files.

use std::path::Path;

use super::{BadDocument, Piece, Place, Reading, Span, Stop, Take, bytes_of, line_of};

/// The documents of a span; without a separator the file is one, and a span may hold a part of it.
pub(super) fn each<E>(path: &Path, span: &Span, reading: &Reading, take: &mut Take<'_, E>) -> Result<(), Stop<E>> {
    let bytes = bytes_of(path, span)?;
    let Some(separator) = &reading.split_on else {
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
    let mut at = 0;
    while at < bytes.len() {
        let end = find(&bytes[at..], separator.as_bytes()).map_or(bytes.len(), |found| at + found);
        if end > at {
            let piece = match std::str::from_utf8(&bytes[at..end]) {
                Ok(text) => match reading.refuses(text) {
                    None => Ok(Piece { text, begins: true, ends: true }),
                    Some((byte, what)) => {
                        let place = Place::Line(line_of(path, span.from + (at + byte) as u64)?);
                        Err(BadDocument { path: path.to_owned(), place, what })
                    }
                },
                Err(error) => {
                    let place = Place::Line(line_of(path, span.from + (at + error.valid_up_to()) as u64)?);
                    Err(not_utf8(path, place))
                }
            };
            take(piece).map_err(Stop::Taker)?;
        }
        at = end + separator.len();
    }
    Ok(())
}

pub(crate) fn not_utf8(path: &Path, place: Place) -> BadDocument {
    BadDocument { path: path.to_owned(), place, what: "it is not UTF-8".to_owned() }
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
