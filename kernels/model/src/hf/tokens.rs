//! Which tokens begin and end a text, in the files where `transformers` looks for it.

use serde_json::{Value, json};
use shoal_config::hf::SpecialTokens;
use shoal_config::spec::ModelSpec;
use shoal_plan::job::Job;

/// The end of text of GPT-2's own vocabulary, and how many tokens that has.
const GPT2: (u32, u32) = (50_256, 50_257);

/// What is known of a job's: by the files that it began with, or else by what made the tokens of its data.
#[must_use]
pub fn special_tokens(job: &Job) -> SpecialTokens {
    let vocab = job.spec.model.vocab();
    let mut tokens = job.weights.as_ref().map(|facts| facts.special.clone()).unwrap_or_default();
    tokens.begin = tokens.begin.filter(|token| *token < vocab);
    tokens.pad = tokens.pad.filter(|token| *token < vocab);
    tokens.end.retain(|token| *token < vocab);
    if tokens.end.is_empty() {
        let made = job.data.tokenizer.and_then(|made| made.end_of_text);
        let own = match job.spec.model {
            ModelSpec::Gpt2(_) if job.data.tokenizer.is_none() && vocab == GPT2.1 => Some(GPT2.0),
            ModelSpec::Gpt2(_) | ModelSpec::Llama(_) => None,
        };
        tokens.end.extend(made.or(own).filter(|token| *token < vocab));
    }
    // A GPT-2 begins a text with what ends the one before.
    if let (ModelSpec::Gpt2(_), None, Some(end)) = (&job.spec.model, tokens.begin, tokens.end.first()) {
        tokens.begin = Some(*end);
    }
    tokens
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
    use shoal_plan::job::{TokenizerFacts, TokenizerKind};
    use shoal_plan::weights::{Dtypes, WeightFacts};

    use super::*;
    use crate::testing::{job, llama, with_data};

    fn made(end_of_text: Option<u32>) -> TokenizerFacts {
        TokenizerFacts { kind: TokenizerKind::Hf, digest: Digest::default(), vocab: 300, end_of_text }
    }

    #[test]
    fn the_files_go_before_the_tokenizer_and_nothing_is_made_up() {
        let mut job = with_data(job(1, 2, 16, 8, 300, 0.0));
        assert_eq!(special_tokens(&job), SpecialTokens::default());
        assert_eq!(generation_config_json(&special_tokens(&job)), None);
        job.data.tokenizer = Some(made(Some(299)));
        assert_eq!(special_tokens(&job), SpecialTokens { begin: Some(299), end: vec![299], pad: None });
        job.spec.model = llama([1, 2, 1, 8, 16, 32, 8, 300], false, false);
        assert_eq!(special_tokens(&job), SpecialTokens { begin: None, end: vec![299], pad: None });
        let special = SpecialTokens { begin: Some(1), end: vec![2, 5, 300], pad: Some(300) };
        let dtypes = Dtypes::All(Dtype::F32);
        job.weights = Some(WeightFacts { segment: 4096, digests: Vec::new(), dtypes, padded_vocab: None, special });
        let known = special_tokens(&job);
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
        assert_eq!(special_tokens(&job), SpecialTokens { begin: Some(50_256), end: vec![50_256], pad: None });
        job.data.tokenizer = Some(made(None));
        assert_eq!(special_tokens(&job), SpecialTokens::default());
    }
}
