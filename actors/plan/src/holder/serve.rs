//! Peers ask for state and weights while a plan is being reached.

use super::deploy::is_at;
use super::face::{HolderCommand, MoveCommand, Wanted};
use super::{Holder, Phase};
use crate::ids::{BlockId, Generation, NodeId};
use crate::ledger::Version;
use crate::space::Interval;

/// What a peer asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    pub from: NodeId,
    pub generation: Generation,
    pub version: Version,
    pub block: BlockId,
    pub interval: Interval,
    pub wanted: Wanted,
}

impl Holder {
    /// A peer asks. What it asked for before in the same generation it has, or gets.
    pub(super) fn asked(&mut self, ask: Ask, out: &mut Vec<HolderCommand>) {
        if ask.generation >= self.seen && !self.asks.contains(&ask) && !self.served.contains(&ask) {
            self.asks.push(ask);
            self.serve(out);
        }
    }

    /// Serves what is here. An ask from a deployment that this node has not got yet, or for what is still on its way, waits.
    pub(super) fn serve(&mut self, out: &mut Vec<HolderCommand>) {
        let (Phase::Moving(adopted) | Phase::Ready(adopted)) = &self.phase else { return };
        let rules = self.rules;
        let (slots, served) = (&self.slots, &mut self.served);
        self.asks.retain(|ask| {
            if ask.generation != adopted.generation {
                return ask.generation > adopted.generation;
            }
            if ask.version != adopted.version {
                return false;
            }
            let Some(parts) = slots.cover(ask.block, ask.interval, |v| is_at(rules, *v, ask.version)) else {
                return true;
            };
            let Ask { from: to, generation, version, block, wanted, .. } = *ask;
            out.push(HolderCommand::Move(MoveCommand::Serve { generation, version, to, block, parts, wanted }));
            served.push(ask.clone());
            false
        });
    }
}
