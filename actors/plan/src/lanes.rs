//! The fixed tree over lanes.
//!
//! A lane's gradient is a leaf. `n` leaves split at the largest power of two below `n`, so the tree depends on V alone
//! and a contiguous run of lanes is a handful of whole subtrees. Whoever adds two siblings gets the same bits.
//!
//! * LN-1 (a leaf does not split): only a node of two lanes or more has children.
//! * LN-2 (a leaf is inside or outside a run): runs are cut between lanes, so a node that is neither has children.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// A node of the tree: the lanes `start..end` below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TreeNode {
    /// First lane.
    pub start: u32,
    /// One past the last lane.
    pub end: u32,
}

impl TreeNode {
    /// The root for `lanes` lanes.
    #[must_use]
    pub fn root(lanes: u32) -> Self {
        Self { start: 0, end: lanes }
    }

    /// The two children, or none for a leaf.
    #[must_use]
    pub fn children(self) -> Option<(Self, Self)> {
        let count = self.end - self.start;
        if count < 2 {
            return None;
        }
        let middle = self.start + split(count);
        Some((Self { start: self.start, end: middle }, Self { start: middle, end: self.end }))
    }
}

/// Leaves on the left of a tree of `count >= 2` leaves: the largest power of two below `count`.
#[must_use]
pub fn split(count: u32) -> u32 {
    assert!(count >= 2, "LN-1 (a leaf does not split)");
    1 << (u32::BITS - 1 - (count - 1).leading_zeros())
}

/// The largest whole subtrees of the tree over `lanes` that make up `run`, left to right.
#[must_use]
pub fn subtrees(lanes: u32, run: Range<u32>) -> Vec<TreeNode> {
    fn walk(node: TreeNode, run: &Range<u32>, out: &mut Vec<TreeNode>) {
        if node.end <= run.start || run.end <= node.start {
            return;
        }
        if run.start <= node.start && node.end <= run.end {
            out.push(node);
            return;
        }
        let (left, right) = node.children().expect("LN-2 (a leaf is inside or outside a run)");
        walk(left, run, out);
        walk(right, run, out);
    }
    let mut out = Vec::new();
    if !run.is_empty() {
        walk(TreeNode::root(lanes), &run, &mut out);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits() {
        assert_eq!([2, 3, 4, 5, 6, 7, 8, 9].map(split), [1, 2, 2, 4, 4, 4, 4, 8]);
    }

    #[test]
    fn runs_are_covered_once_by_few_subtrees() {
        for lanes in 1..40u32 {
            for start in 0..lanes {
                for end in start + 1..=lanes {
                    let parts = subtrees(lanes, start..end);
                    let mut at = start;
                    for part in &parts {
                        assert_eq!(part.start, at);
                        at = part.end;
                    }
                    assert_eq!(at, end);
                    let log = u32::BITS - (lanes.max(2) - 1).leading_zeros();
                    assert!(parts.len() as u32 <= (2 * log).saturating_sub(2).max(1), "{lanes} {start} {end}");
                }
            }
        }
    }
}
