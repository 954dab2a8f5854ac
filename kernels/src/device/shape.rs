//! What operations are told beside their buffers.

use shoal_exact::ExactSum;

/// How a weight matrix is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// `[outputs, inputs]`: column-parallel.
    OutIn,
    /// `[inputs, outputs]`: row-parallel.
    InOut,
}

/// One linear map over a batch of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Linear {
    /// Rows of input and output.
    pub rows: usize,
    /// Elements of an input row.
    pub inputs: usize,
    /// Elements of an output row.
    pub outputs: usize,
    /// How the weight lies.
    pub layout: Layout,
}

/// What happens to what the destination holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// It is replaced.
    Overwrite,
    /// The complete result, as `Overwrite` would have left it, is added to it by one f32 addition an element.
    Add,
}

/// Sizes of causal self-attention.
///
/// The packed input has a row `[q: heads x size][kv: kv_heads x (k, v) x size]` a token; the output a row `[heads x size]`.
/// Query heads share a key and value head in runs of [`Attention::group`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attention {
    /// Samples, each attending within itself.
    pub samples: usize,
    /// Tokens of a sample.
    pub positions: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Elements of a head.
    pub size: usize,
}

impl Attention {
    /// Elements of an output row.
    #[must_use]
    pub fn width(&self) -> usize {
        self.heads * self.size
    }

    /// Elements of a packed row.
    #[must_use]
    pub fn packed(&self) -> usize {
        self.width() + self.cached()
    }

    /// Elements of the key and value part of a packed row: what a cache keeps of a token.
    #[must_use]
    pub fn cached(&self) -> usize {
        2 * self.kv_heads * self.size
    }

    /// Query heads that share a key and value head.
    ///
    /// # Panics
    /// If `kv_heads` does not divide `heads`.
    #[must_use]
    pub fn group(&self) -> usize {
        assert!(
            self.kv_heads > 0 && self.heads.is_multiple_of(self.kv_heads),
            "KN-1 (shapes): {} query heads for {} of keys and values",
            self.heads,
            self.kv_heads
        );
        self.heads / self.kv_heads
    }

    /// Elements of the log-sum-exp statistics: `[samples, heads, positions]`.
    #[must_use]
    pub fn statistics(&self) -> usize {
        self.samples * self.heads * self.positions
    }
}

/// Scale, shift and epsilon of a LayerNorm.
#[derive(Clone, Copy)]
pub struct NormParams<'a> {
    /// `[width]`.
    pub gamma: super::View<'a>,
    /// `[width]`; nothing is added without one.
    pub beta: Option<super::View<'a>>,
    /// Added to the variance.
    pub epsilon: f32,
}

/// Targets with this value are not scored: no loss, no gradient, not counted.
pub const IGNORE: u32 = u32::MAX;

/// Loss of some tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossSum {
    /// Sum of per-token losses, each rounded to f32; without those that are not finite.
    pub sum: ExactSum,
    /// Tokens scored.
    pub tokens: u64,
    /// No loss was infinite or NaN.
    pub finite: bool,
}

impl LossSum {
    /// Of no token.
    pub const ZERO: Self = Self { sum: ExactSum::ZERO, tokens: 0, finite: true };

    /// Adds the loss of other tokens.
    pub fn merge(&mut self, other: &Self) {
        self.sum.merge(&other.sum);
        self.tokens += other.tokens;
        self.finite &= other.finite;
    }
}

/// Sum of squares of some elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SquareSum {
    /// The sum, without chunks that are not finite.
    pub sum: ExactSum,
    /// No element was infinite or NaN.
    pub finite: bool,
}

impl SquareSum {
    /// Of nothing.
    pub const ZERO: Self = Self { sum: ExactSum::ZERO, finite: true };

    /// Adds the sum of other elements.
    pub fn merge(&mut self, other: &Self) {
        self.sum.merge(&other.sum);
        self.finite &= other.finite;
    }
}
