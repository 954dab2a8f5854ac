//! A small model for tests.

use shoal_config::spec::{Gpt2Spec, ModelSpec};

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
