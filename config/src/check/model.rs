//! The limits of `[model]`.

use super::{SpecError, below_one, hold, positive, within};
use crate::limits::{self, FACTOR, HEAD_SIZE_WORDS, is_factor};
use crate::spec::{DataFormat, Gpt2Spec, LlamaSpec, ModelSpec, RopeScaling};

pub(crate) fn check(model: &ModelSpec, format: DataFormat) -> Result<(), SpecError> {
    within("model.layers", model.layers(), limits::LAYERS)?;
    within("model.width", model.width(), limits::WIDTH)?;
    multiple("model.width", model.width())?;
    within("model.context", model.context(), limits::CONTEXT)?;
    let vocab = match format {
        DataFormat::Text => limits::TEXT_VOCAB,
        DataFormat::NanoGpt | DataFormat::LlmC | DataFormat::Shards => limits::VOCAB,
    };
    within("model.vocab", model.vocab(), vocab)?;
    within("model.heads", model.heads(), limits::HEADS)?;
    positive("model.init_range", model.init_range())?;
    match model {
        ModelSpec::Gpt2(model) => gpt2(model),
        ModelSpec::Llama(model) => llama(model),
    }
}

fn gpt2(model: &Gpt2Spec) -> Result<(), SpecError> {
    hold("model.heads", model.heads, model.width.is_multiple_of(model.heads), "a number that divides model.width")?;
    below_one("model.dropout", model.dropout)?;
    positive("model.layer_norm_epsilon", model.layer_norm_epsilon)
}

fn llama(model: &LlamaSpec) -> Result<(), SpecError> {
    within("model.kv_heads", model.kv_heads, limits::KV_HEADS)?;
    let shared = model.heads.is_multiple_of(model.kv_heads);
    hold("model.kv_heads", model.kv_heads, shared, "a number that divides model.heads")?;
    within("model.head_size", model.head_size, limits::HEAD_SIZE)?;
    let whole = limits::is_head_size(model.heads, model.head_size);
    hold("model.head_size", model.head_size, whole, HEAD_SIZE_WORDS)?;
    within("model.inner", model.inner, limits::INNER)?;
    multiple("model.inner", model.inner)?;
    positive("model.norm_epsilon", model.norm_epsilon)?;
    below_one("model.attention_dropout", model.attention_dropout)?;
    factor("model.rope_theta", model.rope.theta)?;
    match model.rope.scaling {
        RopeScaling::None => Ok(()),
        RopeScaling::Linear { factor: by } => factor("model.rope_factor", by),
        RopeScaling::Llama3 {
            factor: by,
            low_frequency_factor: low,
            high_frequency_factor: high,
            original_context,
        } => {
            factor("model.rope_factor", by)?;
            positive("model.rope_low_frequency_factor", low as f32)?;
            positive("model.rope_high_frequency_factor", high as f32)?;
            hold("model.rope_high_frequency_factor", high, high > low, "a number above rope_low_frequency_factor")?;
            within("model.rope_original_context", original_context, limits::ROPE_ORIGINAL_CONTEXT)
        }
    }
}

fn multiple(key: &'static str, found: u32) -> Result<(), SpecError> {
    let words = format!("a multiple of {}", limits::WIDTH_UNIT);
    hold(key, found, found.is_multiple_of(limits::WIDTH_UNIT), &words)
}

fn factor(key: &'static str, found: f64) -> Result<(), SpecError> {
    hold(key, found, is_factor(found), FACTOR)
}
