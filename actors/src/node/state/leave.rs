//! A worker is asked to leave, or to end.

use std::time::Duration;

use shoal_wire::control::FromWorker;

use super::{Intent, NodeState, Standing};
use crate::node::actor::NodeMsg;
use crate::node::handle::{NodeEnd, Wish};

/// A worker that wishes to leave and has heard nothing of a coordinator for so long has nobody to hand over to.
const ALONE: Duration = Duration::from_secs(3);

impl NodeState {
    pub(in crate::node) fn wish(&mut self, wish: Wish) {
        match wish {
            Wish::Stop => self.end(NodeEnd::Stopped),
            Wish::Leave => {
                self.intent = Intent::Leave;
                match self.standing {
                    Standing::Apart { .. } | Standing::Admitted => {}
                    Standing::Member => self.links.tell(FromWorker::Leaving),
                }
                self.leave_if_alone();
            }
        }
    }

    /// A worker that wishes to leave does not wait for a coordinator that is gone: one that is only restarted speaks again
    /// in time, and every heartbeat is answered.
    pub(in crate::node) fn leave_if_alone(&self) {
        let silent = self.heard.map_or(ALONE, |heard| heard.elapsed());
        if silent < ALONE {
            self.me.send_after(ALONE - silent, || NodeMsg::Alone);
            return;
        }
        tracing::warn!(?silent, "nothing is heard of a coordinator, so nothing can be handed over");
        self.end(NodeEnd::Left);
    }
}
