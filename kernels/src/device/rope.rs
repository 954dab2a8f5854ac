//! Rotary positions: what each position turns each pair of elements by.

use shoal_exact::elementary::power;

use super::{Attention, Device};
use crate::arena::{View, ViewMut};

/// How fast pairs turn (Su et al., "RoFormer").
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rotary {
    /// Pair `i` of a head of `size` turns by `theta^(-2 i / size)` a position, before scaling.
    pub theta: f64,
    /// How the turns are slowed for contexts longer than the first training's.
    pub scaling: RotaryScaling,
}

/// How turns are slowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RotaryScaling {
    /// Not at all.
    None,
    /// All alike.
    Linear {
        /// Divides every turn.
        factor: f64,
    },
    /// As Llama 3.1 does: slow turns are divided, fast ones kept, those between mixed.
    Llama3 {
        /// Divides slow turns.
        factor: f64,
        /// A turn is slow if `original_positions` holds fewer of its periods.
        low_freq_factor: f64,
        /// A turn is fast if `original_positions` holds more of its periods.
        high_freq_factor: f64,
        /// Context of the first training.
        original_positions: u32,
    },
}

impl Rotary {
    /// Radians a position for each pair of a head of `size` elements.
    pub(crate) fn turns(&self, size: usize) -> Vec<f64> {
        let turn = |pair: usize| power(self.theta, -2.0 * pair as f64 / size as f64);
        (0..size / 2).map(|pair| self.scaling.slowed(turn(pair))).collect()
    }
}

impl RotaryScaling {
    fn slowed(&self, turn: f64) -> f64 {
        match *self {
            Self::None => turn,
            Self::Linear { factor } => turn / factor,
            Self::Llama3 { factor, low_freq_factor, high_freq_factor, original_positions } => {
                let periods = f64::from(original_positions) * turn / std::f64::consts::TAU;
                if periods < low_freq_factor {
                    turn / factor
                } else if periods > high_freq_factor {
                    turn
                } else {
                    let kept = (periods - low_freq_factor) / (high_freq_factor - low_freq_factor);
                    (1.0 - kept) * turn / factor + kept * turn
                }
            }
        }
    }
}

impl Device {
    /// Writes the table `[positions, size / 2, 2]` of cosines and sines that [`Self::rope`] takes, for as many positions as `dst`
    /// has room for and heads of `size` elements: each the true value of its angle, computed in f64 and rounded once.
    pub fn rope_table(&self, dst: ViewMut<'_>, size: usize, rotary: &Rotary) {
        match self {
            Self::Cpu(cpu) => cpu.rope_table(dst.into_host(), size, rotary),
        }
    }

    /// Turns queries and keys of the packed `qkv [tokens, packed]` in place by their positions within the sample; values are left
    /// alone. Element `i` of a head's first half and of its second half are a pair; `table` is that of [`Self::rope_table`] or a part
    /// of it from some position on, which then is that of each sample's first token.
    pub fn rope(&self, qkv: ViewMut<'_>, table: View<'_>, shape: Attention) {
        match self {
            Self::Cpu(cpu) => cpu.rope(qkv.into_host(), table.host(), shape, false),
        }
    }

    /// Gradient of [`Self::rope`], in place: turns the gradients of queries and keys back.
    pub fn rope_backward(&self, dqkv: ViewMut<'_>, table: View<'_>, shape: Attention) {
        match self {
            Self::Cpu(cpu) => cpu.rope(dqkv.into_host(), table.host(), shape, true),
        }
    }
}
