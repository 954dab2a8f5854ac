//! Which of our elements lie where in which of their tensors.
//!
//! A parameter of ours is cut into [`Run`]s: consecutive rows that are consecutive rows, or consecutive columns, of one of
//! their tensors.
//!
//! MP-1 (a permutation): every element of every parameter of ours is in one run, and every element of their tensors in at
//! most one; what is left over are rows behind ours, which are padding.

use std::ops::Range;

use shoal_plan::blocks::{BlockTable, ModelTable, Param};
use shoal_plan::ids::BlockId;
use shoal_plan::space::Interval;

/// All tensors of a model in another program's files.
#[derive(Clone, Debug)]
pub(crate) struct Map {
    pub(crate) tensors: Vec<Tensor>,
    /// Ascending in our space.
    pub(crate) runs: Vec<Run>,
}

/// One of their tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    /// Row-major.
    pub(crate) shape: Vec<u64>,
    /// Their table may have more rows than ours, behind ours.
    pub(crate) open_ended: bool,
}

/// Consecutive rows of one of our parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) block: BlockId,
    /// In our block's space.
    pub(crate) interval: Interval,
    /// Elements of a row of ours.
    pub(crate) columns: u64,
    /// Which of their tensors.
    pub(crate) tensor: usize,
    /// Their row, or column, that is our first row.
    pub(crate) at: u64,
    pub(crate) order: Order,
}

/// How our rows lie in their tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// As rows.
    Straight,
    /// As columns.
    Transposed,
}

impl Tensor {
    pub(crate) fn elements(&self) -> u64 {
        self.shape.iter().product()
    }

    /// Elements of a row when it is seen as a matrix: all but the first dimension.
    pub(crate) fn columns(&self) -> u64 {
        self.shape[1..].iter().product()
    }
}

impl Run {
    pub(crate) fn rows(&self) -> u64 {
        self.interval.len() / self.columns
    }
}

impl Map {
    pub(crate) fn new() -> Self {
        Self { tensors: Vec::new(), runs: Vec::new() }
    }

    /// One more of their tensors.
    pub(crate) fn tensor(&mut self, name: impl Into<String>, shape: &[u64]) -> usize {
        self.tensors.push(Tensor { name: name.into(), shape: shape.to_vec(), open_ended: false });
        self.tensors.len() - 1
    }

    /// A parameter that is one of their tensors as it is.
    pub(crate) fn same(&mut self, block: &BlockTable, ours: &str, theirs: impl Into<String>) -> usize {
        let param = param(block, ours);
        let tensor = self.tensor(theirs, &param.shape.clone());
        let columns = param.shape[1..].iter().product();
        self.rows(block, ours, 0..param.shape[0], columns, (tensor, 0, Order::Straight));
        tensor
    }

    /// Rows `rows` of a parameter, of `columns` elements each, lie from row or column `at` of a tensor on.
    pub(crate) fn rows(
        &mut self,
        block: &BlockTable,
        ours: &str,
        rows: Range<u64>,
        columns: u64,
        (tensor, at, order): (usize, u64, Order),
    ) {
        let start = param(block, ours).interval.start;
        let interval = Interval::new(start + rows.start * columns, start + rows.end * columns);
        self.runs.push(Run { block: block.id, interval, columns, tensor, at, order });
    }

    /// Puts the runs in order, once all are there.
    ///
    /// # Panics
    /// If MP-1 does not hold.
    pub(crate) fn finish(mut self, table: &ModelTable) -> Self {
        self.runs.sort_by_key(|run| (run.block, run.interval.start));
        let mut runs = self.runs.iter();
        for block in &table.blocks {
            for param in &block.params {
                let mut at = param.interval.start;
                while at < param.interval.end {
                    let run = runs.next().filter(|run| (run.block, run.interval.start) == (block.id, at));
                    at = run.unwrap_or_else(|| panic!("MP-1: {} {} from {at} on", block.id, param.name)).interval.end;
                }
                assert_eq!(at, param.interval.end, "MP-1: {} {}", block.id, param.name);
            }
        }
        assert_eq!(runs.next(), None, "MP-1 (a permutation)");
        self
    }

    /// Runs of a block that have something of an interval.
    pub(crate) fn runs_in(&self, block: BlockId, interval: Interval) -> &[Run] {
        let from = self.runs.partition_point(|run| (run.block, run.interval.end) <= (block, interval.start));
        let count = self.runs[from..].partition_point(|run| run.block == block && run.interval.start < interval.end);
        &self.runs[from..from + count]
    }

    /// Runs of a tensor.
    pub(crate) fn runs_of(&self, tensor: usize) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(move |run| run.tensor == tensor)
    }
}

pub(crate) fn param<'t>(block: &'t BlockTable, name: &str) -> &'t Param {
    let param = block.params.iter().find(|param| param.name == name);
    param.expect("BL-1 (a block has the parameters of its kind)")
}
