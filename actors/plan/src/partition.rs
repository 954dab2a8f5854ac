//! Contiguous partition of blocks into stages: the slowest stage as fast as possible, exactly.
//!
//! ```text
//! PT-1 (order)    the ranges are contiguous, ascending, none empty, and cover every block
//! PT-2 (optimum)  no other partition that fits has a cheaper dearest stage
//! PT-3 (ties)     among those the fewest boundary bytes, then the smallest sum of squared stage costs
//! ```

use std::ops::Range;

#[cfg(test)]
mod tests;

/// Cuts blocks with these costs into `stages` ranges. `boundary[i]` is what crosses a cut after block `i`;
/// `fits(stage, range)` says whether a stage with these blocks has the memory. None if no partition fits.
#[must_use]
pub fn partition(
    costs: &[u64],
    boundary: &[u64],
    stages: usize,
    fits: impl Fn(usize, Range<usize>) -> bool,
) -> Option<Vec<Range<usize>>> {
    let n = costs.len();
    if stages == 0 || stages > n {
        return None;
    }
    let mut prefix = vec![0u64; n + 1];
    for (i, cost) in costs.iter().enumerate() {
        prefix[i + 1] = prefix[i] + cost;
    }
    let sum = |range: &Range<usize>| prefix[range.end] - prefix[range.start];
    // The dearest stage and the rest of the order cannot share one pass: a prefix with a dearer stage may still be part
    // of the best partition when a later stage is dearer still. So the bound first, then the sums under it.
    let dearest = best(n, stages, &fits, 0, |so_far: &u64, _, range| Some((*so_far).max(sum(range))))?.0;
    let start = (0u64, 0u128);
    let (_, ranges) = best(n, stages, &fits, start, |so_far, _, range| {
        let cost = sum(range);
        let crossing = if range.end < n { boundary[range.end - 1] } else { 0 };
        (cost <= dearest).then(|| (so_far.0 + crossing, so_far.1 + u128::from(cost) * u128::from(cost)))
    })?;
    Some(ranges)
}

/// How small the greatest `need(stage, range)` can be when `n` blocks are cut into `stages` ranges.
/// None if there are fewer blocks than stages.
#[must_use]
pub fn leanest(n: usize, stages: usize, need: impl Fn(usize, Range<usize>) -> u64) -> Option<u64> {
    if stages == 0 || stages > n {
        return None;
    }
    let most = |so_far: &u64, stage: usize, range: &Range<usize>| Some((*so_far).max(need(stage, range.clone())));
    best(n, stages, &|_, _| true, 0, most).map(|(most, _)| most)
}

/// The partition with the smallest value, where `extend` is monotone in what came before.
fn best<V: Ord + Clone>(
    n: usize,
    stages: usize,
    fits: &impl Fn(usize, Range<usize>) -> bool,
    start: V,
    extend: impl Fn(&V, usize, &Range<usize>) -> Option<V>,
) -> Option<(V, Vec<Range<usize>>)> {
    // row[end] = best value of the stages so far covering 0..end, and where the last of them starts.
    let mut row: Vec<Option<V>> = vec![None; n + 1];
    row[0] = Some(start);
    let mut begins: Vec<Vec<usize>> = Vec::with_capacity(stages);
    for stage in 0..stages {
        let mut next: Vec<Option<V>> = vec![None; n + 1];
        let mut begin = vec![0; n + 1];
        for end in stage + 1..=n - (stages - stage - 1) {
            for (from, before) in row.iter().enumerate().take(end).skip(stage) {
                let Some(value) = before.as_ref().and_then(|before| extend(before, stage, &(from..end))) else {
                    continue;
                };
                if next[end].as_ref().is_none_or(|found| value < *found) && fits(stage, from..end) {
                    next[end] = Some(value);
                    begin[end] = from;
                }
            }
        }
        row = next;
        begins.push(begin);
    }
    let value = row[n].clone()?;
    let mut ranges = Vec::with_capacity(stages);
    let mut end = n;
    for begin in begins.iter().rev() {
        ranges.push(begin[end]..end);
        end = begin[end];
    }
    ranges.reverse();
    Some((value, ranges))
}
