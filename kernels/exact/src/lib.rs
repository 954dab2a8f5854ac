//! Arithmetic that the deciding code and the computing code must agree on to the bit.
//!
//! * [`sum::ExactSum`]: an associative sum, for loss and gradient norm over any sharding.
//! * [`bins::Bins`]: a faster way into it for many terms.
//! * [`elementary`]: functions that no platform's library has a say in.
//! * [`Arithmetic`]: how the sums of matrix products round, the one thing that a processor has a say in.
//! * [`philox`]: the counter-based generator behind initialisation, dropout and sample order.
//!
//! Nothing here allocates, reads a clock or depends on the machine.

pub mod arithmetic;
pub mod bins;
pub mod elementary;
pub mod philox;
pub mod sum;

pub use arithmetic::Arithmetic;
pub use bins::Bins;
pub use sum::ExactSum;
