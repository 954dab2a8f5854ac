//! The form for programs.

use serde::Serialize;

/// A whole document, indented.
#[must_use]
pub fn document<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string_pretty(value).expect("OUT-1 (answers are plain data)")
}

/// One object on one line.
#[must_use]
pub fn line<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).expect("OUT-1 (answers are plain data)")
}
