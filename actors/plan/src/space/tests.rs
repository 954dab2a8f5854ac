//! The algebra against plain sets of elements.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::blocks::ModelTable;
use crate::fixture;
use crate::planner::Held;

const END: u64 = 60;

fn interval() -> impl Strategy<Value = Interval> {
    (0..END, 1..20u64).prop_map(|(start, len)| Interval::new(start, (start + len).min(END + 1)))
}

fn intervals() -> impl Strategy<Value = Vec<Interval>> {
    prop::collection::vec(interval(), 0..8)
}

fn elements(intervals: &[Interval]) -> BTreeSet<u64> {
    intervals.iter().flat_map(|i| i.start..i.end).collect()
}

/// Equal to the plain set, and in the one form that equal sets share.
fn same(set: &IntervalSet, plain: &BTreeSet<u64>) {
    assert_eq!(&elements(set.runs()), plain);
    assert_eq!(set.len(), plain.len() as u64);
    assert_eq!(set.is_empty(), plain.is_empty());
    for pair in set.runs().windows(2) {
        assert!(pair[0].end < pair[1].start, "runs touch: {set}");
    }
}

proptest! {
    #[test]
    fn sets_behave_like_sets(a in intervals(), b in intervals(), i in interval()) {
        let (x, y): (IntervalSet, IntervalSet) = (a.iter().copied().collect(), b.iter().copied().collect());
        let (p, q, r) = (elements(&a), elements(&b), elements(&[i]));
        same(&x, &p);
        same(&x.union(&y), &(&p | &q));
        same(&x.intersection(&y), &(&p & &q));
        same(&x.difference(&y), &(&p - &q));
        same(&x.within(i), &(&p & &r));
        same(&x.missing_from(i), &(&r - &p));
        prop_assert_eq!(x.count_in(i), (&p & &r).len() as u64);
        prop_assert_eq!(x.contains(i), r.is_subset(&p));
        let mut z = x.clone();
        z.insert(i);
        same(&z, &(&p | &r));
        z.remove(i);
        same(&z, &(&p - &r));
    }

    /// Whatever a set is cut into, the parts are disjoint, cut at every edge, and make up the set.
    #[test]
    fn cutting_partitions(a in intervals(), edges in prop::collection::btree_set(0..END, 0..9)) {
        let set: IntervalSet = a.into_iter().collect();
        let edges: Vec<u64> = edges.into_iter().collect();
        let parts = set.split_at(&edges);
        prop_assert_eq!(parts.iter().map(|p| p.len()).sum::<u64>(), set.len());
        for part in &parts {
            prop_assert!(!edges.iter().any(|&edge| part.start < edge && edge < part.end));
        }
        prop_assert_eq!(parts.into_iter().collect::<IntervalSet>(), set);
    }

    /// The same cut of two sets and of their union: a partition of the space loses and doubles nothing.
    #[test]
    fn intersection_distributes_over_a_partition(a in intervals(), cut in 1..END) {
        let set: IntervalSet = a.into_iter().collect();
        let (left, right) = (set.within(Interval::new(0, cut)), set.within(Interval::new(cut, END + 1)));
        prop_assert!(left.intersection(&right).is_empty());
        prop_assert_eq!(left.union(&right), set);
    }

    #[test]
    fn holdings_behave_like_a_map(
        steps in prop::collection::vec((interval(), prop::option::of(0u8..4)), 0..12),
        look in interval(), more in interval(),
    ) {
        let (block, other) = (BlockId(1), BlockId(2));
        let mut holdings: Holdings<u8> = Holdings::new();
        let mut plain = vec![None; END as usize + 1];
        for (interval, value) in steps {
            let was: Vec<_> = plain[interval.range()].to_vec();
            match value {
                Some(value) => holdings.insert(block, interval, value),
                None => {
                    let gone = holdings.remove(block, interval);
                    let known = was.iter().flatten().count() as u64;
                    prop_assert_eq!(gone.iter().map(|(i, _)| i.len()).sum::<u64>(), known);
                    for (part, value) in gone {
                        prop_assert!(plain[part.range()].iter().all(|v| *v == Some(value)));
                    }
                }
            }
            plain[interval.range()].fill(value);
        }
        let next = |known: Option<&u8>| known.map_or(100, |value| value + 10);
        holdings.update(block, more, next);
        for value in &mut plain[more.range()] {
            *value = Some(next(value.as_ref()));
        }
        let mut seen = vec![None; END as usize + 1];
        for (_, interval, value) in holdings.iter() {
            prop_assert!(seen[interval.range()].iter().all(Option::is_none), "an element twice");
            seen[interval.range()].fill(Some(*value));
        }
        prop_assert_eq!(&seen, &plain);
        let mut part = vec![None; END as usize + 1];
        for (interval, value) in holdings.within(block, look) {
            part[interval.range()].fill(Some(*value));
        }
        prop_assert_eq!(&part[look.range()], &plain[look.range()]);
        prop_assert_eq!(holdings.len(), plain.iter().flatten().count() as u64);
        prop_assert_eq!(holdings.extent(block).len(), holdings.len());
        prop_assert_eq!(holdings.within(other, look).count(), 0);
        prop_assert_eq!(holdings.is_empty(), plain.iter().all(Option::is_none));
    }

    /// A move changes who holds an interval, never what is held.
    #[test]
    fn moving_keeps_everything(cuts in prop::collection::btree_set(1..END, 0..6), moved in interval(), to in 0u64..3) {
        let (block, whole) = (BlockId(0), Interval::new(0, END + 1));
        let mut owner: Holdings<u64> = Holdings::new();
        let edges: Vec<u64> = cuts.into_iter().collect();
        for (i, part) in IntervalSet::from(whole).split_at(&edges).into_iter().enumerate() {
            owner.insert(block, part, i as u64 % 3);
        }
        owner.insert(block, moved, to);
        prop_assert_eq!(owner.extent(block), IntervalSet::from(whole));
        let mut held = Held::none();
        for (block, interval, node) in owner.iter() {
            held.insert(crate::ids::NodeId(*node), block, interval);
        }
        prop_assert!(held.has(crate::ids::NodeId(to), block, moved));
        let all: u64 = held.holders(block).map(|(_, set)| set.len()).sum();
        prop_assert_eq!(all, whole.len());
    }
}

/// Element indices of rank `t` of `ways` along the first dimension.
fn slice(param: &crate::blocks::Param, ways: u64, t: u64) -> IntervalSet {
    let rows = param.shape[0] / ways;
    let row = param.interval.len() / param.shape[0];
    (t * rows..(t + 1) * rows)
        .map(|r| Interval::new(param.interval.start + r * row, param.interval.start + (r + 1) * row))
        .collect()
}

/// Parameters are stored with their tensor-parallel dimension major: a rank's slice is one run, and the ranks' slices
/// partition the parameter.
#[test]
fn tensor_slices_are_single_runs() {
    let table = ModelTable::of_job(&fixture::job().spec);
    for ways in [1, 2, 4] {
        for param in table.blocks.iter().flat_map(|block| &block.params) {
            let slices: Vec<IntervalSet> = (0..ways).map(|t| slice(param, ways, t)).collect();
            assert!(slices.iter().all(|s| s.runs().len() == 1), "{} in {ways} slices", param.name);
            assert_eq!(slices.iter().map(IntervalSet::len).sum::<u64>(), param.interval.len());
            let union = slices.iter().fold(IntervalSet::EMPTY, |all, s| all.union(s));
            assert_eq!(union, IntervalSet::from(param.interval));
        }
    }
}

#[test]
fn an_empty_interval_is_refused() {
    assert!(std::panic::catch_unwind(|| Interval::new(3, 3)).is_err());
}
