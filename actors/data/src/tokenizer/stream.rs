//! Text of tokens that come one by one, as a generation shows it.

use super::{Machine, Tokenizer, TokenizerError};

/// What came so far and is not yet text: a character may span tokens.
#[derive(Debug)]
pub struct TextStream<'t> {
    tokenizer: &'t Tokenizer,
    held: Held,
}

#[derive(Debug)]
enum Held {
    /// The beginning of a character, less than four bytes.
    Bytes(Vec<u8>),
    /// Tokens whose text depends on those around them; the first `shown` bytes of their text are out.
    Tokens { tokens: Vec<u32>, shown: usize },
}

/// Tokens that are kept, at least, before those whose text is not out: decoders look at their neighbour, or at all bytes of a
/// run that are tokens of their own (then more are kept, see [`kept`]).
const CONTEXT: usize = 4;

impl<'t> TextStream<'t> {
    pub(super) fn new(tokenizer: &'t Tokenizer) -> Self {
        let held = match &tokenizer.machine {
            Machine::Bytes | Machine::Bpe(_) => Held::Bytes(Vec::new()),
            Machine::Hf { .. } => Held::Tokens { tokens: Vec::new(), shown: 0 },
        };
        Self { tokenizer, held }
    }

    /// Takes a token and gives the text that is certain with it. Bytes that can be no character become U+FFFD.
    ///
    /// # Errors
    /// The token is not in the vocabulary.
    pub fn push(&mut self, token: u32) -> Result<String, TokenizerError> {
        let tokenizer = self.tokenizer;
        match &mut self.held {
            Held::Bytes(bytes) => {
                let facts = &tokenizer.facts;
                let unknown = || TokenizerError::Unknown { kind: facts.kind, token, vocab: facts.vocab };
                bytes.extend(tokenizer.bytes_of(token).ok_or_else(unknown)?);
                Ok(take_text(bytes))
            }
            Held::Tokens { tokens, shown } => {
                tokens.push(token);
                let text = tokenizer.decode(tokens).inspect_err(|_| {
                    tokens.pop();
                })?;
                // A character that is not complete shows as U+FFFD at the end.
                if text.ends_with('\u{fffd}') || text.len() <= *shown || !text.is_char_boundary(*shown) {
                    return Ok(String::new());
                }
                let new = text[*shown..].to_owned();
                let dropped;
                (dropped, *shown) = kept(tokenizer, tokens, &text)?;
                tokens.drain(..dropped);
                Ok(new)
            }
        }
    }

    /// What is left when no token follows; bytes that are no character become U+FFFD.
    #[must_use]
    pub fn finish(self) -> String {
        match self.held {
            Held::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Held::Tokens { tokens, shown } => {
                let text = self.tokenizer.decode(&tokens).unwrap_or_default();
                text.get(shown..).unwrap_or_default().to_owned()
            }
        }
    }
}

/// How many tokens can be forgotten, and the bytes of text that those after them have: the tail of all the text. Where the
/// cut would go through a character, the rest of it would make another text of what follows.
fn kept(tokenizer: &Tokenizer, tokens: &[u32], text: &str) -> Result<(usize, usize), TokenizerError> {
    for dropped in (1..=tokens.len().saturating_sub(CONTEXT)).rev() {
        let tail = tokenizer.decode(&tokens[dropped..])?;
        if text.ends_with(&tail) {
            return Ok((dropped, tail.len()));
        }
    }
    Ok((0, text.len()))
}

/// Takes all but an incomplete character at the end.
fn take_text(bytes: &mut Vec<u8>) -> String {
    let mut text = String::new();
    loop {
        match std::str::from_utf8(bytes) {
            Ok(whole) => {
                text.push_str(whole);
                bytes.clear();
                return text;
            }
            Err(error) => {
                let good = error.valid_up_to();
                text.push_str(&String::from_utf8_lossy(&bytes[..good]));
                match error.error_len() {
                    Some(bad) => {
                        text.push('\u{fffd}');
                        bytes.drain(..good + bad);
                    }
                    None => {
                        bytes.drain(..good);
                        return text;
                    }
                }
            }
        }
    }
}
