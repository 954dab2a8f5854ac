//! Which tokens begin and end a text, in the files where `transformers` looks for it.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use shoal_config::hf::SpecialTokens;
use shoal_config::spec::ModelSpec;
use shoal_plan::job::{Job, TokenizerFacts, TokenizerKind};

/// The end of text of GPT-2's own vocabulary, and how many tokens that has.
const GPT2: (u32, u32) = (50_256, 50_257);

/// What begins and ends a job's texts: what made the tokens of its data knows what ended a text while it was trained, and goes before
/// the files that it began with. Of those, what is among the special tokens of that tokenizer counts; where nobody can say which
/// those are, all of it, unless the two disagree on what ends a text. `of_file` are those of its `tokenizer.json`, if it has one
/// that is here.
#[must_use]
pub fn text_tokens(job: &Job, of_file: Option<&BTreeSet<u32>>) -> SpecialTokens {
    let special = of_file.cloned().or_else(|| job.data.tokenizer.and_then(of_itself));
    let vocab = job.spec.model.vocab();
    let made = job.data.tokenizer.and_then(|made| made.end_of_text).filter(|token| *token < vocab);
    let mut tokens = job.weights.as_ref().map(|facts| facts.special.clone()).unwrap_or_default();
    let agreed = made.is_none_or(|made| tokens.end.contains(&made));
    let counts = |token: &u32| *token < vocab && special.as_ref().map_or(agreed, |special| special.contains(token));
    tokens.begin = tokens.begin.filter(counts);
    tokens.pad = tokens.pad.filter(counts);
    tokens.end.retain(counts);
    if let Some(made) = made {
        tokens.end.retain(|token| *token != made);
        tokens.end.insert(0, made);
    }
    if tokens.end.is_empty() {
        let own = match job.spec.model {
            ModelSpec::Gpt2(_) if job.data.tokenizer.is_none() && vocab == GPT2.1 => Some(GPT2.0),
            ModelSpec::Gpt2(_) | ModelSpec::Llama(_) => None,
        };
        tokens.end.extend(own);
    }
    // A GPT-2 begins a text with what ends the one before.
    if let (ModelSpec::Gpt2(_), None, Some(end)) = (&job.spec.model, tokens.begin, tokens.end.first()) {
        tokens.begin = Some(*end);
    }
    tokens
}

/// The special tokens that are known of a tokenizer without its file.
fn of_itself(made: TokenizerFacts) -> Option<BTreeSet<u32>> {
    match made.kind {
        TokenizerKind::Bytes | TokenizerKind::Gpt2 | TokenizerKind::O200k => {
            Some(made.end_of_text.into_iter().collect())
        }
        TokenizerKind::Hf => None,
    }
}

/// Says it in a `config.json`, or in what goes beside one.
pub fn mark(config: &mut Value, tokens: &SpecialTokens) {
    config["bos_token_id"] = json!(tokens.begin);
    config["eos_token_id"] = match &tokens.end[..] {
        [] => Value::Null,
        [one] => json!(one),
        several => json!(several),
    };
    config["pad_token_id"] = json!(tokens.pad);
}

/// `generation_config.json`, if it is known what ends a text.
#[must_use]
pub fn generation_config_json(tokens: &SpecialTokens) -> Option<Value> {
    let mut config = json!({"_from_model_config": true});
    mark(&mut config, tokens);
    (!tokens.end.is_empty()).then_some(config)
}

/// `tokenizer_config.json` beside a `tokenizer.json` for texts of at most `context` tokens; `text_of` is what a token is called
/// there.
#[must_use]
pub fn tokenizer_config_json(tokens: &SpecialTokens, context: u32, text_of: impl Fn(u32) -> Option<String>) -> Value {
    let mut config = json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": context,
        "clean_up_tokenization_spaces": false,
    });
    let named = [("bos_token", tokens.begin), ("eos_token", tokens.end.first().copied()), ("pad_token", tokens.pad)];
    for (key, token) in named {
        if let Some(text) = token.and_then(&text_of) {
            config[key] = json!(text);
        }
    }
    config
}

#[cfg(test)]
mod tests {
    use shoal_config::spec::Dtype;
    use shoal_plan::ids::Digest;
    use shoal_plan::weights::{Dtypes, WeightFacts};

    use super::*;
    use crate::testing::{job, llama, with_data};

    fn made(end_of_text: Option<u32>) -> TokenizerFacts {
        TokenizerFacts { kind: TokenizerKind::Hf, digest: Digest::default(), vocab: 300, end_of_text }
    }

    #[test]
    fn the_tokenizer_goes_before_the_files_and_nothing_is_made_up() {
        let mut job = with_data(job(1, 2, 16, 8, 300, 0.0));
        assert_eq!(text_tokens(&job, None), SpecialTokens::default());
        assert_eq!(generation_config_json(&text_tokens(&job, None)), None);
        job.data.tokenizer = Some(made(Some(299)));
        let of_gpt2 = SpecialTokens { begin: Some(299), end: vec![299], pad: None };
        assert_eq!(text_tokens(&job, None), of_gpt2);
        let gpt2 = job.spec.model.clone();
        job.spec.model = llama([1, 2, 1, 8, 16, 32, 8, 300], false, false);
        let of_llama = SpecialTokens { begin: None, end: vec![299], pad: None };
        assert_eq!(text_tokens(&job, None), of_llama);
        let special = SpecialTokens { begin: Some(1), end: vec![2, 5, 300], pad: Some(300) };
        let dtypes = Dtypes::All(Dtype::F32);
        job.weights = Some(WeightFacts { segment: 4096, digests: Vec::new(), dtypes, padded_vocab: None, special });
        // The files are of another tokenizer: its tokens are words here.
        assert_eq!(text_tokens(&job, Some(&BTreeSet::from([299]))), of_llama);
        assert_eq!(text_tokens(&job, None), of_llama);
        let llama = std::mem::replace(&mut job.spec.model, gpt2);
        assert_eq!(text_tokens(&job, Some(&BTreeSet::from([299]))), of_gpt2);
        job.spec.model = llama;
        // It has them too, and says itself which ends a text first.
        let both = text_tokens(&job, Some(&BTreeSet::from([1, 2, 299])));
        assert_eq!(both, SpecialTokens { begin: Some(1), end: vec![299, 2], pad: None });
        // They agree.
        job.data.tokenizer = Some(made(Some(5)));
        assert_eq!(text_tokens(&job, None), SpecialTokens { begin: Some(1), end: vec![5, 2], pad: None });
        // It is built in: it has no other special token, wherever its file may be.
        job.data.tokenizer = Some(TokenizerFacts { kind: TokenizerKind::Gpt2, ..made(Some(5)) });
        assert_eq!(text_tokens(&job, None), SpecialTokens { begin: None, end: vec![5], pad: None });
        job.data.tokenizer = None;
        let known = text_tokens(&job, None);
        assert_eq!(known, SpecialTokens { begin: Some(1), end: vec![2, 5], pad: None });
        let config = generation_config_json(&known).expect("known");
        assert_eq!((&config["bos_token_id"], &config["eos_token_id"]), (&json!(1), &json!([2, 5])));
        assert_eq!(config["pad_token_id"], Value::Null);
        let config = tokenizer_config_json(&known, 8, |token| (token == 2).then(|| "</s>".to_owned()));
        assert_eq!((&config["eos_token"], &config["model_max_length"]), (&json!("</s>"), &json!(8)));
        assert!(config.get("bos_token").is_none(), "token 1 has no text here");
    }

    #[test]
    fn a_vocabulary_of_gpt2s_size_is_gpt2s_if_nothing_says_otherwise() {
        let mut job = with_data(job(1, 2, 16, 8, 50_257, 0.0));
        assert_eq!(text_tokens(&job, None), SpecialTokens { begin: Some(50_256), end: vec![50_256], pad: None });
        job.data.tokenizer = Some(made(None));
        assert_eq!(text_tokens(&job, None), SpecialTokens::default());
    }
}
