//! Makes the journal durable off the actor: one flush at a time, and whoever asks meanwhile shares the next one.

use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;
use shoal_plan::engine::OrderAnswer;
use shoal_plan::ids::{JobId, NodeId};

use super::journal::{Journal, JournalError};
use super::message::{CoordinatorMsg, Reply, Submitted};
use crate::transport::Caller;

/// A disk that takes longer for one flush is as good as none: another coordinator may have more luck with it.
const PATIENCE: Duration = Duration::from_secs(60);

/// What to do once everything appended before is durable.
#[derive(Debug)]
pub enum After {
    /// Tell the job's engine.
    Engine {
        /// The job.
        job: JobId,
        /// The engine's mark.
        mark: u64,
    },
    /// Let a worker in under its new id.
    Admit(NodeId, Caller),
    /// Acknowledge a submission.
    Submitted(Submitted, Reply<Submitted>),
    /// Answer an order that no engine was needed for.
    Answered(OrderAnswer, Reply<OrderAnswer>),
    /// Stop.
    Stop(Reply<()>),
}

/// Makes the journal durable off the actor.
pub(super) struct Flusher {
    journal: Arc<dyn Journal>,
    state: State,
}

enum State {
    Idle,
    /// A flush is under way; it may miss what these wait for.
    Busy {
        next: Vec<After>,
    },
}

impl Flusher {
    pub(super) fn new(journal: Arc<dyn Journal>) -> Self {
        Self { journal, state: State::Idle }
    }

    /// [`CoordinatorMsg::Flushed`] brings `after` back once everything appended so far is durable.
    pub(super) fn request(&mut self, me: &ActorRef<CoordinatorMsg>, after: After) {
        match &mut self.state {
            State::Idle => self.start(me, vec![after]),
            State::Busy { next } => next.push(after),
        }
    }

    /// To be called when [`CoordinatorMsg::Flushed`] arrives.
    pub(super) fn finished(&mut self, me: &ActorRef<CoordinatorMsg>) {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Busy { next } if !next.is_empty() => self.start(me, next),
            State::Busy { .. } | State::Idle => {}
        }
    }

    fn start(&mut self, me: &ActorRef<CoordinatorMsg>, after: Vec<After>) {
        self.state = State::Busy { next: Vec::new() };
        let (journal, me) = (Arc::clone(&self.journal), me.clone());
        let flush = tokio::task::spawn_blocking(move || journal.flush());
        tokio::spawn(async move {
            let outcome = match tokio::time::timeout(PATIENCE, flush).await {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(panic)) => Err(JournalError::Flush(Box::new(panic))),
                Err(late) => Err(JournalError::Flush(Box::new(late))),
            };
            // An error means that the coordinator is gone; nobody waits then.
            let _ = me.cast(CoordinatorMsg::Flushed(outcome.map(|()| after)));
        });
    }
}
