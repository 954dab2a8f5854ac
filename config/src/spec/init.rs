//! What weights a job begins with.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Where the weights of step 0 come from. Optimizer state begins at zero in any case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum InitSpec {
    /// Drawn from the job's seed.
    Seed,
    /// Hugging Face's form: a directory with `config.json` and `model.safetensors`, or shards of it and their index.
    /// Absolute once resolved.
    Hf(PathBuf),
    /// An llm.c checkpoint, version 3 (fp32) or 5 (bf16). Absolute once resolved.
    LlmC(PathBuf),
}

impl InitSpec {
    /// The files, if there are any.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Seed => None,
            Self::Hf(path) | Self::LlmC(path) => Some(path),
        }
    }
}
