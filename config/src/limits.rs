//! What every number of a job may be. A job file and a job that came as JSON are held to the same.

use std::ops::RangeInclusive;

pub(crate) const LAYERS: RangeInclusive<u64> = 1..=1024;
pub(crate) const HEADS: RangeInclusive<u64> = 1..=1024;
pub(crate) const WIDTH: RangeInclusive<u64> = 16..=65_536;
/// `width` is a multiple of this.
pub(crate) const WIDTH_UNIT: u32 = 16;
pub(crate) const CONTEXT: RangeInclusive<u64> = 1..=65_536;
/// Tokens of a model's vocabulary.
pub const VOCAB: RangeInclusive<u64> = 2..=1 << 20;
/// Text has at least this many distinct tokens: a byte each.
pub(crate) const TEXT_VOCAB: RangeInclusive<u64> = 256..=1 << 20;
pub(crate) const KV_HEADS: RangeInclusive<u64> = HEADS;
pub(crate) const HEAD_SIZE: RangeInclusive<u64> = 2..=1024;
pub(crate) const INNER: RangeInclusive<u64> = 16..=1 << 20;
pub(crate) const ROPE_ORIGINAL_CONTEXT: RangeInclusive<u64> = 1..=1 << 24;
pub(crate) const STEPS: RangeInclusive<u64> = 0..=1_000_000_000;
pub(crate) const GLOBAL_BATCH: RangeInclusive<u64> = 1..=1 << 20;
pub(crate) const EVAL_EVERY: RangeInclusive<u64> = 1..=1_000_000_000;
pub(crate) const EVAL_SAMPLES: RangeInclusive<u64> = 1..=1 << 20;
/// Rules of weight decay, all of which are held against every parameter's name.
pub(crate) const DECAY_RULES: RangeInclusive<u64> = 0..=256;
/// Bytes of the pattern of one.
pub(crate) const DECAY_PATTERN: RangeInclusive<u64> = 1..=256;
/// 0 is for never.
pub(crate) const MAX_SKIPS: RangeInclusive<u64> = 0..=1_000_000;
pub(crate) const LOSS_SCALE: RangeInclusive<u64> = 1..=1 << 32;
pub(crate) const LOSS_SCALE_STEPS: RangeInclusive<u64> = 1..=1_000_000;
pub(crate) const REDUNDANCY: RangeInclusive<u64> = 0..=15;
/// Tokens of a micro-batch: what the kernels can put in order at once.
const MICRO_BATCH_TOKENS: u64 = 131_072;

/// Samples that a micro-batch of `global` samples a step may have.
pub(crate) fn micro_batch(global: u64, context: u64) -> RangeInclusive<u64> {
    1..=global.min(MICRO_BATCH_TOKENS / context.max(1))
}

/// What is said about one that is out of these limits.
pub(crate) fn micro_batch_words(global: u64, context: u64) -> String {
    format!(
        "{} (train.global_batch is {global}, and micro_batch x model.context = {context} may be {MICRO_BATCH_TOKENS} tokens)",
        whole(&micro_batch(global, context))
    )
}

/// Bounds of a key that is always a whole number between two.
pub(crate) fn bounds(key: &str) -> Option<RangeInclusive<u64>> {
    match key {
        "steps" => Some(STEPS),
        "global_batch" => Some(GLOBAL_BATCH),
        "layers" => Some(LAYERS),
        "heads" => Some(HEADS),
        "width" => Some(WIDTH),
        "context" => Some(CONTEXT),
        "kv_heads" => Some(KV_HEADS),
        "head_size" => Some(HEAD_SIZE),
        "inner" => Some(INNER),
        "rope_original_context" => Some(ROPE_ORIGINAL_CONTEXT),
        _ => None,
    }
}

/// In words.
pub(crate) fn whole(range: &RangeInclusive<u64>) -> String {
    format!("a whole number from {} to {}", range.start(), range.end())
}

/// Positive, and neither zero nor infinite as f32.
pub(crate) fn is_positive(x: f64) -> bool {
    (f64::from(f32::MIN_POSITIVE)..=f64::from(f32::MAX)).contains(&x)
}

/// As the job keeps it: a number just below a limit may round to the limit.
fn rounded(x: f64) -> f64 {
    f64::from(x as f32)
}

/// A probability, or the share of a running mean that is kept.
pub(crate) fn is_below_one(x: f64) -> bool {
    (0.0..1.0).contains(&rounded(x))
}

/// A power of two, so that scaling changes no bit but the exponent.
pub(crate) fn is_loss_scale(x: u64, least: u64) -> bool {
    x.is_power_of_two() && (least..=*LOSS_SCALE.end()).contains(&x)
}

/// A share of the tokens that can be held back.
pub(crate) fn is_share(x: f64) -> bool {
    (0.0..=0.5).contains(&x)
}

/// A factor that slows.
pub(crate) fn is_factor(x: f64) -> bool {
    (1.0..=f64::from(f32::MAX)).contains(&x)
}

/// Heads of this many elements come in pairs and fill whole units of [`WIDTH_UNIT`].
pub(crate) fn is_head_size(heads: u32, size: u32) -> bool {
    size.is_multiple_of(2) && (heads * size).is_multiple_of(WIDTH_UNIT)
}

/// In words.
pub(crate) const HEAD_SIZE_WORDS: &str = "an even number, with heads x head_size a multiple of 16";
/// In words.
pub(crate) const FACTOR: &str = "a number from 1 that fits 32 bits";
/// Weight decay.
pub(crate) fn is_decay(x: f64) -> bool {
    (0.0..=f64::from(f32::MAX)).contains(&x)
}

/// A share that is kept from step to step.
pub(crate) fn is_kept(x: f64) -> bool {
    is_positive(x) && is_below_one(x)
}

/// Exponent of Adafactor's decay.
pub(crate) fn is_decay_rate(x: f64) -> bool {
    (-1.0..0.0).contains(&rounded(x))
}

/// In words.
pub(crate) const DECAY: &str = "a finite number from 0";
/// In words.
pub(crate) const PATTERN: &str = "a name, with * or ? in it, of at most 256 bytes";
/// A pattern of parameters' names.
pub(crate) fn is_pattern(x: &str) -> bool {
    DECAY_PATTERN.contains(&(x.len() as u64))
}

/// In words.
pub(crate) const KEPT: &str = "a number above 0, below 1";
/// In words.
pub(crate) const DECAY_RATE: &str = "a number from -1, below 0";
/// In words.
pub(crate) const POSITIVE: &str = "a number above 0 that fits 32 bits";
/// In words.
pub(crate) const BELOW_ONE: &str = "a number from 0, below 1";
