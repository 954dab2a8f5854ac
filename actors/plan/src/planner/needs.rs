//! What the seats of a stage take of their nodes, by the range of blocks: as the plan's memory model has it once the seats are on nodes.
//!
//! * PC-9 (a stage has a seat): a shape has a replica at least, and each replica a seat of every stage.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

use shoal_config::JobSpec;

use crate::batch::micro_batch_count;
use crate::blocks::ModelTable;
use crate::memory::{NodeBytes, SeatShape, owned_bytes, parts, seat_bytes, tied_elements};
use crate::planner::cut::pieces;

/// Bytes of seats, for layouts of so many stages and these lanes.
pub(super) struct Needs<'a> {
    spec: &'a JobSpec,
    table: &'a ModelTable,
    stages: u32,
    /// Lanes and micro-batches of each replica.
    replicas: Vec<(u32, u32)>,
    parts: u64,
    /// What each replica's share of a range owns, for every range that was asked about.
    shares: RefCell<BTreeMap<(u32, u32), Vec<u64>>>,
}

impl<'a> Needs<'a> {
    pub(super) fn new(spec: &'a JobSpec, table: &'a ModelTable, stages: usize, lanes: &[Range<u32>]) -> Self {
        let replicas = lanes.iter().map(|run| (run.end - run.start, micro_batch_count(spec, run.clone())));
        Self {
            spec,
            table,
            stages: stages as u32,
            replicas: replicas.collect(),
            parts: parts(spec.parallel.virtual_replicas, lanes),
            shares: RefCell::default(),
        }
    }

    /// Bytes of one replica's seat, without what it owns.
    pub(super) fn seat(&self, stage: usize, blocks: &Range<u32>, replica: usize) -> NodeBytes {
        self.seat_of(stage, blocks, self.replicas[replica])
    }

    fn seat_of(&self, stage: usize, blocks: &Range<u32>, (lanes, micro_batches): (u32, u32)) -> NodeBytes {
        let (stage, stages, schedule) = (stage as u32, self.stages, self.spec.parallel.schedule);
        let shape = SeatShape { blocks: blocks.clone(), stage, stages, lanes, micro_batches, schedule };
        seat_bytes(self.spec, self.table, &shape)
    }

    /// Bytes of each replica's seat of a stage, its pieces included.
    pub(super) fn of_stage(&self, stage: usize, blocks: &Range<u32>) -> Vec<u64> {
        let mut needs = self.shares(blocks);
        // Most replicas are alike.
        let mut seats: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        for (need, alike) in needs.iter_mut().zip(&self.replicas) {
            *need += *seats.entry(*alike).or_insert_with(|| self.seat_of(stage, blocks, *alike).total());
        }
        needs
    }

    /// The most of that.
    pub(super) fn fullest(&self, stage: usize, blocks: Range<usize>) -> u64 {
        let needs = self.of_stage(stage, &(blocks.start as u32..blocks.end as u32));
        needs.into_iter().max().expect("PC-9 (a stage has a seat)")
    }

    /// No seat takes more than this, whatever its blocks: seats grow with their range, shrink with the stage, and no share of a
    /// range has more than the fullest share of every block.
    pub(super) fn bound(&self) -> u64 {
        let blocks = self.table.blocks.len() as u32;
        let fullest = |block| self.shares(&(block..block + 1)).into_iter().max().unwrap_or(0);
        let seats = self.replicas.iter().map(|replica| self.seat_of(0, &(0..blocks), *replica).total());
        seats.max().unwrap_or(0) + (0..blocks).map(fullest).sum::<u64>()
    }

    fn shares(&self, blocks: &Range<u32>) -> Vec<u64> {
        let mut known = self.shares.borrow_mut();
        let shares = known.entry((blocks.start, blocks.end)).or_insert_with(|| {
            let mut shares = vec![0; self.replicas.len()];
            for cut in pieces(self.table, std::slice::from_ref(blocks), self.replicas.len()) {
                let state = self.table.state_bytes(cut.block, cut.interval);
                let tied = tied_elements(self.table, cut.block, cut.interval);
                shares[cut.share] += owned_bytes(state, cut.interval.len(), tied, self.parts).total();
            }
            shares
        });
        shares.clone()
    }
}
