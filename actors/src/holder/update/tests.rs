use std::panic::{AssertUnwindSafe, catch_unwind};

use shoal_config::spec::{Gpt2Spec, ModelSpec};
use shoal_exact::ExactSum;
use shoal_kernels::{Budget, Tag, Tier};
use shoal_plan::blocks::ModelTable;
use shoal_plan::ids::{BlockId, Digest};
use shoal_plan::ledger::UpdateScalars;

use super::*;

const OPTIMIZER: AdamWSpec = AdamWSpec { beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weight_decay: 0.1 };

struct Bench {
    device: Device,
    arena: Arena,
    table: ModelTable,
}

impl Bench {
    fn new() -> Self {
        let arena = Arena::new(Tier::Host, 256 << 20, &Budget::new(256 << 20));
        let model = ModelSpec::Gpt2(Gpt2Spec {
            layers: 1,
            heads: 4,
            width: 128,
            context: 16,
            vocab: 4096,
            dropout: 0.0,
            layer_norm_epsilon: 1e-5,
            init_range: 0.02,
        });
        let device = Device::cpu(1, &arena).expect("room for scratch");
        Self { device, arena, table: ModelTable::of(&model) }
    }

    /// A slot with values of its own and a gradient for it.
    fn slot(&self, interval: Interval) -> (SlotCell, Slice) {
        let elements = interval.len() as usize;
        let cell = SlotCell::alloc(&self.arena, elements).expect("room");
        let mut source = self.arena.alloc(Tag::Communication, 3 * elements).expect("room");
        let values = source.host_visible_mut().expect("on the host");
        values.iter_mut().enumerate().for_each(|(i, x)| *x = ((i * 37 % 101) as f32 - 50.0) * 1e-3);
        values[2 * elements..].iter_mut().for_each(|x| *x = x.abs());
        let kind = |k: usize| (&source, k * elements..(k + 1) * elements);
        cell.write((&self.device, &self.arena), 0, [kind(0), kind(1), kind(2)]).expect("room");
        let mut gradient = self.arena.alloc(Tag::Gradient, elements).expect("room");
        let values = gradient.host_visible_mut().expect("on the host");
        values.iter_mut().enumerate().for_each(|(i, x)| *x = ((i * 13 % 89) as f32 - 44.0) * 1e-2);
        (cell, Slice::whole(gradient))
    }

    fn job(&self, interval: Interval) -> UpdateJob {
        UpdateJob::new(&entry(), &OPTIMIZER, self.table.block(BlockId(0)), interval).expect("not a skip")
    }

    fn bits(&self, cell: &SlotCell) -> Vec<u32> {
        let kinds = cell.snapshot();
        kinds.iter().flat_map(|k| k.host_visible().expect("on the host").iter().map(|x| x.to_bits())).collect()
    }
}

fn entry() -> LedgerEntry {
    let bits = |x: f32| x.to_bits();
    LedgerEntry {
        step: 1,
        previous: Digest::default(),
        samples: Digest::default(),
        tokens: 16,
        loss: ExactSum::ZERO,
        norm: ExactSum::ZERO,
        update: Update::Apply(UpdateScalars {
            scale: bits(0.5),
            learning_rate: bits(1e-3),
            decay: bits(1.0 - 1e-4),
            step_size: bits(1e-2),
            root_correction: bits(0.22),
        }),
        optimizer_time: 1,
    }
}

#[test]
fn a_panic_between_strides_resumes_to_the_same_bits() {
    let bench = Bench::new();
    let interval = Interval::new(0, bench.table.blocks[0].len);
    let job = bench.job(interval);
    let count = job.strides.len();
    assert!(count >= 3, "{count} strides");
    let (whole, gradient) = bench.slot(interval);
    job.apply((&bench.device, &bench.arena), &whole, &gradient, |_| ()).expect("applied");

    for fails_at in 0..count {
        let (cell, gradient) = bench.slot(interval);
        let apply = |fault: Option<usize>| {
            catch_unwind(AssertUnwindSafe(|| {
                job.apply((&bench.device, &bench.arena), &cell, &gradient, |at| assert!(Some(at) != fault, "a fault"))
            }))
        };
        assert!(apply(Some(fails_at)).is_err());
        assert_eq!(cell.lock().progress, Progress::Between { step: 1, next: fails_at });
        apply(None).expect("no panic").expect("applied");
        assert_eq!(cell.lock().progress, Progress::Rest);
        assert!(bench.bits(&cell) == bench.bits(&whole), "a panic at stride {fails_at} shows");
    }
}

#[test]
fn a_panic_inside_a_stride_is_told() {
    let bench = Bench::new();
    let interval = Interval::new(0, bench.table.blocks[0].len);
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

#[test]
fn what_is_being_sent_does_not_change() {
    let bench = Bench::new();
    let interval = Interval::new(0, bench.table.blocks[0].len);
    let (cell, gradient) = bench.slot(interval);
    let before = bench.bits(&cell);
    let sent = cell.snapshot();
    bench.job(interval).apply((&bench.device, &bench.arena), &cell, &gradient, |_| ()).expect("applied");
    let held: Vec<u32> =
        sent.iter().flat_map(|k| k.host_visible().expect("on the host").iter().map(|x| x.to_bits())).collect();
    assert!(held == before);
    assert!(bench.bits(&cell) != before);
}

#[test]
fn any_cut_gives_the_bits_of_the_whole() {
    let bench = Bench::new();
    let whole = Interval::new(0, bench.table.blocks[0].len);
    let (cell, gradient) = bench.slot(whole);
    bench.job(whole).apply((&bench.device, &bench.arena), &cell, &gradient, |_| ()).expect("applied");
    let expected = cell.snapshot();
    let (source, gradient) = bench.slot(whole);
    let source = source.snapshot();
    for cut in [Interval::new(0, 4096), Interval::new(4096, 520_192), Interval::new(520_192, whole.end)] {
        let part = SlotCell::alloc(&bench.arena, cut.len() as usize).expect("room");
        let kinds = [0, 1, 2].map(|k: usize| (&*source[k], cut.range()));
        part.write((&bench.device, &bench.arena), 0, kinds).expect("room");
        let mut piece = bench.arena.alloc(Tag::Gradient, cut.len() as usize).expect("room");
        bench.device.copy(piece.view_mut(), gradient.view().range(cut.range()));
        let job = bench.job(cut);
        job.apply((&bench.device, &bench.arena), &part, &Slice::whole(piece), |_| ()).expect("applied");
        for (found, expected) in part.snapshot().iter().zip(&expected) {
            let expected = &expected.host_visible().expect("on the host")[cut.range()];
            assert!(found.host_visible().expect("on the host") == expected, "{cut}");
        }
    }
}

#[test]
fn a_skip_is_no_update() {
    let bench = Bench::new();
    let skip = LedgerEntry { update: Update::Skip, ..entry() };
    assert!(UpdateJob::new(&skip, &OPTIMIZER, bench.table.block(BlockId(0)), Interval::new(0, 4096)).is_none());
}
