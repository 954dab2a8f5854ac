//! What a holder actor owns, and how commands of the books reach the room that carries them out.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use shoal_kernels::{Buffer, Device};
use shoal_model::update::Optimizer;
use shoal_plan::blocks::ModelTable;
use shoal_plan::holder::{Holder, HolderCommand, HolderEvent, MoveCommand, Role, SeatCommand, SlotCommand, SlotId};
use shoal_plan::ids::Generation;
use shoal_plan::loss_scale::LossScale;
use shoal_plan::protocol::{FromNode, Inventory, ToNode, Trouble};
use shoal_wire::data::Header;

use super::message::{CopyError, HolderArgs, HolderMsg, Work, WorkDone};
use super::moves::Fetches;
use super::seats::Adopted;
use super::slot::Slot;
use crate::device::DeviceThread;
use crate::loader::{Loader, LoaderActor};

/// What a holder actor owns.
pub struct HolderState {
    pub(super) me: ActorRef<HolderMsg>,
    pub(super) args: HolderArgs,
    pub(super) table: Arc<ModelTable>,
    pub(super) optimizer: Optimizer,
    pub(super) loader: Loader,
    books: Holder,
    pub(super) slots: BTreeMap<SlotId, Slot>,
    pub(super) adopted: Option<Adopted>,
    pub(super) fetches: Fetches,
    /// Commands that wait for a slot whose local parts are being copied in.
    parked: Vec<HolderCommand>,
    /// Transfers of a deployment that this node has not become yet.
    early: Vec<(Header, Buffer)>,
    /// Facts found while carrying out a command.
    found: VecDeque<HolderEvent>,
    pub(super) counters: super::report::Counters,
}

impl HolderState {
    pub(super) async fn new(me: ActorRef<HolderMsg>, args: HolderArgs) -> Result<Self, ActorProcessingErr> {
        let table = Arc::new(ModelTable::of_job(&args.job.spec));
        let loader = loader(&me, &args).await?;
        let counters = super::report::Counters::since(args.devices.compute.busy_seconds());
        Ok(Self {
            books: Holder::new(args.node, &args.job, Arc::clone(&table)),
            me,
            optimizer: Optimizer::of(&args.job.spec, Arc::clone(&table)),
            args,
            table,
            loader,
            slots: BTreeMap::new(),
            adopted: None,
            fetches: Fetches::default(),
            parked: Vec::new(),
            early: Vec::new(),
            found: VecDeque::new(),
            counters,
        })
    }

    /// Tells the books something, and carries out what they say until there is nothing more.
    pub(super) async fn fact(&mut self, event: HolderEvent) -> Result<(), ActorProcessingErr> {
        if let HolderEvent::Engine(ToNode::Commit { entry, .. }) = &event {
            self.counters.decided(entry.step);
        }
        self.found.push_back(event);
        while let Some(event) = self.found.pop_front() {
            for command in self.books.handle(event) {
                self.carry_out(command).await?;
            }
        }
        Ok(())
    }

    /// Something that the books must know, from within a command.
    pub(super) fn find(&mut self, event: HolderEvent) {
        self.found.push_back(event);
    }

    async fn carry_out(&mut self, command: HolderCommand) -> Result<(), ActorProcessingErr> {
        if self.waits_for_a_build(&command) {
            self.parked.push(command);
            return Ok(());
        }
        match command {
            HolderCommand::Tell(FromNode::Inventory(inventory)) => {
                let in_hand = self.args.devices.in_hand();
                let message = FromNode::Inventory(Inventory { in_hand, ..inventory });
                self.args.outside.tell_engine(self.args.id, message);
            }
            HolderCommand::Tell(message) => {
                if let FromNode::Prepared(prepared) = &message {
                    self.counters.prepared(prepared.step);
                }
                self.args.outside.tell_engine(self.args.id, message);
            }
            HolderCommand::Stop { generation } => self.stop(generation),
            HolderCommand::Slot(SlotCommand::Build { slot, block, interval, role, parts }) => {
                self.build(slot, (block, interval), role, &parts);
            }
            HolderCommand::Slot(SlotCommand::Free { slot }) => drop(self.slots.remove(&slot)),
            HolderCommand::Slot(SlotCommand::Apply { entry, slots }) => {
                slots.into_iter().for_each(|slot| self.apply(slot, &entry));
            }
            HolderCommand::Slot(SlotCommand::DropGradients { slots }) => {
                for slot in slots {
                    if let Some(slot) = self.slots.get_mut(&slot) {
                        slot.gradients.clear();
                    }
                }
            }
            HolderCommand::Slot(SlotCommand::Persist { generation, persist, version, slots }) => {
                self.persist(generation, persist, version, &slots);
            }
            HolderCommand::Seat(SeatCommand::Adopt { generation, plan, slots }) => {
                self.adopt(generation, plan, slots).await?;
                self.replay(generation)?;
            }
            HolderCommand::Seat(SeatCommand::Run { generation, pass, step, loss_scale }) => {
                self.run(generation, pass, step, loss_scale.map_or(1.0, LossScale::factor))?;
            }
            HolderCommand::Move(command) => self.carry(command),
            HolderCommand::Release => self.release().await,
        }
        Ok(())
    }

    /// Queues the transfers that came before this deployment again.
    fn replay(&mut self, generation: Generation) -> Result<(), ActorProcessingErr> {
        for (header, buffer) in std::mem::take(&mut self.early) {
            if header.generation >= generation {
                self.me.cast(HolderMsg::Arrived(header, buffer))?;
            }
        }
        Ok(())
    }

    /// Whether what a transfer belongs to is under way here; one that is too early is kept, an older one dropped.
    pub(super) fn is_current(&mut self, header: &Header, buffer: Buffer) -> Option<Buffer> {
        let adopted = self.adopted.as_ref().map_or(Generation::default(), |a| a.generation);
        let over = header.generation == self.books.generation() && self.books.is_released();
        if header.generation < self.books.generation() || over {
            return None;
        }
        if header.generation > adopted {
            self.early.push((header.clone(), buffer));
            return None;
        }
        Some(buffer)
    }

    /// Whether this is the deployment in force, not yet fenced.
    pub(super) fn in_force(&self, generation: Generation) -> bool {
        generation == self.books.generation() && self.adopted.as_ref().is_some_and(|a| a.generation == generation)
    }

    /// The last fence taken.
    pub(super) fn generation(&self) -> Generation {
        self.books.generation()
    }

    /// The thread that touches slots of a role.
    pub(super) fn thread(&self, role: Role) -> &DeviceThread {
        match role {
            Role::Owner => &self.args.devices.compute,
            Role::Shadow => &self.args.devices.store,
        }
    }

    /// Ends all work of older generations, updates apart.
    fn stop(&mut self, generation: Generation) {
        self.args.outside.fence(self.args.id, generation);
        self.fetches.clear();
        self.early.retain(|(header, _)| header.generation >= generation);
        self.parked.retain(|command| match command {
            HolderCommand::Slot(SlotCommand::Apply { .. } | SlotCommand::DropGradients { .. }) => true,
            HolderCommand::Slot(SlotCommand::Build { .. } | SlotCommand::Free { .. } | SlotCommand::Persist { .. })
            | HolderCommand::Tell(_)
            | HolderCommand::Stop { .. }
            | HolderCommand::Seat(_)
            | HolderCommand::Move(_)
            | HolderCommand::Release => false,
        });
        if let Some(adopted) = &mut self.adopted {
            adopted.stop(&self.args.devices.compute, &mut self.counters);
        }
    }

    /// Frees everything, but keeps the counters where a later process finds them. The job is over for this node: if it takes
    /// part again, that is with a new holder.
    async fn release(&mut self) {
        let report = self.adopted.is_some().then(|| self.report());
        self.dismantle();
        // Whoever asks meanwhile is answered from what is written here, not from what was before the last pass.
        if let Some(report) = report {
            self.keep_report(report).await;
        }
        self.me.stop(None);
    }

    /// Frees everything.
    pub(super) fn dismantle(&mut self) {
        if let Some(mut adopted) = self.adopted.take() {
            adopted.stop(&self.args.devices.compute, &mut self.counters);
        }
        self.slots.clear();
        self.parked.clear();
        self.early.clear();
        self.fetches.clear();
        // Behind everything that is still queued: free blocks go back to the system, not to a next step, and the next job
        // finds no marks of this one.
        for thread in [&self.args.devices.compute, &self.args.devices.store] {
            let arena = thread.arena().clone();
            let clear = move |_: &Device| {
                arena.trim();
                arena.restart_marks();
            };
            thread.submit(clear, drop);
        }
    }

    pub(super) async fn worked(&mut self, Work(done): Work) -> Result<(), ActorProcessingErr> {
        match done {
            WorkDone::Built(slot, result) => self.built(slot, result).await,
            WorkDone::Copied(fetch, elements, result) => self.copied(fetch, elements, result).await,
            WorkDone::Filled { generation, slot, version, elements, result: Ok(()) } => {
                self.filled((generation, version), slot, elements).await
            }
            WorkDone::Handed(fact, Ok(())) => self.fact(*fact).await,
            WorkDone::Filled { generation, result: Err(error), .. } => {
                if !self.in_force(generation) {
                    return Ok(());
                }
                let trouble = self.not_copied(error);
                self.fact(HolderEvent::Trouble { trouble, lost: Vec::new() }).await
            }
            WorkDone::Unwritten { generation, cause } => {
                if !self.in_force(generation) {
                    return Ok(());
                }
                let trouble = Trouble::Disk { cause };
                self.fact(HolderEvent::Trouble { trouble, lost: Vec::new() }).await
            }
            WorkDone::Handed(_, Err(panic)) => self.fact(self.stage_failed(panic.to_string())).await,
            WorkDone::Gathered { generation, step, piece, loss, whole } => {
                self.gathered((generation, step, piece), loss, whole).await
            }
            WorkDone::Updated(update, result) => self.updated(update, result).await,
        }
    }

    /// Local parts of a slot are in; what waited for them goes on when the last one is.
    async fn built(&mut self, id: SlotId, result: Result<(), CopyError>) -> Result<(), ActorProcessingErr> {
        if let Some(slot) = self.slots.get_mut(&id) {
            slot.building -= 1;
        }
        if let Err(error) = result
            && self.slots.remove(&id).is_some()
        {
            let trouble = self.not_copied(error);
            self.find(HolderEvent::Trouble { trouble, lost: vec![id] });
        }
        for command in std::mem::take(&mut self.parked) {
            self.carry_out(command).await?;
        }
        match self.found.pop_front() {
            Some(event) => self.fact(event).await,
            None => Ok(()),
        }
    }

    /// What the engine is told of elements that did not get where they belong.
    pub(super) fn not_copied(&self, error: CopyError) -> Trouble {
        match error {
            CopyError::Room(cause) => Trouble::OverBudget { cause },
            CopyError::Files(cause) => Trouble::Data { cause },
            CopyError::Lost(cause) => self.stage_trouble(cause),
        }
    }

    fn waits_for_a_build(&self, command: &HolderCommand) -> bool {
        let building = |id: &SlotId| self.slots.get(id).is_some_and(|slot| slot.building > 0);
        match command {
            HolderCommand::Slot(SlotCommand::Apply { slots, .. } | SlotCommand::Persist { slots, .. }) => {
                slots.iter().any(building)
            }
            HolderCommand::Move(MoveCommand::Serve { parts, .. }) => parts.iter().any(|(id, _)| building(id)),
            HolderCommand::Move(MoveCommand::Distribute { slot, .. } | MoveCommand::Fill { slot, .. }) => {
                building(slot)
            }
            HolderCommand::Slot(
                SlotCommand::Build { .. } | SlotCommand::Free { .. } | SlotCommand::DropGradients { .. },
            )
            | HolderCommand::Move(MoveCommand::Fetch { .. } | MoveCommand::ShareGradient { .. })
            | HolderCommand::Tell(_)
            | HolderCommand::Stop { .. }
            | HolderCommand::Seat(_)
            | HolderCommand::Release => false,
        }
    }
}

/// A child that reads the job's tokens.
pub(super) async fn loader(me: &ActorRef<HolderMsg>, args: &HolderArgs) -> Result<Loader, ActorProcessingErr> {
    let (loader, _) = Actor::spawn_linked(None, LoaderActor, Arc::clone(&args.job), me.get_cell()).await?;
    Ok(Loader::new(loader))
}

/// The plan does not fit; nothing is lost with it.
pub(super) fn over_budget(cause: String) -> HolderEvent {
    HolderEvent::Trouble { trouble: Trouble::OverBudget { cause }, lost: Vec::new() }
}
