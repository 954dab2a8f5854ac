//! What changes genesis and what does not, and two values of it that stay.

use shoal_config::hf::SpecialTokens;
use shoal_config::spec::{Auto, DataFormat, Dtype, EvalSpec, InitSpec, OnLoss, Schedule, TokenizerSpec, Validation};

use super::*;
use crate::fixture;
use crate::job::{TokenizerFacts, TokenizerKind};
use crate::weights::{Dtypes, WeightFacts};

type Change = fn(&mut Job);

fn gpt2(job: &mut Job) -> &mut Gpt2Spec {
    job.spec.model.as_gpt2_mut().expect("a GPT-2")
}

fn llama() -> Job {
    let model = shoal_config::preset("llama-tiny", "/".as_ref()).expect("a preset").model;
    let mut job = fixture::job();
    job.spec.model = model;
    job
}

fn llama_of(job: &mut Job) -> &mut LlamaSpec {
    job.spec.model.as_llama_mut().expect("a Llama")
}

fn adamw(job: &mut Job) -> &mut AdamSpec {
    match &mut job.spec.train.optimizer {
        OptimizerSpec::AdamW(spec) => spec,
        other => panic!("{other:?}"),
    }
}

fn facts() -> WeightFacts {
    WeightFacts {
        segment: 4096,
        digests: vec![Digest::of(b"w")],
        dtypes: Dtypes::All(Dtype::F32),
        padded_vocab: None,
        special: SpecialTokens::default(),
    }
}

fn scale(start: u64, window: u32, hysteresis: u32, minimum: u64) -> Precision {
    Precision::Fp16(LossScaleSpec { start, window, hysteresis, minimum })
}

/// All of them, and the job itself, have a genesis of their own.
fn all_differ(job: &Job, changes: &[Change]) {
    let mut seen = vec![job.genesis(Arithmetic::Fused), job.genesis(Arithmetic::Plain)];
    for (at, change) in changes.iter().enumerate() {
        let mut other = job.clone();
        change(&mut other);
        let genesis = other.genesis(Arithmetic::Fused);
        assert!(!seen.contains(&genesis), "change {at}");
        seen.push(genesis);
    }
}

#[test]
fn everything_that_enters_bits_changes_it() {
    all_differ(
        &fixture::job(),
        &[
            |job| job.spec.seed += 1,
            |job| job.spec.parallel.virtual_replicas += 1,
            |job| job.data.digest = Digest::of(b"other"),
            |job| job.data.train_tokens += 1,
            |job| job.weights = Some(facts()),
            |job| job.spec.model = llama().spec.model,
            |job| gpt2(job).layers += 1,
            |job| gpt2(job).heads += 1,
            |job| gpt2(job).width += 1,
            |job| gpt2(job).context += 1,
            |job| gpt2(job).vocab += 1,
            |job| gpt2(job).dropout += 0.5,
            |job| gpt2(job).layer_norm_epsilon *= 2.0,
            |job| gpt2(job).init_range *= 2.0,
            |job| gpt2(job).bias = false,
            |job| gpt2(job).tied_head = false,
            |job| (gpt2(job).bias, gpt2(job).tied_head) = (false, false),
            |job| job.spec.train.steps += 1,
            |job| job.spec.train.global_batch += 1,
            |job| job.spec.train.micro_batch += 1,
            |job| job.spec.train.clip = None,
            |job| job.spec.train.clip = Some(7.0),
            |job| job.spec.train.decay = vec![DecayRule { parameters: "*".to_owned(), weight_decay: 0.0 }],
            |job| job.spec.train.decay = vec![DecayRule { parameters: "*".to_owned(), weight_decay: 1.0 }],
            |job| job.spec.train.decay = vec![DecayRule { parameters: "b*".to_owned(), weight_decay: 0.0 }],
            |job| job.spec.train.schedule.peak *= 2.0,
            |job| job.spec.train.schedule.minimum /= 2.0,
            |job| job.spec.train.schedule.warmup += 1,
            |job| job.spec.train.schedule.shape = LrShape::Linear,
            |job| job.spec.train.schedule.shape = LrShape::Wsd { decay: 1 },
            |job| job.spec.train.schedule.shape = LrShape::Wsd { decay: 2 },
            |job| job.spec.train.numerics.wire = Wire::Bf16,
            |job| job.spec.train.numerics.precision = Precision::Bf16,
            |job| job.spec.train.numerics.precision = scale(8, 3, 2, 1),
            |job| job.spec.train.numerics.precision = scale(16, 3, 2, 1),
            |job| job.spec.train.numerics.precision = scale(8, 4, 2, 1),
            |job| job.spec.train.numerics.precision = scale(8, 3, 4, 1),
            |job| job.spec.train.numerics.precision = scale(8, 3, 2, 2),
            |job| adamw(job).beta1 = 0.5,
            |job| adamw(job).beta2 = 0.5,
            |job| adamw(job).epsilon = 0.5,
            |job| adamw(job).weight_decay = 0.5,
            |job| job.spec.train.optimizer = OptimizerSpec::Adam(*adamw(job)),
            |job| job.spec.train.optimizer = OptimizerSpec::Sgd(SgdSpec { momentum: None, weight_decay: 0.5 }),
            |job| {
                let momentum = Some(Momentum::Classic(0.5));
                job.spec.train.optimizer = OptimizerSpec::Sgd(SgdSpec { momentum, weight_decay: 0.5 });
            },
            |job| {
                let momentum = Some(Momentum::Nesterov(0.5));
                job.spec.train.optimizer = OptimizerSpec::Sgd(SgdSpec { momentum, weight_decay: 0.5 });
            },
        ],
    );
}

#[test]
fn every_number_of_a_llama_changes_it() {
    all_differ(
        &llama(),
        &[
            |job| llama_of(job).layers += 1,
            |job| llama_of(job).heads += 1,
            |job| llama_of(job).kv_heads += 1,
            |job| llama_of(job).head_size += 1,
            |job| llama_of(job).width += 1,
            |job| llama_of(job).inner += 1,
            |job| llama_of(job).context += 1,
            |job| llama_of(job).vocab += 1,
            |job| llama_of(job).norm_epsilon *= 2.0,
            |job| llama_of(job).init_range *= 2.0,
            |job| llama_of(job).rope.theta *= 2.0,
            |job| llama_of(job).rope.scaling = RopeScaling::Linear { factor: 2.0 },
            |job| llama_of(job).tied_head ^= true,
            |job| llama_of(job).attention_bias ^= true,
            |job| llama_of(job).mlp_bias ^= true,
            |job| llama_of(job).attention_dropout = 0.1,
            |job| llama_of(job).attention_dropout = 0.2,
        ],
    );
}

#[test]
fn every_number_of_rmsprop_and_adafactor_changes_it() {
    fn rmsprop(job: &mut Job, change: fn(&mut RmsPropSpec)) {
        let mut spec = RmsPropSpec { alpha: 0.9, epsilon: 1e-8, momentum: None, weight_decay: 0.1 };
        change(&mut spec);
        job.spec.train.optimizer = OptimizerSpec::RmsProp(spec);
    }
    fn adafactor(job: &mut Job, change: fn(&mut AdafactorSpec)) {
        let OptimizerSpec::Adafactor(mut spec) = fixture::adafactor() else { panic!("Adafactor") };
        change(&mut spec);
        job.spec.train.optimizer = OptimizerSpec::Adafactor(spec);
    }
    all_differ(
        &fixture::job(),
        &[
            |job| rmsprop(job, |_| ()),
            |job| rmsprop(job, |spec| spec.alpha = 0.5),
            |job| rmsprop(job, |spec| spec.epsilon = 0.5),
            |job| rmsprop(job, |spec| spec.momentum = Some(0.5)),
            |job| rmsprop(job, |spec| spec.weight_decay = 0.5),
            |job| adafactor(job, |_| ()),
            |job| adafactor(job, |spec| spec.epsilon1 = 0.5),
            |job| adafactor(job, |spec| spec.clip_threshold = 0.5),
            |job| adafactor(job, |spec| spec.decay_rate = -0.5),
            |job| adafactor(job, |spec| spec.beta1 = Some(0.5)),
            |job| adafactor(job, |spec| spec.parameter_scale = Some(0.5)),
            |job| adafactor(job, |spec| spec.weight_decay = 0.5),
        ],
    );
}

#[test]
fn nothing_else_changes_it() {
    let job = fixture::job();
    let changes: [Change; 18] = [
        |job| job.spec.name.push('x'),
        |job| job.spec.data.path.push("elsewhere"),
        |job| job.spec.data.format = DataFormat::LlmC,
        |job| job.spec.data.tokenizer = Some(TokenizerSpec::Gpt2),
        |job| job.spec.data.validation = Validation::Path("/other".into()),
        |job| job.spec.init = InitSpec::Hf("/elsewhere".into()),
        |job| job.spec.train.max_skips = None,
        |job| job.spec.train.evaluate = None,
        |job| job.spec.train.evaluate = Some(EvalSpec { every: 77, samples: 7 }),
        |job| job.spec.parallel.pipeline = Auto::Set(1),
        |job| job.spec.parallel.data = Auto::Set(1),
        |job| job.spec.parallel.schedule = Schedule::GPipe,
        |job| job.spec.parallel.fixed ^= true,
        |job| job.spec.elastic.redundancy += 1,
        |job| job.spec.elastic.on_loss = OnLoss::Halt,
        |job| job.data.validation_digest = Digest::of(b"other"),
        |job| job.data.validation_tokens += 1,
        |job| {
            let digest = Digest::of(b"tokenizer");
            job.data.tokenizer = Some(TokenizerFacts { kind: TokenizerKind::Hf, digest, vocab: 9, end_of_text: None });
        },
    ];
    for (at, change) in changes.iter().enumerate() {
        let mut other = job.clone();
        change(&mut other);
        assert_ne!(other, job, "change {at} changes nothing");
        assert_eq!(other.genesis(Arithmetic::Fused), job.genesis(Arithmetic::Fused), "change {at}");
    }
    let mut read = Job { weights: Some(facts()), ..job };
    let genesis = read.genesis(Arithmetic::Fused);
    gpt2(&mut read).init_range *= 2.0;
    assert_eq!(read.genesis(Arithmetic::Fused), genesis, "nothing is drawn");
}

/// Chains that are written somewhere go on from these: a renamed field must not change them, a changed layout raises its
/// number.
#[test]
fn it_keeps_its_bytes() {
    assert_eq!(
        fixture::job().genesis(Arithmetic::Fused).to_hex(),
        "ac27a0e4f707162a1cc3dbe0e296efb95c34aa9cddc6a50f052939383835cc28"
    );
    assert_eq!(
        llama().genesis(Arithmetic::Fused).to_hex(),
        "dce3b3aa93f5a094a11b485ffe1697b3a2fa42feb931b39cc1501bcb8b202ed1"
    );
}
