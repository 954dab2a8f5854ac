//! A small job for tests.

use std::collections::{BTreeMap, BTreeSet};

use shoal_config::JobSpec;
use shoal_config::spec::{
    AdamWSpec, Auto, DataFormat, DataSpec, ElasticSpec, EvalSpec, Gpt2Spec, LrShape, LrSpec, ModelSpec, OnLoss,
    ParallelSpec, Schedule, TrainSpec, Validation,
};

use crate::blocks::ModelTable;
use crate::engine::Offer;
use crate::ids::{Digest, NodeId};
use crate::job::{DataFacts, Job};
use crate::layout::Plan;
use crate::planner::{Held, make_plan};

/// The reference model G-tiny of the byte formulas, pipeline 2 x data 2, 8 lanes of 2 samples, r = 1.
pub(crate) fn job() -> Job {
    let model = Gpt2Spec {
        layers: 4,
        heads: 4,
        width: 64,
        context: 32,
        vocab: 512,
        dropout: 0.1,
        layer_norm_epsilon: 1e-5,
        init_range: 0.02,
    };
    let spec = JobSpec {
        name: "tiny".into(),
        seed: 7,
        model: ModelSpec::Gpt2(model),
        data: DataSpec {
            format: DataFormat::Text,
            path: "data.txt".into(),
            validation: Validation::Tail { fraction: 0.1 },
        },
        train: TrainSpec {
            steps: 20,
            global_batch: 16,
            micro_batch: 1,
            optimizer: AdamWSpec { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.1 },
            schedule: LrSpec { peak: 1e-3, minimum: 1e-4, warmup: 2, shape: LrShape::Cosine },
            clip: Some(1.0),
            max_skips: Some(10),
            evaluate: Some(EvalSpec { every: 5, samples: 10 }),
        },
        parallel: ParallelSpec {
            pipeline: Auto::Set(2),
            data: Auto::Set(2),
            virtual_replicas: 8,
            schedule: Schedule::OneFOneB,
            fixed: false,
        },
        elastic: ElasticSpec { redundancy: 1, on_loss: OnLoss::Rollback },
    };
    let data = DataFacts { digest: Digest::default(), train_tokens: 5000, validation_tokens: 700 };
    Job { spec, data }
}

/// Its table.
pub(crate) fn table(job: &Job) -> ModelTable {
    ModelTable::of(&job.spec.model)
}

/// Nodes with these ids, each with room for anything small.
pub(crate) fn members(ids: impl IntoIterator<Item = u64>) -> BTreeMap<NodeId, Offer> {
    let offer = || Offer { budget_bytes: 1 << 30, threads: 1, class: "test".into() };
    ids.into_iter().map(|id| (NodeId(id), offer())).collect()
}

/// The plan of [`job`] on nodes 1 to 4.
pub(crate) fn plan(job: &Job) -> Plan {
    let planned = make_plan(job, &table(job), &members(1..=4), &BTreeSet::new(), &Held::none());
    planned.expect("four nodes are enough").plan
}
