//! How a job's text becomes tokens, and back.

use shoal_data::Tokenizer;
use shoal_plan::job::Job;

use crate::failure::Failure;
use crate::tokenizer;

/// A tokenizer and what ends a text of it.
pub(super) struct Text {
    pub(super) tokenizer: Tokenizer,
    /// Between documents.
    pub(super) end: Option<u32>,
}

impl Text {
    /// The one that is named; else that of the job's data.
    pub(super) fn of(job: &Job, named: Option<&str>) -> Result<Self, Failure> {
        let tokenizer = tokenizer::of(job, named)?;
        let recorded = job.data.tokenizer.filter(|recorded| recorded.digest == tokenizer.facts().digest);
        Ok(Self { end: recorded.map_or(tokenizer.end_of_text(), |recorded| recorded.end_of_text), tokenizer })
    }

    /// The tokens to go on from; nothing to say begins a text, where there is a token for that.
    pub(super) fn prompt(&self, text: &str, vocab: u32) -> Result<Vec<u32>, Failure> {
        let mut tokens = Vec::new();
        self.tokenizer.encode(text, &mut tokens).map_err(|error| Failure::Usage(error.to_string()))?;
        if tokens.is_empty() {
            let begin = self.end.filter(|end| *end < vocab);
            let begin = begin.ok_or("the prompt has no token to go on from; give some text with --prompt");
            tokens.push(begin.map_err(|text| Failure::Usage(text.to_owned()))?);
        }
        match tokens.iter().find(|token| **token >= vocab) {
            None => Ok(tokens),
            Some(token) => Err(Failure::Usage(format!(
                "the prompt has token {token}, and the model's vocabulary ends at {vocab}; name the tokenizer that its data was \
                 made with, --tokenizer"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use shoal_config::spec::TokenizerSpec;

    use super::*;

    fn by(spec: &TokenizerSpec) -> Text {
        let tokenizer = Tokenizer::open(spec).expect("built in");
        Text { end: tokenizer.end_of_text(), tokenizer }
    }

    #[test]
    fn a_prompt_is_held_against_the_vocabulary() {
        let bytes = by(&TokenizerSpec::Bytes);
        assert_eq!(bytes.prompt("hé", 256).expect("bytes"), [0x68, 0xc3, 0xa9]);
        assert_eq!(bytes.prompt("", 256).expect_err("nothing begins bytes").code(), 2);
        let gpt2 = by(&TokenizerSpec::Gpt2);
        assert_eq!(gpt2.prompt("", 50_304).expect("begins a text"), [50_256]);
        assert!(gpt2.prompt("", 256).is_err() && gpt2.prompt(" hello", 256).is_err());
        assert_eq!(gpt2.prompt(" hello", 50_257).expect("known"), [23748]);
    }
}
