//! An object a line.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::segments::{self, Segment};
use super::{BadDocument, Piece, Place, Reading, Span, Stop, Take, line_of};

/// The documents of a span of whole lines. Empty lines are none, and are no mistake.
pub(super) fn each<E>(path: &Path, span: &Span, reading: &Reading, take: &mut Take<'_, E>) -> Result<(), Stop<E>> {
    let most = reading.most as usize;
    segments::each(path, span, b"\n", most, |begin, segment| {
        let found = match segment {
            Segment::Whole(line) if line.iter().all(u8::is_ascii_whitespace) => return Ok(()),
            Segment::Long(bytes) => Err(reading.too_large(bytes)),
            Segment::Whole(line) => text_of(line, &reading.field).and_then(|text| match reading.refuses(&text) {
                None => Ok(text),
                Some((_, what)) => Err(what),
            }),
        };
        match found {
            Ok(text) => take(Ok(Piece { text: &text, begins: true, ends: true })),
            Err(what) => {
                let place = Place::Line(line_of(path, begin)?);
                take(Err(BadDocument { path: path.to_owned(), place, what }))
            }
        }
        .map_err(Stop::Taker)
    })
}

/// The string in a field, or what is there instead.
fn text_of(line: &[u8], field: &str) -> Result<String, String> {
    let line = std::str::from_utf8(line).map_err(|_| "it is not UTF-8".to_owned())?;
    let mut json = serde_json::Deserializer::from_str(line);
    let found = Field(field).deserialize(&mut json).and_then(|found| json.end().map(|()| found));
    match found {
        Ok(Some(Text::Is(text))) => Ok(text),
        Ok(Some(Text::IsNot(kind))) => Err(format!("field \"{field}\" is {kind}, not a string")),
        Ok(None) => Err(format!("it has no field \"{field}\"; name the one with the text with --field")),
        // The line within the one line says nothing.
        Err(error) => {
            let text = error.to_string();
            let what = text.split(" at line ").next().unwrap_or_default();
            Err(format!("it is not a JSON object: {what} at column {}", error.column()))
        }
    }
}

/// Takes one field of an object and passes over the others.
struct Field<'a>(&'a str);

enum Text {
    Is(String),
    IsNot(&'static str),
}

impl<'de> DeserializeSeed<'de> for Field<'_> {
    type Value = Option<Text>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Field<'_> {
    type Value = Option<Text>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(key) = map.next_key::<Key<'de>>()? {
            if key.0 == self.0 {
                found = Some(match map.next_value()? {
                    serde_json::Value::String(text) => Text::Is(text),
                    serde_json::Value::Null => Text::IsNot("null"),
                    serde_json::Value::Bool(_) => Text::IsNot("a truth value"),
                    serde_json::Value::Number(_) => Text::IsNot("a number"),
                    serde_json::Value::Array(_) => Text::IsNot("a list"),
                    serde_json::Value::Object(_) => Text::IsNot("an object"),
                });
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

/// Borrowed where it has no escapes.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);
