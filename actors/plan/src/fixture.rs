//! A small job for tests.

use std::collections::{BTreeMap, BTreeSet};

use shoal_config::spec::{AdafactorSpec, OptimizerSpec};
use shoal_exact::Arithmetic;

use crate::blocks::ModelTable;
use crate::engine::Offer;
use crate::ids::{Digest, NodeId};
use crate::job::{DataFacts, Job};
use crate::layout::Plan;
use crate::planner::{Held, make_plan};

/// The reference model G-tiny of the byte formulas, pipeline 2 x data 2, 8 lanes of 2 samples, r = 1.
pub(crate) fn job() -> Job {
    let mut spec = shoal_config::preset("tiny", "data.txt".as_ref()).expect("a preset");
    spec.model.as_gpt2_mut().expect("a GPT-2").vocab = 512;
    let data = DataFacts {
        digest: Digest::default(),
        train_tokens: 5000,
        validation_digest: Digest::default(),
        validation_tokens: 700,
        tokenizer: None,
    };
    Job { spec, data, weights: None }
}

/// An optimizer whose state has a space of its own.
pub(crate) fn adafactor() -> OptimizerSpec {
    OptimizerSpec::Adafactor(AdafactorSpec {
        epsilon1: 1e-30,
        clip_threshold: 1.0,
        decay_rate: -0.8,
        beta1: None,
        parameter_scale: None,
        weight_decay: 0.0,
    })
}

/// Its table.
pub(crate) fn table(job: &Job) -> ModelTable {
    ModelTable::of_job(&job.spec)
}

/// Nodes with these ids, each with room for anything small.
pub(crate) fn members(ids: impl IntoIterator<Item = u64>) -> BTreeMap<NodeId, Offer> {
    let offer = || Offer { budget_bytes: 1 << 30, threads: 1, class: "test".into(), arithmetic: Arithmetic::Fused };
    ids.into_iter().map(|id| (NodeId(id), offer())).collect()
}

/// The plan of [`job`] on nodes 1 to 4.
pub(crate) fn plan(job: &Job) -> Plan {
    let planned = make_plan(job, &table(job), &members(1..=4), &BTreeSet::new(), &Held::none());
    planned.expect("four nodes are enough").plan
}
