//! Runs of characters that splitting into words may go through in one go.
//!
//! Built-in and other tokenizers split a text with a matcher that remembers a way back for each character of a run and gives
//! up at a million of them, one by an error and another by taking the rest of the text for one word. Texts that could bring
//! it there are refused before.

/// Characters that may follow one another with no white space between them, or with nothing but white space.
pub(crate) const MOST: usize = 400_000;

/// What is wrong with a text that has more.
pub(crate) fn too_long() -> String {
    format!(
        "it has a run of more than {MOST} characters without white space, or of nothing else, which no tokenizer splits; \
         allowed: {MOST}"
    )
}

/// The run that a text is in, which may come in pieces.
#[derive(Debug, Default)]
pub(crate) struct Run {
    white: bool,
    length: usize,
}

impl Run {
    /// Goes on with the next piece; the byte of it at which a run becomes too long, if one does.
    pub(crate) fn over(&mut self, text: &str) -> Option<usize> {
        for (at, character) in text.char_indices() {
            if character.is_whitespace() == self.white {
                self.length += 1;
            } else {
                *self = Self { white: !self.white, length: 1 };
            }
            if self.length > MOST {
                return Some(at);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_go_on_from_piece_to_piece() {
        let half = " ".repeat(MOST / 2);
        let mut run = Run::default();
        assert_eq!([&half, &half, "x", &half, &half].map(|piece| run.over(piece)), [None; 5]);
        assert_eq!(run.over("y  "), None);
        assert_eq!(Run::default().over(&format!("{half}x{half}{half} y")), Some(MOST + MOST / 2 + 1));
        assert_eq!(Run::default().over(&"日".repeat(MOST + 1)), Some(3 * MOST));
    }
}
