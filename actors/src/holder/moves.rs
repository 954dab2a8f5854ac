//! Everything that leaves this node, and the books of what was asked for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ractor::ActorProcessingErr;
use shoal_plan::holder::{HolderEvent, MoveCommand, SlotId, Target, Wanted};
use shoal_plan::ids::{BlockId, Generation, NodeId};
use shoal_plan::ledger::Version;
use shoal_plan::protocol::Trouble;
use shoal_plan::space::Interval;
use shoal_wire::control::ToPeer;
use shoal_wire::data::{Header, Purpose, StateReason};

use super::message::{CopyError, HolderMsg, LinkNews, Work, WorkDone};
use super::outside::LinkError;
use super::slot::Snapshot;
use super::state::HolderState;
use crate::transport::{BulkSource, Payload};

/// After something did not reach a peer, for the fence that a death brings by itself.
const GRACE: Duration = Duration::from_millis(1000);

/// Elements of state that travel as one transfer, at most. Small in tests, so that their small pieces go in several.
const STRETCH: usize = if cfg!(test) { 1 << 12 } else { 1 << 19 };

/// Names something asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FetchId(u64);

/// Something asked for and not whole yet.
#[derive(Clone, Debug)]
pub(super) struct Fetch {
    pub(super) generation: Generation,
    pub(super) version: Version,
    pub(super) from: NodeId,
    pub(super) block: BlockId,
    pub(super) interval: Interval,
    pub(super) into: Target,
    /// Elements still to be copied to where they go.
    pub(super) left: u64,
}

/// Everything asked for under the deployment in force.
#[derive(Debug, Default)]
pub(super) struct Fetches {
    next: u64,
    open: BTreeMap<FetchId, Fetch>,
    /// Elements of fills that are still to come, by slot and version.
    fills: BTreeMap<(SlotId, u64), u64>,
}

impl Fetches {
    fn add(&mut self, fetch: Fetch) {
        self.open.insert(FetchId(self.next), fetch);
        self.next += 1;
    }

    /// What a part that has come belongs to.
    pub(super) fn find(
        &self,
        (from, block, part): (NodeId, BlockId, Interval),
        version: Version,
        wanted: Wanted,
    ) -> Option<(FetchId, &Fetch)> {
        let fits = |fetch: &Fetch| {
            let same = match (fetch.into, wanted) {
                (Target::Slot(_), Wanted::State) | (Target::Seats(_), Wanted::Weights) => true,
                (Target::Slot(_), Wanted::Weights) | (Target::Seats(_), Wanted::State) => false,
            };
            let inside = fetch.interval.intersection(part) == Some(part);
            same && inside && (fetch.from, fetch.block, fetch.version) == (from, block, version)
        };
        self.open.iter().find(|(_, fetch)| fits(fetch)).map(|(id, fetch)| (*id, fetch))
    }

    /// Forgets everything, never the names.
    pub(super) fn clear(&mut self) {
        self.open.clear();
        self.fills.clear();
    }

    /// Elements of a fill are in its slot of `whole` elements; true if they were the last ones.
    pub(super) fn filled(&mut self, slot: SlotId, version: Version, elements: u64, whole: u64) -> bool {
        let left = self.fills.entry((slot, version.step)).or_insert(whole);
        *left = left.saturating_sub(elements);
        let last = *left == 0;
        if last {
            self.fills.remove(&(slot, version.step));
        }
        last
    }

    /// Whether it is still wanted.
    fn is_open(&self, id: FetchId) -> bool {
        self.open.contains_key(&id)
    }

    /// Elements of it are where they go; it itself when it is whole.
    pub(super) fn copied(&mut self, id: FetchId, elements: u64) -> Option<Fetch> {
        let fetch = self.open.get_mut(&id)?;
        fetch.left = fetch.left.saturating_sub(elements);
        if fetch.left > 0 { None } else { self.open.remove(&id) }
    }
}

impl HolderState {
    pub(super) fn carry(&mut self, command: MoveCommand) {
        match command {
            MoveCommand::Fetch { generation, version, from, block, interval, into } => {
                let left = interval.len();
                self.fetches.add(Fetch { generation, version, from, block, interval, into, left });
                let job = self.args.id;
                let message = match into {
                    Target::Slot(_) => ToPeer::FetchState { job, generation, version, block, interval },
                    Target::Seats(_) => ToPeer::FetchWeights { job, generation, version, block, interval },
                };
                let (asked, me) = (self.args.outside.ask(from, message), self.me.clone());
                tokio::spawn(async move { report(&me, from, generation, asked.await) });
            }
            MoveCommand::Serve { generation, version, to, block, parts, wanted } => {
                for (slot, interval) in parts {
                    let purpose = match wanted {
                        Wanted::State => Purpose::State { block, interval, version, reason: StateReason::Recovery },
                        Wanted::Weights => Purpose::SeatWeights { block, interval, version },
                    };
                    self.send_slot((generation, version.step), slot, (interval, wanted), vec![to], purpose, None);
                }
            }
            MoveCommand::ShareGradient { generation, step, piece, slot, to, norm, loss } => {
                let Some(gradient) = self.slots.get(&slot).and_then(|s| s.gradients.get(&step)) else { return };
                let purpose = Purpose::ShadowGradient { piece, norm, loss };
                for peer in to {
                    let header = self.header(generation, step, purpose.clone(), gradient.len() as u64);
                    self.send(peer, header, gradient.payload(), None);
                }
            }
            MoveCommand::Distribute { generation, step, piece, slot, to } => {
                let node = self.args.node;
                if to.contains(&node) {
                    self.hand_over_slot((generation, step), piece, slot);
                }
                let Some(held) = self.slots.get(&slot) else { return };
                let whole = held.interval;
                let to: Vec<NodeId> = to.into_iter().filter(|peer| *peer != node).collect();
                if !to.is_empty() {
                    let part = (whole, Wanted::Weights);
                    self.send_slot((generation, step), slot, part, to, Purpose::Weights { piece }, None);
                }
            }
            MoveCommand::Fill { generation, version, piece, slot, to } => {
                let Some(held) = self.slots.get(&slot) else { return };
                let (block, interval) = (held.block, held.interval);
                let purpose = Purpose::State { block, interval, version, reason: StateReason::Fill };
                let sent = HolderEvent::FillSent { generation, piece, to };
                let part = (interval, Wanted::State);
                self.send_slot((generation, version.step), slot, part, vec![to], purpose, Some(sent));
            }
        }
    }

    /// Sends a part of a slot as it is when its thread comes to it; `sent` is a fact once it has arrived. State goes in
    /// stretches, one after the other, so that what a receiver holds beside its slots stays small.
    fn send_slot(
        &self,
        (generation, step): (Generation, u64),
        slot: SlotId,
        (interval, wanted): (Interval, Wanted),
        to: Vec<NodeId>,
        purpose: Purpose,
        sent: Option<HolderEvent>,
    ) {
        let Some(held) = self.slots.get(&slot) else { return };
        let cell = Arc::clone(&held.cell);
        let snapshot = self.thread(held.role).run(move |_| cell.snapshot());
        let header = self.header(generation, step, purpose, 0);
        let (outside, me) = (Arc::clone(&self.args.outside), self.me.clone());
        tokio::spawn(async move {
            let snapshot = match snapshot.await {
                Ok(snapshot) => snapshot,
                Err(panic) => {
                    tracing::error!(%panic, "slot could not be read");
                    return;
                }
            };
            let parts = stretches(&header.purpose, interval);
            let sends = to.into_iter().map(|peer| {
                let (outside, me, header, snapshot, parts) = (&outside, &me, &header, &snapshot, &parts);
                async move {
                    for (purpose, part) in parts {
                        let payload = payload(snapshot, *part, wanted);
                        let header =
                            Header { purpose: purpose.clone(), elements: payload.elements(), ..header.clone() };
                        if !report(me, peer, generation, outside.send(peer, header, payload).await) {
                            return false;
                        }
                    }
                    true
                }
            });
            let outcomes = futures_util::future::join_all(sends).await;
            if let Some(sent) = sent
                && outcomes.into_iter().all(|arrived| arrived)
            {
                // An error means that the job is over here.
                let _ = me.cast(HolderMsg::Fact(sent));
            }
        });
    }

    pub(super) fn send(&self, to: NodeId, header: Header, payload: Payload, sent: Option<HolderEvent>) {
        let generation = header.generation;
        let (send, me) = (self.args.outside.send(to, header, payload), self.me.clone());
        tokio::spawn(async move {
            if report(&me, to, generation, send.await)
                && let Some(sent) = sent
            {
                // An error means that the job is over here.
                let _ = me.cast(HolderMsg::Fact(sent));
            }
        });
    }

    pub(super) fn header(&self, generation: Generation, step: u64, purpose: Purpose, elements: u64) -> Header {
        let spec = &self.args.job.spec;
        let dtype = purpose.dtype(spec.train.numerics.wire, spec.parallel.virtual_replicas);
        Header { job: self.args.id, generation, from: self.args.node, step, purpose, elements, dtype }
    }

    /// A link that breaks is told to the engine only if no fence comes by itself: a death does bring one.
    pub(super) async fn link_news(&mut self, news: LinkNews) -> Result<(), ActorProcessingErr> {
        match news {
            LinkNews::Down { peer, cause } => {
                let takes_part = self.adopted.as_ref().is_some_and(|adopted| adopted.names(peer));
                if takes_part {
                    let generation = self.generation();
                    self.grace(peer, generation, cause);
                }
                Ok(())
            }
            LinkNews::Failed { peer, generation, cause } => {
                if self.in_force(generation) {
                    self.grace(peer, generation, cause);
                }
                Ok(())
            }
            LinkNews::Overdue { peer, generation, cause } => {
                if !self.in_force(generation) {
                    return Ok(());
                }
                tracing::warn!(job = %self.args.id, gen = %generation, %peer, cause, "peer cannot be reached");
                let trouble = Trouble::PeerUnreachable { peer, cause };
                self.fact(HolderEvent::Trouble { trouble, lost: Vec::new() }).await
            }
        }
    }

    fn grace(&self, peer: NodeId, generation: Generation, cause: String) {
        self.me.send_after(GRACE, move || HolderMsg::Link(LinkNews::Overdue { peer, generation, cause }));
    }
}

/// What is fetched or filled in stretches; anything else as it is.
fn stretches(purpose: &Purpose, whole: Interval) -> Vec<(Purpose, Interval)> {
    let cut = |interval: Interval, named: &dyn Fn(Interval) -> Purpose| {
        let starts = (0..interval.len()).step_by(STRETCH);
        let part = |at: u64| {
            let end = (at + STRETCH as u64).min(interval.len());
            let part = Interval::new(interval.start + at, interval.start + end);
            (named(part), part)
        };
        starts.map(part).collect()
    };
    match *purpose {
        Purpose::State { block, interval, version, reason } => {
            cut(interval, &|interval| Purpose::State { block, interval, version, reason })
        }
        Purpose::SeatWeights { block, interval, version } => {
            cut(interval, &|interval| Purpose::SeatWeights { block, interval, version })
        }
        Purpose::Activation { .. }
        | Purpose::ActivationGradient { .. }
        | Purpose::GradientPartial { .. }
        | Purpose::ShadowGradient { .. }
        | Purpose::Weights { .. } => vec![(purpose.clone(), whole)],
    }
}

/// A part of a slot as one transfer.
fn payload(snapshot: &Snapshot, interval: Interval, wanted: Wanted) -> Payload {
    let kinds = match wanted {
        Wanted::Weights => 1,
        Wanted::State => usize::MAX,
    };
    let parts = snapshot.of(interval).take(kinds).map(|(buffer, range)| {
        let source: Arc<dyn BulkSource> = buffer.clone();
        Payload::ranges(source, vec![range])
    });
    parts.reduce(Payload::then).expect("SL-5 (weights are the first kind)")
}

/// Whether it got there; if not, the actor hears of it.
fn report(
    me: &ractor::ActorRef<HolderMsg>,
    peer: NodeId,
    generation: Generation,
    outcome: Result<(), LinkError>,
) -> bool {
    match outcome {
        Ok(()) => true,
        Err(LinkError::Over) => false,
        Err(LinkError::Unreachable(cause)) => {
            // An error means that the job is over here.
            let _ = me.cast(HolderMsg::Link(LinkNews::Failed { peer, generation, cause }));
            false
        }
    }
}

impl HolderState {
    /// A fetched part is where it goes.
    pub(super) async fn copied(
        &mut self,
        id: FetchId,
        elements: u64,
        result: Result<(), CopyError>,
    ) -> Result<(), ActorProcessingErr> {
        if let Err(error) = result {
            if !self.fetches.is_open(id) {
                return Ok(());
            }
            let trouble = self.not_copied(error);
            return self.fact(HolderEvent::Trouble { trouble, lost: Vec::new() }).await;
        }
        let Some(fetch) = self.fetches.copied(id, elements) else { return Ok(()) };
        let Fetch { generation, version, block, interval, into, .. } = fetch;
        let fact = match into {
            Target::Slot(_) => HolderEvent::StateArrived { generation, version, block, interval },
            Target::Seats(piece) => HolderEvent::WeightsArrived { generation, step: version.step, piece },
        };
        self.fact(fact).await
    }

    /// Tells this actor, from a device's thread, that a part was copied.
    pub(super) fn tell_copied(&self, id: FetchId, elements: u64) -> impl FnOnce(Result<(), CopyError>) + Send + use<> {
        let me = self.me.clone();
        move |result| {
            // An error means that the job is over here.
            let _ = me.cast(HolderMsg::Work(Work(WorkDone::Copied(id, elements, result))));
        }
    }
}
