//! A TOML file with the line of everything in it, read key by key.

use std::borrow::Cow;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{ConfigError, Place, Problem};
use crate::{limits, regular};

/// Bytes that a file may have. Nobody types more; what has no end, or is another file, is not read to its end.
const MOST: u64 = 1 << 20;

/// Resolves a file: `parse` gets its text, its name for errors, and the directory that paths in it start at.
pub(crate) fn resolve<T>(
    path: &Path,
    parse: impl FnOnce(&str, &str, &Path) -> Result<T, ConfigError>,
) -> Result<T, ConfigError> {
    let text = read(path)?;
    let absolute = std::path::absolute(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
    parse(&text, &path.display().to_string(), absolute.parent().unwrap_or(Path::new("/")))
}

fn read(path: &Path) -> Result<String, ConfigError> {
    let failed = |source| ConfigError::Read { path: path.to_owned(), source };
    let mut text = String::new();
    regular::open(path).map_err(failed)?.take(MOST + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MOST {
        let told = format!("it has more than the {MOST} bytes that are allowed for a file with keys");
        return Err(failed(io::Error::new(io::ErrorKind::InvalidData, told)));
    }
    Ok(text)
}

/// A parsed file.
pub(crate) struct Document<'t> {
    file: &'t str,
    text: &'t str,
    table: DeTable<'t>,
}

/// One table of a file. A table that is not there reads as an empty one.
#[derive(Clone)]
pub(crate) struct Section<'d> {
    file: &'d str,
    text: &'d str,
    name: &'static str,
    at: Option<Range<usize>>,
    table: Option<&'d DeTable<'d>>,
}

/// A value with the place it was found at.
#[derive(Clone, Debug)]
pub(crate) struct Found<T> {
    /// The value.
    pub(crate) value: T,
    place: Place,
    key: String,
    text: String,
}

/// What can be read from a TOML value.
pub(crate) trait Typed: Sized {
    /// For error messages: what is allowed.
    const ALLOWED: &'static str;
    /// The value, or none if it is of another type.
    fn of(value: &DeValue<'_>) -> Option<Self>;
}

impl<'t> Document<'t> {
    /// Parses `text`; `file` is its name in errors.
    pub(crate) fn parse(text: &'t str, file: &'t str) -> Result<Self, ConfigError> {
        match DeTable::parse(text) {
            Ok(table) => Ok(Self { file, text, table: table.into_inner() }),
            Err(error) => Err(ConfigError::At {
                place: Place { file: file.to_owned(), line: error.span().map(|span| line(text, span.start)) },
                problem: Problem::Syntax { message: error.message().to_owned() },
            }),
        }
    }

    /// The keys above the first section.
    pub(crate) fn top(&self) -> Section<'_> {
        Section { file: self.file, text: self.text, name: "", at: None, table: Some(&self.table) }
    }
}

impl<'d> Section<'d> {
    /// Refuses keys that are not in `keys`.
    pub(crate) fn refuse_unknown(&self, keys: &[&'static str]) -> Result<(), ConfigError> {
        for key in self.table.into_iter().flat_map(DeTable::keys) {
            let name = key.get_ref().as_ref();
            if !keys.contains(&name) {
                return Err(ConfigError::At {
                    place: self.place(Some(key.span())),
                    problem: Problem::UnknownKey {
                        key: self.path(name),
                        allowed: keys.to_vec(),
                        nearest: nearest(name, keys),
                    },
                });
            }
        }
        Ok(())
    }

    /// The section under `key`.
    pub(crate) fn section(&self, key: &'static str) -> Result<Self, ConfigError> {
        let Some(value) = self.table.and_then(|table| table.get(key)) else {
            return Ok(Self { name: key, at: None, table: None, ..self.clone() });
        };
        match value.get_ref() {
            DeValue::Table(table) => Ok(Self { name: key, at: Some(value.span()), table: Some(table), ..self.clone() }),
            DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_) => Err(self.found(key, value, ()).refuse(format!("a section [{key}]"))),
        }
    }

    /// The sections of a list of them; `name` is what each is called in errors.
    pub(crate) fn list(&self, key: &'static str, name: &'static str) -> Result<Vec<Self>, ConfigError> {
        let Some(value) = self.table.and_then(|table| table.get(key)) else { return Ok(Vec::new()) };
        let refused = || self.found(key, value, ()).refuse(format!("sections [[{name}]]"));
        let DeValue::Array(items) = value.get_ref() else { return Err(refused()) };
        let section = |item: &'d Spanned<DeValue<'d>>| match item.get_ref() {
            DeValue::Table(table) => Ok(Self { name, at: Some(item.span()), table: Some(table), ..self.clone() }),
            DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_) => Err(refused()),
        };
        items.iter().map(section).collect()
    }

    /// The value of `key`, if it is there.
    pub(crate) fn get<T: Typed>(&self, key: &'static str) -> Result<Option<Found<T>>, ConfigError> {
        let Some(value) = self.table.and_then(|table| table.get(key)) else { return Ok(None) };
        match T::of(value.get_ref()) {
            Some(typed) => Ok(Some(self.found(key, value, typed))),
            // Of a number with bounds, the bounds say more than its type.
            None => Err(self.found(key, value, ()).refuse(match limits::bounds(key) {
                Some(range) => Cow::Owned(limits::whole(&range)),
                None => Cow::Borrowed(T::ALLOWED),
            })),
        }
    }

    /// A key that is there and is none of `keys`, with its place.
    pub(crate) fn other_than(&self, keys: &[&str]) -> Option<Found<()>> {
        let (key, value) = self.table?.iter().find(|(key, _)| !keys.contains(&key.get_ref().as_ref()))?;
        Some(self.found(key.get_ref(), value, ()))
    }

    /// The error for a key that has no default and is not there.
    pub(crate) fn missing(&self, key: &str, allowed: &str) -> ConfigError {
        ConfigError::At {
            place: self.place(self.at.clone()),
            problem: Problem::Missing { key: self.path(key), allowed: allowed.to_owned() },
        }
    }

    fn found<T>(&self, key: &str, at: &Spanned<DeValue<'_>>, value: T) -> Found<T> {
        let span = at.span();
        let text = self.text.get(span.clone()).unwrap_or_default().lines().next().unwrap_or_default().to_owned();
        Found { value, place: self.place(Some(span)), key: self.path(key), text }
    }

    fn place(&self, span: Option<Range<usize>>) -> Place {
        Place { file: self.file.to_owned(), line: span.map(|span| line(self.text, span.start)) }
    }

    fn path(&self, key: &str) -> String {
        if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) }
    }
}

impl<T> Found<T> {
    /// The error for a file or directory that is named here and cannot be what is wanted.
    pub(crate) fn conflict(&self, problem: impl Into<String>) -> ConfigError {
        ConfigError::At {
            place: self.place.clone(),
            problem: Problem::Files { key: self.key.clone(), found: self.text.clone(), problem: problem.into() },
        }
    }

    /// The error for a value of the right type that is not allowed.
    pub(crate) fn refuse(&self, allowed: impl Into<Cow<'static, str>>) -> ConfigError {
        ConfigError::At {
            place: self.place.clone(),
            problem: Problem::Value {
                key: self.key.clone(),
                found: self.text.clone(),
                allowed: allowed.into().into_owned(),
            },
        }
    }
}

/// Line of a byte, counted from 1.
fn line(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count()
}

/// The key most like what was typed, if one is like enough.
fn nearest(typed: &str, keys: &[&'static str]) -> Option<&'static str> {
    keys.iter()
        .map(|key| (strsim::jaro_winkler(typed, key), *key))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, key)| key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_or_is_too_long_is_not_read_to_its_end() {
        let said = |path: &Path| {
            let error = read(path).expect_err("no file with keys");
            std::error::Error::source(&error).expect("what the system said").to_string()
        };
        assert_eq!(said(Path::new("/dev/zero")), "it is not a regular file");
        let dir = tempfile::tempdir().expect("temp dir");
        let long = dir.path().join("long.toml");
        std::fs::File::create(&long).and_then(|file| file.set_len(MOST + 1)).expect("made");
        assert!(said(&long).contains("1048576 bytes"));
    }
}
