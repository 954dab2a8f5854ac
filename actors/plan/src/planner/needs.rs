//! What the seats of a stage take of their nodes, by the range of blocks: as the plan's memory model has it once the seats are on nodes.
//!
//! * PC-9 (a stage has a seat): a shape has a replica at least, and each replica a seat of every stage.

use std::cell::RefCell;
use std::ops::Range;

use shoal_config::JobSpec;

use crate::batch::micro_batch_count;
use crate::blocks::ModelTable;
use crate::memory::{NodeBytes, SeatShape, parts, seat_bytes};
use crate::planner::shares::Shares;
use crate::schedule::in_flight;

/// Bytes of seats, for layouts of so many stages and these lanes.
pub(super) struct Needs<'a> {
    spec: &'a JobSpec,
    table: &'a ModelTable,
    stages: u32,
    /// Each replica's place in `kinds`.
    replicas: Vec<usize>,
    /// Lanes and micro-batches of a replica: two kinds at most.
    kinds: Vec<(u32, u32)>,
    shares: Shares,
    /// For every range that was asked about, by its first block and its end: what seats of each kind need.
    weighed: RefCell<Vec<Vec<Option<Vec<Weighed>>>>>,
}

/// What the seats of a kind need for a range of blocks, whatever their stage.
#[derive(Clone, Copy)]
struct Weighed {
    /// All but the stash, with the fullest share of such a replica.
    fixed: u64,
    /// For each micro-batch in flight.
    stash: u64,
}

impl<'a> Needs<'a> {
    pub(super) fn new(spec: &'a JobSpec, table: &'a ModelTable, stages: usize, lanes: &[Range<u32>]) -> Self {
        let mut kinds = Vec::new();
        let replicas = lanes.iter().map(|run| {
            let kind = (run.end - run.start, micro_batch_count(spec, run.clone()));
            kinds.iter().position(|known| *known == kind).unwrap_or_else(|| {
                kinds.push(kind);
                kinds.len() - 1
            })
        });
        let (replicas, n) = (replicas.collect(), table.blocks.len());
        Self {
            spec,
            table,
            stages: stages as u32,
            replicas,
            kinds,
            shares: Shares::new(table, lanes.len(), parts(spec.parallel.virtual_replicas, lanes)),
            weighed: RefCell::new(vec![vec![None; n + 1]; n]),
        }
    }

    /// Bytes of one replica's seat, without what it owns.
    pub(super) fn seat(&self, stage: usize, blocks: &Range<u32>, replica: usize) -> NodeBytes {
        self.seat_of(stage as u32, blocks, self.kinds[self.replicas[replica]])
    }

    fn seat_of(&self, stage: u32, blocks: &Range<u32>, (lanes, micro_batches): (u32, u32)) -> NodeBytes {
        let (stages, schedule) = (self.stages, self.spec.parallel.schedule);
        let shape = SeatShape { blocks: blocks.clone(), stage, stages, lanes, micro_batches, schedule };
        seat_bytes(self.spec, self.table, &shape)
    }

    /// Micro-batches that a seat of a stage holds between forward and backward.
    fn flying(&self, stage: usize, (_, micro_batches): (u32, u32)) -> u64 {
        u64::from(in_flight(self.spec.parallel.schedule, stage as u32, self.stages, micro_batches))
    }

    /// Bytes of each replica's seat of a stage, its pieces included.
    pub(super) fn of_stage(&self, stage: usize, blocks: &Range<u32>) -> Vec<u64> {
        let seats: Vec<u64> = self.kinds.iter().map(|kind| self.seat_of(stage as u32, blocks, *kind).total()).collect();
        let shares = self.shares.of(blocks);
        self.replicas.iter().zip(shares).map(|(kind, share)| seats[*kind] + share).collect()
    }

    /// The most of that. Asked for every range of every stage, so each range is weighed once.
    pub(super) fn fullest(&self, stage: usize, blocks: Range<usize>) -> u64 {
        let mut known = self.weighed.borrow_mut();
        let weighed = known[blocks.start][blocks.end]
            .get_or_insert_with(|| self.weigh(&(blocks.start as u32..blocks.end as u32)));
        let needs = weighed.iter().zip(&self.kinds).map(|(w, kind)| w.fixed + self.flying(stage, *kind) * w.stash);
        needs.max().expect("PC-9 (a stage has a seat)")
    }

    fn weigh(&self, blocks: &Range<u32>) -> Vec<Weighed> {
        let shares = self.shares.of(blocks);
        let fullest = |kind: usize| {
            let of_kind = self.replicas.iter().zip(&shares).filter(|(is, _)| **is == kind);
            of_kind.map(|(_, share)| *share).max().unwrap_or(0)
        };
        let weigh = |(i, kind): (usize, &(u32, u32))| {
            let seat = self.seat_of(0, blocks, *kind);
            Weighed { fixed: seat.total() - seat.stash + fullest(i), stash: seat.stash / self.flying(0, *kind).max(1) }
        };
        self.kinds.iter().enumerate().map(weigh).collect()
    }

    /// No seat takes more than this, whatever its blocks: seats grow with their range, shrink with the stage, and no share of a
    /// range has more than the fullest share of every block.
    pub(super) fn bound(&self) -> u64 {
        let blocks = self.table.blocks.len() as u32;
        let fullest = |block| self.shares.of(&(block..block + 1)).into_iter().max().unwrap_or(0);
        let seats = self.kinds.iter().map(|kind| self.seat_of(0, &(0..blocks), *kind).total());
        seats.max().unwrap_or(0) + (0..blocks).map(fullest).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::memory::{owned_bytes, tied_elements};
    use crate::planner::cut::pieces;
    use crate::planner::shape::lane_runs;

    /// Every range, as the pieces that are made of it in the end have it.
    #[test]
    fn a_range_needs_what_its_pieces_take() {
        for (lanes, data, stages) in [(1, 1, 3), (8, 3, 2), (7, 5, 4), (8, 8, 1)] {
            let mut job = fixture::job();
            job.spec.parallel.virtual_replicas = lanes;
            let (table, runs) = (fixture::table(&job), lane_runs(lanes, data));
            let (needs, n) = (Needs::new(&job.spec, &table, stages, &runs), table.blocks.len());
            let parts = parts(lanes, &runs);
            for (stage, from) in (0..stages).flat_map(|stage| (0..n).map(move |from| (stage, from))) {
                for to in from + 1..=n {
                    let range = from as u32..to as u32;
                    let mut want: Vec<u64> =
                        (0..runs.len()).map(|replica| needs.seat(stage, &range, replica).total()).collect();
                    for cut in pieces(&table, std::slice::from_ref(&range), runs.len()) {
                        let state = table.state_bytes(cut.block, cut.interval);
                        let tied = tied_elements(&table, cut.block, cut.interval);
                        want[cut.share] += owned_bytes(state, cut.interval.len(), tied, parts).total();
                    }
                    assert_eq!(needs.of_stage(stage, &range), want, "{stage} of {stages}, {range:?}");
                    assert_eq!(needs.fullest(stage, from..to), want.into_iter().max().expect("a replica"));
                }
            }
        }
    }
}
