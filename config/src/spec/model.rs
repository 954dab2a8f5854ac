//! The network: which family, and how large.

use serde::{Deserialize, Serialize};

/// The network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum ModelSpec {
    /// GPT-2: pre-LayerNorm, learned positions, GELU (tanh form), causal attention.
    Gpt2(Gpt2Spec),
    /// Llama: pre-RMSNorm, rotary positions (half-split), SwiGLU, causal attention with grouped queries.
    Llama(LlamaSpec),
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
    /// Distinct tokens: 256 for bytes. The token table has this many rows.
    pub vocab: u32,
    /// Dropout probability after embedding, attention weights, attention output and MLP output; 0 in evaluation.
    pub dropout: f32,
    /// LayerNorm epsilon.
    pub layer_norm_epsilon: f32,
    /// Standard deviation of initial weights; residual projections get it divided by sqrt(2 layers).
    pub init_range: f32,
    /// Linear maps and LayerNorms have biases.
    pub bias: bool,
    /// The head multiplies by the token table instead of a table of its own.
    pub tied_head: bool,
}

impl Gpt2Spec {
    /// Whether it is what OpenAI and llm.c have: with biases, its head the token table.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        self.bias && self.tied_head
    }
}

/// Sizes of a Llama network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LlamaSpec {
    /// Transformer layers.
    pub layers: u32,
    /// Query heads.
    pub heads: u32,
    /// Key and value heads; divides `heads`.
    pub kv_heads: u32,
    /// Elements of a head, even; `heads x head_size`, a multiple of 16, need not be `width`.
    pub head_size: u32,
    /// Model width (hidden size), a multiple of 16.
    pub width: u32,
    /// Width inside the MLP (intermediate size), a multiple of 16.
    pub inner: u32,
    /// Tokens of one sample.
    pub context: u32,
    /// Distinct tokens: 256 for bytes.
    pub vocab: u32,
    /// RMSNorm epsilon.
    pub norm_epsilon: f32,
    /// Standard deviation of initial weights, of all matrices alike.
    pub init_range: f32,
    /// Rotary positions.
    pub rope: RopeSpec,
    /// The head multiplies by the token table instead of a table of its own.
    pub tied_head: bool,
    /// q, k, v and the attention's output projection have biases.
    pub attention_bias: bool,
    /// The MLP's three maps have biases.
    pub mlp_bias: bool,
    /// Dropout probability of attention weights; 0 in evaluation.
    pub attention_dropout: f32,
}

/// How fast pairs of a head turn with position (Su et al., "RoFormer").
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RopeSpec {
    /// Pair i of a head of d elements turns by theta^(-2i/d) radians a position.
    pub theta: f64,
    /// What slows it for contexts longer than those of the first training.
    pub scaling: RopeScaling,
}

/// How turns are slowed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum RopeScaling {
    /// Not at all.
    None,
    /// All alike.
    Linear {
        /// Divides every turn, at least 1.
        factor: f64,
    },
    /// As Llama 3.1 does: slow turns are divided, fast ones kept, those between mixed.
    Llama3 {
        /// Divides slow turns, at least 1.
        factor: f64,
        /// A turn is slow if the original context holds fewer of its periods.
        low_frequency_factor: f64,
        /// A turn is fast if the original context holds more of its periods; above the low one.
        high_frequency_factor: f64,
        /// Context of the first training.
        original_context: u32,
    },
}

impl ModelSpec {
    /// Whether `transformers` has such a model: of GPT-2 it has none without biases.
    #[must_use]
    pub fn is_of_transformers(&self) -> bool {
        match self {
            Self::Gpt2(m) => m.bias,
            Self::Llama(_) => true,
        }
    }

    /// Whether llm.c has such a model: GPT-2 with biases, its head the token table.
    #[must_use]
    pub fn is_of_llmc(&self) -> bool {
        match self {
            Self::Gpt2(m) => m.is_usual(),
            Self::Llama(_) => false,
        }
    }

    /// Transformer layers.
    #[must_use]
    pub fn layers(&self) -> u32 {
        match self {
            Self::Gpt2(m) => m.layers,
            Self::Llama(m) => m.layers,
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
            Self::Llama(m) => m.heads,
        }
    }

    /// Key and value heads; each serves `heads / kv_heads` query heads.
    #[must_use]
    pub fn kv_heads(&self) -> u32 {
        match self {
            Self::Gpt2(m) => m.heads,
            Self::Llama(m) => m.kv_heads,
        }
    }

    /// Elements of one head's query, key or value.
    #[must_use]
    pub fn head_size(&self) -> u32 {
        match self {
            Self::Gpt2(m) => m.width / m.heads,
            Self::Llama(m) => m.head_size,
        }
    }

    /// Model width (hidden size).
    #[must_use]
    pub fn width(&self) -> u32 {
        match self {
            Self::Gpt2(m) => m.width,
            Self::Llama(m) => m.width,
        }
    }

    /// Width inside the MLP.
    #[must_use]
    pub fn inner(&self) -> u32 {
        match self {
            Self::Gpt2(m) => 4 * m.width,
            Self::Llama(m) => m.inner,
        }
    }

    /// Tokens of one sample.
    #[must_use]
    pub fn context(&self) -> u32 {
        match self {
            Self::Gpt2(m) => m.context,
            Self::Llama(m) => m.context,
        }
    }

    /// Distinct tokens.
    #[must_use]
    pub fn vocab(&self) -> u32 {
        match self {
            Self::Gpt2(m) => m.vocab,
            Self::Llama(m) => m.vocab,
        }
    }

    /// Dropout probability of attention weights.
    #[must_use]
    pub fn attention_dropout(&self) -> f32 {
        match self {
            Self::Gpt2(m) => m.dropout,
            Self::Llama(m) => m.attention_dropout,
        }
    }

    /// Dropout probability of everything else; a Llama drops nothing there.
    #[must_use]
    pub fn dropout(&self) -> f32 {
        match self {
            Self::Gpt2(m) => m.dropout,
            Self::Llama(_) => 0.0,
        }
    }

    /// Epsilon of every norm.
    #[must_use]
    pub fn norm_epsilon(&self) -> f32 {
        match self {
            Self::Gpt2(m) => m.layer_norm_epsilon,
            Self::Llama(m) => m.norm_epsilon,
        }
    }

    /// Standard deviation of initial weights.
    #[must_use]
    pub fn init_range(&self) -> f32 {
        match self {
            Self::Gpt2(m) => m.init_range,
            Self::Llama(m) => m.init_range,
        }
    }

    /// The sizes, if it is a GPT-2.
    #[must_use]
    pub fn as_gpt2(&self) -> Option<&Gpt2Spec> {
        match self {
            Self::Gpt2(m) => Some(m),
            Self::Llama(_) => None,
        }
    }

    /// The sizes, to be changed, if it is a GPT-2.
    #[must_use]
    pub fn as_gpt2_mut(&mut self) -> Option<&mut Gpt2Spec> {
        match self {
            Self::Gpt2(m) => Some(m),
            Self::Llama(_) => None,
        }
    }

    /// The sizes, to be changed, if it is a Llama.
    #[must_use]
    pub fn as_llama_mut(&mut self) -> Option<&mut LlamaSpec> {
        match self {
            Self::Llama(m) => Some(m),
            Self::Gpt2(_) => None,
        }
    }
}
