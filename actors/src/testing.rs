//! What tests of several rooms begin with: a small model, an optimizer with a state of its own form, facts about data.

use shoal_config::spec::{AdafactorSpec, Gpt2Spec, ModelSpec};
use shoal_plan::ids::Digest;
use shoal_plan::job::DataFacts;

/// As its authors begin.
pub(crate) const ADAFACTOR: AdafactorSpec = AdafactorSpec {
    epsilon1: 1e-30,
    clip_threshold: 1.0,
    decay_rate: -0.8,
    beta1: None,
    parameter_scale: None,
    weight_decay: 0.0,
};

/// Of data with so many tokens.
pub(crate) fn facts(train_tokens: u64, validation_tokens: u64) -> DataFacts {
    DataFacts {
        digest: Digest([7; 32]),
        train_tokens,
        validation_digest: Digest::default(),
        validation_tokens,
        tokenizer: None,
    }
}

/// A GPT-2 without dropout: layers, heads, width, context, vocabulary.
pub(crate) fn gpt2([layers, heads, width, context, vocab]: [u32; 5]) -> ModelSpec {
    ModelSpec::Gpt2(Gpt2Spec {
        layers,
        heads,
        width,
        context,
        vocab,
        dropout: 0.0,
        layer_norm_epsilon: 1e-5,
        init_range: 0.02,
        bias: true,
        tied_head: true,
    })
}
