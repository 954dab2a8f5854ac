//! Sums of one gradient contribution over lanes, while a step runs.
//!
//! * LS-1 (ascending): lanes of a replica finish in ascending order.
//! * LS-2 (fixed tree): finished lanes are added only where they are siblings in [`shoal_plan::lanes`]' tree, so at most
//!   log2(lanes) + 1 sums are alive, and at the end they are exactly the subtrees of the replica's run.
//! * LS-3 (rounded as sent): with a wire type, a micro-batch's gradient is rounded before it is added, and so is every sum
//!   below the root, since it might be sent; the root is not.

use std::ops::Range;
use std::sync::Arc;

use shoal_kernels::{Arena, ArenaError, Buffer, Device, Tag, ViewMut, Write};
use shoal_plan::batch::MicroBatch;
use shoal_plan::blocks::BlockTable;
use shoal_plan::ids;
use shoal_plan::lanes::{TreeNode, subtrees};

use crate::rounding::Rounding;

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
    wire: Rounding,
    open: Option<Buffer>,
    /// The gradient of a micro-batch that has to be rounded before it may be added.
    single: Option<Buffer>,
    /// The micro-batch that is being added.
    adding: Option<ids::MicroBatch>,
    closed: Vec<(TreeNode, Buffer)>,
}

impl LaneSums {
    /// Over `lanes` lanes of the job, of a contribution of `elements` elements.
    pub(crate) fn new(lanes: u32, elements: usize, wire: Rounding) -> Self {
        Self { lanes, elements, gaps: Vec::new(), wire, open: None, single: None, adding: None, closed: Vec::new() }
    }

    /// Of a block's own contribution.
    pub(crate) fn of_block(lanes: u32, block: &BlockTable, wire: Rounding) -> Self {
        let starts = block.params.iter().skip(1).map(|p| p.interval.start).chain([block.len]);
        let ends = block.params.iter().map(|p| p.interval.end);
        let between = ends.zip(starts).filter(|(end, start)| end < start);
        let gaps = between.map(|(end, start)| end as usize..start as usize).collect();
        Self { gaps, ..Self::new(lanes, block.len as usize, wire) }
    }

    /// Where a micro-batch's gradient goes, and whether it replaces or adds to what is there. A micro-batch whose parts come one
    /// after another asks for it each time.
    pub(crate) fn accumulator(
        &mut self,
        device: &Device,
        arena: &Arena,
        batch: &MicroBatch,
    ) -> Result<Accumulator<'_>, ArenaError> {
        let again = self.adding.replace(batch.index) == Some(batch.index);
        if batch.first_of_lane && !again {
            assert!(self.open.is_none(), "LS-1 (ascending): lane {} begins inside another", batch.lane);
            self.open = Some(fresh(device, arena, self.elements, &self.gaps)?);
        }
        let open = self.open.as_mut().expect("LS-1 (ascending): a lane begins with its first micro-batch");
        if batch.first_of_lane {
            return Ok(Accumulator { sum: open, write: Write::Overwrite });
        }
        if !self.wire.is_rounded() {
            return Ok(Accumulator { sum: open, write: Write::Add });
        }
        let sum = match self.single.take().filter(|_| again) {
            Some(single) => single,
            None => fresh(device, arena, self.elements, &self.gaps)?,
        };
        Ok(Accumulator { sum: self.single.insert(sum), write: Write::Overwrite })
    }

    /// Called after a micro-batch was added: closes its lane if that was the last one of it.
    pub(crate) fn added(&mut self, device: &Device, batch: &MicroBatch) {
        self.adding = None;
        let open = self.open.as_mut().expect("LS-1 (ascending): a lane that is added to has begun");
        match self.single.take() {
            None => self.wire.round(device, open.view_mut()),
            Some(mut single) => {
                self.wire.round(device, single.view_mut());
                device.add_into(open.view_mut(), single.view());
            }
        }
        if !batch.last_of_lane {
            return;
        }
        let mut sum = self.open.take().expect("LS-1 (ascending): a lane that ends has begun");
        let node = TreeNode { start: batch.lane.0, end: batch.lane.0 + 1 };
        self.round_below_root(device, node, &mut sum);
        let mut right = (node, sum);
        while let Some((node, mut sum)) = self.closed.pop() {
            assert_eq!(node.end, right.0.start, "LS-1 (ascending): lanes of a replica are a contiguous run");
            let both = TreeNode { start: node.start, end: right.0.end };
            if subtrees(self.lanes, both.start..both.end) != [both] {
                self.closed.push((node, sum));
                break;
            }
            device.add_into(sum.view_mut(), right.1.view());
            self.round_below_root(device, both, &mut sum);
            right = (both, sum);
        }
        self.closed.push(right);
    }

    fn round_below_root(&self, device: &Device, node: TreeNode, sum: &mut Buffer) {
        if node != TreeNode::root(self.lanes) {
            self.wire.round(device, sum.view_mut());
        }
    }

    /// Puts a value into the newest sum.
    pub(crate) fn poison(&mut self, device: &Device, value: f32) {
        if let Some(sum) = self.open.as_mut().or(self.closed.last_mut().map(|(_, sum)| sum)) {
            device.fill(sum.view_mut().range(0..1), value);
        }
    }

    /// The finished sums, left to right; none are left behind.
    pub(crate) fn take(&mut self) -> Vec<LaneSum> {
        assert!(self.open.is_none(), "LS-1 (ascending): sums are taken after the last lane has ended");
        self.closed.drain(..).map(|(node, sum)| LaneSum { node, sum: Arc::new(sum) }).collect()
    }

    pub(crate) fn clear(&mut self) {
        (self.open, self.single, self.adding) = (None, None, None);
        self.closed.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_none() && self.closed.is_empty()
    }
}

/// Room for one gradient, zero where no parameter is.
fn fresh(device: &Device, arena: &Arena, elements: usize, gaps: &[Range<usize>]) -> Result<Buffer, ArenaError> {
    let mut buffer = arena.alloc(Tag::Gradient, elements)?;
    for gap in gaps {
        device.fill(buffer.view_mut().range(gap.clone()), 0.0);
    }
    Ok(buffer)
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
