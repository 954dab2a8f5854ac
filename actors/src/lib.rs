//!

pub mod transport;
