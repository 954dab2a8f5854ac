//! One stage of one replica: a seat. Its actor walks the instruction list that `plan::schedule` wrote for it.

mod actor;
mod core;
mod message;
mod walk;

pub use actor::StageActor;
pub use core::{Outcome, SeatCore};
pub use message::{Cargo, Flow, SeatNews, StageArgs, StageFault, StageMsg, wire_loss};

#[cfg(test)]
mod tests;
