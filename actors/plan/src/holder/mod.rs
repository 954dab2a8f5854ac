//! One node's side of a job: what it holds, at which version, and what it does next.
//!
//! `handle(event) -> commands`, like the engine. The node's actors carry the commands out; the simulator does the same in
//! virtual time. Everything is idempotent within a generation, and older generations are refused.

pub mod face;

use std::sync::Arc;

pub use face::{
    HolderCommand, HolderEvent, MoveCommand, Part, Role, SeatCommand, SlotCommand, SlotId, Source, Target, Wanted,
};

use crate::blocks::ModelTable;
use crate::ids::NodeId;
use crate::job::Job;

/// The books of one job on one node.
#[derive(Debug)]
pub struct Holder {
    node: NodeId,
    job: Arc<Job>,
    table: Arc<ModelTable>,
}

impl Holder {
    /// A holder that holds nothing yet.
    #[must_use]
    pub fn new(node: NodeId, job: Arc<Job>, table: Arc<ModelTable>) -> Self {
        Self { node, job, table }
    }

    /// Takes one fact in; says what to do, in order.
    pub fn handle(&mut self, event: HolderEvent) -> Vec<HolderCommand> {
        let _ = (&self.node, &self.job, &self.table, event);
        Vec::new()
    }
}
