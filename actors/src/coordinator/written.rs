//! Pieces in the data directories of workers, as one state.

use shoal_plan::blocks::ModelTable;
use shoal_plan::digest::{self, DigestError, PieceLeaves};
use shoal_plan::ids::{BlockId, Digest, NodeId};
use shoal_plan::ledger::Version;
use shoal_plan::space::{Interval, Kind};
use shoal_wire::control::{Answer, WrittenPiece};

use super::message::NodeAnswer;

/// What workers have written of one version.
#[derive(Clone, Debug)]
pub struct Catalogue {
    version: Version,
    pieces: Vec<(NodeId, WrittenPiece)>,
}

/// Why a state cannot be read back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatalogueError {
    /// Nobody reachable has written some elements.
    #[error("elements from {at} of {kind} of block {block} at step {step} are written on no node that is here")]
    Missing {
        /// At this step.
        step: u64,
        /// Whose space.
        block: BlockId,
        /// Which kind.
        kind: Kind,
        /// First missing element.
        at: u64,
    },
}

impl Catalogue {
    /// From the manifests that workers sent; pieces of other versions, and of other chains under the same step, are left
    /// out.
    #[must_use]
    pub fn new(version: Version, answers: Vec<NodeAnswer>) -> Self {
        let mut pieces = Vec::new();
        for NodeAnswer { node, answer, .. } in answers {
            match answer {
                Answer::Manifest(written) => pieces.extend(written.into_iter().map(|piece| (node, piece))),
                Answer::Refused(reason) => tracing::debug!(%node, reason, "no manifest"),
                Answer::Report(_) | Answer::Written(_) => tracing::warn!(%node, "not a manifest"),
            }
        }
        pieces.retain(|(_, piece)| piece.version == version);
        Self { version, pieces }
    }

    /// The version it is about.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// The digest of the whole state.
    ///
    /// # Errors
    /// If elements are missing, or two workers have written different bits.
    pub fn digest(&self, table: &ModelTable) -> Result<Digest, DigestError> {
        let leaves: Vec<PieceLeaves> = self
            .pieces
            .iter()
            .map(|(_, piece)| PieceLeaves {
                block: piece.block,
                interval: piece.interval,
                kind: piece.kind,
                leaves: piece.leaves.clone(),
            })
            .collect();
        digest::assemble(table, &leaves)
    }

    /// Who has a kind of a block from element `at` on, and up to where; the longest first.
    #[must_use]
    pub fn holders(&self, block: BlockId, kind: Kind, at: u64) -> Vec<(NodeId, u64)> {
        let mut holders: Vec<_> = self
            .pieces
            .iter()
            .filter(|(_, piece)| piece.block == block && piece.kind == kind)
            .filter(|(_, piece)| piece.interval.start <= at && at < piece.interval.end)
            .map(|(node, piece)| (*node, piece.interval.end))
            .collect();
        holders.sort_by_key(|(node, end)| (std::cmp::Reverse(*end), *node));
        holders
    }

    /// Whether every element of a kind of a block is written somewhere here.
    ///
    /// # Errors
    /// If some are not.
    pub fn complete(&self, block: BlockId, kind: Kind, interval: Interval) -> Result<(), CatalogueError> {
        let mut at = interval.start;
        while at < interval.end {
            let holders = self.holders(block, kind, at);
            let step = self.version.step;
            at = holders.first().ok_or(CatalogueError::Missing { step, block, kind, at })?.1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
