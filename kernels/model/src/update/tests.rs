use shoal_kernels::{Arena, Buffer, Tag};
use shoal_plan::ids::Digest;
use shoal_plan::job::Job;

use super::*;
use crate::testing::{device, job, optimizers, with_data};

/// The state of some weights of block 1.
struct Held {
    kinds: Vec<(Kind, Buffer)>,
}

impl Held {
    /// And a gradient for them; the same values wherever they are cut.
    fn of(arena: &Arena, table: &ModelTable, interval: Interval) -> (Self, Buffer) {
        let fill = |part: Interval, salt: u64, positive: bool| {
            let mut buffer = arena.alloc(Tag::Moment, part.len() as usize).expect("room");
            for (x, at) in buffer.host_visible_mut().expect("a processor").iter_mut().zip(part.range()) {
                let value = ((at as u64 * 37 + salt * 11) % 101) as f32 / 64.0 - 50.0 / 64.0;
                *x = if positive { value.abs() + 0.01 } else { value };
            }
            buffer
        };
        let kind = |&kind: &Kind| {
            let positive = matches!(kind, Kind::Moment2 | Kind::Factors);
            Some((kind, fill(table.part(kind, BlockId(1), interval)?, kind as u64, positive)))
        };
        (Self { kinds: table.kinds().iter().filter_map(kind).collect() }, fill(interval, 9, false))
    }

    fn state(&mut self) -> State<'_> {
        let mut kinds = self.kinds.iter_mut();
        let (_, weight) = kinds.next().expect("weights");
        kinds.fold(State::new(weight.view_mut()), |state, (kind, buffer)| state.with(*kind, buffer.view_mut()))
    }

    fn update(&mut self, device: &Device, gradient: &Buffer, strokes: &Strokes) {
        let mut measured = Measured::default();
        for at in 0..strokes.count() {
            measured = strokes.carry_out(device, at, self.state(), gradient.view(), measured);
        }
    }

    fn bits(&self, kind: Kind) -> Vec<u32> {
        let (_, buffer) = self.kinds.iter().find(|(k, _)| *k == kind).expect("kept");
        buffer.host_visible().expect("a processor").iter().map(|x| x.to_bits()).collect()
    }
}

fn entry(job: &Job) -> LedgerEntry {
    use shoal_exact::ExactSum;
    use shoal_plan::commit::{StepReport, entry};
    use shoal_plan::ledger::{Head, Version};
    use shoal_plan::protocol::{LossSum, Norm};
    let sum = |x| Norm::Finite(ExactSum::of(x));
    let report = StepReport { norm: sum(4.0), loss: LossSum { loss: sum(8.0), tokens: 128 } };
    entry(job, &Head { version: Version { step: 2, chain: Digest::default() }, time: 2, loss_scale: None }, &report)
}

/// Cut at any edge there may be, in strokes of any length, on any number of threads: the same bits.
#[test]
fn no_cut_shows() {
    for (name, optimizer) in optimizers() {
        let mut spec = job(1, 2, 32, 16, 65, 0.0);
        spec.train.optimizer = optimizer;
        let job = with_data(spec);
        let table = Arc::new(ModelTable::of_job(&job.spec));
        let (optimizer, entry) = (Optimizer::of(&job.spec, Arc::clone(&table)), entry(&job));
        let block = &table.blocks[1];
        let whole = Interval::new(0, block.len);
        let (one, arena) = device(1);
        let (mut undivided, gradient) = Held::of(&arena, &table, whole);
        let before: Vec<_> = table.kinds().iter().map(|&kind| undivided.bits(kind)).collect();
        undivided.update(&one, &gradient, &optimizer.update(&entry, block.id, whole, usize::MAX).expect("not a skip"));
        for (&kind, before) in table.kinds().iter().zip(before) {
            assert_ne!(undivided.bits(kind), before, "{name} does not change {kind}");
        }

        let (three, arena) = device(3);
        let edges: Vec<u64> = (1..5).map(|i| table.nearest_edge(block, block.len * i / 5)).collect();
        for part in shoal_plan::space::IntervalSet::from(whole).split_at(&edges) {
            for most in [1, 100, 5000] {
                let (mut held, gradient) = Held::of(&arena, &table, part);
                held.update(&three, &gradient, &optimizer.update(&entry, block.id, part, most).expect("not a skip"));
                for &kind in table.kinds() {
                    let Some(elements) = table.part(kind, block.id, part) else { continue };
                    let same = held.bits(kind) == undivided.bits(kind)[elements.range()];
                    assert!(same, "{name}, {kind} of {part} in strokes of {most}");
                }
            }
        }
    }
}
