//! What the ledger chain of a job starts from: a hash of everything that enters bits, in a written layout.
//!
//! No struct is taken apart with `..`: a field that is added does not compile before it is on one side.

use shoal_config::JobSpec;
use shoal_config::spec::{
    AdafactorSpec, AdamSpec, DecayRule, Gpt2Spec, LlamaSpec, LossScaleSpec, LrShape, LrSpec, ModelSpec, Momentum,
    NumericsSpec, OptimizerSpec, ParallelSpec, Precision, RmsPropSpec, RopeScaling, RopeSpec, SgdSpec, TrainSpec, Wire,
};
use shoal_exact::Arithmetic;

use crate::ids::Digest;
use crate::job::{DataFacts, Job};

/// In front of every layout; a changed layout gets another.
const LAYOUT: &[u8] = b"shoal job 2";

impl Job {
    /// The hash that the ledger chain starts from: everything that enters bits and nothing else. The name, layout,
    /// redundancy, validation, where files lie and when the job counts as diverged do not; nor does the range of weights
    /// that are read from files instead of drawn. Fused arithmetic adds nothing: every ledger had it before there was a choice.
    #[must_use]
    pub fn genesis(&self, arithmetic: Arithmetic) -> Digest {
        let Self { spec, data, weights } = self;
        let JobSpec { name: _, seed, model, init: _, data: _, train, parallel, elastic: _ } = spec;
        let DataFacts { digest, train_tokens, validation_digest: _, validation_tokens: _, tokenizer: _ } = data;
        let ParallelSpec { pipeline: _, data: _, virtual_replicas, schedule: _, fixed: _ } = parallel;
        let mut out = Layout(blake3::Hasher::new());
        out.bytes(LAYOUT);
        out.u64(*seed);
        out.model(model);
        match weights {
            // Llamas were once drawn as GPT-2s are, with smaller residual projections.
            None => match model {
                ModelSpec::Gpt2(_) => out.tag(0).f32(model.init_range()),
                ModelSpec::Llama(_) => out.tag(2).f32(model.init_range()),
            },
            Some(weights) => out.tag(1).bytes(&weights.digest().0),
        };
        out.bytes(&digest.0).u64(*train_tokens);
        out.train(train);
        out.u32(*virtual_replicas);
        match arithmetic {
            Arithmetic::Fused => {}
            Arithmetic::Plain => drop(out.tag(1)),
        }
        Digest(*out.0.finalize().as_bytes())
    }
}

/// Numbers little-endian, floats as their bits, a choice as a byte before what it holds.
struct Layout(blake3::Hasher);

impl Layout {
    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.update(bytes);
        self
    }

    fn tag(&mut self, which: u8) -> &mut Self {
        self.bytes(&[which])
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    fn f32(&mut self, value: f32) -> &mut Self {
        self.u32(value.to_bits())
    }

    fn f64(&mut self, value: f64) -> &mut Self {
        self.u64(value.to_bits())
    }

    fn option(&mut self, value: Option<f32>) -> &mut Self {
        match value {
            None => self.tag(0),
            Some(value) => self.tag(1).f32(value),
        }
    }

    fn model(&mut self, model: &ModelSpec) {
        match model {
            ModelSpec::Gpt2(model) => {
                let usual = model.is_usual();
                let Gpt2Spec {
                    layers,
                    heads,
                    width,
                    context,
                    vocab,
                    dropout,
                    layer_norm_epsilon,
                    init_range: _,
                    bias,
                    tied_head,
                } = model;
                if usual {
                    self.tag(0);
                } else {
                    self.tag(2).tag(u8::from(*bias)).tag(u8::from(*tied_head));
                }
                for size in [layers, heads, width, context, vocab] {
                    self.u32(*size);
                }
                self.f32(*dropout).f32(*layer_norm_epsilon);
            }
            ModelSpec::Llama(model) => {
                let LlamaSpec {
                    layers,
                    heads,
                    kv_heads,
                    head_size,
                    width,
                    inner,
                    context,
                    vocab,
                    norm_epsilon,
                    init_range: _,
                    rope,
                    tied_head,
                    attention_bias,
                    mlp_bias,
                    attention_dropout,
                } = model;
                if *attention_dropout == 0.0 {
                    self.tag(1);
                } else {
                    self.tag(3).f32(*attention_dropout);
                }
                for size in [layers, heads, kv_heads, head_size, width, inner, context, vocab] {
                    self.u32(*size);
                }
                self.f32(*norm_epsilon);
                self.rope(rope);
                self.tag(u8::from(*tied_head)).tag(u8::from(*attention_bias)).tag(u8::from(*mlp_bias));
            }
        }
    }

    fn rope(&mut self, rope: &RopeSpec) {
        let RopeSpec { theta, scaling } = rope;
        self.f64(*theta);
        match scaling {
            RopeScaling::None => self.tag(0),
            RopeScaling::Linear { factor } => self.tag(1).f64(*factor),
            RopeScaling::Llama3 { factor, low_frequency_factor, high_frequency_factor, original_context } => {
                self.tag(2).f64(*factor).f64(*low_frequency_factor).f64(*high_frequency_factor).u32(*original_context)
            }
        };
    }

    fn train(&mut self, train: &TrainSpec) {
        let TrainSpec {
            steps,
            global_batch,
            micro_batch,
            optimizer,
            decay,
            schedule,
            clip,
            numerics,
            max_skips: _,
            evaluate: _,
        } = train;
        self.u64(*steps).u32(*global_batch).u32(*micro_batch);
        self.optimizer(optimizer);
        self.u64(decay.len() as u64);
        for DecayRule { parameters, weight_decay } in decay {
            self.u64(parameters.len() as u64).bytes(parameters.as_bytes()).f32(*weight_decay);
        }
        self.schedule(schedule);
        self.option(*clip);
        self.numerics(numerics);
    }

    fn optimizer(&mut self, optimizer: &OptimizerSpec) {
        match optimizer {
            OptimizerSpec::AdamW(spec) => self.tag(0).adam(spec),
            OptimizerSpec::Adam(spec) => self.tag(1).adam(spec),
            OptimizerSpec::Sgd(SgdSpec { momentum, weight_decay }) => {
                let out = self.tag(2).f32(*weight_decay);
                match momentum {
                    None => out.tag(0),
                    Some(Momentum::Classic(share)) => out.tag(1).f32(*share),
                    Some(Momentum::Nesterov(share)) => out.tag(2).f32(*share),
                }
            }
            OptimizerSpec::RmsProp(RmsPropSpec { alpha, epsilon, momentum, weight_decay }) => {
                self.tag(3).f32(*alpha).f32(*epsilon).option(*momentum).f32(*weight_decay)
            }
            OptimizerSpec::Adafactor(AdafactorSpec {
                epsilon1,
                clip_threshold,
                decay_rate,
                beta1,
                parameter_scale,
                weight_decay,
            }) => {
                let out = self.tag(4).f32(*epsilon1).f32(*clip_threshold).f32(*decay_rate);
                out.option(*beta1).option(*parameter_scale).f32(*weight_decay)
            }
        };
    }

    fn adam(&mut self, spec: &AdamSpec) -> &mut Self {
        let AdamSpec { beta1, beta2, epsilon, weight_decay } = spec;
        self.f32(*beta1).f32(*beta2).f32(*epsilon).f32(*weight_decay)
    }

    fn schedule(&mut self, schedule: &LrSpec) {
        let LrSpec { peak, minimum, warmup, shape } = schedule;
        self.f64(*peak).f64(*minimum).u64(*warmup);
        match shape {
            LrShape::Cosine => self.tag(0),
            LrShape::Linear => self.tag(1),
            LrShape::Constant => self.tag(2),
            LrShape::InverseSqrt => self.tag(3),
            LrShape::RelativeStep => self.tag(4),
            LrShape::Wsd { decay } => self.tag(5).u64(*decay),
        };
    }

    fn numerics(&mut self, numerics: &NumericsSpec) {
        let NumericsSpec { precision, wire } = numerics;
        match precision {
            Precision::Fp32 => self.tag(0),
            Precision::Bf16 => self.tag(1),
            Precision::Fp16(LossScaleSpec { start, window, hysteresis, minimum }) => {
                self.tag(2).u64(*start).u32(*window).u32(*hysteresis).u64(*minimum)
            }
        };
        self.tag(match wire {
            Wire::Fp32 => 0,
            Wire::Bf16 => 1,
        });
    }
}

#[cfg(test)]
mod tests;
