//! Progress on a terminal.
//!
//! UI-1 (the template is valid): bars are drawn by constants of the program.

use indicatif::ProgressStyle;

/// How a bar is drawn.
#[must_use]
pub fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("UI-1 (the template is valid)").progress_chars("=> ")
}
