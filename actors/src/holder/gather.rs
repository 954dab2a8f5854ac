//! Lane partials of the pieces owned here, added in the fixed tree as soon as two siblings are here.
//!
//! * GA-1 (each lane once): a partial whose lanes have come before is refused.
//! * GA-2 (written order): own tree, tied head's tree, then own + tied; whoever sent what, and in which order it came.
//! * GA-3 (rounded as sent): with a wire type, a sum below the root is rounded, wherever it is made.
//! * GA-4 (an entry lasts until its gradient is whole): a piece's sums are taken out only here, where its last one has
//!   come.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use shoal_kernels::{Arena, Device, JobPanic};
use shoal_model::Rounding;
use shoal_plan::blocks::ModelTable;
use shoal_plan::ids::PieceId;
use shoal_plan::lanes::TreeNode;
use shoal_plan::layout::PiecePlan;
use shoal_plan::protocol::{LossSum, Norm};
use shoal_plan::space::GradUnit;

use super::tensor::Slice;
use crate::device::{Cancel, DeviceThread};

/// A lane subtree's sum of one contribution, cut to one piece.
#[derive(Debug)]
pub(super) struct Partial {
    /// The step it belongs to.
    pub(super) step: u64,
    /// The piece.
    pub(super) piece: PieceId,
    /// Which contribution.
    pub(super) unit: GradUnit,
    /// Which subtree.
    pub(super) node: TreeNode,
    /// The elements.
    pub(super) slice: Slice,
    /// Loss of these lanes, with the head block's first piece.
    pub(super) loss: Option<LossSum>,
}

/// A piece's whole gradient.
#[derive(Debug)]
pub(super) struct Gathered {
    /// Its elements.
    pub(super) gradient: Slice,
    /// Its exact norm.
    pub(super) norm: Norm,
}

/// Why a partial was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PartialError {
    /// The piece gets nothing of this contribution, or the node is none of the tree.
    #[error("{piece} expects no {unit:?} of lanes {node:?}")]
    Unexpected { piece: PieceId, unit: GradUnit, node: TreeNode },
    /// GA-1.
    #[error("{piece} has {unit:?} of lanes {node:?} already")]
    Repeated { piece: PieceId, unit: GradUnit, node: TreeNode },
    /// Wrong number of elements.
    #[error("{piece} takes {expected} elements of {unit:?}, not {found}")]
    Length { piece: PieceId, unit: GradUnit, expected: usize, found: usize },
}

/// Why a whole gradient could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum GatherError {
    /// No room.
    #[error("no room to add gradients: {0}")]
    Room(String),
    /// A sum that this one needs was not made, since its generation is over or its job panicked.
    #[error("a part of the gradient was not made")]
    Missing,
}

/// A subtree's sum, perhaps still being made on the device's thread.
#[derive(Clone, Debug, Default)]
struct Sum(Arc<Mutex<Option<Result<Slice, GatherError>>>>);

impl Sum {
    fn of(slice: Slice) -> Self {
        Self(Arc::new(Mutex::new(Some(Ok(slice)))))
    }

    fn put(&self, sum: Result<Slice, GatherError>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(sum);
    }

    fn take(&self) -> Result<Slice, GatherError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or(Err(GatherError::Missing))
    }
}

/// One contribution to one piece.
#[derive(Debug)]
struct UnitSum {
    unit: GradUnit,
    /// First element within the piece, and how many.
    at: usize,
    len: usize,
    lanes_seen: BTreeSet<u32>,
    open: BTreeMap<TreeNode, Sum>,
}

#[derive(Debug)]
struct PieceSum {
    units: Vec<UnitSum>,
    loss: Option<LossSum>,
}

/// Gradients that are not yet whole, of one generation.
#[derive(Debug)]
pub(super) struct Gather {
    table: Arc<ModelTable>,
    lanes: u32,
    wire: Rounding,
    cancel: Cancel,
    sums: BTreeMap<(u64, PieceId), PieceSum>,
}

/// The outcome of the job that makes a whole gradient.
pub(super) type Making = BoxFuture<'static, Result<Result<Gathered, GatherError>, JobPanic>>;

/// What a partial led to.
pub(super) enum Step {
    /// More must come.
    Waits,
    /// That was the last one: the whole gradient is being made. With the loss of the step, if it came along.
    Whole(Making, Option<LossSum>),
}

impl Gather {
    pub(super) fn new(table: Arc<ModelTable>, lanes: u32, wire: Rounding, cancel: Cancel) -> Self {
        Self { table, lanes, wire, cancel, sums: BTreeMap::new() }
    }

    /// Forgets everything that is not whole.
    pub(super) fn clear(&mut self) {
        self.sums.clear();
    }

    /// Takes a partial of a piece owned here; queues what can be added now.
    pub(super) fn add(
        &mut self,
        thread: &DeviceThread,
        plan: &PiecePlan,
        partial: Partial,
    ) -> Result<Step, PartialError> {
        let Partial { step, piece, unit, node, slice, loss } = partial;
        let (lanes, table) = (self.lanes, &self.table);
        let sum = self.sums.entry((step, piece)).or_insert_with(|| PieceSum::new(table, plan));
        let Some(entry) = sum.units.iter_mut().find(|u| u.unit == unit).filter(|_| is_node(lanes, node)) else {
            return Err(PartialError::Unexpected { piece, unit, node });
        };
        if slice.len() != entry.len {
            return Err(PartialError::Length { piece, unit, expected: entry.len, found: slice.len() });
        }
        if (node.start..node.end).any(|lane| entry.lanes_seen.contains(&lane)) {
            return Err(PartialError::Repeated { piece, unit, node });
        }
        entry.lanes_seen.extend(node.start..node.end);
        entry.climb((lanes, self.wire), node, Sum::of(slice), thread, &self.cancel);
        if let Some(loss) = loss {
            sum.loss = Some(sum.loss.map_or(loss, |sum| merge(sum, loss)));
        }
        let root = TreeNode::root(lanes);
        if sum.units.iter().any(|u| !u.open.contains_key(&root)) {
            return Ok(Step::Waits);
        }
        let PieceSum { units, loss } =
            self.sums.remove(&(step, piece)).expect("GA-4 (an entry lasts until its gradient is whole)");
        let cancel = self.cancel.clone();
        let arena = thread.arena().clone();
        let whole = thread.run(move |device| {
            if cancel.is_cancelled() { Err(GatherError::Missing) } else { finish(device, &arena, units, root) }
        });
        Ok(Step::Whole(Box::pin(whole), loss))
    }
}

impl PieceSum {
    fn new(table: &ModelTable, plan: &PiecePlan) -> Self {
        let units = table.units_of(plan.block).into_iter().filter_map(|unit| {
            let part = table.extent(unit).intersection(plan.interval)?;
            let at = (part.start - plan.interval.start) as usize;
            let (lanes_seen, open) = (BTreeSet::new(), BTreeMap::new());
            Some(UnitSum { unit, at, len: part.len() as usize, lanes_seen, open })
        });
        Self { units: units.collect(), loss: None }
    }
}

impl UnitSum {
    /// Puts a sum in its place and adds siblings on the way up.
    fn climb(
        &mut self,
        (lanes, wire): (u32, Rounding),
        node: TreeNode,
        sum: Sum,
        thread: &DeviceThread,
        cancel: &Cancel,
    ) {
        let (mut node, mut sum) = (node, sum);
        while let Some((parent, sibling)) = parent_of(lanes, node) {
            let Some(other) = self.open.remove(&sibling) else { break };
            let (left, right) = if node.start < sibling.start { (sum, other) } else { (other, sum) };
            let both = Sum::default();
            // GA-3 (rounded as sent).
            let round = if parent == TreeNode::root(lanes) { Rounding::NONE } else { wire };
            let (made, cancel, arena) = (both.clone(), cancel.clone(), thread.arena().clone());
            let add = move |device: &Device| {
                if !cancel.is_cancelled() {
                    made.put(left.take().and_then(|left| {
                        left.add(right.take()?, round, device, &arena).map_err(|e| GatherError::Room(crate::chain(&e)))
                    }));
                }
            };
            // A panic leaves the sum unmade, which the last job of the piece reports.
            thread.submit(add, drop);
            (node, sum) = (parent, both);
        }
        self.open.insert(node, sum);
    }
}

fn finish(device: &Device, arena: &Arena, units: Vec<UnitSum>, root: TreeNode) -> Result<Gathered, GatherError> {
    let room = |e: shoal_kernels::ArenaError| GatherError::Room(crate::chain(&e));
    let mut whole: Option<Slice> = None;
    for mut unit in units {
        let sum = unit.open.remove(&root).ok_or(GatherError::Missing)?.take()?;
        whole = Some(match whole {
            None => sum,
            Some(own) => own.add_at(unit.at, &sum, device, arena).map_err(room)?,
        });
    }
    let gradient = whole.ok_or(GatherError::Missing)?;
    let squares = device.sum_of_squares(gradient.view());
    let norm = if squares.finite { Norm::Finite(squares.sum) } else { Norm::NotFinite };
    Ok(Gathered { gradient, norm })
}

/// The loss of both.
pub(crate) fn merge(one: LossSum, other: LossSum) -> LossSum {
    let loss = match (one.loss, other.loss) {
        (Norm::Finite(mut sum), Norm::Finite(other)) => {
            sum.merge(&other);
            Norm::Finite(sum)
        }
        (Norm::NotFinite, Norm::Finite(_) | Norm::NotFinite) | (Norm::Finite(_), Norm::NotFinite) => Norm::NotFinite,
    };
    LossSum { loss, tokens: one.tokens + other.tokens }
}

fn is_node(lanes: u32, node: TreeNode) -> bool {
    node == TreeNode::root(lanes) || parent_of(lanes, node).is_some()
}

/// Parent and sibling of a node, or nothing for the root (and for what is no node).
fn parent_of(lanes: u32, node: TreeNode) -> Option<(TreeNode, TreeNode)> {
    let mut at = TreeNode::root(lanes);
    loop {
        let (left, right) = at.children()?;
        if left == node {
            return Some((at, right));
        }
        if right == node {
            return Some((at, left));
        }
        at = if node.start < left.end { left } else { right };
    }
}

#[cfg(test)]
mod tests;
