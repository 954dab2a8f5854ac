//! Arithmetic that the deciding code and the computing code must agree on to the bit.
//!
//! * [`sum::ExactSum`]: an associative sum, for loss and gradient norm over any sharding.
//! * [`philox`]: the counter-based generator behind initialisation, dropout and sample order.
//!
//! Nothing here allocates, reads a clock or depends on the machine.

pub mod philox;
pub mod sum;

pub use sum::ExactSum;
