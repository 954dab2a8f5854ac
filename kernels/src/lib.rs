//! One device's arithmetic.
//!
//! * [`arena`]: tagged, capped memory. Every tensor byte of a node lives in a [`Buffer`].
//! * [`device`]: the operations a model is built from, as methods of [`Device`] on opaque [`View`]s, and the one ordered
//!   [`Queue`] through which a device is used.
//! * `cpu`: the processor's implementation.
//!
//! Results do not depend on the number of threads or on how rows or columns are divided among them: every reduction has a
//! fixed order over fixed blocks, matrix products slice their contraction at a constant, and elementary functions are this
//! project's own polynomials. Nor do they depend on the width of vectors: of all that a processor has, only whether it fuses
//! multiply and add enters bits, and only in matrix products ([`Device::arithmetic`]). `avx2`, `avx512` and `neon` do and
//! give each other's bits; `portable` on x86-64 does not.

pub mod arena;
mod cpu;
pub mod device;
mod half;

pub use arena::{Arena, ArenaError, Budget, Buffer, Tag, Tier, Usage, View, ViewMut};
pub use cpu::{Class, CpuDevice, SLICE, normals};
pub use device::{
    Adafactor, Adam, Attention, Decay, Device, Dropout, DropoutKey, DropoutSite, Factors, IGNORE, JobPanic, Layout,
    Linear, LossSum, Momentum, NormParams, Queue, RmsProp, Rotary, RotaryScaling, Sgd, SquareSum, Squares, Write,
};
pub use half::Half;
