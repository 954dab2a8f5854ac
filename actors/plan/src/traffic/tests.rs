use shoal_config::spec::Wire;

use super::*;
use crate::fixture;

/// By hand: pipeline 2 x data 2, a tied token table on the first stage, every piece with one shadow.
#[test]
fn a_step_of_two_stages_and_two_replicas() {
    let mut job = fixture::job();
    let (table, plan) = (fixture::table(&job), fixture::plan(&job));
    let parameters: u64 = table.blocks.iter().map(|block| block.len).sum();
    let tied = table.tied().expect("a tied table").1.len();
    let boundary = u64::from(job.spec.model.context()) * u64::from(job.spec.model.width());
    let batch = u64::from(job.spec.train.global_batch);
    let single = of_step(&plan, &job.spec, &table).total();
    assert_eq!(single.activation, 4 * boundary * batch, "every sample crosses one boundary");
    assert_eq!(single.activation_gradient, single.activation);
    assert_eq!(single.shadow_gradient, 4 * parameters);
    assert_eq!(
        single.total(),
        2 * single.activation + single.gradient_partial + single.shadow_gradient + single.weights
    );
    job.spec.train.numerics.wire = Wire::Bf16;
    let half = of_step(&plan, &job.spec, &table).total();
    assert_eq!(half.activation * 2, single.activation);
    assert_eq!(half.gradient_partial * 2, single.gradient_partial, "no replica has all lanes");
    assert_eq!((half.shadow_gradient, half.weights), (single.shadow_gradient, single.weights));
    // Of each piece, one of its two seats is its owner, and so is one of the table's; the head's two seats are not.
    let owned_by_seats = plan.pieces.iter().all(|piece| {
        plan.stages.iter().any(|stage| stage.blocks.contains(&piece.block.0) && stage.seats.contains(&piece.owner))
    });
    assert!(owned_by_seats, "else the next lines are wrong");
    let spread: u64 = plan.pieces.iter().map(|piece| piece.interval.len()).sum();
    assert_eq!(spread, parameters);
    assert_eq!(single.gradient_partial, 4 * (parameters + 2 * tied));
    assert_eq!(of_deployment(&plan, &table).total().weights, single.weights);
}

/// Sums over all lanes are f32 whatever the wire takes.
#[test]
fn one_replica_sends_roots() {
    let mut job = fixture::job();
    let (table, mut plan) = (fixture::table(&job), fixture::plan(&job));
    plan.lanes = std::iter::once(0..job.spec.parallel.virtual_replicas).collect();
    for stage in &mut plan.stages {
        stage.seats.truncate(1);
    }
    let single = of_step(&plan, &job.spec, &table);
    job.spec.train.numerics.wire = Wire::Bf16;
    let half = of_step(&plan, &job.spec, &table);
    assert!(single.total().gradient_partial > 0);
    assert_eq!(half.total().gradient_partial, single.total().gradient_partial);
    let (first, second) = (plan.stages[0].seats[0], plan.stages[1].seats[0]);
    assert_eq!(2 * half.between(first, second).activation, single.between(first, second).activation);
    assert_eq!(single.between(first, first), Bytes::default());
}

#[test]
fn a_validation_pass_sends_activations_alone() {
    let job = fixture::job();
    let plan = fixture::plan(&job);
    let total = of_validation(&plan, &job).total();
    let each = 4 * u64::from(job.spec.model.context()) * u64::from(job.spec.model.width());
    assert_eq!(total, Bytes { activation: each * validation_windows(&job), ..Bytes::default() });
}
