//! What the daemon holds of a running worker.

use std::net::SocketAddr;

use ractor::ActorCell;
use tokio::sync::{mpsc, watch};

/// How a worker ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeEnd {
    /// It asked to leave, and was released.
    Left,
    /// The coordinator told it to stop.
    Shutdown,
    /// [`NodeHandle::stop`] was called.
    Stopped,
    /// It cannot go on.
    Failed {
        /// Why: what was asked, what was found, what to do.
        reason: String,
    },
}

/// What the daemon asks of a running worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// Leave in peace.
    Leave,
    /// End at once.
    Stop,
}

/// A running worker. Dropping the handle stops it.
#[derive(Debug)]
pub struct NodeHandle {
    address: SocketAddr,
    wishes: mpsc::UnboundedSender<Wish>,
    end: watch::Receiver<Option<NodeEnd>>,
    root: ActorCell,
}

impl NodeHandle {
    pub(super) fn new(
        address: SocketAddr,
        wishes: mpsc::UnboundedSender<Wish>,
        end: watch::Receiver<Option<NodeEnd>>,
        root: ActorCell,
    ) -> Self {
        Self { address, wishes, end, root }
    }

    /// Jobs that it has a holder for: those it takes part in.
    #[must_use]
    pub fn holders(&self) -> usize {
        self.root.get_children().len()
    }

    /// Where its transport listens, with the port that was taken.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Tells the coordinator that the node wishes to leave (SIGTERM): it stays a holder until its state is elsewhere, then
    /// ends as [`NodeEnd::Left`]. If nothing is heard of a coordinator for 3 s, it ends so without handing over.
    pub fn leave(&self) {
        // An error means that it has ended already.
        let _ = self.wishes.send(Wish::Leave);
    }

    /// Ends it at once; peers see a goodbye.
    pub fn stop(&self) {
        let _ = self.wishes.send(Wish::Stop);
    }

    /// Returns when it has ended, with how.
    pub async fn ended(&mut self) -> NodeEnd {
        match self.end.wait_for(Option::is_some).await {
            Ok(end) => end.clone().unwrap_or(NodeEnd::Stopped),
            Err(_) => NodeEnd::Failed { reason: "the worker's root actor is gone".to_owned() },
        }
    }
}
