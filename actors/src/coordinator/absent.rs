//! Workers that a coordinator before this one had, and that are not back yet. Whoever lives comes back by itself; of one
//! that does not, its machine tells whether it died meanwhile.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use ractor::ActorRef;
use shoal_plan::engine::LossCause;
use shoal_plan::ids::NodeId;
use tokio::task::JoinSet;

use super::journal::JournalError;
use super::message::{CoordinatorMsg, Sight};
use super::state::Coordinator;
use crate::transport;

/// For so long it is asked after; somebody who is silent until then is for the engines to give up.
const ASKED: Duration = Duration::from_secs(10);

/// Where they were, and the questions under way, which end with this.
#[derive(Debug)]
pub(super) struct Absent {
    addresses: BTreeMap<NodeId, SocketAddr>,
    asking: JoinSet<()>,
}

impl Absent {
    pub(super) fn new(addresses: BTreeMap<NodeId, SocketAddr>) -> Self {
        Self { addresses, asking: JoinSet::new() }
    }

    /// Asks after everyone. [`Sight::Refused`] says who is dead.
    pub(super) fn ask(&mut self, me: &ActorRef<CoordinatorMsg>) {
        for (node, address) in std::mem::take(&mut self.addresses) {
            let me = me.clone();
            self.asking.spawn(async move {
                if tokio::time::timeout(ASKED, transport::nobody_listens(address)).await.is_ok() {
                    // An error means that the coordinator is gone.
                    let _ = me.cast(CoordinatorMsg::Watch(Sight::Refused(node)));
                }
            });
        }
    }
}

impl Coordinator {
    /// Nobody listens where a worker had its death-watch. One that is here is another question: its link tells.
    pub(super) fn refused(&mut self, node: NodeId) -> Result<(), JournalError> {
        if !self.members.is_absent(node) {
            return Ok(());
        }
        tracing::info!(%node, "a worker of the coordinator before is dead");
        self.lost(node, LossCause::Died)
    }
}
