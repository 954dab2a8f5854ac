//! What is kept of a parameter from step to step: its weight, and what its optimizer remembers.
//!
//! Moments lie as the weights do, element for element. [`Kind::Factors`] (Adafactor's second moments) lie in a space of their
//! own: of a matrix the means of its rows, then of its columns; of a vector every element. A parameter's factors go wherever
//! its first element goes, so that intervals of weights that cover a block, each once, bring its factors along, each once.
//! Updating them takes the whole parameter, so a job with factors is cut between parameters only.
//!
//! SF-1 (factors are asked for where there are some): [`Kind::Factors`] is asked for only of a model whose job's kinds
//! include it.

use serde::{Deserialize, Serialize};
use shoal_config::JobSpec;
use shoal_config::spec::{AdafactorSpec, OptimizerSpec, RmsPropSpec, SgdSpec};

use crate::blocks::{BlockTable, CHUNK, Init, ModelTable, Param};
use crate::digest;
use crate::ids::BlockId;
use crate::memory::F32;
use crate::space::{Interval, IntervalSet, Kind};

#[cfg(test)]
mod tests;

/// The kinds of state a job has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateForm {
    /// In the order of the digest and of every transfer; the weight is the first.
    kinds: Vec<Kind>,
    /// By block; empty if there are none.
    factors: Vec<Factors>,
}

/// The space of one block's factors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Factors {
    table: BlockTable,
    /// Where each parameter's factors start, and the end of all.
    starts: Vec<u64>,
}

/// Where one parameter's factors lie in their space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactorPlace {
    /// Of a matrix.
    Matrix {
        /// A mean for each row.
        rows: Interval,
        /// A mean for each column.
        columns: Interval,
    },
    /// Of a vector: a moment for each element.
    Vector(Interval),
}

/// The kinds of state that an optimizer keeps, the weight first.
#[must_use]
pub fn kinds(optimizer: &OptimizerSpec) -> &'static [Kind] {
    match optimizer {
        OptimizerSpec::AdamW(_) | OptimizerSpec::Adam(_) => &[Kind::Weight, Kind::Moment1, Kind::Moment2],
        OptimizerSpec::Sgd(SgdSpec { momentum: None, .. }) => &[Kind::Weight],
        OptimizerSpec::Sgd(SgdSpec { momentum: Some(_), .. }) => &[Kind::Weight, Kind::Moment1],
        OptimizerSpec::RmsProp(RmsPropSpec { momentum: None, .. }) => &[Kind::Weight, Kind::Moment2],
        OptimizerSpec::RmsProp(RmsPropSpec { momentum: Some(_), .. }) => &[Kind::Weight, Kind::Moment1, Kind::Moment2],
        OptimizerSpec::Adafactor(AdafactorSpec { beta1: None, .. }) => &[Kind::Weight, Kind::Factors],
        OptimizerSpec::Adafactor(AdafactorSpec { beta1: Some(_), .. }) => &[Kind::Weight, Kind::Moment1, Kind::Factors],
    }
}

impl StateForm {
    /// Weights and nothing else: of a model that is not trained.
    pub(crate) fn weights_alone() -> Self {
        Self { kinds: vec![Kind::Weight], factors: Vec::new() }
    }

    fn of(optimizer: &OptimizerSpec, blocks: &[BlockTable]) -> Self {
        let kinds = kinds(optimizer).to_vec();
        let factors =
            if kinds.contains(&Kind::Factors) { blocks.iter().map(Factors::of).collect() } else { Vec::new() };
        Self { kinds, factors }
    }
}

impl Factors {
    fn of(block: &BlockTable) -> Self {
        let (mut params, mut starts, mut at) = (Vec::new(), Vec::new(), 0);
        for param in &block.params {
            starts.push(at);
            let vectors = match param.matrix() {
                Some((rows, columns)) => vec![(".rows", rows), (".columns", columns)],
                None => vec![("", param.interval.len())],
            };
            for (part, len) in vectors {
                let interval = Interval::new(at, at + len);
                at = interval.end.next_multiple_of(CHUNK);
                let name = format!("{}{part}", param.name);
                params.push(Param { name, shape: vec![len], interval, matrix: false, init: Init::Zeros });
            }
        }
        starts.push(at);
        Self { table: BlockTable { id: block.id, kind: block.kind, params, len: at }, starts }
    }
}

impl ModelTable {
    /// The table of a job's model, with the state that its optimizer keeps.
    #[must_use]
    pub fn of_job(spec: &JobSpec) -> Self {
        let mut table = Self::of(&spec.model);
        table.state = StateForm::of(&spec.train.optimizer, &table.blocks);
        table
    }

    /// The kinds of state, in the order of the digest and of every transfer; the weight is the first.
    #[must_use]
    pub fn kinds(&self) -> &[Kind] {
        &self.state.kinds
    }

    /// The space that a kind of a block's state lies in.
    ///
    /// # Panics
    /// If it is the space of factors, and there are none.
    #[must_use]
    pub fn space(&self, kind: Kind, block: BlockId) -> &BlockTable {
        match kind {
            Kind::Weight | Kind::Grad | Kind::Moment1 | Kind::Moment2 => self.block(block),
            Kind::Factors => &self.factors(block).table,
        }
    }

    fn factors(&self, block: BlockId) -> &Factors {
        self.state.factors.get(block.0 as usize).expect("SF-1 (factors are asked for where there are some)")
    }

    /// Where the factors of a parameter of a block lie; `at` is its place in the table.
    ///
    /// # Panics
    /// If the job has no factors.
    #[must_use]
    pub fn factor_place(&self, block: BlockId, at: usize) -> FactorPlace {
        let (param, start) = (&self.block(block).params[at], self.factors(block).starts[at]);
        match param.matrix() {
            None => FactorPlace::Vector(Interval::new(start, start + param.interval.len())),
            Some((rows, columns)) => {
                let rows = Interval::new(start, start + rows);
                let start = rows.end.next_multiple_of(CHUNK);
                FactorPlace::Matrix { rows, columns: Interval::new(start, start + columns) }
            }
        }
    }

    /// The elements of a kind that go with an interval of weights; none if no parameter with factors starts in it.
    #[must_use]
    pub fn part(&self, kind: Kind, block: BlockId, interval: Interval) -> Option<Interval> {
        match kind {
            Kind::Weight | Kind::Grad | Kind::Moment1 | Kind::Moment2 => Some(interval),
            Kind::Factors => {
                let (params, factors) = (&self.block(block).params, self.factors(block));
                let at = |edge: u64| factors.starts[params.partition_point(|param| param.interval.start < edge)];
                let (start, end) = (at(interval.start), at(interval.end));
                (start < end).then(|| Interval::new(start, end))
            }
        }
    }

    /// The elements of a kind that go with an interval, from the first that goes with an interval around it.
    #[must_use]
    pub fn within(
        &self,
        kind: Kind,
        block: BlockId,
        outer: Interval,
        inner: Interval,
    ) -> Option<std::ops::Range<usize>> {
        let (outer, inner) = (self.part(kind, block, outer)?, self.part(kind, block, inner)?);
        Some((inner.start - outer.start) as usize..(inner.end - outer.start) as usize)
    }

    /// Elements of all kinds that go with an interval of weights.
    #[must_use]
    pub fn state_elements(&self, block: BlockId, interval: Interval) -> u64 {
        self.kinds().iter().filter_map(|&kind| self.part(kind, block, interval)).map(Interval::len).sum()
    }

    /// Bytes of these.
    #[must_use]
    pub fn state_bytes(&self, block: BlockId, interval: Interval) -> u64 {
        F32 * self.state_elements(block, interval)
    }

    /// Bytes of all kinds that go with some weights.
    #[must_use]
    pub fn state_bytes_of(&self, block: BlockId, weights: &IntervalSet) -> u64 {
        weights.runs().iter().map(|run| self.state_bytes(block, *run)).sum()
    }

    /// The place nearest to `target` where a block may be cut into pieces: the start of a segment, or of a parameter if
    /// updates take whole parameters, or the block's end.
    #[must_use]
    pub fn nearest_edge(&self, block: &BlockTable, target: u64) -> u64 {
        if !self.kinds().contains(&Kind::Factors) {
            return digest::nearest_edge(block, target);
        }
        let edges = block.params.iter().map(|param| param.interval.start).chain([block.len]);
        edges.min_by_key(|edge| (edge.abs_diff(target), *edge)).unwrap_or(block.len)
    }
}
