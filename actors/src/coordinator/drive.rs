//! Facts go into a job's engine; what it says is carried out, in order.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use shoal_plan::engine::{Command, Engine, Event, Millis, Offer, Order, OrderAnswer, State};
use shoal_plan::ids::{JobId, NodeId};
use shoal_plan::protocol::ToNode;
use shoal_wire::control::ToWorker;
use shoal_wire::journal::{Entry, Line};

use super::error::RequestError;
use super::flusher::After;
use super::job::JobEntry;
use super::journal::JournalError;
use super::message::{CoordinatorMsg, NodeOrder, Reply};
use super::state::Coordinator;

impl Coordinator {
    /// Tells a job's engine, and does what it says.
    pub(super) fn drive(&mut self, id: JobId, event: Event) -> Result<(), JournalError> {
        let now = self.now();
        let Some(entry) = self.jobs.get_mut(&id) else {
            tracing::warn!(job = %id, ?event, "no such job");
            return Ok(());
        };
        for command in entry.engine.handle(now, event) {
            self.carry_out(id, command)?;
        }
        if self.active == Some(id) && self.jobs.get(&id).is_some_and(JobEntry::is_over) {
            self.active = None;
            self.next_job()?;
        }
        Ok(())
    }

    /// Tells the engine of the job that nodes work for.
    pub(super) fn drive_active(&mut self, event: Option<Event>) -> Result<(), JournalError> {
        match (self.active, event) {
            (Some(job), Some(event)) => self.drive(job, event),
            (None, _) | (_, None) => Ok(()),
        }
    }

    /// The engine of the job that nodes work for.
    pub(super) fn active_engine(&self) -> Option<&Engine> {
        self.active.and_then(|job| self.jobs.get(&job)).map(|entry| &entry.engine)
    }

    /// If nodes work for no job: of those whose data is read and that are not over, the first that was submitted gets them.
    /// It keeps them until it is over, whoever coordinates: its turn is durable before the first fence.
    pub(super) fn next_job(&mut self) -> Result<(), JournalError> {
        if self.active.is_some() {
            return Ok(());
        }
        let Some(id) = self.jobs.iter().find(|(_, entry)| !entry.is_over()).map(|(id, _)| *id) else {
            return Ok(());
        };
        self.turns += 1;
        self.journal.append(&Entry::Turn { number: self.turns, job: id })?;
        self.active = Some(id);
        self.begin_turn(id)
    }

    /// The job that nodes work for gets to know them.
    pub(super) fn begin_turn(&mut self, id: JobId) -> Result<(), JournalError> {
        tracing::info!(job = %id, "job has its turn");
        self.drive(id, Event::Tick)?;
        for (node, offer) in self.members.offers() {
            // The job may be over by now, and another one active.
            if self.active == Some(id) {
                self.drive(id, Event::Joined { node, offer })?;
            }
        }
        Ok(())
    }

    fn carry_out(&mut self, id: JobId, command: Command) -> Result<(), JournalError> {
        match command {
            Command::Send { node, message } => self.hand_over(id, node, message),
            Command::Journal(record) => {
                let Some(entry) = self.jobs.get_mut(&id) else { return Ok(()) };
                let line = Line { at_ms: Self::wall_ms(), record };
                let number = entry.log.push(&line);
                self.journal.append(&Entry::Line { job: id, number, line })?;
                self.changed();
            }
            Command::Dismiss { node } => {
                tracing::warn!(%node, job = %id, "worker without progress is told to end");
                self.tell(node, ToWorker::Shutdown);
            }
            Command::Flush { mark } => {
                let me = self.me.clone();
                self.flusher.request(&me, After::Engine { job: id, mark });
            }
            Command::WakeAt(at) => self.wake_at(id, at),
            Command::Answer { request, answer } => {
                if let Some(reply) = self.orders.remove(&request) {
                    let answer = match answer {
                        OrderAnswer::Refused(reason) => Err(RequestError::Refused(self.spelled(&reason))),
                        OrderAnswer::Accepted | OrderAnswer::Persisted { .. } => Ok(answer),
                    };
                    // An error means that whoever asked is gone.
                    let _ = reply.send(answer);
                }
            }
        }
        Ok(())
    }

    /// A worker that comes back, to this coordinator or the next, may still hold what belongs to jobs that ended meanwhile.
    pub(super) fn release_ended(&mut self, node: NodeId, offer: &Offer) -> Result<(), JournalError> {
        let ended: Vec<JobId> = self.jobs.iter().filter(|(_, entry)| entry.is_over()).map(|(id, _)| *id).collect();
        for id in ended {
            self.drive(id, Event::Joined { node, offer: offer.clone() })?;
        }
        Ok(())
    }

    /// An engine's message goes to a node, which first gets to know the job unless it is about its end. A leaving node that
    /// is released may go.
    fn hand_over(&mut self, id: JobId, node: NodeId, message: ToNode) {
        let Some(entry) = self.jobs.get(&id) else { return };
        let job = Arc::clone(&entry.job);
        let released = matches!(message, ToNode::Release { .. });
        if let Some(member) = self.members.get_mut(node) {
            if released {
                // It forgets the job.
                member.told.remove(&id);
            } else if member.told.insert(id) {
                self.tell(node, ToWorker::Job { id, job });
            }
        }
        self.tell(node, ToWorker::Holder { job: id, message });
        if released && self.members.is_leaving(node) {
            self.tell(node, ToWorker::Shutdown);
        }
    }

    fn wake_at(&mut self, id: JobId, at: Millis) {
        let now = self.now();
        let Some(entry) = self.jobs.get_mut(&id) else { return };
        if !entry.wakes.insert(at) {
            return;
        }
        // One more, since the clock that the engine sees is rounded down.
        let wait = Duration::from_millis(at.0.saturating_sub(now.0) + 1);
        self.me.send_after(wait, move || CoordinatorMsg::Wake(id));
    }

    /// A wake-up that an engine asked for.
    pub(super) fn wake(&mut self, id: JobId) -> Result<(), JournalError> {
        let now = self.now();
        let Some(entry) = self.jobs.get_mut(&id) else { return Ok(()) };
        let later = entry.wakes.split_off(&Millis(now.0 + 1));
        if std::mem::replace(&mut entry.wakes, later).is_empty() { Ok(()) } else { self.drive(id, Event::Tick) }
    }

    /// The operator says something about a job.
    pub(super) fn order(&mut self, id: JobId, order: Order, reply: Reply<OrderAnswer>) -> Result<(), JournalError> {
        let Some(reply) = self.order_intake(id, &order, reply)? else { return Ok(()) };
        if !self.jobs.contains_key(&id) {
            let _ = reply.send(Err(RequestError::NoJob(id)));
            return Ok(());
        }
        let parked = self.jobs.get(&id).is_some_and(|entry| entry.engine.status().state == State::Parked);
        if parked && order == Order::Resume {
            self.offer_the_living(id)?;
        }
        let request = self.request();
        self.orders.insert(request, reply);
        self.drive(id, Event::Operator { request, order })
    }

    /// A parked job that is to go on gets everyone who lives, also those it has lost touch with.
    fn offer_the_living(&mut self, id: JobId) -> Result<(), JournalError> {
        for (node, offer) in self.members.offers() {
            if self.active == Some(id) && self.active_engine().is_some_and(|engine| engine.may_try(node)) {
                self.drive(id, Event::Joined { node, offer })?;
            }
        }
        Ok(())
    }

    /// The operator says something about a node.
    pub(super) fn node_order(&mut self, order: NodeOrder) -> Result<(), JournalError> {
        match order {
            NodeOrder::Drain(name, reply) => match self.members.find(&name) {
                Some(node) => {
                    let _ = reply.send(Ok(()));
                    self.leaving(node)?;
                }
                None => {
                    let _ = reply.send(Err(RequestError::NoNode(name)));
                }
            },
            NodeOrder::Chaos(name, chaos, reply) => {
                let answer = self.seat_on(chaos.job(), &name);
                if let Ok(node) = answer {
                    self.tell(node, ToWorker::Chaos(chaos));
                }
                let _ = reply.send(answer.map(|_| ()));
            }
        }
        Ok(())
    }

    /// The living node of this name, if it computes for the job.
    fn seat_on(&self, id: JobId, name: &str) -> Result<NodeId, RequestError> {
        let entry = self.jobs.get(&id).ok_or(RequestError::NoJob(id))?;
        let node = self.members.find(name).ok_or_else(|| RequestError::NoNode(name.to_owned()))?;
        let seats: BTreeSet<NodeId> =
            entry.engine.plan().into_iter().flat_map(|plan| plan.seats().map(|(_, node)| node)).collect();
        if entry.has_ended() || seats.is_empty() {
            let state = if entry.has_ended() { "is over" } else { "has no plan yet" };
            return Err(RequestError::Refused(format!("{id} {state}, so no stage of it computes anywhere")));
        }
        if !seats.contains(&node) {
            let names: Vec<String> = seats.into_iter().map(|node| self.name(node)).collect();
            return Err(RequestError::Refused(format!(
                "{name} computes no stage of {id}; these do: {}",
                names.join(", ")
            )));
        }
        Ok(node)
    }
}
