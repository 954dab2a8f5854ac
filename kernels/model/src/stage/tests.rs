//! SM-3: bits do not depend on the split into stages, replicas, schedules or threads.

use shoal_config::JobSpec;
use shoal_config::spec::Schedule::{GPipe, OneFOneB};
use shoal_config::spec::{
    EvalSpec, LossScaleSpec, ModelSpec, NumericsSpec, ParallelSpec, Precision, Schedule, TrainSpec, Wire,
};
use shoal_kernels::{Half, Tag};
use shoal_plan::batch::micro_batches;
use shoal_plan::blocks::ModelTable;
use shoal_plan::job::Job;
use shoal_plan::memory::{LOGIT_ROWS, SeatShape, logit_rows, seat_bytes};
use shoal_plan::space::Interval;

use super::pipeline::{Layout, Outcome, Pipeline};
use super::*;
use crate::testing;

fn layout(cuts: &[u32], lane_cuts: &[u32], schedule: Schedule) -> Layout {
    Layout { cuts: cuts.to_vec(), lane_cuts: lane_cuts.to_vec(), schedule }
}

/// Five lanes, 13 samples, micro-batches of 2: ragged lanes, ragged micro-batches, a lopsided tree; gaps after the tables.
fn ragged(dropout: f32) -> Job {
    ragged_job(testing::job(3, 2, 32, 9, 65, dropout))
}

/// The same of a Llama, with biases or without, its head tied or not.
fn ragged_llama(biases: bool, tied_head: bool) -> Job {
    let mut spec = testing::job(3, 2, 32, 9, 65, 0.0);
    spec.model = testing::llama([3, 4, 2, 12, 32, 48, 9, 65], biases, tied_head);
    ragged_job(spec)
}

/// A GPT-2 without biases and with a head of its own.
fn ragged_bare() -> Job {
    let mut job = ragged(0.2);
    let model = job.spec.model.as_gpt2_mut().expect("a GPT-2");
    (model.bias, model.tied_head) = (false, false);
    job
}

/// A Llama that drops attention weights.
fn ragged_llama_with_dropout() -> Job {
    let mut job = ragged_llama(false, false);
    job.spec.model.as_llama_mut().expect("a Llama").attention_dropout = 0.2;
    job
}

fn ragged_job(spec: JobSpec) -> Job {
    let train =
        TrainSpec { global_batch: 13, micro_batch: 2, evaluate: Some(EvalSpec { every: 1, samples: 7 }), ..spec.train };
    let parallel = ParallelSpec { virtual_replicas: 5, ..spec.parallel };
    testing::with_data(JobSpec { train, parallel, ..spec })
}

fn run(job: &Job, layout: &Layout, threads: usize, phase: Phase) -> Outcome {
    let (device, arena) = testing::device(threads);
    let weights = testing::weights(&job.spec, &ModelTable::of(&job.spec.model));
    Pipeline::new(job, &weights, &device, &arena, layout).run(phase)
}

#[test]
fn bits_do_not_depend_on_the_layout() {
    let fp16 = Precision::Fp16(LossScaleSpec { start: 1024, window: 1000, hysteresis: 2, minimum: 1 });
    for (what, mut job, contributions, wire, precision) in [
        ("GPT-2", ragged(0.0), 6, Wire::Fp32, Precision::Fp32),
        ("GPT-2 with dropout", ragged(0.2), 6, Wire::Fp32, Precision::Fp32),
        ("GPT-2 with dropout, rounded", ragged(0.2), 6, Wire::Bf16, Precision::Fp32),
        ("GPT-2 with dropout, in halves", ragged(0.2), 6, Wire::Bf16, fp16),
        ("Llama", ragged_llama(false, false), 5, Wire::Fp32, Precision::Fp32),
        ("Llama, rounded", ragged_llama(false, false), 5, Wire::Bf16, Precision::Fp32),
        ("Llama in halves", ragged_llama(false, false), 5, Wire::Fp32, Precision::Bf16),
        ("tied Llama with biases", ragged_llama(true, true), 6, Wire::Fp32, Precision::Fp32),
        ("bare GPT-2", ragged_bare(), 5, Wire::Fp32, Precision::Fp32),
        ("bare GPT-2 in halves", ragged_bare(), 5, Wire::Bf16, Precision::Bf16),
        ("Llama with dropout", ragged_llama_with_dropout(), 5, Wire::Fp32, Precision::Fp32),
    ] {
        (job.spec.train.numerics.wire, job.spec.train.numerics.precision) = (wire, precision);
        let phase = Phase::Train { step: 3 };
        let whole = run(&job, &layout(&[], &[], GPipe), 1, phase);
        assert!(whole.loss.finite);
        assert_eq!(whole.loss.tokens, 13 * 9);
        assert_eq!(whole.gradients.len(), contributions);
        for (name, layout, threads) in [
            ("three threads", layout(&[], &[], GPipe), 3),
            ("1F1B", layout(&[], &[], OneFOneB), 1),
            ("two stages", layout(&[2], &[], GPipe), 1),
            ("two stages, 1F1B", layout(&[3], &[], OneFOneB), 2),
            ("four stages", layout(&[1, 2, 4], &[], OneFOneB), 1),
            ("a stage for every block", layout(&[1, 2, 3, 4], &[], GPipe), 1),
            ("two replicas", layout(&[], &[2], GPipe), 1),
            ("two replicas at a subtree's edge, two stages", layout(&[2], &[4], OneFOneB), 1),
            ("three replicas", layout(&[], &[1, 3], OneFOneB), 1),
            ("three replicas, four stages", layout(&[1, 2, 4], &[2, 3], GPipe), 2),
        ] {
            assert!(run(&job, &layout, threads, phase) == whole, "{what}, {name}");
        }
    }
}

#[test]
fn evaluation_does_not_depend_on_the_layout_and_drops_nothing() {
    let (with, without) = (ragged(0.2), ragged(0.0));
    let whole = run(&with, &layout(&[], &[], GPipe), 1, Phase::Evaluate);
    assert_eq!(whole.loss.tokens, 7 * 9);
    assert!(whole.gradients.is_empty());
    assert_eq!(run(&without, &layout(&[], &[], GPipe), 1, Phase::Evaluate), whole);
    assert_eq!(run(&with, &layout(&[1, 2, 4], &[2], GPipe), 1, Phase::Evaluate), whole);
}

#[test]
fn dropout_follows_the_step_and_the_seed() {
    let job = ragged(0.2);
    let whole = layout(&[], &[], GPipe);
    let one = run(&job, &whole, 1, Phase::Train { step: 1 });
    let reseeded = Job { spec: JobSpec { seed: 8, ..job.spec.clone() }, data: job.data, weights: None };
    assert_ne!(run(&ragged(0.0), &whole, 1, Phase::Train { step: 1 }).loss, one.loss);
    assert_ne!(run(&job, &whole, 1, Phase::Train { step: 2 }).loss, one.loss);
    assert_ne!(run(&reseeded, &whole, 1, Phase::Train { step: 1 }).loss, one.loss);
}

#[test]
fn a_llama_drops_attention_weights_in_training_alone() {
    let (with, without) = (ragged_llama_with_dropout(), ragged_llama(false, false));
    let whole = layout(&[], &[], GPipe);
    assert_eq!(run(&with, &whole, 1, Phase::Evaluate), run(&without, &whole, 1, Phase::Evaluate));
    let [one, two] = [1, 2].map(|step| run(&with, &whole, 1, Phase::Train { step }).loss);
    assert_ne!(run(&without, &whole, 1, Phase::Train { step: 1 }).loss, one);
    assert_ne!(one, two);
}

/// SM-12 and LS-3 (rounded as sent): what could be sent has no more bits than the wire takes, and the sum of all lanes has all
/// of its own.
#[test]
fn what_is_sent_is_rounded_and_the_root_is_not() {
    let mut job = ragged(0.0);
    job.spec.train.numerics.wire = Wire::Bf16;
    let phase = Phase::Train { step: 3 };
    let fits = |x: &[f32]| x.iter().all(|x| Half::Bf16.nearest(*x).to_bits() == x.to_bits());
    let (device, arena) = testing::device(1);
    let table = Arc::new(ModelTable::of(&job.spec.model));
    let mut model = StageModel::new((&device, &arena), &job.spec, Arc::clone(&table), 0..3, 0..3).expect("room");
    for (b, values) in testing::weights(&job.spec, &table).iter().enumerate() {
        model.write_weights(&device, BlockId(b as u32), Interval::new(0, values.len() as u64), values);
    }
    for batch in micro_batches(&job, 3, 0..3) {
        let (inputs, _) = testing::tokens(&job.spec, &batch.samples);
        let y = model.forward(&device, phase, &batch, Input::Tokens(&inputs)).expect("room").expect("not the last");
        assert!(fits(y.host_visible().expect("a processor")), "the activation of {}", batch.index);
        let mut dy = arena.alloc(Tag::Activation, y.len()).expect("room");
        device.fill(dy.view_mut(), 1.0);
        assert!(model.backward(&device, &batch, Some(dy)).expect("room").is_none());
    }
    // Of five lanes the first three are not a subtree: the first two are, and the third alone.
    let sums = model.take_gradient(GradUnit { block: BlockId(1), part: GradPart::Own });
    assert_eq!(sums.len(), 2);
    for LaneSum { node, sum } in &sums {
        assert!(fits(sum.host_visible().expect("a processor")), "the sum of {node:?}");
    }
    let whole = run(&job, &layout(&[], &[], GPipe), 1, phase);
    assert!(!whole.gradients.values().flatten().all(|bits| bits & 0xffff == 0), "the root is rounded");
    assert!(whole.gradients != run(&ragged(0.0), &layout(&[], &[], GPipe), 1, phase).gradients);
}

#[test]
fn an_aborted_step_leaves_no_trace() {
    let job = ragged(0.2);
    let (device, arena) = testing::device(1);
    let weights = testing::weights(&job.spec, &ModelTable::of(&job.spec.model));
    for cuts in [vec![], vec![2]] {
        let layout = layout(&cuts, &[2], OneFOneB);
        let mut pipeline = Pipeline::new(&job, &weights, &device, &arena, &layout);
        let idle = arena.total().live;
        pipeline.start_and_leave(1);
        assert!(arena.total().live > idle);
        pipeline.abort();
        assert_eq!(arena.total().live, idle);
        assert!(pipeline.run(Phase::Train { step: 1 }) == run(&job, &layout, 1, Phase::Train { step: 1 }));
        assert_eq!(arena.total().live, idle, "a step gives back all it took");
    }
}

/// A lane's only micro-batch makes its logits a tile of rows at a time, a later one of a lane makes them all at once: the sum
/// of the same two micro-batches has the same bits either way.
#[test]
fn tiles_of_logits_change_no_bit() {
    let outcome = |lanes| {
        let spec = testing::job(1, 2, 32, 300, 65, 0.0);
        let train = TrainSpec { global_batch: 4, micro_batch: 2, ..spec.train };
        let parallel = ParallelSpec { virtual_replicas: lanes, ..spec.parallel };
        let job = testing::with_data(JobSpec { train, parallel, ..spec });
        (logit_rows(&job.spec), run(&job, &layout(&[], &[], OneFOneB), 2, Phase::Train { step: 1 }))
    };
    let ((tile, tiled), (all, whole)) = (outcome(2), outcome(1));
    assert_eq!((tile, all), (LOGIT_ROWS, 600));
    assert!(tiled == whole);
}

#[test]
fn calls_are_counted_by_block() {
    let job = ragged(0.0);
    let (device, arena) = testing::device(1);
    let weights = testing::weights(&job.spec, &ModelTable::of(&job.spec.model));
    let mut pipeline = Pipeline::new(&job, &weights, &device, &arena, &layout(&[2], &[], GPipe));
    pipeline.run(Phase::Train { step: 1 });
    pipeline.run(Phase::Evaluate);
    let trained = micro_batches(&job, 1, 0..5).len() as u64;
    let expected: Vec<BlockCalls> =
        (0..5).map(|b| BlockCalls { block: BlockId(b), forward: trained + 5, backward: trained }).collect();
    assert_eq!(pipeline.calls(), expected);
}

/// LS-2 (fixed tree).
#[test]
fn at_most_one_sum_a_level_is_alive() {
    let job = ragged(0.0);
    let (device, arena) = testing::device(1);
    let table = ModelTable::of(&job.spec.model);
    let weights = testing::weights(&job.spec, &table);
    Pipeline::new(&job, &weights, &device, &arena, &layout(&[], &[], OneFOneB)).run(Phase::Train { step: 1 });
    let one: u64 = table.blocks.iter().map(|b| Arena::footprint(b.len as usize)).sum::<u64>()
        + Arena::footprint(table.head_table().1.len() as usize);
    // Five lanes: at most the sums of 0..4 in the making, that is 0..2, 2 and 3.
    assert_eq!(arena.usage(Tag::Gradient).high, 3 * one);
}

/// Arenas measure what the planner's memory formulas say: exactly, where whole buffers can be counted by tag.
#[test]
fn memory_is_what_the_planner_counts_on() {
    // Sizes whose buffers are whole cache lines and below a page's rounding, so that footprints are bytes.
    let gpt2 = testing::job(2, 4, 64, 32, 256, 0.1);
    let llama = |inner, biases, tied_head| JobSpec {
        model: testing::llama([2, 8, 2, 16, 64, inner, 32, 256], biases, tied_head),
        ..gpt2.clone()
    };
    let specs = [gpt2.clone(), llama(176, false, false), llama(176, true, true), llama(32, false, false)];
    let shapes = [
        (GPipe, 4, Wire::Fp32, Precision::Fp32),
        (OneFOneB, 4, Wire::Fp32, Precision::Fp32),
        (GPipe, 1, Wire::Fp32, Precision::Fp32),
        (OneFOneB, 4, Wire::Bf16, Precision::Fp32),
        (GPipe, 4, Wire::Fp32, Precision::Bf16),
        (OneFOneB, 4, Wire::Bf16, Precision::Bf16),
    ];
    for (spec, (schedule, lane_count, wire, precision)) in
        specs.iter().flat_map(|spec| shapes.map(|shape| (spec, shape)))
    {
        let mut job = testing::with_data(spec.clone());
        job.spec.parallel.virtual_replicas = lane_count;
        job.spec.train.numerics = NumericsSpec { precision, wire };
        // Two micro-batches a lane, so that all blocks have their most sums alive at once; three where each but the first of a
        // lane has room of its own, since the last one's blocks are closed one by one.
        let each = if wire == Wire::Bf16 { 3 } else { 2 };
        job.spec.train.global_batch = 8 * each;
        let table = ModelTable::of(&job.spec.model);
        let shape = SeatShape {
            blocks: 0..table.blocks.len() as u32,
            stage: 0,
            stages: 1,
            lanes: lane_count,
            micro_batches: 4 * each,
            schedule,
        };
        let bytes = seat_bytes(&job.spec, &table, &shape);
        let (device, arena) = testing::device(1);
        let scratch = arena.total().live;
        let weights = testing::weights(&job.spec, &table);
        let mut pipeline = Pipeline::new(&job, &weights, &device, &arena, &layout(&[], &[], schedule));
        let padding = rounding(&table, 4);
        let of_weights = rounding(&table, precision.dtype().bytes());
        assert_eq!(arena.usage(Tag::Weight).live, bytes.seat_weights + of_weights);
        pipeline.run(Phase::Train { step: 1 });
        // Of what the head takes, the gradient behind it and the statistics are stashed; the tile of logits is not.
        let tile = 4 * logit_rows(&job.spec) * 256;
        // In halves, one head's input is opened by then.
        let opened = if precision == Precision::Fp32 { 0 } else { 2 * 2 * 32 * 64 };
        assert_eq!(arena.usage(Tag::Stash).high, bytes.stash + bytes.logits - tile - opened);
        let sums = arena.usage(Tag::Gradient).high;
        assert!(sums >= bytes.lane_sums && sums <= bytes.lane_sums + 4 * padding, "{sums} {}", bytes.lane_sums);
        let most = scratch + bytes.seat_weights + bytes.lane_sums + bytes.stash + bytes.logits + bytes.scratch;
        let most = most + of_weights + 5 * padding;
        assert!(arena.total().high <= most, "{} {most}", arena.total().high);
    }
}

/// A layer's temporaries and the gradient that flows back take what the formula says, whichever of
/// its terms is the largest.
#[test]
fn scratch_is_what_the_planner_counts_on() {
    let gpt2 = testing::job(1, 4, 64, 32, 256, 0.0);
    for (model, elements) in [
        (gpt2.model.clone(), 64 + 2 * 256),
        (testing::job(1, 4, 64, 32, 256, 0.1).model, 2 * 64 + 2 * 256),
        (testing::llama([1, 8, 2, 16, 64, 176, 32, 256], false, false), 64 + 2 * 176),
        (testing::llama([1, 8, 2, 16, 64, 32, 32, 256], false, false), 64 + 2 * 128 + 64),
        (testing::llama([1, 4, 2, 16, 64, 32, 32, 256], false, false), 64 + 2 * 64 + 128),
    ] {
        let mut job = testing::with_data(JobSpec { model, ..gpt2.clone() });
        (job.spec.train.global_batch, job.spec.parallel.virtual_replicas) = (2, 1);
        let table = ModelTable::of(&job.spec.model);
        let shape = SeatShape { blocks: 1..2, stage: 0, stages: 1, lanes: 1, micro_batches: 1, schedule: GPipe };
        let bytes = seat_bytes(&job.spec, &table, &shape);
        let activation = 2 * 32 * 64;
        assert_eq!(bytes.scratch, 4 * 2 * 32 * elements);
        let (device, arena) = testing::device(1);
        let of_device = arena.usage(Tag::Temporary).live;
        let mut model =
            StageModel::new((&device, &arena), &job.spec, Arc::new(table.clone()), 1..2, 0..1).expect("room");
        let values = &testing::weights(&job.spec, &table)[1];
        model.write_weights(&device, BlockId(1), Interval::new(0, table.blocks[1].len), values);
        let batch = &micro_batches(&job, 1, 0..1)[0];
        let mut x = arena.alloc(Tag::Activation, activation).expect("room");
        device.fill(x.view_mut(), 0.25);
        let y = model.forward(&device, Phase::Train { step: 1 }, batch, Input::Activation(Arc::new(x))).expect("room");
        model.backward(&device, batch, y).expect("room");
        let most = arena.usage(Tag::Temporary).high - of_device;
        assert_eq!(most + 4 * activation as u64, bytes.scratch, "{:?}", job.spec.model);
    }
}

/// One layer, from its input to the gradient of it: the most that its arena held, by itself, and what the formula says.
fn peak_of_a_layer(model: ModelSpec, precision: Precision) -> (u64, u64) {
    let mut job = testing::with_data(JobSpec { model, ..testing::job(1, 4, 64, 32, 256, 0.0) });
    (job.spec.train.global_batch, job.spec.parallel.virtual_replicas) = (2, 1);
    job.spec.train.numerics.precision = precision;
    let table = ModelTable::of(&job.spec.model);
    let shape = SeatShape { blocks: 1..2, stage: 0, stages: 1, lanes: 1, micro_batches: 1, schedule: GPipe };
    let bytes = seat_bytes(&job.spec, &table, &shape);
    let (device, arena) = testing::device(1);
    let of_device = arena.total().live;
    let mut model = StageModel::new((&device, &arena), &job.spec, Arc::new(table.clone()), 1..2, 0..1).expect("room");
    let values = &testing::weights(&job.spec, &table)[1];
    model.write_weights(&device, BlockId(1), Interval::new(0, table.blocks[1].len), values);
    let batch = &micro_batches(&job, 1, 0..1)[0];
    let mut x = arena.alloc(Tag::Activation, 2 * 32 * job.spec.model.width() as usize).expect("room");
    device.fill(x.view_mut(), 0.25);
    let y = model.forward(&device, Phase::Train { step: 1 }, batch, Input::Activation(Arc::new(x))).expect("room");
    model.backward(&device, batch, y).expect("room");
    let most = bytes.seat_weights + bytes.lane_sums + bytes.stash + bytes.scratch;
    (arena.total().high - of_device, most)
}

/// WE-1 (one width at a time): compute weights in halves take half the room, and what a product reads of them as f32 is there for that product alone.
#[test]
fn weights_in_halves_take_half_the_room_and_one_product_beside_it() {
    let gpt2 = testing::job(1, 4, 256, 32, 256, 0.0).model;
    let llama = testing::llama([1, 8, 2, 32, 256, 688, 32, 256], true, true);
    for model in [gpt2, llama] {
        let (single, all) = peak_of_a_layer(model.clone(), Precision::Fp32);
        let (halves, said) = peak_of_a_layer(model, Precision::Bf16);
        // Each buffer from 64 KiB on is whole pages; the formula takes the largest product and the most temporaries together.
        let pages = 16 * 4096;
        assert!(single <= all + pages && single * 20 > all * 19, "{single} of {all}");
        assert!(halves <= said + pages && halves * 10 > said * 9, "{halves} of {said}");
        assert!(halves < single, "{halves} and {single}");
    }
}

/// What footprints of whole blocks take beyond their elements: buffers from 64 KiB on are whole pages.
fn rounding(table: &ModelTable, element: u64) -> u64 {
    table.blocks.iter().map(|b| Arena::footprint((element * b.len / 4) as usize) - element * b.len).sum()
}

#[test]
fn a_token_outside_the_vocabulary_is_an_error() {
    let job = ragged(0.0);
    let (device, arena) = testing::device(1);
    let table = Arc::new(ModelTable::of(&job.spec.model));
    let mut model = StageModel::new((&device, &arena), &job.spec, table, 0..5, 0..5).expect("room");
    let batch = &micro_batches(&job, 1, 0..5)[0];
    let tokens = vec![65; batch.samples.len() * 9];
    let result = model.forward(&device, Phase::Evaluate, batch, Input::Tokens(&tokens));
    assert!(matches!(result, Err(ModelError::Token { token: 65, vocab: 65 })));
}
