//! A model's arithmetic, built from kernels.
//!
//! [`init`] draws the initial weights from the seed.

pub mod init;

#[cfg(test)]
mod testing;
