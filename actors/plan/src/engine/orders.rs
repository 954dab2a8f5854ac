//! What the operator says: pause, resume, cancel, hash, write.

use std::cmp::Ordering;

use super::face::{Command, Order, OrderAnswer, Record, State};
use super::phase::Phase;
use super::{Engine, Happening};
use crate::protocol::PersistMode;

/// Orders that are not carried out yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Orders {
    /// Hold once this step is committed.
    pub pause_at: Option<u64>,
    persists: Vec<PersistOrder>,
    /// Names of orders to holders.
    pub persists_begun: u64,
    /// Given once a mark is durable: mark, request, answer.
    acks: Vec<(u64, u64, OrderAnswer)>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct PersistOrder {
    pub request: u64,
    pub at: Option<u64>,
    pub mode: PersistMode,
}

impl Orders {
    pub(super) fn holds_at(&self, step: u64) -> bool {
        self.pause_at.is_some_and(|at| at <= step)
    }

    /// Orders to carry out once a step is committed.
    pub(super) fn persists_at(&self, step: u64) -> Vec<PersistOrder> {
        self.persists.iter().filter(|order| order.at.is_none_or(|at| at == step)).copied().collect()
    }

    /// Whether a committed step has to be hashed or written before the next is committed.
    pub(super) fn persist_due(&self, step: u64) -> bool {
        self.persists.iter().any(|order| order.at == Some(step))
    }

    pub(super) fn close_persist(&mut self, request: u64) {
        self.persists.retain(|order| order.request != request);
    }
}

/// Orders to hash or write that may be open.
const MOST_PERSISTS: usize = 64;

impl Engine {
    pub(super) fn ordered(&mut self, request: u64, order: Order) {
        if self.state.is_over() {
            let reason = format!("the job is over: {}", self.tally.reason.as_deref().unwrap_or("nothing left to do"));
            self.refuse(request, reason);
            return;
        }
        match order {
            Order::Pause { at } => self.pause(request, at),
            Order::Resume => self.resume(request),
            Order::Cancel => {
                self.accept(request, Order::Cancel, "cancelled by the operator");
                self.close(State::Cancelled, "cancelled by the operator".into());
            }
            Order::Persist { at, mode } => self.persist(request, at, mode),
        }
    }

    /// The first committed step that an order can still act at.
    fn earliest(&self) -> u64 {
        self.in_flight.unwrap_or(self.chain.head().step)
    }

    fn pause(&mut self, request: u64, at: Option<u64>) {
        let (earliest, steps) = (self.earliest(), self.steps());
        let at = at.unwrap_or(earliest);
        if at < earliest || at >= steps {
            self.refuse(
                request,
                format!("asked to pause at step {at}; {}", possible(earliest, steps.saturating_sub(1))),
            );
            return;
        }
        self.orders.pause_at = Some(at);
        self.accept(request, Order::Pause { at: Some(at) }, &format!("pause at step {at}"));
        if self.in_flight.is_none() && at == self.chain.head().step && matches!(self.phase, Phase::Running(_)) {
            self.show(State::Paused { step: at });
        }
    }

    fn resume(&mut self, request: u64) {
        self.orders.pause_at = None;
        self.accept(request, Order::Resume, "resume");
        if matches!(self.phase, Phase::Parked) && !self.nodes.here().is_empty() {
            self.fence("resumed by the operator");
            return;
        }
        if let (Phase::Running(running), None) = (&self.phase, self.in_flight)
            && self.chain.head().step < self.steps()
        {
            let audience = running.audience.clone();
            self.go_on(self.chain.head(), &audience);
        }
    }

    fn persist(&mut self, request: u64, at: Option<u64>, mode: PersistMode) {
        let (earliest, steps) = (self.earliest(), self.steps());
        if at.is_some_and(|at| at < earliest || at > steps) {
            let at = at.unwrap_or_default();
            self.refuse(request, format!("asked for the state of step {at}; {}", possible(earliest, steps)));
            return;
        }
        if matches!(self.phase, Phase::Parked) {
            self.refuse(request, self.parked_reason());
            return;
        }
        if self.orders.persists.len() >= MOST_PERSISTS {
            self.refuse(request, format!("{MOST_PERSISTS} orders to hash or write are open; wait for one of them"));
            return;
        }
        self.orders.persists.push(PersistOrder { request, at, mode });
        let what = match mode {
            PersistMode::Hash => "hash",
            PersistMode::Write => "write",
        };
        let when = at.map_or("the next commit".to_owned(), |at| format!("step {at}"));
        self.note(Happening::Ordered { order: format!("{what} the state at {when}") });
        if let (Phase::Running(running), None) = (&self.phase, self.in_flight)
            && self.chain.head().step < steps
        {
            let audience = running.audience.clone();
            self.go_on(self.chain.head(), &audience);
        }
    }

    /// Why nothing is done about an order while the job is parked.
    pub(super) fn parked_reason(&self) -> String {
        let then = if self.nodes.here().is_empty() { "it has to go on first" } else { "resume the job first" };
        format!("{}; {then}", self.tally.reason.as_deref().unwrap_or("parked"))
    }

    /// Journals an order and answers once that is durable.
    fn accept(&mut self, request: u64, order: Order, text: &str) {
        self.journal(Record::Ordered(order));
        self.note(Happening::Ordered { order: text.to_owned() });
        self.answer_once_durable(request, OrderAnswer::Accepted);
    }

    /// Answers once everything journaled so far is durable.
    pub(super) fn answer_once_durable(&mut self, request: u64, answer: OrderAnswer) {
        let mark = self.flush();
        self.orders.acks.push((mark, request, answer));
    }

    fn refuse(&mut self, request: u64, reason: String) {
        self.out.push(Command::Answer { request, answer: OrderAnswer::Refused(reason) });
    }

    pub(super) fn answer_durable_orders(&mut self, mark: u64) {
        let durable = self.orders.acks.extract_if(.., |(waits, ..)| *waits <= mark);
        for (_, request, answer) in durable {
            self.out.push(Command::Answer { request, answer });
        }
    }

    pub(super) fn refuse_open_persists(&mut self, reason: &str) {
        for order in std::mem::take(&mut self.orders.persists) {
            self.refuse(order.request, reason.to_owned());
        }
    }

    /// Refuses the orders that were being carried out.
    pub(super) fn refuse_due_persists(&mut self, reason: &str) {
        for order in self.orders.persists_at(self.chain.head().step) {
            self.orders.close_persist(order.request);
            self.refuse(order.request, reason.to_owned());
        }
    }
}

/// The steps that an order can name, in words.
fn possible(from: u64, to: u64) -> String {
    match from.cmp(&to) {
        Ordering::Less => format!("possible are the steps from {from} to {to}"),
        Ordering::Equal => format!("possible is step {from} only"),
        Ordering::Greater => "no step is left for that".to_owned(),
    }
}
