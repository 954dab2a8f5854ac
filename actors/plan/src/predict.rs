//! How long a step of a layout takes: the instruction lists on the logical clock, then the exchange.
//!
//! * SC-1 (instruction lists never deadlock): the lists of `schedule` always have an instruction that can go on, until all
//!   are done.
//! * PD-1 (every seat's node is a device): [`devices`] lists the nodes of all seats.

use std::collections::BTreeMap;
use std::ops::Range;

use shoal_config::JobSpec;
use shoal_exact::Arithmetic;

use crate::batch::micro_batch_count;
use crate::blocks::ModelTable;
use crate::cost::{exchange_nanoseconds, stage_costs};
use crate::engine::Offer;
use crate::ids::{NodeId, Replica, Seat, StageIndex};
use crate::layout::Plan;
use crate::schedule::timeline::{Timeline, Track, timeline};
use crate::schedule::{Pass, slots};

/// A step as predicted, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prediction {
    /// Forward and backward of every micro-batch.
    pub pass: Timeline,
    /// From the last backward to the next step: sums to owners and shadows, updates, weights back.
    pub exchange: u64,
}

impl Prediction {
    /// The whole step.
    #[must_use]
    pub fn step(&self) -> u64 {
        self.pass.wall + self.exchange
    }
}

/// A layout as far as its time depends on it.
pub(crate) struct Form<'a> {
    pub(crate) spec: &'a JobSpec,
    pub(crate) table: &'a ModelTable,
    pub(crate) stages: &'a [Range<u32>],
    pub(crate) lanes: &'a [Range<u32>],
    /// Shadows of each piece.
    pub(crate) shadows: u64,
    /// What the nodes compute.
    pub(crate) arithmetic: Arithmetic,
    /// Compute threads of the weakest node.
    pub(crate) threads: u32,
}

impl Form<'_> {
    /// The prediction, with seat (stage, replica) on device `device_of(stage, replica)`; of one replica alone or all.
    pub(crate) fn predict(&self, device_of: impl Fn(usize, usize) -> usize, only: Option<usize>) -> Prediction {
        let stages = self.stages.len();
        let mut tracks = Vec::with_capacity(stages * self.lanes.len());
        for (replica, run) in self.lanes.iter().enumerate().filter(|(r, _)| only.is_none_or(|only| only == *r)) {
            let count = micro_batch_count(self.spec, run.clone());
            for stage in 0..stages {
                tracks.push(Track {
                    seat: Seat { stage: StageIndex(stage as u16), replica: Replica(replica as u16) },
                    device: device_of(stage, replica),
                    program: slots(self.spec.parallel.schedule, (stage as u32, stages as u32), Pass::Train, count),
                });
            }
        }
        let costs = stage_costs(self.spec, self.table, self.stages, (self.arithmetic, self.threads));
        let pass = timeline(&tracks, &costs).expect("SC-1 (instruction lists never deadlock)");
        let elements = |blocks: &Range<u32>| -> u64 {
            self.table.blocks[blocks.start as usize..blocks.end as usize].iter().map(|block| block.len).sum()
        };
        let most = self.stages.iter().map(elements).max().unwrap_or(0);
        // Seats that share a device share its link.
        let shared = (tracks.len() as u64).div_ceil(pass.devices.max(1) as u64);
        let wire = self.spec.train.numerics.wire;
        let each = exchange_nanoseconds(wire, most, self.lanes.len() as u64, self.shadows, self.threads);
        Prediction { pass, exchange: shared * each }
    }

    /// The replica with most micro-batches.
    pub(crate) fn slowest(&self) -> usize {
        let count = |replica: &usize| micro_batch_count(self.spec, self.lanes[*replica].clone());
        (0..self.lanes.len()).max_by_key(count).unwrap_or(0)
    }
}

/// The prediction for a plan on its nodes, of which the weakest sets the pace. Devices are numbered as [`devices`] lists them.
#[must_use]
pub fn on(members: &BTreeMap<NodeId, Offer>, plan: &Plan, spec: &JobSpec, table: &ModelTable) -> Prediction {
    let seated = plan.seats().filter_map(|(_, node)| members.get(&node));
    let threads = seated.map(|offer| offer.threads).min().unwrap_or(1);
    let stages: Vec<Range<u32>> = plan.stages.iter().map(|stage| stage.blocks.clone()).collect();
    let shadows = plan.pieces.iter().map(|piece| piece.shadows.len() as u64).max().unwrap_or(0);
    let devices = devices(plan);
    let device_of = |stage: usize, replica: usize| {
        let found = devices.iter().position(|node| *node == plan.stages[stage].seats[replica]);
        found.expect("PD-1 (every seat's node is a device)")
    };
    let (lanes, arithmetic) = (&plan.lanes, plan.arithmetic);
    Form { spec, table, stages: &stages, lanes, shadows, arithmetic, threads }.predict(device_of, None)
}

/// Nodes with a seat, in order of their first one.
#[must_use]
pub fn devices(plan: &Plan) -> Vec<NodeId> {
    let mut devices = Vec::new();
    for (_, node) in plan.seats() {
        if !devices.contains(&node) {
            devices.push(node);
        }
    }
    devices
}
