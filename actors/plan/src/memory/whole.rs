//! Bytes that a whole model takes in one process which only computes forward: upper bounds, held against the arena's marks.
//!
//! With the letters of [`super`] for a model's sizes, p positions read at once and q positions remembered, a field of
//! [`WholeBytes`] a row:
//!
//! | field | bytes |
//! |---|---|
//! | weights | those of a seat that has every block |
//! | kept | 4 q x 2 k d a layer |
//! | rows | 4 p x (3 h, what a layer keeps, and f); 4 V x rows of logits that are there at once; with precision bf16 or fp16, 4 x the most elements of weights that one product reads; and what buffers are rounded up by, a page each |

use serde::Serialize;
use shoal_config::JobSpec;
use shoal_config::spec::Precision;

use super::{F32, LOGIT_ROWS, Rows, SeatShape, opened, seat_bytes};
use crate::batch::context;
use crate::blocks::ModelTable;

/// Buffers are whole pages.
const PAGE: u64 = 4096;

/// What a whole model is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The loss of micro-batches of the job.
    Evaluate,
    /// A text that goes on.
    Text {
        /// Tokens read at the beginning.
        prompt: u64,
        /// Tokens that may follow.
        more: u64,
    },
}

/// What it takes, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct WholeBytes {
    /// Compute weights, and what else is constant.
    pub weights: u64,
    /// Keys and values of the tokens that were read.
    pub kept: u64,
    /// Rows of the tokens that are being read, and logits.
    pub rows: u64,
}

impl WholeBytes {
    /// All of it.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.weights.saturating_add(self.kept).saturating_add(self.rows)
    }
}

impl Purpose {
    /// Tokens whose keys and values are remembered.
    #[must_use]
    pub fn remembered(self, spec: &JobSpec) -> u64 {
        match self {
            Self::Evaluate => 0,
            Self::Text { prompt, more } => prompt.saturating_add(more).clamp(1, context(spec)),
        }
    }

    /// Tokens that are read at once.
    fn read(self, spec: &JobSpec) -> u64 {
        match self {
            Self::Evaluate => u64::from(spec.train.micro_batch) * context(spec),
            // When the text has filled the context, half of it is read anew.
            Self::Text { prompt, more } if prompt.saturating_add(more) > context(spec) => {
                prompt.max(context(spec) / 2).clamp(1, context(spec))
            }
            Self::Text { prompt, .. } => prompt.clamp(1, context(spec)),
        }
    }
}

/// What a whole model takes for a purpose.
#[must_use]
pub fn whole_bytes(spec: &JobSpec, table: &ModelTable, purpose: Purpose) -> WholeBytes {
    let (rows, model) = (Rows::of(&spec.model), &spec.model);
    let seat = SeatShape {
        blocks: 0..table.blocks.len() as u32,
        stage: 0,
        stages: 1,
        lanes: 1,
        micro_batches: 1,
        schedule: spec.parallel.schedule,
    };
    let tokens = purpose.read(spec);
    let logits = match purpose {
        Purpose::Evaluate => tokens.min(LOGIT_ROWS),
        Purpose::Text { .. } => 1,
    };
    let (wide, statistics) = rows.kept(model);
    let widened = match spec.train.numerics.precision {
        Precision::Fp32 => 0,
        Precision::Bf16 | Precision::Fp16(_) => opened(table, &seat.blocks),
    };
    let each = wide + statistics + 3 * rows.width + rows.inner;
    // Weights and what is kept are a buffer a block each; of rows, and what is constant, there are a few at a time.
    let rounded = PAGE * (2 * table.blocks.len() as u64 + 16);
    WholeBytes {
        weights: seat_bytes(spec, table, &seat).seat_weights,
        kept: F32 * purpose.remembered(spec) * rows.kv * u64::from(model.layers()),
        rows: F32 * (tokens * each + logits * u64::from(model.vocab()) + widened) + rounded,
    }
}
