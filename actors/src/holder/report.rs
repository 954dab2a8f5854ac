//! Counters and high-water marks of one job on one node.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use shoal_model::BlockCalls;
use shoal_plan::holder::Role;
use shoal_plan::ids::BlockId;
use shoal_plan::space::Interval;
use shoal_wire::api::{CallLine, DeviceReport, NodeReport};

use super::state::HolderState;

/// What seats that are gone have counted, and waits for decisions.
#[derive(Debug, Default)]
pub(super) struct Counters {
    calls: BTreeMap<BlockId, (u64, u64)>,
    /// A step that was reported as prepared, and when.
    undecided: Option<(u64, Instant)>,
    decisions: u64,
    waited: Duration,
    /// Seconds that the device had computed before.
    busy_before: f64,
}

impl Counters {
    /// Of a job that finds a device which has computed for `busy_before` seconds.
    pub(super) fn since(busy_before: f64) -> Self {
        Self { busy_before, ..Self::default() }
    }

    pub(super) fn add_calls(&mut self, calls: &[BlockCalls]) {
        for call in calls {
            let (forward, backward) = self.calls.entry(call.block).or_default();
            *forward += call.forward;
            *backward += call.backward;
        }
    }

    /// A step is reported as prepared here.
    pub(super) fn prepared(&mut self, step: u64) {
        self.undecided = Some((step, Instant::now()));
    }

    /// Its record is here.
    pub(super) fn decided(&mut self, step: u64) {
        if let Some((_, since)) = self.undecided.take_if(|(undecided, _)| *undecided == step) {
            self.decisions += 1;
            self.waited += since.elapsed();
        }
    }
}

impl HolderState {
    pub(super) fn report(&self) -> NodeReport {
        let mut calls = Counters { calls: self.counters.calls.clone(), ..Counters::default() };
        let mut parameters = 0;
        for seat in self.adopted.iter().flat_map(|adopted| &adopted.seats) {
            calls.add_calls(&seat.core.calls());
            for block in seat.blocks.clone() {
                let block = &self.table.blocks[block as usize];
                parameters += self.parameters(block.id, Interval::new(0, block.len));
            }
        }
        let held = |role| {
            let named = self.adopted.iter().flat_map(|adopted| adopted.slots.values());
            let slots = named.filter_map(|id| self.slots.get(id)).filter(move |slot| slot.role == role);
            slots.map(|slot| self.parameters(slot.block, slot.interval)).sum()
        };
        let devices = &self.args.devices;
        let device = DeviceReport {
            device: format!("cpu {}", devices.compute.class()),
            parameters,
            owned: held(Role::Owner),
            shadowed: held(Role::Shadow),
            arenas: devices.arena_lines(),
            calls: calls
                .calls
                .into_iter()
                .map(|(block, (forward, backward))| CallLine { block: block.0, forward, backward })
                .collect(),
            busy_seconds: devices.compute.busy_seconds() - self.counters.busy_before,
        };
        let node = self.args.node.to_string();
        NodeReport {
            node,
            devices: vec![device],
            traffic: self.args.outside.traffic(self.args.id),
            decisions: self.counters.decisions,
            decision_seconds: self.counters.waited.as_secs_f64(),
        }
    }

    /// Elements of an interval that belong to parameters.
    fn parameters(&self, block: BlockId, interval: Interval) -> u64 {
        let params = self.table.block(block).params.iter();
        params.filter_map(|p| p.interval.intersection(interval)).map(Interval::len).sum()
    }
}
