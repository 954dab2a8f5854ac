//! Something known of intervals of every block: who holds them, at which version, with what report.

use std::collections::BTreeMap;

use super::{Interval, IntervalSet};
use crate::ids::BlockId;

/// Disjoint intervals of every block, each with a value. Neighbours may have equal values: the cuts are the caller's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holdings<V> {
    blocks: BTreeMap<BlockId, BTreeMap<u64, (u64, V)>>,
}

impl<V> Default for Holdings<V> {
    fn default() -> Self {
        Self { blocks: BTreeMap::new() }
    }
}

impl<V: Clone> Holdings<V> {
    /// Nothing known.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the value of an interval. What was known of parts of it is replaced; the rest of what is cut keeps its value.
    pub fn insert(&mut self, block: BlockId, interval: Interval, value: V) {
        self.remove(block, interval);
        self.blocks.entry(block).or_default().insert(interval.start, (interval.end, value));
    }

    /// Forgets an interval; what it cuts keeps its value. Returns what was there, ascending.
    pub fn remove(&mut self, block: BlockId, interval: Interval) -> Vec<(Interval, V)> {
        let Some(map) = self.blocks.get_mut(&block) else { return Vec::new() };
        let touched: Vec<u64> = overlapping(map, interval).map(|(start, _)| *start).collect();
        let mut gone = Vec::with_capacity(touched.len());
        for start in touched {
            let Some((end, value)) = map.remove(&start) else { continue };
            if start < interval.start {
                map.insert(start, (interval.start, value.clone()));
            }
            if interval.end < end {
                map.insert(interval.end, (end, value.clone()));
            }
            gone.push((Interval::new(start.max(interval.start), end.min(interval.end)), value));
        }
        if map.is_empty() {
            self.blocks.remove(&block);
        }
        gone
    }

    /// Gives every part of an interval a new value from what is known of it, if anything.
    pub fn update(&mut self, block: BlockId, interval: Interval, value: impl Fn(Option<&V>) -> V) {
        let mut at = interval.start;
        for (part, known) in self.remove(block, interval) {
            if at < part.start {
                self.insert(block, Interval::new(at, part.start), value(None));
            }
            self.insert(block, part, value(Some(&known)));
            at = part.end;
        }
        if at < interval.end {
            self.insert(block, Interval::new(at, interval.end), value(None));
        }
    }

    /// What is known of parts of an interval, cut to it, ascending.
    pub fn within(&self, block: BlockId, interval: Interval) -> impl Iterator<Item = (Interval, &V)> {
        self.blocks.get(&block).into_iter().flat_map(move |map| overlapping(map, interval)).map(
            move |(&start, (end, value))| (Interval::new(start.max(interval.start), (*end).min(interval.end)), value),
        )
    }

    /// Everything known, by block, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (BlockId, Interval, &V)> {
        self.blocks
            .iter()
            .flat_map(|(block, map)| map.iter().map(|(start, (end, v))| (*block, Interval::new(*start, *end), v)))
    }

    /// The elements of a block of which something is known.
    #[must_use]
    pub fn extent(&self, block: BlockId) -> IntervalSet {
        self.blocks.get(&block).into_iter().flatten().map(|(start, (end, _))| Interval::new(*start, *end)).collect()
    }

    /// Elements of which something is known, in all blocks.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.iter().map(|(_, interval, _)| interval.len()).sum()
    }

    /// Whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }
}

fn overlapping<V>(map: &BTreeMap<u64, (u64, V)>, interval: Interval) -> impl Iterator<Item = (&u64, &(u64, V))> {
    let first = map.range(..=interval.start).next_back().map_or(interval.start, |(start, _)| *start);
    map.range(first..interval.end).filter(move |(_, (end, _))| *end > interval.start)
}
