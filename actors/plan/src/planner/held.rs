//! Who holds what at the version training goes on from.

use std::collections::{BTreeMap, BTreeSet};

use crate::blocks::ModelTable;
use crate::ids::{BlockId, NodeId};
use crate::layout::Plan;
use crate::space::{Interval, IntervalSet};

/// Complete state (every kind of it) by node, all at one version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    nodes: BTreeMap<NodeId, BTreeMap<BlockId, IntervalSet>>,
    /// The same as it was told: a piece that is one of these needs no new memory.
    slots: BTreeSet<(NodeId, BlockId, Interval)>,
    /// Compute weights of seats so far.
    weights: BTreeMap<(NodeId, BlockId), IntervalSet>,
}

impl Held {
    /// Nobody holds anything: training starts from the seed.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// A node holds an interval.
    pub fn insert(&mut self, node: NodeId, block: BlockId, interval: Interval) {
        self.slots.insert((node, block, interval));
        self.nodes.entry(node).or_default().entry(block).or_default().insert(interval);
    }

    /// The seats of the plan so far: who has one is preferred for it, as its compute weights are there.
    pub fn insert_seats(&mut self, plan: &Plan, table: &ModelTable) {
        for stage in &plan.stages {
            for (block, interval) in table.weights_needed_by(stage.blocks.clone()) {
                for node in &stage.seats {
                    self.weights.entry((*node, block)).or_default().insert(interval);
                }
            }
        }
    }

    /// Whether a node has all of these compute weights from a seat.
    #[must_use]
    pub(super) fn has_weights(&self, node: NodeId, needed: &[(BlockId, Interval)]) -> bool {
        let has = |&(block, interval): &(BlockId, Interval)| {
            self.weights.get(&(node, block)).is_some_and(|set| set.contains(interval))
        };
        needed.iter().all(has)
    }

    /// Whether nobody holds anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// What a node holds of a block.
    #[must_use]
    pub fn of(&self, node: NodeId, block: BlockId) -> Option<&IntervalSet> {
        self.nodes.get(&node)?.get(&block)
    }

    /// Bytes of a piece for which a node would need new memory.
    #[must_use]
    pub(super) fn new_room(&self, table: &ModelTable, node: NodeId, block: BlockId, interval: Interval) -> u64 {
        if self.slots.contains(&(node, block, interval)) { 0 } else { table.state_bytes(block, interval) }
    }

    /// Bytes of state a node holds, of all blocks.
    #[must_use]
    pub fn bytes(&self, table: &ModelTable, node: NodeId) -> u64 {
        let blocks = self.nodes.get(&node).into_iter().flatten();
        blocks.map(|(block, set)| table.state_bytes_of(*block, set)).sum()
    }

    /// Bytes of state of an interval that a node would have to be sent; none if training starts from the seed.
    #[must_use]
    pub(super) fn missing_bytes(&self, table: &ModelTable, node: NodeId, block: BlockId, interval: Interval) -> u64 {
        if self.is_empty() {
            return 0;
        }
        let missing = match self.of(node, block) {
            Some(set) => set.missing_from(interval),
            None => IntervalSet::from(interval),
        };
        table.state_bytes_of(block, &missing)
    }

    /// Whether a node holds all of an interval.
    #[must_use]
    pub fn has(&self, node: NodeId, block: BlockId, interval: Interval) -> bool {
        self.of(node, block).is_some_and(|set| set.contains(interval))
    }

    /// Elements of an interval that a node would have to be sent; none if training starts from the seed.
    #[must_use]
    pub fn missing(&self, node: NodeId, block: BlockId, interval: Interval) -> u64 {
        if self.is_empty() {
            return 0;
        }
        interval.len() - self.of(node, block).map_or(0, |set| set.count_in(interval))
    }

    /// Every node with what it holds of a block.
    pub fn holders(&self, block: BlockId) -> impl Iterator<Item = (NodeId, &IntervalSet)> {
        self.nodes.iter().filter_map(move |(node, blocks)| Some((*node, blocks.get(&block)?)))
    }

    /// The first block of which no node in `members` holds some element, with these elements; none if training starts
    /// from the seed.
    #[must_use]
    pub fn lost<V>(&self, table: &ModelTable, members: &BTreeMap<NodeId, V>) -> Option<(BlockId, IntervalSet)> {
        if self.is_empty() {
            return None;
        }
        table.blocks.iter().find_map(|block| {
            let whole = Interval::new(0, block.len);
            let mut left = IntervalSet::from(whole);
            for (_, set) in self.holders(block.id).filter(|(node, _)| members.contains_key(node)) {
                if set.contains(whole) {
                    return None;
                }
                left = left.difference(set);
            }
            (!left.is_empty()).then_some((block.id, left))
        })
    }
}
