//! The parts of the planner against brute force.

use proptest::prelude::*;
use shoal_config::spec::Schedule;

use super::*;
use crate::digest::SEGMENT;
use crate::lanes::subtrees;
use crate::planner::cut::pieces;
use crate::planner::place::{assign, seats};
use crate::planner::shape::{Layout, TIE, choose, lane_runs, lay_out, predict};

/// The least sum over all ways to give each row a column of its own.
fn least(cost: &[Vec<i64>], taken: &mut Vec<usize>) -> i64 {
    let row = taken.len();
    if row == cost.len() {
        return 0;
    }
    let mut best = i64::MAX;
    for column in 0..cost[row].len() {
        if !taken.contains(&column) {
            taken.push(column);
            best = best.min(cost[row][column] + least(cost, taken));
            taken.pop();
        }
    }
    best
}

/// Fewest subtrees over all ways to make `longer` of the replicas one lane longer.
fn fewest(lanes: u32, lengths: &mut Vec<u32>, replicas: usize, longer: usize) -> usize {
    if lengths.len() == replicas {
        let mut start = 0;
        return lengths
            .iter()
            .map(|len| {
                start += len;
                subtrees(lanes, start - len..start).len()
            })
            .sum();
    }
    let short = lanes / replicas as u32;
    let mut best = usize::MAX;
    if longer > 0 {
        lengths.push(short + 1);
        best = fewest(lanes, lengths, replicas, longer - 1);
        lengths.pop();
    }
    if replicas - lengths.len() > longer {
        lengths.push(short);
        best = best.min(fewest(lanes, lengths, replicas, longer));
        lengths.pop();
    }
    best
}

proptest! {
    #[test]
    fn assignment_equals_brute_force(
        rows in 1usize..=5, extra in 0usize..=2, numbers in prop::collection::vec(0i64..50, 35),
    ) {
        let columns = rows + extra;
        let cost: Vec<Vec<i64>> = numbers.chunks(columns).take(rows).map(<[i64]>::to_vec).collect();
        let chosen = assign(&cost);
        let mut distinct = chosen.clone();
        distinct.sort_unstable();
        distinct.dedup();
        prop_assert_eq!(distinct.len(), rows);
        let sum: i64 = chosen.iter().enumerate().map(|(row, &column)| cost[row][column]).sum();
        prop_assert_eq!(sum, least(&cost, &mut Vec::new()));
    }

    #[test]
    fn lane_runs_are_even_and_aligned(lanes in 1u32..=24, replicas in 1u32..=8) {
        prop_assume!(replicas <= lanes);
        let runs = lane_runs(lanes, replicas);
        prop_assert_eq!(runs.len() as u32, replicas);
        let mut at = 0;
        for run in &runs {
            prop_assert_eq!(run.start, at);
            at = run.end;
            prop_assert!(run.end - run.start >= lanes / replicas && run.end - run.start <= lanes.div_ceil(replicas));
        }
        prop_assert_eq!(at, lanes);
        let sum: usize = runs.into_iter().map(|run| subtrees(lanes, run).len()).sum();
        let longer = (lanes % replicas) as usize;
        prop_assert_eq!(sum, fewest(lanes, &mut Vec::new(), replicas as usize, longer));
    }

    /// No possible layout is faster than the chosen one by more than a tie, and among ties none is nearer to what was
    /// asked for, and among these none moves less.
    #[test]
    fn the_chosen_layout_is_beaten_by_none(
        nodes in 1u64..=7, lanes in 2u32..=8, gpipe: bool, width in 1u32..=6, before in 0u64..=7,
    ) {
        let mut job = fixture::job();
        job.spec.parallel.virtual_replicas = lanes;
        job.spec.parallel.pipeline = Auto::Set(3);
        job.spec.parallel.data = Auto::Set(3);
        job.spec.parallel.schedule = if gpipe { Schedule::GPipe } else { Schedule::OneFOneB };
        job.spec.train.global_batch = 8;
        let model = job.spec.model.as_gpt2_mut().expect("a GPT-2");
        model.width = 64 * width;
        let table = fixture::table(&job);
        let held = match before {
            0 => Held::none(),
            n => held_by(&make_plan(&job, &table, &fixture::members(1..=n), &BTreeSet::new(), &Held::none()).expect("fits").plan, &[]),
        };
        let members = fixture::members(1..=nodes.max(before));
        let nodes: Vec<(NodeId, &Offer)> = members.iter().map(|(node, offer)| (*node, offer)).collect();
        let layouts: Vec<_> = (1..=6usize)
            .flat_map(|p| (1..=lanes as usize).map(move |d| (p, d)))
            .filter(|(p, d)| p * d <= nodes.len())
            .map(|shape| lay_out(&job, &table, &nodes, shape).ok().expect("fits"))
            .collect();
        let time = |layout: &Layout| predict(&job, &table, layout, &nodes);
        let least = layouts.iter().map(time).min().expect("one");
        let tied = |layout: &&Layout| time(layout) <= least + least / TIE;
        let rank = |layout: &Layout| {
            let far = layout.stages.len().abs_diff(3) + layout.lanes.len().abs_diff(3);
            (far, seats(&table, layout, &nodes, &held).bytes)
        };
        let best = layouts.iter().filter(tied).map(rank).min();
        let chosen = choose((&job, &job.spec.parallel), &table, &nodes, &held).expect("fits");
        prop_assert!(tied(&&chosen));
        prop_assert_eq!(Some(rank(&chosen)), best);
    }

    /// Shares of a stage differ by less than the segments that cannot be cut.
    #[test]
    fn shares_are_even(replicas in 1usize..=6, cut in 1u32..6) {
        let table = fixture::table(&fixture::job());
        let stages = [0..cut, cut..6];
        let cuts = pieces(&table, &stages, replicas);
        for (stage, blocks) in stages.iter().enumerate() {
            let mut load = vec![0u64; replicas];
            for cut in cuts.iter().filter(|cut| cut.stage == stage) {
                load[cut.share] += cut.interval.len();
                let block = table.block(cut.block);
                for edge in [cut.interval.start, cut.interval.end] {
                    prop_assert_eq!(table.nearest_edge(block, edge), edge);
                }
            }
            let whole: u64 = table.blocks[blocks.start as usize..blocks.end as usize].iter().map(|b| b.len).sum();
            prop_assert_eq!(load.iter().sum::<u64>(), whole);
            // A small block that stays whole, and half a segment either side of each cut.
            let slack = SEGMENT * u64::from(blocks.end - blocks.start) + 128;
            for share in load {
                prop_assert!(share.abs_diff(whole / replicas as u64) <= slack, "{share} of {whole}");
            }
        }
    }
}
