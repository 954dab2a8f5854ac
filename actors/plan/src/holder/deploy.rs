//! A deployment: settle the step in flight, cut the slots anew, get what is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::face::{HolderCommand, MoveCommand, Part, Role, SeatCommand, SlotCommand, SlotId, Source, Target};
use super::slots::{Slot, Use};
use super::{Holder, Phase};
use crate::blocks::ModelTable;
use crate::ids::{BlockId, Generation, NodeId, PieceId};
use crate::layout::{PiecePlan, Plan};
use crate::ledger::{Head, Version};
use crate::protocol::{Deploy, Fetch, FromNode, Resolution, Trouble};
use crate::rules::{Breach, Rules};
use crate::space::{Interval, IntervalSet};

/// What this node is under the plan it became.
#[derive(Clone, Debug)]
pub(super) struct Adopted {
    /// Of the plan.
    pub generation: Generation,
    /// The plan.
    pub plan: Arc<Plan>,
    /// Where training goes on from.
    pub version: Version,
    /// Shadows here that a fill completes later.
    pub unfilled: BTreeSet<PieceId>,
    /// Pieces whose weights the seats here compute with, and the step of those they have.
    pub weights: BTreeMap<PieceId, Option<u64>>,
    /// For each piece owned here, who gets its gradient, from which step on.
    pub receivers: BTreeMap<PieceId, Vec<(NodeId, u64)>>,
    /// For each piece owned here, whose seats compute with it.
    pub readers: BTreeMap<PieceId, Vec<NodeId>>,
}

impl Adopted {
    fn new(node: NodeId, table: &ModelTable, deploy: &Deploy) -> Self {
        let plan = Arc::clone(&deploy.plan);
        let mut readers: BTreeMap<PieceId, Vec<NodeId>> = BTreeMap::new();
        let mut weights = BTreeMap::new();
        for stage in &plan.stages {
            let needed = table.weights_needed_by(stage.blocks.clone());
            for (id, piece) in plan.pieces() {
                if !needed.iter().any(|(block, i)| *block == piece.block && i.intersection(piece.interval).is_some()) {
                    continue;
                }
                if stage.seats.contains(&node) {
                    weights.insert(id, None);
                }
                if piece.owner == node {
                    readers.entry(id).or_default().extend(&stage.seats);
                }
            }
        }
        for nodes in readers.values_mut() {
            nodes.sort_unstable();
            nodes.dedup();
        }
        let unfilled = |id: PieceId, node: NodeId| deploy.unfilled.contains(&(id, node));
        let receivers = plan
            .pieces()
            .filter(|(_, piece)| piece.owner == node)
            .map(|(id, piece)| {
                let filled = piece.shadows.iter().filter(|shadow| !unfilled(id, **shadow));
                (id, filled.map(|shadow| (*shadow, 0)).collect())
            })
            .collect();
        let unfilled = deploy.unfilled.iter().filter(|(_, to)| *to == node).map(|(id, _)| *id).collect();
        let (generation, version) = (deploy.generation, deploy.version);
        Self { generation, plan, version, unfilled, weights, receivers, readers }
    }
}

impl Holder {
    pub(super) fn deploy(&mut self, deploy: Box<Deploy>, out: &mut Vec<HolderCommand>) {
        if deploy.generation != self.seen {
            return;
        }
        match &self.phase {
            Phase::Waiting if self.adopted < deploy.generation => {}
            Phase::Ready(adopted) => {
                out.push(HolderCommand::Tell(FromNode::Ready { generation: adopted.generation }));
                return;
            }
            Phase::Waiting
            | Phase::Fenced { .. }
            | Phase::Settling(_)
            | Phase::Moving(_)
            | Phase::Running(..)
            | Phase::Released => return,
        }
        if let Resolution::Commit(entry) = &deploy.resolve {
            let (entry, _) = self.keep(entry.clone());
            let same_attempt = self.adopted == deploy.attempt;
            let mut slots = Vec::new();
            for (id, slot) in self.slots.iter_mut() {
                let follows = slot.version.step + 1 == entry.step && slot.version.chain == entry.previous;
                if follows && same_attempt && slot.prepared().is_some() {
                    slot.use_ = Use::Updating(entry.step);
                    slots.push(id);
                }
            }
            if !slots.is_empty() {
                out.push(HolderCommand::Slot(SlotCommand::Apply { entry, slots }));
            }
        }
        self.phase = Phase::Settling(deploy);
        self.updates_over(out);
    }

    /// The step in flight is settled here: become what the plan says.
    pub(super) fn become_planned(&mut self, deploy: Deploy, out: &mut Vec<HolderCommand>) {
        self.drop_gradients(out);
        let initialise = deploy.resolve == Resolution::Initialise;
        // Records beyond the deployed version are of steps that were given up.
        self.entries.retain(|step, _| *step <= deploy.version.step && !initialise);
        if initialise && deploy.version != Head::genesis(&self.job, deploy.plan.arithmetic).version {
            let cause =
                "the coordinator starts this job from another seed, model or data than this node knows".to_owned();
            self.phase = Phase::Waiting;
            self.trouble(Trouble::Data { cause }, &[], out);
            return;
        }
        let rules = self.rules;
        let mut stale = Vec::new();
        for (id, slot) in self.slots.iter_mut() {
            slot.piece = None;
            if !initialise && is_at(rules, slot.version, deploy.version) {
                slot.version = deploy.version;
            } else {
                stale.push(id);
            }
        }
        self.free(stale, out);

        let adopted = Adopted::new(self.node, &self.table, &deploy);
        self.adopted = deploy.generation;
        let old: Vec<SlotId> = self.slots.iter().map(|(id, _)| id).collect();
        let mut named = Vec::new();
        let mut fetches = Vec::new();
        let node = self.node;
        for (id, piece) in deploy.plan.pieces().filter(|(_, piece)| piece.holders().any(|n| n == node)) {
            let slot = if adopted.unfilled.contains(&id) {
                self.build(id, piece, &deploy, Vec::new(), &mut fetches, out)
            } else if let Some(slot) = self.reusable(piece, id) {
                slot
            } else if initialise {
                let seed = Part { interval: piece.interval, source: Source::Seed };
                self.build(id, piece, &deploy, vec![seed], &mut fetches, out)
            } else {
                let Some(parts) = self.parts_of(piece, &deploy) else {
                    let cause =
                        format!("part of block {} {} is neither here nor to be fetched", piece.block, piece.interval);
                    self.phase = Phase::Waiting;
                    self.trouble(Trouble::HoldingLost { cause }, &[], out);
                    return;
                };
                self.build(id, piece, &deploy, parts, &mut fetches, out)
            };
            named.push((id, slot));
        }
        self.free_what_lies_here_twice(&old, out);

        let (generation, plan, version) = (deploy.generation, deploy.plan, deploy.version);
        out.push(HolderCommand::Seat(SeatCommand::Adopt { generation, plan, slots: named.clone() }));
        out.extend(fetches.into_iter().map(HolderCommand::Move));
        for piece in adopted.weights.keys().copied() {
            let PiecePlan { block, interval, owner, .. } = *adopted.plan.piece(piece);
            if owner != self.node {
                let into = Target::Seats(piece);
                out.push(HolderCommand::Move(MoveCommand::Fetch {
                    generation,
                    version,
                    from: owner,
                    block,
                    interval,
                    into,
                }));
            }
        }
        self.phase = Phase::Moving(Box::new(adopted));
        for (piece, slot) in named {
            self.hand_to_own_seats(piece, slot, out);
        }
        self.serve(out);
        self.say_ready(out);
    }

    /// A slot that is what the plan wants already.
    fn reusable(&mut self, piece: &PiecePlan, id: PieceId) -> Option<SlotId> {
        let role = self.role(piece);
        let fits = |slot: &Slot| {
            slot.block == piece.block && slot.interval == piece.interval && slot.role == role && slot.is_whole()
        };
        let (found, slot) = self.slots.iter_mut().find(|(_, slot)| slot.piece.is_none() && fits(slot))?;
        slot.piece = Some(id);
        Some(found)
    }

    fn role(&self, piece: &PiecePlan) -> Role {
        if piece.owner == self.node { Role::Owner } else { Role::Shadow }
    }

    /// What a piece is made of: what is here, and the rest from the peers that the engine names.
    fn parts_of(&self, piece: &PiecePlan, deploy: &Deploy) -> Option<Vec<Part>> {
        let at = |v: &Version| is_at(self.rules, *v, deploy.version);
        let (here, mut missing) = self.slots.cover_what_is_here(piece.block, piece.interval, at);
        let mut parts: Vec<Part> =
            here.into_iter().map(|(slot, interval)| Part { interval, source: Source::Slot(slot) }).collect();
        let mine = |fetch: &&Fetch| fetch.to == self.node && fetch.block == piece.block;
        for fetch in deploy.fetches.iter().filter(mine) {
            let wanted = missing.within(fetch.interval);
            for run in wanted.runs() {
                parts.push(Part { interval: *run, source: Source::Peer(fetch.from) });
                missing.remove(*run);
            }
        }
        parts.sort_by_key(|part| part.interval.start);
        missing.is_empty().then_some(parts)
    }

    fn build(
        &mut self,
        id: PieceId,
        piece: &PiecePlan,
        deploy: &Deploy,
        parts: Vec<Part>,
        fetches: &mut Vec<MoveCommand>,
        out: &mut Vec<HolderCommand>,
    ) -> SlotId {
        let (block, interval, role) = (piece.block, piece.interval, self.role(piece));
        let have: IntervalSet =
            parts.iter().filter(|part| !matches!(part.source, Source::Peer(_))).map(|part| part.interval).collect();
        let slot = self.slots.add(Slot {
            block,
            interval,
            role,
            piece: Some(id),
            have,
            version: deploy.version,
            gradients: BTreeMap::new(),
            use_: Use::Idle,
        });
        for part in &parts {
            if let Source::Peer(from) = part.source {
                fetches.push(MoveCommand::Fetch {
                    generation: deploy.generation,
                    version: deploy.version,
                    from,
                    block,
                    interval: part.interval,
                    into: Target::Slot(slot),
                });
            }
        }
        out.push(HolderCommand::Slot(SlotCommand::Build { slot, block, interval, role, parts }));
        slot
    }

    /// HD-3: of the slots that no piece took over, only those whose content new slots have too.
    fn free_what_lies_here_twice(&mut self, old: &[SlotId], out: &mut Vec<HolderCommand>) {
        let twice = |slot: &Slot| {
            slot.have.runs().iter().all(|run| {
                let elsewhere =
                    self.slots.iter().filter(|(_, other)| other.piece.is_some() && other.block == slot.block);
                elsewhere.fold(IntervalSet::from(*run), |left, (_, other)| left.difference(&other.have)).is_empty()
            })
        };
        let early = self.rules.breaks(Breach::FreedTooEarly);
        let spare = self
            .slots
            .iter()
            .filter(|(id, slot)| old.contains(id) && slot.piece.is_none() && (early || twice(slot)))
            .map(|(id, _)| id)
            .collect();
        self.free(spare, out);
    }

    pub(super) fn free(&mut self, slots: Vec<SlotId>, out: &mut Vec<HolderCommand>) {
        for slot in slots {
            self.slots.remove(slot);
            out.push(HolderCommand::Slot(SlotCommand::Free { slot }));
        }
    }

    /// While moving: fetched state is in its slot. While running or about to: a fill is.
    pub(super) fn state_arrived(
        &mut self,
        version: Version,
        block: BlockId,
        interval: Interval,
        out: &mut Vec<HolderCommand>,
    ) {
        match &self.phase {
            Phase::Moving(adopted) if adopted.version == version => {
                let inside = |slot: &Slot| {
                    slot.piece.is_some_and(|piece| !adopted.unfilled.contains(&piece))
                        && slot.block == block
                        && slot.interval.intersection(interval) == Some(interval)
                };
                let Some((id, slot)) = self.slots.iter_mut().find(|(_, slot)| inside(slot)) else { return };
                slot.have.insert(interval);
                if let Some(piece) = slot.piece {
                    self.hand_to_own_seats(piece, id, out);
                }
                self.serve(out);
                self.say_ready(out);
            }
            Phase::Ready(_) | Phase::Running(..) => self.fill_arrived(version, block, interval, out),
            Phase::Waiting | Phase::Fenced { .. } | Phase::Settling(_) | Phase::Moving(_) | Phase::Released => {}
        }
    }

    /// Copies a whole piece's weights to the seats of this node, if it owns the piece and they need it.
    fn hand_to_own_seats(&self, piece: PieceId, slot: SlotId, out: &mut Vec<HolderCommand>) {
        let Phase::Moving(adopted) = &self.phase else { return };
        let whole = self.slots.get(slot).is_some_and(|s| s.is_whole() && s.role == Role::Owner);
        if whole && adopted.weights.contains_key(&piece) {
            let (generation, step) = (adopted.generation, adopted.version.step);
            let to = vec![self.node];
            out.push(HolderCommand::Move(MoveCommand::Distribute { generation, step, piece, slot, to }));
        }
    }

    pub(super) fn say_ready(&mut self, out: &mut Vec<HolderCommand>) {
        let Phase::Moving(adopted) = &self.phase else { return };
        let slots_whole = self
            .slots
            .iter()
            .all(|(_, slot)| slot.piece.is_none_or(|piece| slot.is_whole() || adopted.unfilled.contains(&piece)));
        let weights_here = adopted.weights.values().all(|step| *step == Some(adopted.version.step));
        if slots_whole && weights_here {
            let Phase::Moving(adopted) = std::mem::replace(&mut self.phase, Phase::Waiting) else { return };
            out.push(HolderCommand::Tell(FromNode::Ready { generation: adopted.generation }));
            self.phase = Phase::Ready(adopted);
        }
    }
}

/// Whether state of a version is what a deployment at another wants: it has to be the same.
pub(super) fn is_at(rules: Rules, version: Version, wanted: Version) -> bool {
    version == wanted
        || (rules.breaks(Breach::VersionByNumberOnly) && version.step == wanted.step)
        || (rules.breaks(Breach::StaleSource) && version.step < wanted.step)
}
