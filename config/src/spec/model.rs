//! The network: which family, and how large.

use serde::{Deserialize, Serialize};

/// The network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum ModelSpec {
    /// GPT-2: pre-LayerNorm, learned positions, GELU (tanh form), causal attention, tied head.
    Gpt2(Gpt2Spec),
}

/// Sizes of a GPT-2 network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpt2Spec {
    /// Transformer layers.
    pub layers: u32,
    /// Attention heads; divides `width`.
    pub heads: u32,
    /// Model width (hidden size), a multiple of 16.
    pub width: u32,
    /// Tokens of one sample.
    pub context: u32,
    /// Distinct tokens: 256 for bytes. The tied embedding has this many rows.
    pub vocab: u32,
    /// Dropout probability after embedding, attention weights, attention output and MLP output; 0 in evaluation.
    pub dropout: f32,
    /// LayerNorm epsilon.
    pub layer_norm_epsilon: f32,
    /// Standard deviation of initial weights; residual projections get it divided by sqrt(2 layers).
    pub init_range: f32,
}

impl ModelSpec {
    /// Transformer layers.
    #[must_use]
    pub fn layers(&self) -> u32 {
        match self {
            Self::Gpt2(m) => m.layers,
        }
    }

    /// Blocks: an embedding, the layers, a head.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        u64::from(self.layers()) + 2
    }

    /// Query heads.
    #[must_use]
    pub fn heads(&self) -> u32 {
        match self {
            Self::Gpt2(m) => m.heads,
        }
    }

    /// Key and value heads; each serves `heads / kv_heads` query heads.
    #[must_use]
    pub fn kv_heads(&self) -> u32 {
        match self {
            Self::Gpt2(m) => m.heads,
        }
    }

    /// Elements of one head's query, key or value.
    #[must_use]
    pub fn head_size(&self) -> u32 {
        match self {
            Self::Gpt2(m) => m.width / m.heads,
        }
    }

    /// Model width (hidden size).
    #[must_use]
    pub fn width(&self) -> u32 {
        match self {
            Self::Gpt2(m) => m.width,
        }
    }

    /// Width inside the MLP.
    #[must_use]
    pub fn inner(&self) -> u32 {
        match self {
            Self::Gpt2(m) => 4 * m.width,
        }
    }

    /// Tokens of one sample.
    #[must_use]
    pub fn context(&self) -> u32 {
        match self {
            Self::Gpt2(m) => m.context,
        }
    }

    /// Distinct tokens.
    #[must_use]
    pub fn vocab(&self) -> u32 {
        match self {
            Self::Gpt2(m) => m.vocab,
        }
    }

    /// Dropout probability.
    #[must_use]
    pub fn dropout(&self) -> f32 {
        match self {
            Self::Gpt2(m) => m.dropout,
        }
    }

    /// Epsilon of every norm.
    #[must_use]
    pub fn norm_epsilon(&self) -> f32 {
        match self {
            Self::Gpt2(m) => m.layer_norm_epsilon,
        }
    }

    /// Standard deviation of initial weights.
    #[must_use]
    pub fn init_range(&self) -> f32 {
        match self {
            Self::Gpt2(m) => m.init_range,
        }
    }

    /// The sizes, if it is a GPT-2.
    #[must_use]
    pub fn as_gpt2(&self) -> Option<&Gpt2Spec> {
        match self {
            Self::Gpt2(m) => Some(m),
        }
    }

    /// The sizes, to be changed, if it is a GPT-2.
    #[must_use]
    pub fn as_gpt2_mut(&mut self) -> Option<&mut Gpt2Spec> {
        match self {
            Self::Gpt2(m) => Some(m),
        }
    }
}
