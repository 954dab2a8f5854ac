//! Workers come, speak, and go.

use shoal_plan::engine::{Event, LossCause};
use shoal_plan::ids::NodeId;
use shoal_wire::control::{Control, FromWorker, Hello, Introduction, ToWorker, VERSION, Who};
use shoal_wire::journal::Entry;

use super::actor::tell;
use super::flusher::After;
use super::journal::JournalError;
use super::members::Arrival;
use super::state::Coordinator;
use crate::transport::{Caller, DownCause, Inbound, PeerId, SendError};

/// How long a process waits at the door while one of the same name is still inside, in milliseconds.
const DOOR_MS: u64 = 1_500;

/// Callers whose name is still taken by a process that is perhaps dying right now.
#[derive(Debug, Default)]
pub(super) struct Door {
    waiting: Vec<(Caller, Introduction, u64)>,
}

impl Coordinator {
    /// Something came out of the transport.
    pub(super) fn inbound(&mut self, inbound: Inbound) -> Result<(), JournalError> {
        match inbound {
            Inbound::Knock(caller) => self.knock(caller),
            Inbound::PeerUp { peer: PeerId::Worker(node), hello: Hello { who: Who::Worker(introduction), .. } } => {
                self.arrived(node, introduction)
            }
            Inbound::Control { from: PeerId::Worker(node), message: Control::FromWorker(message) } => {
                self.said(node, message)
            }
            Inbound::PeerDown { peer: PeerId::Worker(node), cause } => self.down(node, cause),
            Inbound::Rejected { address, cause } => {
                tracing::warn!(%address, %cause, "a connection was turned away");
                Ok(())
            }
            Inbound::PeerUp { .. } | Inbound::Control { .. } | Inbound::PeerDown { .. } | Inbound::Bulk { .. } => {
                tracing::warn!(?inbound, "not something that a worker says to a coordinator");
                Ok(())
            }
        }
    }

    fn knock(&mut self, caller: Caller) -> Result<(), JournalError> {
        match &caller.hello().who {
            Who::Worker(introduction) => {
                let introduction = introduction.clone();
                self.let_in(caller, introduction, DOOR_MS)
            }
            Who::Coordinator { .. } | Who::Peer(_) => {
                caller.refuse("this is the coordinator; only workers that introduce themselves are let in");
                Ok(())
            }
        }
    }

    /// Admits a caller under the id it had, or under a new one once that is durable. If a living process has its name,
    /// it waits at the door for at most `patience` more milliseconds.
    fn let_in(&mut self, caller: Caller, introduction: Introduction, patience: u64) -> Result<(), JournalError> {
        let had = introduction.node.filter(|node| self.names.get(node) == Some(&introduction.name));
        let known = had.filter(|node| self.members.may_return(*node));
        if let Some(node) = known {
            self.admit(node, caller);
            return Ok(());
        }
        if let Some(other) = self.members.find(&introduction.name) {
            if patience == 0 {
                tracing::warn!(node = %other, name = introduction.name, "a second worker of this name was refused");
                caller.refuse(format!(
                    "a worker named {} is in the cluster already ({other}); stop it, or give this one another name",
                    introduction.name
                ));
            } else {
                self.door.waiting.push((caller, introduction, patience));
            }
            return Ok(());
        }
        let node = NodeId(self.names.last_key_value().map_or(0, |(last, _)| last.0) + 1);
        self.names.insert(node, introduction.name.clone());
        self.journal.append(&Entry::Node { id: node, name: introduction.name, address: caller.address() })?;
        let me = self.me.clone();
        self.flusher.request(&me, After::Admit(node, caller));
        Ok(())
    }

    /// Lets a caller in under an id that is durable.
    pub(super) fn admit(&mut self, node: NodeId, caller: Caller) {
        let hello = Hello { protocol: VERSION, who: Who::Coordinator { incarnation: self.incarnation } };
        caller.admit(PeerId::Worker(node), hello);
    }

    /// Looks again at those who wait at the door, `spent` milliseconds later. Time in which the watcher itself was held up
    /// is not counted.
    pub(super) fn open_door(&mut self, spent: u64) -> Result<(), JournalError> {
        for (caller, introduction, patience) in std::mem::take(&mut self.door.waiting) {
            self.let_in(caller, introduction, patience.saturating_sub(spent))?;
        }
        Ok(())
    }

    fn arrived(&mut self, node: NodeId, introduction: Introduction) -> Result<(), JournalError> {
        let now = self.now();
        let (name, pid, had) = (introduction.name.clone(), introduction.pid, introduction.node);
        let arrival = self.members.arrive(now, node, introduction);
        tracing::info!(%node, name, pid, ?arrival, "worker is here");
        self.tell(node, ToWorker::Welcome { node });
        self.introduce();
        let Some(offer) = self.members.get_mut(node).map(|member| member.offer()) else { return Ok(()) };
        if had == Some(node) {
            self.release_ended(node, &offer)?;
        }
        match arrival {
            Arrival::Joined => self.drive_active(Some(Event::Joined { node, offer })),
            Arrival::Returned => self.drive_active(Some(Event::LinkReset { node })),
        }
    }

    fn said(&mut self, node: NodeId, message: FromWorker) -> Result<(), JournalError> {
        match message {
            FromWorker::Holder { job, message } => self.drive(job, Event::From { node, message }),
            FromWorker::Answer { request, answer } => {
                let (name, answer) = (self.name(node), self.named(answer));
                self.asks.answered(request, node, name, answer);
                Ok(())
            }
            FromWorker::Heartbeat { number, used_bytes } => {
                let now = self.now();
                if self.members.heartbeat(now, node, used_bytes) {
                    self.changed();
                }
                self.tell(node, ToWorker::HeartbeatAck { number });
                Ok(())
            }
            FromWorker::Leaving => self.leaving(node),
        }
    }

    fn down(&mut self, node: NodeId, cause: DownCause) -> Result<(), JournalError> {
        tracing::info!(%node, %cause, "link is down");
        let loss = match cause {
            DownCause::LinkReset => {
                let now = self.now();
                self.members.part(now, node);
                return Ok(());
            }
            DownCause::Died => LossCause::Died,
            DownCause::Silent => LossCause::Silent,
            DownCause::Closed(_) => self.members.farewell(node),
        };
        self.lost(node, loss)
    }

    /// A node is gone for good.
    pub(super) fn lost(&mut self, node: NodeId, cause: LossCause) -> Result<(), JournalError> {
        let now = self.now();
        if !self.members.lose(now, node) {
            return Ok(());
        }
        self.journal.append(&Entry::Gone { id: node, name: self.name(node) })?;
        self.asks.forget(node);
        self.introduce();
        self.drive_active(Some(Event::Lost { node, cause }))?;
        self.open_door(0)
    }

    /// A node wishes to leave, or its operator wishes it. It goes at once if no job needs it.
    pub(super) fn leaving(&mut self, node: NodeId) -> Result<(), JournalError> {
        if !self.members.leave(node) {
            return Ok(());
        }
        tracing::info!(%node, "worker wishes to leave");
        let needed = self.active_engine().is_some_and(|engine| engine.members().contains(&node));
        if needed {
            return self.drive_active(Some(Event::Draining { node }));
        }
        self.tell(node, ToWorker::Shutdown);
        Ok(())
    }

    /// Tells everyone who else is there.
    fn introduce(&mut self) {
        let peers = self.members.peers();
        for node in self.members.linked() {
            let others = peers.iter().filter(|peer| peer.node != node).cloned().collect();
            self.tell(node, ToWorker::Peers(others));
        }
        self.changed();
    }

    /// Queues a message to a worker. Without a link it is dropped: a fence follows the link's return. A full queue ends the
    /// link, so that a fence follows that, too.
    pub(super) fn tell(&mut self, node: NodeId, message: ToWorker) {
        match tell(&self.endpoint, node, message) {
            Ok(()) => {}
            Err(error @ SendError::NotConnected(_)) => tracing::debug!(%node, %error, "message dropped"),
            Err(error @ SendError::QueueFull { .. }) => tracing::warn!(%node, %error, "message dropped, link ended"),
            Err(error @ SendError::Encode { .. }) => {
                tracing::error!(%node, error = &error as &dyn std::error::Error, "message cannot be sent");
            }
        }
    }
}
