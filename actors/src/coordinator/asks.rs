//! Questions to workers that wait for their answers.

use std::collections::{BTreeMap, BTreeSet};

use shoal_plan::engine::Millis;
use shoal_plan::ids::NodeId;
use shoal_wire::control::Answer;

use super::message::{NodeAnswer, Reply};

/// How long a worker may take to answer, in milliseconds.
pub(super) const ANSWER_MS: u64 = 10_000;

/// Open questions by request number.
#[derive(Debug, Default)]
pub(super) struct Asks {
    open: BTreeMap<u64, Ask>,
}

#[derive(Debug)]
struct Ask {
    waiting: BTreeSet<NodeId>,
    answers: Vec<NodeAnswer>,
    deadline: Millis,
    reply: Reply<Vec<NodeAnswer>>,
}

impl Asks {
    /// A question went out to `nodes`.
    pub(super) fn open(&mut self, now: Millis, request: u64, nodes: Vec<NodeId>, reply: Reply<Vec<NodeAnswer>>) {
        let deadline = Millis(now.0 + ANSWER_MS);
        let ask = Ask { waiting: nodes.into_iter().collect(), answers: Vec::new(), deadline, reply };
        self.open.insert(request, ask);
        self.close(|ask| ask.waiting.is_empty());
    }

    /// An answer came.
    pub(super) fn answered(&mut self, request: u64, node: NodeId, name: String, answer: Answer) {
        if let Some(ask) = self.open.get_mut(&request)
            && ask.waiting.remove(&node)
        {
            ask.answers.push(NodeAnswer { node, name, answer });
        }
        self.close(|ask| ask.waiting.is_empty());
    }

    /// A worker is gone: nobody waits for it any more.
    pub(super) fn forget(&mut self, node: NodeId) {
        for ask in self.open.values_mut() {
            ask.waiting.remove(&node);
        }
        self.close(|ask| ask.waiting.is_empty());
    }

    /// Those whose time is up are answered with what there is.
    pub(super) fn expire(&mut self, now: Millis) {
        self.close(|ask| ask.deadline <= now);
    }

    fn close(&mut self, over: impl Fn(&Ask) -> bool) {
        let done: Vec<u64> = self.open.iter().filter(|(_, ask)| over(ask)).map(|(request, _)| *request).collect();
        for ask in done.into_iter().filter_map(|request| self.open.remove(&request)) {
            let mut answers = ask.answers;
            answers.sort_by_key(|answer| answer.node);
            // An error means that whoever asked is gone.
            let _ = ask.reply.send(Ok(answers));
        }
    }
}
