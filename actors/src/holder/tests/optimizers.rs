//! State of every form under the same faults: kinds that some optimizers lack, and factors that go by the parameter.

use std::sync::Arc;

use shoal_config::spec::{AdafactorSpec, OptimizerSpec, RmsPropSpec, SgdSpec};
use tempfile::TempDir;

use super::STEPS;
use super::cluster::{Cluster, Ending, Layout, job, text};
use crate::testing::ADAFACTOR;

fn optimizers() -> [OptimizerSpec; 5] {
    let OptimizerSpec::AdamW(adam) = shoal_config::preset("tiny", "/".as_ref()).expect("a preset").train.optimizer
    else {
        panic!("the preset has AdamW");
    };
    let adafactor = |beta1, parameter_scale| {
        OptimizerSpec::Adafactor(AdafactorSpec { beta1, parameter_scale, weight_decay: 0.1, ..ADAFACTOR })
    };
    [
        OptimizerSpec::Adam(adam),
        OptimizerSpec::Sgd(SgdSpec { momentum: None, weight_decay: 0.1 }),
        OptimizerSpec::RmsProp(RmsPropSpec { alpha: 0.9, epsilon: 1e-6, momentum: Some(0.9), weight_decay: 0.0 }),
        adafactor(None, None),
        adafactor(Some(0.9), Some(1e-3)),
    ]
}

async fn cluster(optimizer: OptimizerSpec, layout: Layout, nodes: u64) -> (TempDir, Cluster) {
    let dir = TempDir::new().expect("a temp dir");
    let mut job = (*job(text(&dir), layout, STEPS)).clone();
    job.spec.train.optimizer = optimizer;
    let mut cluster = Cluster::new(Arc::new(job));
    for node in 1..=nodes {
        cluster.join(node).await;
    }
    (dir, cluster)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_node_and_a_new_one_leave_no_trace_whatever_is_remembered() {
    for optimizer in optimizers() {
        let (_dir, alone) = cluster(optimizer, Layout { redundancy: 0, ..Layout::new(1, 1) }, 1).await;
        let reference: Ending = alone.ending().await;
        let (_dir, mut cluster) = cluster(optimizer, Layout::new(2, 2), 4).await;
        cluster.until_step(2).await;
        cluster.kill(2);
        cluster.until_step(3).await;
        cluster.join(5).await;
        let log = cluster.log();
        assert_eq!(cluster.ending().await, reference, "{optimizer:?}:\n{log}");
    }
}
