//! Half types on a device.

use super::Device;
use crate::arena::{View, ViewMut};
use crate::half::Half;

impl Device {
    /// Every element becomes the nearest value of `half`, see [`Half::bits`].
    pub fn round(&self, x: ViewMut<'_>, half: Half) {
        match self {
            Self::Cpu(cpu) => cpu.round(x.into_host(), half),
        }
    }

    /// [`Self::round`] to bf16.
    pub fn round_to_bf16(&self, x: ViewMut<'_>) {
        self.round(x, Half::Bf16);
    }

    /// [`Self::round`] to f16.
    pub fn round_to_f16(&self, x: ViewMut<'_>) {
        self.round(x, Half::F16);
    }

    /// The rounded elements of `x`, two in each slot of `packed` ([`Half::slots`] of them), in order of memory.
    pub fn pack(&self, packed: ViewMut<'_>, x: View<'_>, half: Half) {
        match self {
            Self::Cpu(cpu) => cpu.pack(packed.into_host(), x.host(), half),
        }
    }

    /// [`Self::pack`] of values in host memory.
    pub fn upload_packed(&self, packed: ViewMut<'_>, x: &[f32], half: Half) {
        match self {
            Self::Cpu(cpu) => cpu.pack(packed.into_host(), x, half),
        }
    }

    /// Rows of a packed table, widened: row `i` of `x [rows, width]` is row `rows[i]` of the table; the width is even.
    pub fn unpack_rows(&self, x: ViewMut<'_>, packed: View<'_>, rows: &[u32], half: Half) {
        match self {
            Self::Cpu(cpu) => cpu.unpack_rows(x.into_host(), packed.host(), rows, half),
        }
    }

    /// The elements that [`Self::pack`] put into `packed`.
    pub fn unpack(&self, x: ViewMut<'_>, packed: View<'_>, half: Half) {
        match self {
            Self::Cpu(cpu) => cpu.unpack(x.into_host(), packed.host(), half),
        }
    }
}
