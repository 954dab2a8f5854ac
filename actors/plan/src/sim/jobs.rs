//! The job that a history trains, drawn from its seed.
//!
//! SI-1 (the preset is there): histories begin with jobs that come with the program.

use shoal_config::spec::{AdafactorSpec, Auto, ElasticSpec, EvalSpec, OnLoss, OptimizerSpec, ParallelSpec, SgdSpec};

use super::rng::Rng;
use crate::ids::Digest;
use crate::job::{DataFacts, Job};

/// As many steps as said, for so many nodes or fewer.
pub(super) fn job(rng: &mut Rng, seed: u64, nodes: u64, steps: u64) -> Job {
    let redundancy = if rng.one_in(12) { 2 } else { u32::from(!rng.one_in(12)) };
    let on_loss = if rng.one_in(8) { OnLoss::Halt } else { OnLoss::Rollback };
    let auto =
        |rng: &mut Rng, most: u64| if rng.one_in(8) { Auto::Auto } else { Auto::Set(rng.within(1, most + 1) as u32) };
    let pipeline = auto(rng, 3);
    let data = auto(rng, (nodes / 2).min(3));
    let mut spec = shoal_config::preset("tiny", "data.txt".as_ref()).expect("SI-1 (the preset is there)");
    spec.name = "history".into();
    spec.seed = seed;
    // A head that shares the first block's table, and one with a table of its own.
    if seed % 5 == 3 {
        let untied = shoal_config::preset("llama-tiny", "data.txt".as_ref()).expect("SI-1 (the preset is there)");
        spec.model = untied.model;
        let model = spec.model.as_llama_mut().expect("a preset of Llama");
        (model.layers, model.heads, model.kv_heads, model.width, model.inner, model.context) = (2, 1, 1, 16, 32, 8);
    } else {
        let model = spec.model.as_gpt2_mut().expect("a preset of GPT-2");
        (model.layers, model.heads, model.width, model.context) = (2, 1, 16, 8);
    }
    let train = &mut spec.train;
    (train.steps, train.global_batch, train.max_skips) = (steps, 4, Some(3));
    train.schedule.warmup = 3;
    // State of every form: with no moments, and with factors that go by the parameter.
    train.optimizer = match seed % 4 {
        0 => OptimizerSpec::Sgd(SgdSpec { momentum: None, weight_decay: 0.0 }),
        1 => OptimizerSpec::Adafactor(AdafactorSpec {
            epsilon1: 1e-30,
            clip_threshold: 1.0,
            decay_rate: -0.8,
            beta1: Some(0.9),
            parameter_scale: None,
            weight_decay: 0.0,
        }),
        _ => train.optimizer,
    };
    train.evaluate = Some(EvalSpec { every: 4, samples: 8 });
    spec.parallel = ParallelSpec { pipeline, data, virtual_replicas: 4, ..spec.parallel };
    spec.elastic = ElasticSpec { redundancy, on_loss };
    let data = DataFacts {
        digest: Digest::default(),
        train_tokens: 2000,
        validation_digest: Digest::default(),
        validation_tokens: 200,
        tokenizer: None,
    };
    Job { spec, data, weights: None }
}
