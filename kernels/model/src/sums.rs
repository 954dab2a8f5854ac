//! Sums of one gradient contribution over lanes, while a step runs.
//!
//! * LS-1 (ascending): lanes of a replica finish in ascending order.
//! * LS-2 (fixed tree): finished lanes are added only where they are siblings in [`shoal_plan::lanes`]' tree, so at most
//!   log2(lanes) + 1 sums are alive, and at the end they are exactly the subtrees of the replica's run.

use std::ops::Range;
use std::sync::Arc;

use shoal_kernels::{Arena, ArenaError, Buffer, Device, Tag, ViewMut, Write};
use shoal_plan::batch::MicroBatch;
use shoal_plan::lanes::{TreeNode, subtrees};

/// The gradient of one contribution, summed over the lanes of one subtree.
#[derive(Clone, Debug)]
pub struct LaneSum {
    /// Which lanes.
    pub node: TreeNode,
    /// One element each of the contribution's extent.
    pub sum: Arc<Buffer>,
}

/// The sums of one contribution.
pub(crate) struct LaneSums {
    lanes: u32,
    elements: usize,
    /// Parts of the extent that no parameter covers; zero in every sum.
    gaps: Vec<Range<usize>>,
    open: Option<Buffer>,
    closed: Vec<(TreeNode, Buffer)>,
}

impl LaneSums {
    pub(crate) fn new(lanes: u32, elements: usize, gaps: Vec<Range<usize>>) -> Self {
        Self { lanes, elements, gaps, open: None, closed: Vec::new() }
    }

    /// The accumulator of a micro-batch's lane, and whether its gradient replaces or adds to what is there.
    pub(crate) fn accumulator(
        &mut self,
        device: &Device,
        arena: &Arena,
        batch: &MicroBatch,
    ) -> Result<Accumulator<'_>, ArenaError> {
        let write = if batch.first_of_lane { Write::Overwrite } else { Write::Add };
        if batch.first_of_lane {
            assert!(self.open.is_none(), "LS-1 (ascending): lane {} begins inside another", batch.lane);
            let mut buffer = arena.alloc(Tag::Gradient, self.elements)?;
            for gap in &self.gaps {
                device.fill(buffer.view_mut().range(gap.clone()), 0.0);
            }
            self.open = Some(buffer);
        }
        let sum = self.open.as_mut().expect("LS-1 (ascending): a lane begins with its first micro-batch");
        Ok(Accumulator { sum, write })
    }

    /// Called after a micro-batch was added: closes its lane if that was the last one of it.
    pub(crate) fn added(&mut self, device: &Device, batch: &MicroBatch) {
        if !batch.last_of_lane {
            return;
        }
        let sum = self.open.take().expect("LS-1 (ascending): a lane that ends has begun");
        let mut right = (TreeNode { start: batch.lane.0, end: batch.lane.0 + 1 }, sum);
        while let Some((node, mut sum)) = self.closed.pop() {
            assert_eq!(node.end, right.0.start, "LS-1 (ascending): lanes of a replica are a contiguous run");
            let both = TreeNode { start: node.start, end: right.0.end };
            if subtrees(self.lanes, both.start..both.end) != [both] {
                self.closed.push((node, sum));
                break;
            }
            device.add_into(sum.view_mut(), right.1.view());
            right = (both, sum);
        }
        self.closed.push(right);
    }

    /// The finished sums, left to right; none are left behind.
    pub(crate) fn take(&mut self) -> Vec<LaneSum> {
        assert!(self.open.is_none(), "LS-1 (ascending): sums are taken after the last lane has ended");
        self.closed.drain(..).map(|(node, sum)| LaneSum { node, sum: Arc::new(sum) }).collect()
    }

    pub(crate) fn clear(&mut self) {
        self.open = None;
        self.closed.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_none() && self.closed.is_empty()
    }
}

/// Where one micro-batch's gradient goes.
pub(crate) struct Accumulator<'a> {
    sum: &'a mut Buffer,
    /// Whether to replace or to add.
    pub(crate) write: Write,
}

impl Accumulator<'_> {
    /// One parameter's part.
    pub(crate) fn part(&mut self, range: Range<usize>) -> ViewMut<'_> {
        self.sum.view_mut().range(range)
    }

    /// Two parameters' parts, the first one before the second.
    pub(crate) fn two_parts(&mut self, first: Range<usize>, second: Range<usize>) -> (ViewMut<'_>, ViewMut<'_>) {
        let (head, tail) = self.sum.view_mut().split_at(second.start);
        (head.range(first), tail.range(0..second.len()))
    }
}
