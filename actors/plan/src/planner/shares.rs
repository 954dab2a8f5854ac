//! What each replica's share of a range of blocks owns, as [`pieces`](super::cut::pieces) divides it, for every range of a model.
//!
//! Large blocks are divided one by one, so ranges of them are differences of prefix sums; small ones go where there is least.

use std::ops::Range;

use crate::blocks::{BlockTable, ModelTable};
use crate::memory::{owned_bytes, tied_elements};
use crate::planner::cut::{is_small, least_loaded, parts_of};
use crate::space::Interval;

/// Shares of so many replicas.
pub(super) struct Shares {
    /// Of the large blocks before each block, and of all: what every share has of them.
    before: Vec<Vec<Owned>>,
    small: Vec<(u32, Owned)>,
}

/// Elements, and the bytes that they take of their owner.
#[derive(Clone, Copy, Default)]
struct Owned {
    elements: u64,
    bytes: u64,
}

impl Owned {
    fn of(table: &ModelTable, block: &BlockTable, interval: Interval, parts: u64) -> Self {
        let state = table.state_bytes(block.id, interval);
        let tied = tied_elements(table, block.id, interval);
        Self { elements: interval.len(), bytes: owned_bytes(state, interval.len(), tied, parts).total() }
    }

    fn add(&mut self, other: Self) {
        self.elements += other.elements;
        self.bytes += other.bytes;
    }
}

impl Shares {
    /// Of `replicas`; `parts` subtree sums reach an owner for each contribution.
    pub(super) fn new(table: &ModelTable, replicas: usize, parts: u64) -> Self {
        let mut sums = vec![Owned::default(); replicas];
        let (mut before, mut small) = (vec![sums.clone()], Vec::new());
        for block in &table.blocks {
            if is_small(block, replicas) {
                small.push((block.id.0, Owned::of(table, block, Interval::new(0, block.len), parts)));
            } else {
                for (share, interval) in parts_of(table, block, replicas) {
                    sums[share].add(Owned::of(table, block, interval, parts));
                }
            }
            before.push(sums.clone());
        }
        Self { before, small }
    }

    /// Bytes that each share of a range owns.
    pub(super) fn of(&self, blocks: &Range<u32>) -> Vec<u64> {
        let [from, to] = [blocks.start, blocks.end].map(|block| &self.before[block as usize]);
        let mut load: Vec<u64> = to.iter().zip(from).map(|(to, from)| to.elements - from.elements).collect();
        let mut bytes: Vec<u64> = to.iter().zip(from).map(|(to, from)| to.bytes - from.bytes).collect();
        for (_, owned) in self.small.iter().filter(|(block, _)| blocks.contains(block)) {
            let share = least_loaded(&load);
            load[share] += owned.elements;
            bytes[share] += owned.bytes;
        }
        bytes
    }
}
