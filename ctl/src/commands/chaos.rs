//! `chaos`: faults on purpose.

use serde::Serialize;
use shoal_wire::api::NodeState;

use super::Context;
use crate::cli::Chaos;
use crate::failure::{Failure, Verdict};
use crate::output::Show;

#[derive(Serialize)]
struct Panicked {
    job: String,
    node: String,
}

#[derive(Serialize)]
struct Poisoned {
    job: String,
    node: String,
}

#[derive(Serialize)]
struct Hung {
    job: String,
    node: String,
}

pub(super) fn run(context: &Context, args: Chaos) -> Result<Verdict, Failure> {
    match args {
        Chaos::PanicStage { job, node } => {
            let node = node.map_or_else(|| first_ready(context), Ok)?;
            context.client.chaos(&job, "panic-stage", node.clone())?;
            context.format.print(&Panicked { job, node })?;
        }
        Chaos::HangStage { job, node } => {
            let node = node.map_or_else(|| first_ready(context), Ok)?;
            context.client.chaos(&job, "hang-stage", node.clone())?;
            context.format.print(&Hung { job, node })?;
        }
        Chaos::PoisonStage { job, node } => {
            let node = node.map_or_else(|| first_ready(context), Ok)?;
            context.client.chaos(&job, "poison-stage", node.clone())?;
            context.format.print(&Poisoned { job, node })?;
        }
    }
    Ok(Verdict::True)
}

fn first_ready(context: &Context) -> Result<String, Failure> {
    let nodes = context.client.nodes()?;
    let ready = nodes.into_iter().find(|node| node.state == NodeState::Ready);
    ready.map(|node| node.node).ok_or_else(|| Failure::No("no worker is ready, so no stage can fail".to_owned()))
}

impl Show for Panicked {
    fn show(&self) -> String {
        format!(
            "a stage of {} on {} panics at its next instruction; `shoalctl events {}` shows it",
            self.job, self.node, self.job
        )
    }
}

impl Show for Poisoned {
    fn show(&self) -> String {
        format!(
            "the next gradient that {} makes for {} is infinite; `shoalctl events {}` shows the step that is skipped",
            self.node, self.job, self.job
        )
    }
}

impl Show for Hung {
    fn show(&self) -> String {
        format!(
            "the compute device of {} hangs at the next instruction of {}, until it is evicted: `shoalctl events {}` shows it",
            self.node, self.job, self.job
        )
    }
}
