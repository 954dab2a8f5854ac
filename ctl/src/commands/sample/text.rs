//! How a job's text becomes tokens, and back.

use std::path::Path;

use shoal_config::spec::{DataFormat, DataSpec, TokenizerSpec};
use shoal_data::manifest::TOKENIZER_FILE;
use shoal_data::{Manifest, Tokenizer};

use crate::failure::Failure;

/// A tokenizer and what ends a text of it.
pub(super) struct Text {
    pub(super) tokenizer: Tokenizer,
    /// Between documents.
    pub(super) end: Option<u32>,
}

impl Text {
    /// The one that is named; else that of the job's data: bytes of text, or what a manifest beside its tokens says.
    pub(super) fn of(data: &DataSpec, named: Option<&str>) -> Result<Self, Failure> {
        match named {
            Some(word) => Self::by(&TokenizerSpec::named(word)),
            None if data.format == DataFormat::Text => Self::by(&TokenizerSpec::Bytes),
            None => Self::by_manifest(&data.path),
        }
    }

    fn by(spec: &TokenizerSpec) -> Result<Self, Failure> {
        let tokenizer =
            Tokenizer::open(spec).map_err(|error| Failure::Usage(format!("{:#}", anyhow::Error::from(error))))?;
        Ok(Self { end: tokenizer.end_of_text(), tokenizer })
    }

    fn by_manifest(path: &Path) -> Result<Self, Failure> {
        let (manifest, dir) = Manifest::read(path).map_err(|error| {
            let error = format!("{:#}", anyhow::Error::from(error));
            Failure::Usage(format!("nothing says how the job's data was made: {error}; name it with --tokenizer"))
        })?;
        let facts = manifest.tokenizer();
        let spec = match manifest.tokenizer.kind.as_str() {
            "hf" => TokenizerSpec::Hf(dir.join(TOKENIZER_FILE)),
            word => TokenizerSpec::named(word),
        };
        let Self { tokenizer, .. } = Self::by(&spec)?;
        if tokenizer.facts().digest != facts.digest {
            return Err(Failure::Usage(format!(
                "the tokenizer {} here is not the one that made the job's data; name that with --tokenizer",
                manifest.tokenizer.kind
            )));
        }
        Ok(Self { tokenizer, end: facts.end_of_text })
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
    use super::*;

    #[test]
    fn a_prompt_is_held_against_the_vocabulary() {
        let bytes = Text::by(&TokenizerSpec::Bytes).expect("built in");
        assert_eq!(bytes.prompt("hé", 256).expect("bytes"), [0x68, 0xc3, 0xa9]);
        assert_eq!(bytes.prompt("", 256).expect_err("nothing begins bytes").code(), 2);
        let gpt2 = Text::by(&TokenizerSpec::Gpt2).expect("built in");
        assert_eq!(gpt2.prompt("", 50_304).expect("begins a text"), [50_256]);
        assert!(gpt2.prompt("", 256).is_err() && gpt2.prompt(" hello", 256).is_err());
        assert_eq!(gpt2.prompt(" hello", 50_257).expect("known"), [23748]);
    }

    #[test]
    fn data_that_does_not_say_what_made_it_needs_a_name() {
        let mut data = shoal_config::preset("tiny", Path::new("/no/such/place")).expect("a preset").data;
        assert_eq!(Text::of(&data, None).map(|text| text.tokenizer.vocab()).ok(), Some(256));
        data.format = DataFormat::NanoGpt;
        let error = Text::of(&data, None).err().expect("no manifest").to_string();
        assert!(error.contains("nothing says how the job's data was made") && error.contains("--tokenizer"), "{error}");
        assert_eq!(Text::of(&data, Some("gpt2")).map(|text| text.end).ok(), Some(Some(50_256)));
    }
}
