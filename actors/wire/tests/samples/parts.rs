//! Values that messages are made of.

use std::net::SocketAddr;
use std::sync::Arc;

use shoal_config::hf::SpecialTokens;
use shoal_config::spec::{
    AdamSpec, Auto, DataFormat, DataSpec, DecayRule, Dtype, ElasticSpec, EvalSpec, Gpt2Spec, JobSpec, LossScaleSpec,
    LrShape, LrSpec, ModelSpec, NumericsSpec, OnLoss, OptimizerSpec, ParallelSpec, Precision, Schedule, TrainSpec,
    Validation, Wire,
};
use shoal_exact::{Arithmetic, ExactSum};
use shoal_plan::ids::{BlockId, Digest, Generation, NodeId, PieceId};
use shoal_plan::job::{DataFacts, Job, TokenizerFacts, TokenizerKind};
use shoal_plan::layout::{PiecePlan, Plan, StagePlan};
use shoal_plan::ledger::{Corrections, LedgerEntry, Update, UpdateScalars, Version};
use shoal_plan::loss_scale::LossScale;
use shoal_plan::protocol::{Fill, LossSum, Norm, Persist, PersistMode};
use shoal_plan::space::Interval;
use shoal_plan::weights::{Dtypes, WeightFacts};

pub(super) fn generation() -> Generation {
    Generation { incarnation: 3, number: 300 }
}

pub(super) fn digest(seed: u8) -> Digest {
    Digest(std::array::from_fn(|i| seed.wrapping_mul(17).wrapping_add(i as u8)))
}

pub(super) fn version() -> Version {
    Version { step: 70_000, chain: digest(1) }
}

pub(super) fn interval() -> Interval {
    Interval::new(4096, 1 << 21)
}

pub(super) fn address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 40_001))
}

pub(super) fn sum(value: f64) -> ExactSum {
    ExactSum::of(value)
}

pub(super) fn loss() -> LossSum {
    LossSum { loss: Norm::Finite(sum(1234.5)), tokens: 16_384 }
}

pub(super) fn entry(update: Update) -> LedgerEntry {
    LedgerEntry {
        step: 70_001,
        previous: digest(1),
        samples: digest(2),
        tokens: 16_384,
        loss: sum(1234.5),
        norm: sum(0.375),
        update,
        optimizer_time: 69_990,
        loss_scale: loss_scale(),
    }
}

pub(super) fn loss_scale() -> Option<LossScale> {
    Some(LossScale { exponent: 16, good: 300, chances: 1 })
}

pub(super) fn apply() -> Update {
    Update::Apply(UpdateScalars {
        scale: 1.5f32.to_bits(),
        learning_rate: 6e-4f64.to_bits(),
        corrections: Corrections::Adam { step_size: 7e-4f32.to_bits(), root_correction: 0.5f32.to_bits() },
    })
}

pub(super) fn fills() -> Vec<Fill> {
    vec![Fill { piece: PieceId(7), from: NodeId(2), to: NodeId(5) }]
}

pub(super) fn persist(mode: PersistMode) -> Option<Persist> {
    Some(Persist { request: 9, mode })
}

pub(super) fn plan() -> Arc<Plan> {
    Arc::new(Plan {
        arithmetic: Arithmetic::Fused,
        schedule: Schedule::OneFOneB,
        stages: vec![
            StagePlan { blocks: 0..3, seats: vec![NodeId(1), NodeId(2)] },
            StagePlan { blocks: 3..6, seats: vec![NodeId(3), NodeId(4)] },
        ],
        lanes: vec![0..4, 4..8],
        pieces: vec![PiecePlan { block: BlockId(1), interval: interval(), owner: NodeId(1), shadows: vec![NodeId(3)] }],
        spares: vec![NodeId(300)],
    })
}

pub(super) fn job() -> Arc<Job> {
    let spec = JobSpec {
        name: "sample".to_owned(),
        seed: 1337,
        model: ModelSpec::Gpt2(Gpt2Spec {
            layers: 4,
            heads: 4,
            width: 64,
            context: 32,
            vocab: 256,
            dropout: 0.1,
            layer_norm_epsilon: 1e-5,
            init_range: 0.02,
            bias: true,
            tied_head: true,
        }),
        init: shoal_config::spec::InitSpec::Hf("/models/small".into()),
        data: DataSpec {
            format: DataFormat::Text,
            path: "/data/text".into(),
            tokenizer: Some(shoal_config::spec::TokenizerSpec::Gpt2),
            validation: Validation::Tail { fraction: 0.1 },
        },
        train: TrainSpec {
            steps: 200,
            global_batch: 16,
            micro_batch: 2,
            optimizer: OptimizerSpec::AdamW(AdamSpec { beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weight_decay: 0.1 }),
            decay: vec![DecayRule { parameters: "*.bias".to_owned(), weight_decay: 0.5 }],
            schedule: LrSpec { peak: 6e-4, minimum: 6e-5, warmup: 20, shape: LrShape::Cosine },
            clip: Some(1.0),
            numerics: NumericsSpec {
                precision: Precision::Fp16(LossScaleSpec { start: 1 << 16, window: 1000, hysteresis: 2, minimum: 1 }),
                wire: Wire::Bf16,
            },
            max_skips: Some(10),
            evaluate: Some(EvalSpec { every: 50, samples: 64 }),
        },
        parallel: ParallelSpec {
            pipeline: Auto::Set(2),
            data: Auto::Auto,
            virtual_replicas: 8,
            schedule: Schedule::GPipe,
            fixed: false,
        },
        elastic: ElasticSpec { redundancy: 1, on_loss: OnLoss::Rollback },
    };
    let data = DataFacts {
        digest: digest(3),
        train_tokens: 1_000_000,
        validation_digest: digest(5),
        validation_tokens: 100_000,
        tokenizer: Some(TokenizerFacts {
            kind: TokenizerKind::Gpt2,
            digest: digest(4),
            vocab: 50_257,
            end_of_text: Some(50_256),
        }),
    };
    let weights = Some(WeightFacts {
        segment: 8192,
        digests: vec![digest(4), digest(5)],
        dtypes: Dtypes::Each(vec![Dtype::Bf16, Dtype::F32]),
        padded_vocab: Some(50_304),
        special: SpecialTokens { begin: Some(1), end: vec![2, 7], pad: None },
    });
    Arc::new(Job { spec, data, weights })
}
