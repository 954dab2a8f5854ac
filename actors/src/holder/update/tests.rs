use std::panic::{AssertUnwindSafe, catch_unwind};

use shoal_config::spec::{AdafactorSpec, AdamSpec, OptimizerSpec};
use shoal_exact::ExactSum;
use shoal_kernels::{Budget, Tag, Tier};
use shoal_plan::blocks::ModelTable;
use shoal_plan::commit::{self, StepReport};
use shoal_plan::ids::Digest;
use shoal_plan::job::Job;
use shoal_plan::ledger::{Head, Update, Version};
use shoal_plan::protocol::{LossSum, Norm};
use shoal_plan::space::{Interval, IntervalSet};

use super::super::slot::Snapshot;
use super::*;
use crate::testing::{ADAFACTOR, facts};

/// Goes element by element.
fn adamw() -> OptimizerSpec {
    OptimizerSpec::AdamW(AdamSpec { beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weight_decay: 0.1 })
}

/// Takes whole parameters, and measures weights that it then changes.
fn adafactor() -> OptimizerSpec {
    OptimizerSpec::Adafactor(AdafactorSpec {
        clip_threshold: 0.5,
        beta1: Some(0.9),
        parameter_scale: Some(1e-3),
        weight_decay: 0.1,
        ..ADAFACTOR
    })
}

struct Bench {
    device: Device,
    arena: Arena,
    table: Arc<ModelTable>,
    optimizer: Optimizer,
    entry: LedgerEntry,
}

impl Bench {
    fn new(optimizer: OptimizerSpec) -> Self {
        let arena = Arena::new(Tier::Host, 256 << 20, &Budget::new(256 << 20));
        let mut spec = shoal_config::preset("tiny", "/".as_ref()).expect("a preset");
        let model = spec.model.as_gpt2_mut().expect("a GPT-2");
        (model.layers, model.width, model.context, model.vocab) = (1, 128, 16, 4096);
        spec.train.optimizer = optimizer;
        let device = Device::cpu(1, &arena).expect("room for scratch");
        let table = Arc::new(ModelTable::of_job(&spec));
        let optimizer = Optimizer::of(&spec, Arc::clone(&table));
        let data = facts(5000, 700);
        let sum = |x| Norm::Finite(ExactSum::of(x));
        let report = StepReport { norm: sum(4.0), loss: LossSum { loss: sum(8.0), tokens: 128 } };
        let version = Version { step: 0, chain: Digest::default() };
        let entry =
            commit::entry(&Job { spec, data, weights: None }, &Head { version, time: 3, loss_scale: None }, &report);
        Self { device, arena, table, optimizer, entry }
    }

    fn whole(&self) -> Interval {
        Interval::new(0, self.table.blocks[0].len)
    }

    /// A slot with values of its own and a gradient for it.
    fn slot(&self, interval: Interval) -> (SlotCell, Slice) {
        let cell = SlotCell::alloc(&self.arena, &self.table, (BlockId(0), interval)).expect("room");
        let elements = self.table.state_elements(BlockId(0), interval) as usize;
        let mut source = self.arena.alloc(Tag::Communication, elements).expect("room");
        let values = source.host_visible_mut().expect("on the host");
        values.iter_mut().enumerate().for_each(|(i, x)| *x = ((i * 37 % 101) as f32 - 50.0) * 1e-3);
        // The last kind has squares.
        let last = *self.table.kinds().last().expect("weights at least");
        let squares = self.table.part(last, BlockId(0), interval).expect("whole parameters").len() as usize;
        values[elements - squares..].iter_mut().for_each(|x| *x = x.abs() + 1e-4);
        cell.write((&self.device, &self.arena), interval, &source).expect("room");
        let mut gradient = self.arena.alloc(Tag::Gradient, interval.len() as usize).expect("room");
        let values = gradient.host_visible_mut().expect("on the host");
        values.iter_mut().enumerate().for_each(|(i, x)| *x = ((i * 13 % 89) as f32 - 44.0) * 1e-2);
        (cell, Slice::whole(gradient))
    }

    fn job(&self, interval: Interval) -> UpdateJob {
        UpdateJob::new(&self.entry, &self.optimizer, (BlockId(0), interval)).expect("not a skip")
    }

    fn bits(&self, cell: &SlotCell) -> Vec<u32> {
        bits(&cell.snapshot())
    }
}

fn bits(snapshot: &Snapshot) -> Vec<u32> {
    let values = snapshot.parts().flat_map(|(_, _, buffer)| buffer.host_visible().expect("on the host"));
    values.map(|x| x.to_bits()).collect()
}

/// UP-1 (each stroke once).
#[test]
fn a_panic_between_strokes_resumes_to_the_same_bits() {
    for optimizer in [adamw(), adafactor()] {
        let bench = Bench::new(optimizer);
        let job = bench.job(bench.whole());
        let count = job.strokes.count();
        assert!(count >= 3, "{count} strokes");
        let (whole, gradient) = bench.slot(bench.whole());
        job.apply((&bench.device, &bench.arena), &whole, &gradient, |_| ()).expect("applied");

        for fails_at in 0..count {
            let (cell, gradient) = bench.slot(bench.whole());
            let apply = |fault: Option<usize>| {
                catch_unwind(AssertUnwindSafe(|| {
                    let between = |at| assert!(Some(at) != fault, "a fault");
                    job.apply((&bench.device, &bench.arena), &cell, &gradient, between)
                }))
            };
            assert!(apply(Some(fails_at)).is_err());
            let progress = cell.lock().progress;
            let Progress::Between { step: 1, next, .. } = progress else { panic!("{progress:?}") };
            assert_eq!(next, fails_at);
            apply(None).expect("no panic").expect("applied");
            assert_eq!(cell.lock().progress, Progress::Rest);
            assert!(bench.bits(&cell) == bench.bits(&whole), "a panic at stroke {fails_at} shows");
        }
    }
}

#[test]
fn a_panic_inside_a_stroke_is_told() {
    let bench = Bench::new(adamw());
    let interval = bench.whole();
    let (cell, _) = bench.slot(interval);
    let short = Slice::whole(bench.arena.alloc_zeroed(Tag::Gradient, 16).expect("room"));
    let job = bench.job(interval);
    let inside = catch_unwind(AssertUnwindSafe(|| {
        job.apply((&bench.device, &bench.arena), &cell, &short, |_| ()).expect("it panics first");
    }));
    assert!(inside.is_err());
    let (_, gradient) = bench.slot(interval);
    let again = job.apply((&bench.device, &bench.arena), &cell, &gradient, |_| ());
    assert!(matches!(again, Err(UpdateError::Torn { at: 0 })), "{again:?}");
}

/// SL-2 (shared to read).
#[test]
fn what_is_being_sent_does_not_change() {
    let bench = Bench::new(adamw());
    let interval = bench.whole();
    let (cell, gradient) = bench.slot(interval);
    let before = bench.bits(&cell);
    let sent = cell.snapshot();
    bench.job(interval).apply((&bench.device, &bench.arena), &cell, &gradient, |_| ()).expect("applied");
    assert!(bits(&sent) == before);
    assert!(bench.bits(&cell) != before);
}

#[test]
fn any_cut_gives_the_bits_of_the_whole() {
    for optimizer in [adamw(), adafactor()] {
        let bench = Bench::new(optimizer);
        let tools = (&bench.device, &bench.arena);
        let (cell, gradient) = bench.slot(bench.whole());
        bench.job(bench.whole()).apply(tools, &cell, &gradient, |_| ()).expect("applied");
        let expected = cell.snapshot();
        let (source, gradient) = bench.slot(bench.whole());
        let source = source.snapshot();
        let block = &bench.table.blocks[0];
        let edges = [5000, block.len - 2000].map(|at| bench.table.nearest_edge(block, at));
        let cuts = IntervalSet::from(bench.whole()).split_at(&edges);
        assert!(cuts.len() > 1);
        for cut in cuts {
            let part = SlotCell::alloc(&bench.arena, &bench.table, (block.id, cut)).expect("room");
            part.copy(tools, cut, &source).expect("room");
            let mut piece = bench.arena.alloc(Tag::Gradient, cut.len() as usize).expect("room");
            bench.device.copy(piece.view_mut(), gradient.view().range(cut.range()));
            bench.job(cut).apply(tools, &part, &Slice::whole(piece), |_| ()).expect("applied");
            let part = part.snapshot();
            for ((found, _), (expected, range)) in part.of(cut).zip(expected.of(cut)) {
                let expected = &expected.host_visible().expect("on the host")[range];
                assert!(found.host_visible().expect("on the host") == expected, "{cut}");
            }
        }
    }
}

#[test]
fn a_skip_is_no_update() {
    let bench = Bench::new(adamw());
    let skip = LedgerEntry { update: Update::Skip, ..bench.entry.clone() };
    assert!(UpdateJob::new(&skip, &bench.optimizer, (BlockId(0), bench.whole())).is_none());
}
