//! What can go wrong while a stage computes.

use shoal_kernels::ArenaError;
use shoal_plan::ids::BlockId;

use crate::files::FilesError;

/// Why a stage could not compute. Nothing of the micro-batch is kept; [`crate::StageModel::abort`] makes the stage usable again.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// No room for the compute weights.
    #[error("no room for the compute weights of {block}")]
    Weights {
        /// Which block.
        block: BlockId,
        /// Why.
        #[source]
        source: ArenaError,
    },
    /// The files that the job begins with are not what was submitted.
    #[error("no initial weights")]
    Initial {
        /// Why.
        #[source]
        source: FilesError,
    },
    /// No room for the turns of positions.
    #[error("no room for the table of rotary positions")]
    Rotary {
        /// Why.
        #[source]
        source: ArenaError,
    },
    /// No room for what a forward pass makes.
    #[error("no room for the forward pass of {block}")]
    Forward {
        /// Which block.
        block: BlockId,
        /// Why.
        #[source]
        source: ArenaError,
    },
    /// No room for logits.
    #[error("no room for the loss")]
    Loss {
        /// Why.
        #[source]
        source: ArenaError,
    },
    /// No room for what a backward pass makes.
    #[error("no room for the backward pass of {block}")]
    Backward {
        /// Which block.
        block: BlockId,
        /// Why.
        #[source]
        source: ArenaError,
    },
    /// The data has a token that the model has no row for.
    #[error(
        "token {token} in the data, but the model's vocabulary ends at {vocab}; raise model.vocab or check the data file"
    )]
    Token {
        /// Found.
        token: u32,
        /// Rows of the token table.
        vocab: u32,
    },
    /// There are more lanes than samples, so a lane has nothing to sum.
    #[error("{lanes} virtual replicas for {batch} samples a step; use at most {batch}")]
    EmptyLane {
        /// Virtual replicas.
        lanes: u32,
        /// Samples a step.
        batch: u32,
    },
}
