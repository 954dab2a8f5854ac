//! The form for programs.
//!
//! OU-1 (answers are plain data): they have no map with keys that are no words, and nothing in them fails to be written.

use serde::Serialize;

/// A whole document, indented.
#[must_use]
pub fn document<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string_pretty(value).expect("OU-1 (answers are plain data)")
}

/// One object on one line.
#[must_use]
pub fn line<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).expect("OU-1 (answers are plain data)")
}
