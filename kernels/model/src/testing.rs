//! What the tests of this crate share.

use std::path::Path;

use shoal_config::JobSpec;
use shoal_config::spec::{
    AdafactorSpec, AdamSpec, Auto, Gpt2Spec, LlamaSpec, ModelSpec, Momentum, OptimizerSpec, ParallelSpec, RmsPropSpec,
    SgdSpec, Validation,
};
use shoal_exact::philox::philox;
use shoal_kernels::{Arena, Budget, Device, Tier};
use shoal_plan::blocks::ModelTable;
use shoal_plan::ids::Digest;
use shoal_plan::job::{DataFacts, Job};
use shoal_plan::space::Interval;

use crate::files::{Aside, Destination};
use crate::init;

/// Where a file goes of which no tensor is too large for memory.
pub(crate) fn in_memory(out: &mut Vec<u8>) -> Destination<'_> {
    Destination { out, aside: Aside { dir: Path::new("/nowhere"), leave: 0 } }
}

/// A small job: layers, heads, width, context, vocabulary, dropout.
pub(crate) fn job(layers: u32, heads: u32, width: u32, context: u32, vocab: u32, dropout: f32) -> JobSpec {
    let mut spec = shoal_config::preset("tiny", "/".as_ref()).expect("a preset");
    let model = spec.model.as_gpt2_mut().expect("a GPT-2");
    *model = Gpt2Spec { layers, heads, width, context, vocab, dropout, ..model.clone() };
    spec.data.validation = Validation::Tail { fraction: 0.0 };
    let train = &mut spec.train;
    (train.steps, train.global_batch, train.micro_batch, train.evaluate) = (10, 8, 2, None);
    let OptimizerSpec::AdamW(optimizer) = &mut train.optimizer else { panic!("the preset has AdamW") };
    optimizer.beta2 = 0.95;
    spec.parallel = ParallelSpec { pipeline: Auto::Auto, data: Auto::Auto, virtual_replicas: 4, ..spec.parallel };
    spec
}

/// A Llama: layers, heads, kv heads, elements of a head, width, inner, context, vocabulary.
pub(crate) fn llama(sizes: [u32; 8], biases: bool, tied_head: bool) -> ModelSpec {
    let [layers, heads, kv_heads, head_size, width, inner, context, vocab] = sizes;
    let mut model = shoal_config::preset("llama-tiny", "/".as_ref()).expect("a preset").model;
    let llama = model.as_llama_mut().expect("a Llama");
    *llama = LlamaSpec {
        layers,
        heads,
        kv_heads,
        head_size,
        width,
        inner,
        context,
        vocab,
        tied_head,
        attention_bias: biases,
        mlp_bias: biases,
        ..llama.clone()
    };
    model
}

/// Every optimizer, with all that it can remember, and the least.
pub(crate) fn optimizers() -> Vec<(&'static str, OptimizerSpec)> {
    let adam = AdamSpec { beta1: 0.9, beta2: 0.95, epsilon: 1e-6, weight_decay: 0.1 };
    let sgd = |momentum| OptimizerSpec::Sgd(SgdSpec { momentum, weight_decay: 0.1 });
    let rmsprop =
        |momentum| OptimizerSpec::RmsProp(RmsPropSpec { alpha: 0.9, epsilon: 1e-4, momentum, weight_decay: 0.1 });
    let adafactor = |beta1, parameter_scale| {
        OptimizerSpec::Adafactor(AdafactorSpec {
            epsilon1: 1e-30,
            clip_threshold: 1.0,
            decay_rate: -0.8,
            beta1,
            parameter_scale,
            weight_decay: 0.1,
        })
    };
    vec![
        ("adamw", OptimizerSpec::AdamW(adam)),
        ("adam", OptimizerSpec::Adam(adam)),
        ("sgd", sgd(None)),
        ("sgd_momentum", sgd(Some(Momentum::Classic(0.9)))),
        ("sgd_nesterov", sgd(Some(Momentum::Nesterov(0.9)))),
        ("rmsprop", rmsprop(None)),
        ("rmsprop_momentum", rmsprop(Some(0.9))),
        ("adafactor", adafactor(None, None)),
        ("adafactor_scaled", adafactor(Some(0.9), Some(1e-3))),
    ]
}

/// A job with data facts that give it plenty of windows.
pub(crate) fn with_data(spec: JobSpec) -> Job {
    let data = DataFacts {
        digest: Digest::default(),
        train_tokens: 100_000,
        validation_digest: Digest::default(),
        validation_tokens: 5_000,
        tokenizer: None,
    };
    Job { spec, data, weights: None }
}

/// A device with an arena of its own.
pub(crate) fn device(threads: usize) -> (Device, Arena) {
    let budget = Budget::new(1 << 30);
    let arena = Arena::new(Tier::Device, 1 << 30, &budget);
    (Device::cpu(threads, &arena).expect("a test has room"), arena)
}

/// The tokens of some samples and the tokens that follow each: a function of the sample ids.
pub(crate) fn tokens(spec: &JobSpec, samples: &[u64]) -> (Vec<u32>, Vec<u32>) {
    let token = |sample: u64, at: u32| {
        let [word, _] = philox(99, [sample, u64::from(at)]);
        (word % u64::from(spec.model.vocab())) as u32
    };
    let of = |shift: u32| {
        samples.iter().flat_map(move |&s| (0..spec.model.context()).map(move |at| token(s, at + shift))).collect()
    };
    (of(0), of(1))
}

/// Elements of each block's weights.
pub(crate) type Values = Vec<Vec<f32>>;

/// The weights that a job starts with; biases and LayerNorms moved off their zeros and ones, which would hide mistakes.
pub(crate) fn weights(spec: &JobSpec, table: &ModelTable) -> Values {
    let each = table.blocks.iter().map(|block| {
        let mut values = vec![0.0; block.len as usize];
        init::fill(table, spec, block.id, Interval::new(0, block.len), &mut values);
        for param in block.params.iter().filter(|p| !p.matrix) {
            for at in param.interval.range() {
                let [word, _] = philox(5, [u64::from(block.id.0), at as u64]);
                values[at] += (word % 1000) as f32 / 5000.0 - 0.1;
            }
        }
        values
    });
    each.collect()
}
