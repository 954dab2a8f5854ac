//! What goes to standard output: one form for people, one for programs.

use std::io::Write;

use serde::Serialize;

use crate::failure::Failure;

pub mod bar;
pub mod json;
pub mod table;
pub mod units;

pub use table::Show;

/// Which form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Tables and sentences.
    Human,
    /// One JSON document, or one object a line where it streams.
    Json,
}

impl Format {
    /// Prints one whole answer.
    ///
    /// # Errors
    /// If standard output is gone.
    pub fn print<T: Serialize + Show + ?Sized>(self, answer: &T) -> Result<(), Failure> {
        let text = match self {
            Self::Human => answer.show(),
            Self::Json => json::document(answer),
        };
        line(&text)
    }

    /// Prints one of a stream of answers.
    ///
    /// # Errors
    /// If standard output is gone.
    pub fn stream<T: Serialize + Show>(self, answer: &T) -> Result<(), Failure> {
        let text = match self {
            Self::Human => answer.show(),
            Self::Json => json::line(answer),
        };
        line(&text)
    }
}

/// Prints text as it is, with one line end.
///
/// # Errors
/// If standard output is gone.
pub fn line(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", text.trim_end()).and_then(|()| out.flush()).map_err(Failure::Output)
}
