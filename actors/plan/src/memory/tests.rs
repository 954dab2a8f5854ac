use super::*;
use crate::fixture;
use crate::ids::NodeId;

/// The reference model by hand: Phi = 234,880, a layer 49,984, wte 32,768, wpe 2,048, head 128.
#[test]
fn reference_model_by_hand() {
    let job = fixture::job();
    let table = fixture::table(&job);
    let plan = fixture::plan(&job);
    let nodes = of_plan(&plan, &job.spec, &table);
    let owned: u64 = nodes.values().map(|n| n.owned_state).sum();
    assert_eq!(owned, 12 * 234_880);
    assert_eq!(nodes.values().map(|n| n.shadow_state).sum::<u64>(), 12 * 234_880);
    assert_eq!(nodes.values().map(|n| n.shadow_gradients).sum::<u64>(), 4 * 234_880);
    // Two replicas send one subtree each; the token table gets as many from the head's stage.
    assert_eq!(nodes.values().map(|n| n.owned_gradients).sum::<u64>(), 4 * 2 * (234_880 + 32_768));

    let (first, last) = (nodes[&plan.stages[0].seats[0]], nodes[&plan.stages[1].seats[0]]);
    let computed = [34_816 + 2 * 49_984, 2 * 49_984 + 128 + 32_768];
    assert_eq!([first.seat_weights, last.seat_weights], computed.map(|e| 4 * e));
    // Four lanes a replica: at most three open subtrees.
    assert_eq!([first.lane_sums, last.lane_sums], computed.map(|e| 4 * 3 * e));
    // s = 32, h = 64, a = 4: a layer keeps (10 h + a + 4) s; 1F1B has two in flight on stage 0, one on stage 1.
    let layer = (10 * 64 + 4 + 4) * 32;
    assert_eq!([first.stash, last.stash], [4 * 2 * (2 * layer), 4 * (2 * layer + 32 * 64)]);
    assert_eq!([first.logits, last.logits], [0, 4 * 32 * (512 + 64 + 2)]);
    // h + 2 f, and the gradient before a dropout.
    assert_eq!([first.scratch, last.scratch], [4 * 10 * 32 * 64; 2]);
    assert_eq!([first.transit, last.transit], computed.map(|e| 4 * (4 * 32 * 64 + e)));
    assert_eq!(first.total(), first.device() + first.host());
}

#[test]
fn logits_are_made_a_tile_at_a_time_where_a_lane_has_one_micro_batch() {
    let mut job = fixture::job();
    let train = &mut job.spec.train;
    (train.global_batch, train.micro_batch, job.spec.parallel.virtual_replicas) = (64, 32, 2);
    // A context of 32 tokens.
    assert_eq!(logit_rows(&job.spec), 512);
    job.spec.parallel.virtual_replicas = 1;
    assert_eq!(logit_rows(&job.spec), 32 * 32);
    job.spec.train.micro_batch = 8;
    job.spec.parallel.virtual_replicas = 8;
    assert_eq!(logit_rows(&job.spec), 8 * 32);
}

#[test]
fn gpipe_keeps_every_micro_batch() {
    let mut job = fixture::job();
    let table = fixture::table(&job);
    let stash = |job: &crate::job::Job| {
        let plan = fixture::plan(job);
        of_plan(&plan, &job.spec, &table)[&plan.stages[0].seats[0]].stash
    };
    let two = stash(&job);
    job.spec.parallel.schedule = Schedule::GPipe;
    assert_eq!(stash(&job), two / 2 * 8);
}

#[test]
fn a_shadow_holder_is_counted_in_the_host_tier() {
    let job = fixture::job();
    let table = fixture::table(&job);
    let mut plan = fixture::plan(&job);
    for piece in &mut plan.pieces {
        piece.shadows = vec![NodeId(9)];
    }
    let nine = of_plan(&plan, &job.spec, &table)[&NodeId(9)];
    assert_eq!((nine.device(), nine.host()), (0, 16 * 234_880));
}
