//! A plan for people: what runs where, how much it takes, and a step on the logical clock.
//!
//! DR-1 (a string takes any text): nothing that is written into one can fail.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use shoal_config::spec::{Auto, ParallelSpec, Schedule};

use crate::blocks::{BlockKind, ModelTable};
use crate::engine::Offer;
use crate::ids::NodeId;
use crate::job::Job;
use crate::layout::Plan;
use crate::memory::{self, NodeBytes};
use crate::predict;
use crate::schedule::Instruction;
use crate::schedule::timeline::Timeline;
use crate::traffic::{self, Bytes};

#[cfg(test)]
mod tests;

/// Characters of a drawn timeline.
const WIDTH: u64 = 96;

/// Everything [`text`] shows, as data.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// As [`line()`].
    pub layout: String,
    /// Stages in pipeline order.
    pub stages: Vec<StageSummary>,
    /// First and last-but-one lane of each replica.
    pub lanes: Vec<(u32, u32)>,
    /// Every node with a seat or piece.
    pub nodes: Vec<NodeSummary>,
    /// Members without either.
    pub spares: Vec<String>,
    /// Predicted nanoseconds of a step.
    pub step_nanoseconds: u64,
    /// Idle share of the devices in forward and backward.
    pub bubble: f64,
    /// Bytes that a step sends between nodes.
    pub step_bytes: Bytes,
    /// A row a device.
    pub timeline: Vec<String>,
}

/// One stage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageSummary {
    /// Its blocks, e.g. `embedding, 2 layers`.
    pub blocks: String,
    /// Nodes of its seats, by replica.
    pub seats: Vec<String>,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeSummary {
    /// Its id.
    pub node: String,
    /// Its seats, e.g. `s0r1`.
    pub seats: Vec<String>,
    /// Elements it owns.
    pub owned: u64,
    /// Elements it shadows.
    pub shadowed: u64,
    /// Bytes by purpose.
    pub bytes: NodeBytes,
    /// Bytes in the device tier.
    pub device_bytes: u64,
    /// Bytes in the host tier.
    pub host_bytes: u64,
    /// Bytes it may hold.
    pub budget_bytes: u64,
}

/// `pipeline 2 x data 3`.
#[must_use]
pub fn shape(stages: usize, replicas: usize) -> String {
    format!("pipeline {stages} x data {replicas}")
}

/// What the job file asks for, in the same words.
#[must_use]
pub fn asked(parallel: &ParallelSpec) -> String {
    let word = |wish: Auto<u32>| match wish {
        Auto::Auto => "auto".to_owned(),
        Auto::Set(value) => value.to_string(),
    };
    format!("pipeline {} x data {}", word(parallel.pipeline), word(parallel.data))
}

/// The plan in a line, e.g. `pipeline 2 x data 2, 1f1b, 4 nodes, 1 spare`.
#[must_use]
pub fn line(plan: &Plan) -> String {
    let schedule = match plan.schedule {
        Schedule::GPipe => "gpipe",
        Schedule::OneFOneB => "1f1b",
    };
    let nodes = plan.nodes();
    let spares = match plan.spares.len() {
        0 => String::new(),
        1 => ", 1 spare".to_owned(),
        n => format!(", {n} spares"),
    };
    let plural = if nodes.len() == 1 { "" } else { "s" };
    format!("{}, {schedule}, {} node{plural}{spares}", shape(plan.stages.len(), plan.lanes.len()), nodes.len())
}

/// The plan as data for `--json`.
#[must_use]
pub fn summary(plan: &Plan, job: &Job, table: &ModelTable, members: &BTreeMap<NodeId, Offer>) -> Summary {
    let prediction = predict::on(members, plan, &job.spec, table);
    let bytes = memory::of_plan(plan, &job.spec, table);
    let nodes = bytes.into_iter().map(|(node, bytes)| NodeSummary {
        node: node.to_string(),
        seats: plan.seats().filter(|(_, of)| *of == node).map(|(seat, _)| seat.to_string()).collect(),
        owned: plan.pieces.iter().filter(|p| p.owner == node).map(|p| p.interval.len()).sum(),
        shadowed: plan.pieces.iter().filter(|p| p.shadows.contains(&node)).map(|p| p.interval.len()).sum(),
        bytes,
        device_bytes: bytes.device(),
        host_bytes: bytes.host(),
        budget_bytes: members.get(&node).map_or(0, |offer| offer.budget_bytes),
    });
    let stages = plan.stages.iter().map(|stage| StageSummary {
        blocks: blocks(table, stage.blocks.clone()),
        seats: stage.seats.iter().map(NodeId::to_string).collect(),
    });
    Summary {
        layout: line(plan),
        stages: stages.collect(),
        lanes: plan.lanes.iter().map(|run| (run.start, run.end)).collect(),
        nodes: nodes.collect(),
        spares: plan.spares.iter().map(NodeId::to_string).collect(),
        step_nanoseconds: prediction.step(),
        bubble: prediction.pass.bubble(),
        step_bytes: traffic::of_step(plan, &job.spec, table).total(),
        timeline: bars(&prediction.pass, WIDTH),
    }
}

/// The plan as text: layout, a table of nodes, and a step on the logical clock.
#[must_use]
pub fn text(plan: &Plan, job: &Job, table: &ModelTable, members: &BTreeMap<NodeId, Offer>) -> String {
    let summary = summary(plan, job, table, members);
    let mut out = format!("{}\n\n", summary.layout);
    for (s, stage) in summary.stages.iter().enumerate() {
        put(&mut out, format_args!("stage {s}: {} on {}", stage.blocks, stage.seats.join(" ")));
    }
    for (r, (start, end)) in summary.lanes.iter().enumerate() {
        put(&mut out, format_args!("replica {r}: lanes {start}..{end} of {}", job.spec.parallel.virtual_replicas));
    }
    put(&mut out, format_args!(""));
    let heads = ["node", "seats", "owns", "shadows", "device", "host", "budget"];
    let rows = summary.nodes.iter().map(|node| {
        let seats = if node.seats.is_empty() { "-".to_owned() } else { node.seats.join(" ") };
        let sizes = [node.owned, node.shadowed].map(|n| n.to_string());
        let [owned, shadowed] = sizes;
        let [device, host, budget] = [node.device_bytes, node.host_bytes, node.budget_bytes].map(mebibytes);
        [node.node.clone(), seats, owned, shadowed, device, host, budget]
    });
    table_of(&mut out, &heads.map(str::to_owned), &rows.collect::<Vec<_>>());
    if !summary.spares.is_empty() {
        put(&mut out, format_args!("spare: {}", summary.spares.join(" ")));
    }
    let step = summary.step_nanoseconds as f64 / 1e6;
    let percent = summary.bubble * 100.0;
    put(&mut out, format_args!("\npredicted step {step:.1} ms, bubble {percent:.1} % of forward and backward"));
    put(&mut out, format_args!("{}", sends(summary.step_bytes)));
    put(&mut out, format_args!("0-9 forward of a micro-batch, a-j its backward, = loss, . idle"));
    let devices = predict::devices(plan);
    for (node, row) in devices.iter().zip(&summary.timeline) {
        put(&mut out, format_args!("{:>5} |{row}|", node.to_string()));
    }
    out
}

/// A row of characters for each device, at most `width` (one a time unit if the pass is that short): digits for forwards,
/// letters for backwards, `=` for losses, `.` for waiting.
#[must_use]
pub fn bars(pass: &Timeline, width: u64) -> Vec<String> {
    let columns = pass.wall.min(width);
    let mut rows = vec![vec![b'.'; columns as usize]; pass.devices];
    for seat in &pass.seats {
        for slot in &seat.slots {
            let letter = match slot.instruction {
                Instruction::Forward(m) => b'0' + (m.0 % 10) as u8,
                Instruction::Backward(m) => b'a' + (m.0 % 10) as u8,
                Instruction::Loss(_)
                | Instruction::Load(_)
                | Instruction::RecvActivation(_)
                | Instruction::SendActivation(_)
                | Instruction::RecvGradient(_)
                | Instruction::SendGradient(_)
                | Instruction::Reduce(_) => b'=',
            };
            let [from, to] = [slot.start, slot.end].map(|at| (at * columns / pass.wall.max(1)) as usize);
            rows[seat.device][from..to].fill(letter);
        }
    }
    rows.into_iter().map(|row| row.into_iter().map(char::from).collect()).collect()
}

/// A number of things, in words.
pub(crate) fn number(count: usize, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

/// Blocks in words.
fn blocks(table: &ModelTable, range: std::ops::Range<u32>) -> String {
    let of = &table.blocks[range.start as usize..range.end as usize];
    let layers = of.iter().filter(|block| block.kind == BlockKind::Layer).count();
    let mut words = Vec::new();
    if of.iter().any(|block| block.kind == BlockKind::Embedding) {
        words.push("embedding".to_owned());
    }
    match layers {
        0 => {}
        1 => words.push("1 layer".to_owned()),
        n => words.push(format!("{n} layers")),
    }
    if of.iter().any(|block| block.kind == BlockKind::Head) {
        words.push("head".to_owned());
    }
    words.join(", ")
}

/// What a step sends, in words.
fn sends(bytes: Bytes) -> String {
    let Bytes { activation, activation_gradient, gradient_partial, shadow_gradient, weights } = bytes;
    let [activations, partials, shadows, weights, all] =
        [activation + activation_gradient, gradient_partial, shadow_gradient, weights, bytes.total()].map(mebibytes);
    format!(
        "a step sends {all} between nodes: activations and their gradients {activations}, gradients to owners {partials}, \
         to shadows {shadows}, weights {weights}"
    )
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

fn put(out: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(out, "{line}").expect("DR-1 (a string takes any text)");
}

/// Columns as wide as their widest cell, words to the left, numbers to the right.
fn table_of<const N: usize>(out: &mut String, heads: &[String; N], rows: &[[String; N]]) {
    let width = |c: usize| rows.iter().map(|row| row[c].len()).max().unwrap_or(0).max(heads[c].len());
    let widths: Vec<usize> = (0..N).map(width).collect();
    for row in std::iter::once(heads).chain(rows) {
        let cell = |(c, text): (usize, &String)| {
            let width = widths[c];
            if c < 2 { format!("{text:<width$}") } else { format!("{text:>width$}") }
        };
        let cells: Vec<String> = row.iter().enumerate().map(cell).collect();
        put(out, format_args!("{}", cells.join("  ").trim_end()));
    }
}
