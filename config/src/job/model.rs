//! `[model]`: the family that is named, with the keys of that family and no others.

use super::{count, positive, real, refuse, required, within};
use crate::document::Found;
use crate::error::ConfigError;
use crate::limits::{self, BELOW_ONE, FACTOR, HEAD_SIZE_WORDS, is_below_one, is_factor, whole};
use crate::raw::RawModel;
use crate::spec::{Gpt2Spec, LlamaSpec, ModelSpec, RopeScaling, RopeSpec};
use crate::value::Vocab;

const KINDS: &str = "\"gpt2\" or \"llama\"";
const SCALINGS: &str = "\"none\", \"linear\" or \"llama3\"";

/// Sizes that every family has.
struct Common {
    layers: u32,
    heads: u32,
    width: u32,
    context: u32,
    vocab: u32,
    init_range: f32,
}

pub(super) fn model(raw: &RawModel<'_>) -> Result<ModelSpec, ConfigError> {
    let kind = required(&raw.section, "kind", &raw.kind, KINDS)?;
    match kind.value.as_str() {
        "gpt2" => gpt2(raw).map(ModelSpec::Gpt2),
        "llama" => llama(raw).map(ModelSpec::Llama),
        _ => Err(kind.refuse(KINDS)),
    }
}

fn gpt2(raw: &RawModel<'_>) -> Result<Gpt2Spec, ConfigError> {
    const ONLY_LLAMA: &str = "left out, because only kind = \"llama\" has it";
    foreign(&raw.kv_heads, ONLY_LLAMA)?;
    foreign(&raw.head_size, ONLY_LLAMA)?;
    foreign(&raw.inner, ONLY_LLAMA)?;
    foreign(&raw.norm_epsilon, "left out, because kind = \"gpt2\" calls it layer_norm_epsilon")?;
    foreign(&raw.rope_theta, ONLY_LLAMA)?;
    foreign(&raw.rope_scaling, ONLY_LLAMA)?;
    foreign(&raw.rope_factor, ONLY_LLAMA)?;
    foreign(&raw.rope_low_frequency_factor, ONLY_LLAMA)?;
    foreign(&raw.rope_high_frequency_factor, ONLY_LLAMA)?;
    foreign(&raw.rope_original_context, ONLY_LLAMA)?;
    foreign(&raw.attention_bias, "left out, because kind = \"gpt2\" has one key, bias, for all of them")?;
    foreign(&raw.mlp_bias, "left out, because kind = \"gpt2\" has one key, bias, for all of them")?;
    foreign(&raw.attention_dropout, "left out, because kind = \"gpt2\" has one key, dropout, for all of it")?;
    let Common { layers, heads, width, context, vocab, init_range } = common(raw)?;
    if !width.is_multiple_of(heads) {
        return Err(refuse(&raw.heads, format!("a number that divides model.width = {width}")));
    }
    Ok(Gpt2Spec {
        layers,
        heads,
        width,
        context,
        vocab,
        dropout: real(&raw.dropout, 0.0, is_below_one, BELOW_ONE)? as f32,
        layer_norm_epsilon: positive(&raw.layer_norm_epsilon, 1e-5)? as f32,
        init_range,
        bias: flag(&raw.bias, true),
        tied_head: flag(&raw.tied_head, true),
    })
}

fn llama(raw: &RawModel<'_>) -> Result<LlamaSpec, ConfigError> {
    foreign(&raw.dropout, "left out, because kind = \"llama\" has attention_dropout alone")?;
    foreign(&raw.bias, "left out, because kind = \"llama\" has attention_bias and mlp_bias")?;
    foreign(&raw.layer_norm_epsilon, "left out, because kind = \"llama\" calls it norm_epsilon")?;
    let Common { layers, heads, width, context, vocab, init_range } = common(raw)?;
    let kv_heads = count(&raw.kv_heads, u64::from(heads), limits::KV_HEADS)? as u32;
    if !heads.is_multiple_of(kv_heads) {
        return Err(refuse(&raw.kv_heads, format!("a number that divides model.heads = {heads}")));
    }
    let head_size = match &raw.head_size {
        Some(found) => within(found, &limits::HEAD_SIZE)? as u32,
        None if width.is_multiple_of(heads) => width / heads,
        None => {
            let words = format!("a number that divides model.width = {width}, unless model.head_size is given");
            return Err(refuse(&raw.heads, words));
        }
    };
    let derived = |words: &str| refuse(&raw.heads, format!("a number that makes model.width / heads {words}"));
    if !limits::HEAD_SIZE.contains(&u64::from(head_size)) {
        return Err(derived(&whole(&limits::HEAD_SIZE)));
    }
    if !limits::is_head_size(heads, head_size) {
        return Err(match &raw.head_size {
            Some(found) => found.refuse(HEAD_SIZE_WORDS),
            None => derived(HEAD_SIZE_WORDS),
        });
    }
    // Llama's own rule: two thirds of 4 x width, in whole 256s.
    let usual = (8 * u64::from(width) / 3).next_multiple_of(256);
    let inner = count(&raw.inner, usual, limits::INNER)? as u32;
    if !inner.is_multiple_of(limits::WIDTH_UNIT) {
        return Err(refuse(&raw.inner, "a multiple of 16"));
    }
    Ok(LlamaSpec {
        layers,
        heads,
        kv_heads,
        head_size,
        width,
        inner,
        context,
        vocab,
        norm_epsilon: positive(&raw.norm_epsilon, 1e-6)? as f32,
        init_range,
        rope: RopeSpec { theta: real(&raw.rope_theta, 1e4, is_factor, FACTOR)?, scaling: scaling(raw)? },
        tied_head: flag(&raw.tied_head, false),
        attention_bias: flag(&raw.attention_bias, false),
        mlp_bias: flag(&raw.mlp_bias, false),
        attention_dropout: real(&raw.attention_dropout, 0.0, is_below_one, BELOW_ONE)? as f32,
    })
}

fn scaling(raw: &RawModel<'_>) -> Result<RopeScaling, ConfigError> {
    const LLAMA3: &str = "left out, unless rope_scaling = \"llama3\"";
    let kind = raw.rope_scaling.as_ref().map_or("none", |found| found.value.as_str());
    if kind != "llama3" {
        foreign(&raw.rope_low_frequency_factor, LLAMA3)?;
        foreign(&raw.rope_high_frequency_factor, LLAMA3)?;
        foreign(&raw.rope_original_context, LLAMA3)?;
    }
    let factor = || {
        required(&raw.section, "rope_factor", &raw.rope_factor, FACTOR)?;
        real(&raw.rope_factor, 1.0, is_factor, FACTOR)
    };
    match (kind, &raw.rope_scaling) {
        ("none", _) => {
            foreign(&raw.rope_factor, "left out, unless rope_scaling = \"linear\" or \"llama3\"")?;
            Ok(RopeScaling::None)
        }
        ("linear", _) => Ok(RopeScaling::Linear { factor: factor()? }),
        ("llama3", _) => {
            let low = positive(&raw.rope_low_frequency_factor, 1.0)?;
            let high = positive(&raw.rope_high_frequency_factor, 4.0)?;
            if high <= low {
                let above = format!("a number above rope_low_frequency_factor = {low}");
                return Err(raw.rope_high_frequency_factor.as_ref().map_or_else(
                    || {
                        refuse(
                            &raw.rope_low_frequency_factor,
                            format!("a number below rope_high_frequency_factor = {high}"),
                        )
                    },
                    |found| found.refuse(above),
                ));
            }
            Ok(RopeScaling::Llama3 {
                factor: factor()?,
                low_frequency_factor: low,
                high_frequency_factor: high,
                original_context: count(&raw.rope_original_context, 8192, limits::ROPE_ORIGINAL_CONTEXT)? as u32,
            })
        }
        (_, found) => Err(refuse(found, SCALINGS)),
    }
}

fn common(raw: &RawModel<'_>) -> Result<Common, ConfigError> {
    let size = |key, found: &Option<Found<u64>>, allowed| {
        let found = required(&raw.section, key, found, &whole(&allowed))?;
        within(found, &allowed).map(|value| value as u32)
    };
    let layers = size("layers", &raw.layers, limits::LAYERS)?;
    let width = size("width", &raw.width, limits::WIDTH)?;
    let heads = size("heads", &raw.heads, limits::HEADS)?;
    let context = size("context", &raw.context, limits::CONTEXT)?;
    if !width.is_multiple_of(limits::WIDTH_UNIT) {
        return Err(refuse(&raw.width, "a multiple of 16"));
    }
    let vocab = match raw.vocab.as_ref().map(|found| (found, found.value)) {
        None | Some((_, Vocab::Bytes)) => 256,
        Some((_, Vocab::Tokens(tokens))) if limits::VOCAB.contains(&tokens) => tokens as u32,
        Some((found, Vocab::Tokens(_))) => {
            return Err(found.refuse(format!("\"bytes\" or {}", whole(&limits::VOCAB))));
        }
    };
    Ok(Common { layers, heads, width, context, vocab, init_range: positive(&raw.init_range, 0.02)? as f32 })
}

fn flag(found: &Option<Found<bool>>, default: bool) -> bool {
    found.as_ref().map_or(default, |found| found.value)
}

/// Refuses a key that belongs to another kind.
fn foreign<T>(found: &Option<Found<T>>, words: &'static str) -> Result<(), ConfigError> {
    found.as_ref().map_or(Ok(()), |found| Err(found.refuse(words)))
}
