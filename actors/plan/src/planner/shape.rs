//! How many stages and replicas, which blocks and lanes each, and which seats share a node.

use std::ops::Range;

use shoal_config::spec::{Auto, ParallelSpec};

use crate::blocks::ModelTable;
use crate::cost::{block_costs, boundary_elements};
use crate::draw;
use crate::engine::Offer;
use crate::ids::NodeId;
use crate::job::Job;
use crate::lanes::subtrees;
use crate::partition::{leanest, partition};
use crate::planner::cut::{Cut, pieces};
use crate::planner::needs::Needs;
use crate::planner::{Held, NoPlan, place};
use crate::predict::Form;

/// Layouts predicted within this share of the fastest count as equally fast.
pub(super) const TIE: u64 = 32;

/// Why a layout, when the planner has the choice.
const FASTEST: &str = "as the fastest that fits";

/// A layout that is not on nodes yet.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) stages: Vec<Range<u32>>,
    pub(super) lanes: Vec<Range<u32>>,
    pub(super) cuts: Vec<Cut>,
    /// Seats (stage, replica) that share a node.
    pub(super) groups: Vec<Vec<(usize, usize)>>,
    /// Bytes of each group, its owned pieces included.
    pub(super) needs: Vec<u64>,
    /// Bytes of each group's compute weights.
    pub(super) weights: Vec<u64>,
    /// Why this shape, for people.
    pub(super) why: String,
}

impl Layout {
    /// The group of a seat.
    pub(super) fn group_of(&self, stage: usize, replica: usize) -> usize {
        let found = self.groups.iter().position(|group| group.contains(&(stage, replica)));
        found.expect("PC-3 (every seat is in a group)")
    }
}

/// A shape that is too large for the nodes.
pub(super) struct TooLarge {
    shape: (usize, usize),
    /// Of each layout of it that was tried: bytes that it takes where most is missing, and what there is.
    tried: Vec<(u64, u64)>,
    /// Budget of the smallest of the nodes that it takes, if there is a node for each seat: some layout may take less than those tried.
    cap: Option<u64>,
}

impl TooLarge {
    /// What the leanest layout of the shape takes where most is missing, and what there is: if every node had so much more, it
    /// would be accepted; with less it would not. Long work, for when no shape is accepted.
    fn leanest(&self, job: &Job, table: &ModelTable) -> (u64, u64) {
        #[cfg(test)]
        tests::LOOKED_FOR_THE_LEANEST.set(tests::LOOKED_FOR_THE_LEANEST.get() + 1);
        let (stages, replicas) = self.shape;
        let of_all = self.cap.map(|cap| {
            let lanes = lane_runs(job.spec.parallel.virtual_replicas, replicas as u32);
            let needs = Needs::new(&job.spec, table, stages, &lanes);
            let needed = leanest(table.blocks.len(), stages, |stage, range| needs.fullest(stage, range));
            (needed.expect("PC-6 (there are no more stages than blocks)"), cap)
        });
        let known = self.tried.iter().copied().chain(of_all);
        known.min_by_key(|(needed, budget)| needed - budget).expect("PC-7 (two orders were tried)")
    }
}

/// Chooses the layout: what is asked for by the job, or by the wishes put in their place, if the nodes suffice, else the fastest
/// that fits.
pub(super) fn choose(
    (job, parallel): (&Job, &ParallelSpec),
    table: &ModelTable,
    nodes: &[(NodeId, &Offer)],
    held: &Held,
) -> Result<Layout, NoPlan> {
    let (blocks, lanes, n) = (table.blocks.len(), parallel.virtual_replicas as usize, nodes.len());
    let asked = asked(parallel, blocks, lanes, n);
    let enough = |shape: &(usize, usize)| shape.0 * shape.1 <= n;
    let mut too_large = Vec::new();
    let mut fitting = |shapes: &mut dyn Iterator<Item = (usize, usize)>| -> Vec<Layout> {
        shapes.filter_map(|shape| lay_out(job, table, nodes, shape).map_err(|e| too_large.push(e)).ok()).collect()
    };
    let mut layouts = fitting(&mut asked.iter().copied().filter(enough));
    let mut why = match (parallel.pipeline, parallel.data) {
        (Auto::Set(_), Auto::Set(_)) => "as asked".to_owned(),
        (Auto::Auto, Auto::Auto) => FASTEST.to_owned(),
        (Auto::Auto, Auto::Set(_)) | (Auto::Set(_), Auto::Auto) => format!("{FASTEST} {}", draw::asked(parallel)),
    };
    if layouts.is_empty() && parallel.fixed {
        layouts = fitting(&mut asked.iter().copied().filter(|shape| !enough(shape)));
        why.push_str(", stages sharing nodes");
        if asked.is_empty() {
            let lanes = parallel.virtual_replicas;
            return Err(NoPlan::Impossible { asked: draw::asked(parallel), blocks, lanes });
        }
    } else if layouts.is_empty() {
        let all = (1..=blocks.min(n)).flat_map(|p| (1..=lanes.min(n / p)).map(move |d| (p, d)));
        layouts = fitting(&mut all.filter(|shape| !asked.contains(shape)));
        why = format!("instead of {}, {FASTEST}", draw::asked(parallel));
    }
    if layouts.is_empty() {
        let each = too_large.into_iter().map(|refused| (refused.leanest(job, table), refused.shape));
        let leanest = each.min_by_key(|((needed, budget), shape)| (needed - budget, *shape));
        let ((needed, budget), (p, d)) = leanest.expect("PC-4 (one stage and one replica can always be tried)");
        return Err(NoPlan::Memory {
            asked: draw::asked(parallel),
            nodes: n,
            leanest: draw::shape(p, d),
            needed,
            budget,
        });
    }
    Ok(Layout { why, ..fastest((job, parallel), table, nodes, held, layouts) })
}

/// Shapes (stages, replicas) that the job file names, as far as they can exist.
fn asked(parallel: &ParallelSpec, blocks: usize, lanes: usize, nodes: usize) -> Vec<(usize, usize)> {
    let values = |wish: Auto<u32>, most: usize| match wish {
        Auto::Set(value) => (1..=most).contains(&(value as usize)).then(|| value as usize..value as usize + 1),
        Auto::Auto => Some(1..most.min(nodes) + 1),
    };
    let (Some(stages), Some(replicas)) = (values(parallel.pipeline, blocks), values(parallel.data, lanes)) else {
        return Vec::new();
    };
    stages.flat_map(|p| replicas.clone().map(move |d| (p, d))).collect()
}

/// The fastest of several layouts; among about equally fast ones the nearest to what is asked for, then the one that
/// moves least.
fn fastest(
    (job, parallel): (&Job, &ParallelSpec),
    table: &ModelTable,
    nodes: &[(NodeId, &Offer)],
    held: &Held,
    mut layouts: Vec<Layout>,
) -> Layout {
    if layouts.len() > 1 {
        let times: Vec<u64> = layouts.iter().map(|layout| predict(job, table, layout, nodes)).collect();
        let least = times.iter().copied().min().unwrap_or(0);
        let mut times = times.into_iter();
        layouts.retain(|_| times.next().is_some_and(|time| time <= least + least / TIE));
    }
    let far = |wish: Auto<u32>, is: usize| match wish {
        Auto::Set(value) => is.abs_diff(value as usize),
        Auto::Auto => 0,
    };
    let distance = |l: &Layout| far(parallel.pipeline, l.stages.len()) + far(parallel.data, l.lanes.len());
    let nearest = layouts.iter().map(distance).min().unwrap_or(0);
    layouts.retain(|layout| distance(layout) == nearest);
    if layouts.len() == 1 {
        return layouts.swap_remove(0);
    }
    let best = layouts.into_iter().min_by_key(|layout| place::seats(table, layout, nodes, held).bytes);
    best.expect("PC-5 (one of several is best)")
}

/// Nanoseconds of a step.
pub(super) fn predict(job: &Job, table: &ModelTable, layout: &Layout, nodes: &[(NodeId, &Offer)]) -> u64 {
    let shadows = u64::from(job.spec.elastic.redundancy).min(nodes.len() as u64 - 1);
    predict_with(shadows, job, table, layout, nodes)
}

/// Nanoseconds of a step with so many shadows of each piece.
pub(super) fn predict_with(
    shadows: u64,
    job: &Job,
    table: &ModelTable,
    layout: &Layout,
    nodes: &[(NodeId, &Offer)],
) -> u64 {
    let form = Form {
        spec: &job.spec,
        table,
        stages: &layout.stages,
        lanes: &layout.lanes,
        shadows,
        arithmetic: nodes[0].1.arithmetic,
        threads: nodes.iter().map(|(_, offer)| offer.threads).min().unwrap_or(1),
    };
    let alone = layout.groups.iter().all(|group| group.len() == 1);
    let prediction = if alone {
        // Replicas that share no device do not wait for each other.
        form.predict(|stage, _| stage, Some(form.slowest()))
    } else {
        form.predict(|stage, replica| layout.group_of(stage, replica), None)
    };
    prediction.step()
}

/// The layout of one shape: the best partition that fits, lanes, pieces, and which seats share a node.
pub(super) fn lay_out(
    job: &Job,
    table: &ModelTable,
    nodes: &[(NodeId, &Offer)],
    shape: (usize, usize),
) -> Result<Layout, TooLarge> {
    let (spec, (p, d)) = (&job.spec, shape);
    let lanes = lane_runs(spec.parallel.virtual_replicas, d as u32);
    let needs = Needs::new(spec, table, p, &lanes);
    let mut budgets: Vec<u64> = nodes.iter().map(|(_, offer)| offer.budget_bytes).collect();
    budgets.sort_unstable_by(|a, b| b.cmp(a));
    let cap = if p * d <= nodes.len() { budgets[p * d - 1] } else { u64::MAX };
    // Where anything fits, no cut needs weighing.
    let roomy = needs.bound() <= cap;
    let fits = |stage: usize, range: Range<usize>| roomy || needs.fullest(stage, range) <= cap;
    let costs = block_costs(&spec.model, table);
    let boundary = vec![boundary_elements(&spec.model); costs.len() - 1];
    // Where no partition fits the smallest of the nodes it takes, the fastest of all may still fit nodes of several sizes.
    let ranges = partition(&costs, &boundary, p, fits).or_else(|| partition(&costs, &boundary, p, |_, _| true));
    let ranges = ranges.expect("PC-6 (there are no more stages than blocks)");
    let stages: Vec<Range<u32>> = ranges.into_iter().map(|r| r.start as u32..r.end as u32).collect();
    let cuts = pieces(table, &stages, d);
    let of_seats: Vec<Vec<u64>> =
        stages.iter().enumerate().map(|(stage, blocks)| needs.of_stage(stage, blocks)).collect();
    let by_replica: Vec<(usize, usize)> = (0..d).flat_map(|r| (0..p).map(move |s| (s, r))).collect();
    let by_stage: Vec<(usize, usize)> = (0..p).flat_map(|s| (0..d).map(move |r| (s, r))).collect();
    let mut tried = Vec::new();
    // A replica on few nodes sends few activations; a stage on few nodes needs few copies of its weights.
    for order in [by_replica, by_stage] {
        let groups = runs(&order, nodes.len());
        let group_needs: Vec<u64> =
            groups.iter().map(|group| group.iter().map(|&(s, r)| of_seats[s][r]).sum()).collect();
        match over(&group_needs, &budgets) {
            None => {
                let seat = |&(s, r): &(usize, usize)| needs.seat(s, &stages[s], r).seat_weights;
                let weights = groups.iter().map(|group| group.iter().map(seat).sum()).collect();
                return Ok(Layout { stages, lanes, cuts, groups, needs: group_needs, weights, why: String::new() });
            }
            Some(most) => tried.push(most),
        }
    }
    Err(TooLarge { shape, tried, cap: (p * d <= nodes.len()).then_some(cap) })
}

/// Seats cut into as many even runs as there are nodes, one each if there are enough.
fn runs(order: &[(usize, usize)], nodes: usize) -> Vec<Vec<(usize, usize)>> {
    let count = nodes.min(order.len());
    let edge = |i: usize| i * order.len() / count;
    (0..count).map(|i| order[edge(i)..edge(i + 1)].to_vec()).collect()
}

/// The need that misses its budget by most when the largest need gets the largest budget; none if all fit.
fn over(needs: &[u64], budgets: &[u64]) -> Option<(u64, u64)> {
    let mut needs = needs.to_vec();
    needs.sort_unstable_by(|a, b| b.cmp(a));
    needs.into_iter().zip(budgets.iter().copied()).filter(|(n, b)| n > b).max_by_key(|(n, b)| n - b)
}

/// Lanes of each replica: contiguous runs of as equal length as possible, placed to be the fewest whole subtrees.
pub(super) fn lane_runs(lanes: u32, replicas: u32) -> Vec<Range<u32>> {
    let (short, longer) = (lanes / replicas, lanes % replicas);
    // best[e] = fewest subtrees of the replicas so far when e of them are one lane longer, with those choices.
    let mut best: Vec<Option<(usize, Vec<bool>)>> = vec![None; longer as usize + 1];
    best[0] = Some((0, Vec::new()));
    for replica in 0..replicas {
        let mut next: Vec<Option<(usize, Vec<bool>)>> = vec![None; longer as usize + 1];
        for (e, state) in best.iter().enumerate() {
            let Some((sum, choices)) = state else { continue };
            let start = replica * short + e as u32;
            for long in [true, false] {
                let to = e + usize::from(long);
                let end = start + short + u32::from(long);
                if to > longer as usize {
                    continue;
                }
                let total = sum + subtrees(lanes, start..end).len();
                if next[to].as_ref().is_none_or(|(least, _)| total < *least) {
                    let mut choices = choices.clone();
                    choices.push(long);
                    next[to] = Some((total, choices));
                }
            }
        }
        best = next;
    }
    let (_, choices) = best.pop().flatten().expect("PC-8 (so many replicas are one lane longer)");
    let mut start = 0;
    choices
        .into_iter()
        .map(|long| {
            let run = start..start + short + u32::from(long);
            start = run.end;
            run
        })
        .collect()
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::Cell;

    thread_local! {
        /// How often a shape's leanest layout was looked for.
        pub(in crate::planner) static LOOKED_FOR_THE_LEANEST: Cell<u32> = const { Cell::new(0) };
    }
}
