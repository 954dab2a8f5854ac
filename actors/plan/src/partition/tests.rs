use proptest::prelude::*;

use super::*;

fn sizes(costs: &[u64], stages: usize) -> Vec<usize> {
    let flat = vec![1; costs.len()];
    partition(costs, &flat, stages, |_, _| true).expect("enough blocks").iter().map(|r| r.len()).collect()
}

/// The golden cases of the techniques page: a greedy cut leaves the first stage empty on the second.
#[test]
fn goldens() {
    assert_eq!(sizes(&[1, 1, 1, 1, 1, 1, 1, 9], 2), [7, 1]);
    assert_eq!(sizes(&[4, 1, 1, 1, 1], 2), [1, 4]);
    let three = partition(&[2, 3, 4, 5, 6], &[1; 5], 3, |_, _| true).expect("enough blocks");
    let dearest = three.iter().map(|r| [2, 3, 4, 5, 6][r.clone()].iter().sum::<u64>()).max();
    assert_eq!(dearest, Some(9));
    assert_eq!(three.iter().map(|r| r.len()).collect::<Vec<_>>(), [2, 2, 1]);
}

#[test]
fn boundary_bytes_break_ties() {
    // Both cuts make a dearest stage of 4; the second crosses the thinner boundary.
    assert_eq!(partition(&[2, 2, 0, 2, 2], &[9, 9, 3, 9], 2, |_, _| true), Some(vec![0..3, 3..5]));
    assert_eq!(partition(&[2, 2, 0, 2, 2], &[9, 3, 9, 9], 2, |_, _| true), Some(vec![0..2, 2..5]));
}

#[test]
fn caps_move_the_cut_or_end_in_none() {
    // Stage 0 may hold one block only.
    let cap = |stage: usize, range: Range<usize>| stage > 0 || range.len() == 1;
    assert_eq!(partition(&[1, 1, 1, 1], &[1; 3], 2, cap), Some(vec![0..1, 1..4]));
    assert_eq!(partition(&[1, 1, 1, 1], &[1; 3], 2, |_, range| range.len() == 1), None);
    assert_eq!(partition(&[1, 1], &[1], 3, |_, _| true), None);
    assert_eq!(partition(&[1, 1], &[1], 0, |_, _| true), None);
}

/// Every way to cut `n` blocks into `stages` ranges.
fn all(n: usize, stages: usize) -> Vec<Vec<Range<usize>>> {
    if stages == 1 {
        return if n == 0 { vec![] } else { vec![vec![0..n]] };
    }
    let mut out = Vec::new();
    for last in 1..n {
        for mut front in all(last, stages - 1) {
            front.push(last..n);
            out.push(front);
        }
    }
    out
}

proptest! {
    /// PT-1 (order), PT-2 (optimum) and PT-3 (ties).
    #[test]
    fn equals_brute_force(
        costs in prop::collection::vec(0u64..12, 1..=10),
        boundary in prop::collection::vec(0u64..4, 10),
        weights in prop::collection::vec(1u64..6, 10),
        caps in prop::collection::vec(4u64..30, 4),
        stages in 1usize..=4,
    ) {
        let fits = |stage: usize, range: Range<usize>| weights[range].iter().sum::<u64>() <= caps[stage];
        let value = |ranges: &[Range<usize>]| {
            let sums: Vec<u64> = ranges.iter().map(|r| costs[r.clone()].iter().sum()).collect();
            let crossing: u64 = ranges[..ranges.len() - 1].iter().map(|r| boundary[r.end - 1]).sum();
            (sums.iter().copied().max(), crossing, sums.iter().map(|s| s * s).sum::<u64>())
        };
        let fitting = |ranges: &Vec<Range<usize>>| ranges.iter().cloned().enumerate().all(|(s, r)| fits(s, r));
        let best = all(costs.len(), stages).into_iter().filter(fitting).map(|r| value(&r)).min();
        let need = |stage: usize, range: Range<usize>| weights[range].iter().sum::<u64>() * (caps[stage] - 3);
        let most = |ranges: &Vec<Range<usize>>| ranges.iter().cloned().enumerate().map(|(s, r)| need(s, r)).max();
        let least = all(costs.len(), stages).iter().filter_map(most).min();
        prop_assert_eq!(leanest(costs.len(), stages, need), least);
        let found = partition(&costs, &boundary, stages, fits);
        prop_assert_eq!(found.as_ref().map(|ranges| value(ranges)), best);
        if let Some(ranges) = found {
            prop_assert!(fitting(&ranges));
            prop_assert!(ranges.iter().all(|r| !r.is_empty()), "never an empty stage");
            prop_assert_eq!(ranges.first().map(|r| r.start), Some(0));
            prop_assert_eq!(ranges.last().map(|r| r.end), Some(costs.len()));
            prop_assert!(ranges.windows(2).all(|w| w[0].end == w[1].start));
        }
    }
}
