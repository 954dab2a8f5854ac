//! A node and a job, for tests of what is shown.

use shoal_wire::api::{JobState, JobStatus, NodeInfo, NodeState, Redundancy, RedundancyState};

/// A worker that is ready.
pub(crate) fn node() -> NodeInfo {
    NodeInfo {
        node: "w1".into(),
        id: "n1".into(),
        pid: 4711,
        role: vec!["worker".into()],
        address: "127.0.0.1:4000".into(),
        state: NodeState::Ready,
        budget_bytes: 2 << 30,
        used_bytes: 3 << 20,
        class: "avx2".to_owned(),
        arithmetic: "fused".to_owned(),
        left_out: None,
    }
}

/// A job that trains.
pub(crate) fn status() -> JobStatus {
    JobStatus {
        job: "j1".into(),
        name: "demo".into(),
        optimizer: "adamw".to_owned(),
        precision: "fp32".to_owned(),
        arithmetic: Some("fused".to_owned()),
        wire: "bf16".to_owned(),
        state: JobState::Training,
        step: 1200,
        steps: 2000,
        loss: Some(1.25),
        loss_step: Some(1200),
        val_loss: None,
        loss_scale: None,
        generation: "1.2".into(),
        redundancy: Redundancy { have: 0, want: 1, state: RedundancyState::Restoring },
        steps_lost: 0,
        steps_redone: 1,
        tokens_per_second: Some(54_321.0),
        plan: Some("pipeline 2 x data 2, 1f1b, 4 nodes".into()),
        plain: None,
        reason: None,
        fault: None,
        reading: None,
        tokenizer: None,
    }
}
