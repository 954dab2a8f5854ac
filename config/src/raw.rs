//! A file as typed: every key optional, every unknown key refused.

use crate::document::{Document, Found, Section};
use crate::error::ConfigError;
use crate::node::Class;
use crate::spec::Auto;
use crate::units::Bytes;
use crate::value::{Held, OrNone, Vocab};

/// Declares a section: its keys are the fields, and no others are let in.
macro_rules! section {
    ($(#[$doc:meta])* $name:ident { $($key:ident: $type:ty),* $(,)? } $({ $($part:ident: $section:ident),* $(,)? })?
     $([ $($many:ident: $each:ident = $name_of_each:literal),* $(,)? ])?) => {
        $(#[$doc])*
        pub(crate) struct $name<'d> {
            #[allow(dead_code, reason = "only a section with a key that has no default asks for its place")]
            pub(crate) section: Section<'d>,
            $(pub(crate) $key: Option<Found<$type>>,)*
            $($(pub(crate) $part: $section<'d>,)*)?
            $($(pub(crate) $many: Vec<$each<'d>>,)*)?
        }

        impl<'d> $name<'d> {
            const KEYS: &'static [&'static str] = &[$(stringify!($key),)* $($(stringify!($part),)*)? $($(stringify!($many),)*)?];

            fn read(section: Section<'d>) -> Result<Self, ConfigError> {
                section.refuse_unknown(Self::KEYS)?;
                Ok(Self {
                    $($key: section.get(stringify!($key))?,)*
                    $($($part: $section::read(section.section(stringify!($part))?)?,)*)?
                    $($($many: section
                        .list(stringify!($many), $name_of_each)?
                        .into_iter()
                        .map($each::read)
                        .collect::<Result<_, _>>()?,)*)?
                    section,
                })
            }

            /// Its keys, and those of `base` that it does not have.
            #[allow(dead_code, reason = "only what a preset has is laid over another")]
            pub(crate) fn over(self, base: Self) -> Self {
                Self {
                    section: self.section,
                    $($key: self.$key.or(base.$key),)*
                    $($($part: self.$part.over(base.$part),)*)?
                    $($($many: if self.$many.is_empty() { base.$many } else { self.$many },)*)?
                }
            }

            /// Reads a whole file.
            #[allow(dead_code, reason = "only files as a whole start here")]
            pub(crate) fn of(document: &'d Document<'_>) -> Result<Self, ConfigError> {
                Self::read(document.top())
            }
        }
    };
}

section! {
    /// `job.toml`.
    RawJob { name: String, seed: u64 }
    { model: RawModel, data: RawData, train: RawTrain, parallel: RawParallel, elastic: RawElastic }
}

section! {
    /// `[model]`.
    RawModel {
        preset: String, kind: String, hf: String, llmc: String, init_from: String, layers: u64, heads: u64, width: u64, context: u64, vocab: Vocab,
        dropout: f64, layer_norm_epsilon: f64, init_range: f64,
        kv_heads: u64, head_size: u64, inner: u64, norm_epsilon: f64,
        rope_theta: f64, rope_scaling: String, rope_factor: f64, rope_low_frequency_factor: f64,
        rope_high_frequency_factor: f64, rope_original_context: u64,
        tied_head: bool, bias: bool, attention_bias: bool, mlp_bias: bool, attention_dropout: f64,
    }
}

section! {
    /// `[data]`.
    RawData { kind: String, path: String, validation: Held, tokenizer: String }
}

section! {
    /// `[train]`.
    RawTrain {
        steps: u64, global_batch: u64, micro_batch: u64,
        learning_rate: f64, minimum_learning_rate: f64, warmup_steps: u64,
        learning_rate_schedule: String, decay_steps: u64,
        optimizer: String, weight_decay: f64, beta1: f64, beta2: f64, epsilon: f64, momentum: f64, nesterov: bool, alpha: f64,
        epsilon1: f64, epsilon2: f64, clip_threshold: f64, decay_rate: f64, relative_step: bool, scale_parameter: bool,
        clip: OrNone, max_skips: u64, precision: String, wire: String,
        loss_scale: u64, loss_scale_window: u64, loss_scale_hysteresis: u64, loss_scale_minimum: u64, eval_every: u64, eval_samples: u64,
    }
    [ decay: RawDecay = "train.decay" ]
}

section! {
    /// `[[train.decay]]`.
    RawDecay { parameters: String, weight_decay: f64 }
}

section! {
    /// `[parallel]`; every key may be `"auto"`.
    RawParallel {
        pipeline: Auto<u64>, data: Auto<u64>, virtual_replicas: Auto<u64>, schedule: String, fixed: Auto<bool>,
    }
}

section! {
    /// `[elastic]`.
    RawElastic { redundancy: u64, on_loss: String }
}

section! {
    /// `node.toml`.
    RawNode { name: String, listen: String, join: String, memory: Bytes, threads: u64, class: Auto<Class>, data_dir: String }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_a_job_file_is_in_the_documents() {
        let text = include_str!("../../docs/cli.md");
        let sections = [
            ("model", RawModel::KEYS),
            ("data", RawData::KEYS),
            ("train", RawTrain::KEYS),
            ("parallel", RawParallel::KEYS),
            ("elastic", RawElastic::KEYS),
        ];
        for (section, keys) in sections {
            for key in keys.iter().filter(|key| **key != "decay") {
                let words = [format!("`{section}.{key}`"), format!("`.{key}`"), format!("`{key}`")];
                assert!(words.iter().any(|word| text.contains(word)), "{section}.{key} is not in docs/cli.md");
            }
        }
        assert!(text.contains("[[train.decay]]"));
    }
}
