//! Training as hashes: state, activations and gradients that show every mixing of versions.
//!
//! An *atom* is one segment of the address space. Its state at step k is a hash of its state at k-1, of record k and of its
//! gradient. A lane's loss is a hash of every weight of the model in forward order, and every gradient of the lane is
//! a hash of that loss; so one stale or doubled update anywhere changes everything after it.

use std::collections::HashMap;
use std::sync::Arc;

use shoal_exact::{Arithmetic, ExactSum};

use crate::blocks::ModelTable;
use crate::commit::{self, StepReport};
use crate::digest::{PieceLeaves, segments};
use crate::ids::{BlockId, Digest, Generation, NodeId};
use crate::job::Job;
use crate::ledger::{Head, LedgerEntry, Update, Version};
use crate::protocol::{LossSum, Norm};
use crate::space::{Interval, Kind};

/// Tokens that each lane is said to train on in a step.
const LANE_TOKENS: u64 = 16;

/// A cheap hash of two words (Stafford's variant 13 of the MurmurHash3 finaliser).
pub(super) fn mix(a: u64, b: u64) -> u64 {
    let mut x = a ^ b.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// Where atoms lie, and what the job computes.
#[derive(Debug)]
pub(super) struct Computation {
    pub job: Arc<Job>,
    pub table: Arc<ModelTable>,
    /// First atom of each block, and their number after the last.
    first: Vec<usize>,
    /// Start of each atom within its block.
    starts: Vec<u64>,
    /// Atoms of the token table, if the head shares it.
    tied: std::ops::Range<usize>,
    /// Whether an attempt at a step enters its gradients, so that two attempts can be told apart. Real devices give the
    /// same bits again.
    pub salted: bool,
    /// Whether nodes differ in what their products compute.
    pub mixed: bool,
    /// Steps whose loss is not finite.
    pub bad: std::ops::Range<u64>,
}

/// The whole state at one version, as the reference has it.
#[derive(Debug)]
pub(super) struct Reference {
    pub atoms: Arc<Vec<u64>>,
    /// Samples used up to here are those of these many steps.
    pub step: u64,
    /// What every node computed.
    arithmetic: Arithmetic,
}

impl Computation {
    pub(super) fn new(
        job: Arc<Job>,
        table: Arc<ModelTable>,
        (salted, mixed): (bool, bool),
        bad: std::ops::Range<u64>,
    ) -> Self {
        let (mut first, mut starts) = (Vec::new(), Vec::new());
        for block in &table.blocks {
            first.push(starts.len());
            starts.extend(segments(block, Interval::new(0, block.len)).map(|segment| segment.start));
        }
        first.push(starts.len());
        let mut all = Self { job, table, first, starts, tied: 0..0, salted, mixed, bad };
        if let Some((block, interval)) = all.table.tied() {
            all.tied = all.atoms(block, interval);
        }
        all
    }

    /// Atoms of an interval that is cut at segment edges.
    pub(super) fn atoms(&self, block: BlockId, interval: Interval) -> std::ops::Range<usize> {
        let base = self.first[block.0 as usize];
        let of_block = &self.starts[base..self.first[block.0 as usize + 1]];
        let from = of_block.partition_point(|start| *start < interval.start);
        let to = of_block.partition_point(|start| *start < interval.end);
        base + from..base + to
    }

    pub(super) fn block_atoms(&self, block: u32) -> std::ops::Range<usize> {
        self.first[block as usize]..self.first[block as usize + 1]
    }

    pub(super) fn count(&self) -> usize {
        self.starts.len()
    }

    /// Atoms that the tied head adds gradients to.
    pub(super) fn tied(&self) -> std::ops::Range<usize> {
        self.tied.clone()
    }

    pub(super) fn initial(&self, atom: usize) -> u64 {
        mix(self.job.spec.seed, atom as u64)
    }

    /// What an attempt adds to every hash.
    pub(super) fn salt(&self, attempt: Generation) -> u64 {
        if self.salted { mix(u64::from(attempt.incarnation), u64::from(attempt.number)) } else { 0 }
    }

    /// What a node's arithmetic is, if nodes differ: every third has the one that is not as good.
    pub(super) fn arithmetic_of(&self, node: NodeId) -> Arithmetic {
        if self.mixed && node.0.is_multiple_of(3) { Arithmetic::Plain } else { Arithmetic::Fused }
    }

    /// A lane's input at a step.
    pub(super) fn input(&self, step: u64, lane: u32) -> u64 {
        mix(step, u64::from(lane) << 32 | 1)
    }

    /// A lane's activation after a block, on a node of this arithmetic.
    pub(super) fn forward(&self, arithmetic: Arithmetic, activation: u64, block: u32, weights: &[u64]) -> u64 {
        let mut sum = match arithmetic {
            Arithmetic::Fused => u64::from(block),
            Arithmetic::Plain => !u64::from(block),
        };
        for weight in &weights[self.block_atoms(block)] {
            sum = mix(sum, *weight);
        }
        if block + 1 == self.table.blocks.len() as u32 {
            for weight in &weights[self.tied()] {
                sum = mix(sum, *weight);
            }
        }
        mix(activation, sum)
    }

    /// A lane's gradient of an atom; the token table gets a second one from the head.
    pub(super) fn gradient(&self, loss: u64, atom: usize, tied: bool) -> u64 {
        mix(loss, (atom as u64) << 1 | u64::from(tied))
    }

    /// Leaf hashes of an interval with these atoms, of every kind of state.
    pub(super) fn leaves(&self, block: BlockId, interval: Interval, atoms: &[u64]) -> Vec<PieceLeaves> {
        let first = self.atoms(block, interval).start;
        let of = |inner: Interval| {
            let range = self.atoms(block, inner);
            &atoms[(range.start - first).min(atoms.len())..(range.end - first).min(atoms.len())]
        };
        let starting = || {
            let params = self.table.block(block).params.iter().map(|param| param.interval);
            params.filter(|param| interval.intersection(Interval::new(param.start, param.start + 1)).is_some())
        };
        let leaves = |kind: Kind| match kind {
            Kind::Weight | Kind::Grad | Kind::Moment1 | Kind::Moment2 => {
                atoms.iter().map(|atom| leaf(*atom, kind as u8)).collect()
            }
            // A parameter's factors depend on all of it.
            Kind::Factors => starting()
                .flat_map(|param| {
                    let whole = of(param).iter().fold(0, |sum, atom| mix(sum, *atom));
                    let part = self.table.part(kind, block, param).into_iter();
                    part.flat_map(|part| segments(self.table.space(kind, block), part))
                        .map(move |_| leaf(whole, kind as u8))
                })
                .collect(),
        };
        let kinds = self.table.kinds().iter();
        let parts = kinds.filter_map(|&kind| Some((kind, self.table.part(kind, block, interval)?)));
        parts.map(|(kind, interval)| PieceLeaves { block, interval, kind, leaves: leaves(kind) }).collect()
    }

    /// The norm of some whole gradients.
    pub(super) fn norm(&self, gradients: &[u64]) -> Norm {
        let sum: u64 = gradients.iter().map(|gradient| gradient & 0xF_FFFF).sum();
        Norm::Finite(ExactSum::of(sum as f64))
    }

    /// The loss of some lanes.
    pub(super) fn loss(&self, lanes: &[u64]) -> LossSum {
        let sum: u64 = lanes.iter().map(|loss| loss & 0xF_FFFF).sum();
        LossSum { loss: Norm::Finite(ExactSum::of(sum as f64)), tokens: LANE_TOKENS * lanes.len() as u64 }
    }

    /// The loss of some lanes in a training step.
    pub(super) fn loss_at(&self, step: u64, lanes: &[u64]) -> LossSum {
        let loss = self.loss(lanes);
        if self.bad.contains(&step) { LossSum { loss: Norm::NotFinite, ..loss } } else { loss }
    }

    /// The step after which the job has diverged, if it does.
    pub(super) fn diverges_at(&self) -> Option<u64> {
        let most = u64::from(self.job.spec.train.max_skips?);
        (self.bad.end - self.bad.start >= most).then(|| self.bad.start + most - 1)
    }

    /// An atom after an update.
    pub(super) fn updated(&self, before: u64, record: u64, entry: &LedgerEntry, gradient: u64) -> u64 {
        match entry.update {
            Update::Apply(_) => mix(mix(before, record), gradient),
            Update::Skip => before,
        }
    }
}

/// A record as one word of every update under it.
pub(super) fn word(version: &Version) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&version.chain.0[..8]);
    u64::from_le_bytes(bytes)
}

/// A leaf hash of an atom.
fn leaf(atom: u64, kind: u8) -> Digest {
    let mut bytes = [kind; 32];
    bytes[..8].copy_from_slice(&atom.to_le_bytes());
    Digest(bytes)
}

/// States that the ledger's records lead to, by their chain hash: what one machine alone would have computed.
#[derive(Debug)]
pub(super) struct References {
    by_chain: HashMap<Digest, Reference>,
}

impl References {
    pub(super) fn new(computation: &Computation) -> Self {
        let atoms: Vec<u64> = (0..computation.count()).map(|atom| computation.initial(atom)).collect();
        let atoms = Arc::new(atoms);
        let initial = |arithmetic| Reference { atoms: Arc::clone(&atoms), step: 0, arithmetic };
        let known = Arithmetic::ALL.map(|arithmetic| (computation.job.genesis(arithmetic), initial(arithmetic)));
        Self { by_chain: HashMap::from(known) }
    }

    pub(super) fn at(&self, version: &Version) -> Option<&Reference> {
        self.by_chain.get(&version.chain).filter(|reference| reference.step == version.step)
    }

    /// Computes the step that a record commits. It has to be the record of one of these attempts, whole and unmixed.
    pub(super) fn follow(
        &mut self,
        computation: &Computation,
        entry: &LedgerEntry,
        time: u64,
        attempts: &[Generation],
    ) -> Result<(), String> {
        let at = Version { step: entry.step - 1, chain: entry.previous };
        let version = entry.version();
        if self.by_chain.contains_key(&version.chain) {
            return Ok(());
        }
        let before = self.at(&at).ok_or_else(|| format!("record {} follows a state that never was", entry.step))?;
        let lanes = computation.job.spec.parallel.virtual_replicas;
        let blocks = computation.table.blocks.len() as u32;
        let through = |salt: u64| -> Vec<u64> {
            let forward = |lane| {
                let input = computation.input(entry.step, lane);
                mix(
                    (0..blocks).fold(input, |a, block| computation.forward(before.arithmetic, a, block, &before.atoms)),
                    salt,
                )
            };
            (0..lanes).map(forward).collect()
        };
        for attempt in attempts.iter().rev() {
            let losses = through(computation.salt(*attempt));
            let loss = computation.loss_at(entry.step, &losses);
            if matches!(loss.loss, Norm::Finite(loss) if loss != entry.loss) {
                continue;
            }
            let gradients: Vec<u64> = (0..computation.count())
                .map(|atom| {
                    let tied = computation.tied().contains(&atom);
                    losses.iter().fold(0u64, |sum, loss| {
                        let own = computation.gradient(*loss, atom, false);
                        let more = if tied { computation.gradient(*loss, atom, true) } else { 0 };
                        sum.wrapping_add(own).wrapping_add(more)
                    })
                })
                .collect();
            let report = StepReport { norm: computation.norm(&gradients), loss };
            // The simulated job scales nothing.
            let head = Head { version: at, time, loss_scale: None };
            if commit::entry(&computation.job, &head, &report) != *entry {
                continue;
            }
            let record = word(&version);
            let (arithmetic, atoms) = (before.arithmetic, before.atoms.iter().zip(&gradients));
            let atoms = atoms.map(|(b, g)| computation.updated(*b, record, entry, *g)).collect();
            self.by_chain.insert(version.chain, Reference { atoms: Arc::new(atoms), step: version.step, arithmetic });
            return Ok(());
        }
        Err(format!("record {} is not what any attempt at it computes", entry.step))
    }
}
