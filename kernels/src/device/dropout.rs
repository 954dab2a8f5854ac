//! Dropout masks that anyone can draw again: no state, no stored mask.

use shoal_exact::philox::philox;

/// Where in a block a mask is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropoutSite {
    /// After the sum of token and position embedding; element `[position, width]`.
    Embedding = 0,
    /// On attention probabilities; element `[head, query, key]`.
    Attention = 1,
    /// After the attention's output projection; element `[position, width]`.
    AttentionOutput = 2,
    /// After the MLP's output projection; element `[position, width]`.
    MlpOutput = 3,
}

/// What names a mask, the sample apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DropoutKey {
    /// The job's seed.
    pub seed: u64,
    /// The step.
    pub step: u64,
    /// Index of the block in the model.
    pub block: u32,
    /// Where in the block.
    pub site: DropoutSite,
}

/// One dropout over a micro-batch.
///
/// An element is kept if its 32-bit draw is at least `probability x 2^32`, and then multiplied by `1 / (1 - probability)`.
#[derive(Clone, Copy, Debug)]
pub struct Dropout<'a> {
    /// Which mask.
    pub key: DropoutKey,
    /// Share of elements dropped, at least 0 and below 1.
    pub probability: f32,
    /// Ids of the samples, in the order in which they lie in the buffer; each has the same number of elements.
    pub samples: &'a [u64],
}

impl Dropout<'_> {
    /// Key of the stream of one sample: element `64 g + 16 w + i` is word w of Philox4x32 at counter
    /// `[c low, c high, block, site]`, c = 16 g + i.
    #[must_use]
    pub fn stream(&self, sample: usize) -> [u32; 2] {
        let [mixed, _] = philox(self.key.seed, [self.key.step, self.samples[sample]]);
        [mixed as u32, (mixed >> 32) as u32]
    }

    /// Draws below this are dropped.
    #[must_use]
    pub fn threshold(&self) -> u32 {
        // Below 1, so the product is below 2^32 and the conversion is exact or truncates.
        (f64::from(self.probability) * 4_294_967_296.0) as u32
    }

    /// What kept elements are multiplied by.
    #[must_use]
    pub fn factor(&self) -> f32 {
        1.0 / (1.0 - self.probability)
    }
}
