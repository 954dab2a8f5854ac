//! The job's state machine: `handle(now, event) -> commands`. The coordinator actor and the simulator both run it.

pub mod face;
pub mod happening;

pub use face::{Command, Event, LossCause, Millis, Offer, Order, OrderAnswer, Record, State};
pub use happening::Happening;
