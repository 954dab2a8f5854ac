//! Other workers at this one's door.

use shoal_wire::control::Who;

use super::links::Links;
use crate::transport::{Bearer, Caller, PeerId};

/// Callers of which the coordinator has not told yet.
#[derive(Debug, Default)]
pub(super) struct Door {
    waiting: Vec<Caller>,
}

impl Door {
    /// Another worker is let in under the id that it gives, if its certificate is that of the worker to which the
    /// coordinator has given the id. One of which it has not told yet waits: it was told of this worker sooner. The
    /// transport turns it away if nothing comes.
    pub(super) fn knock(&mut self, links: &Links, caller: Caller) {
        match (&caller.hello().who, links.hello()) {
            (Who::Peer(peer), Some(hello)) => match (links.name(*peer), caller.bearer()) {
                (None, _) => {
                    self.waiting.retain(Caller::waits);
                    self.waiting.push(caller);
                }
                (Some(name), Bearer::Worker(shown)) if name == *shown => {
                    let peer = PeerId::Worker(*peer);
                    caller.admit(peer, hello);
                }
                (Some(name), shown) => {
                    let refusal = format!("{peer} is worker {name}, but your certificate is that of {shown}");
                    tracing::warn!(%peer, name, %shown, "a caller was refused: its certificate is not that of the node");
                    caller.refuse(refusal);
                }
            },
            (Who::Peer(_), None) => caller.refuse("this worker is not registered yet"),
            (Who::Worker(_) | Who::Coordinator { .. }, _) => {
                caller.refuse("this is a worker; the coordinator is elsewhere");
            }
        }
    }

    /// The coordinator has told who is there.
    pub(super) fn look_again(&mut self, links: &Links) {
        for caller in std::mem::take(&mut self.waiting) {
            self.knock(links, caller);
        }
    }
}
