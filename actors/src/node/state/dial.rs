//! A worker reaches its coordinator, and says who it is.

use std::time::Duration;

use shoal_wire::control::{Hello, Introduction, VERSION, Who};

use super::{NodeState, Standing};
use crate::node::actor::NodeMsg;
use crate::node::handle::NodeEnd;
use crate::transport::{Callee, ConnectError};

/// Between two attempts to reach the coordinator: this at first, doubled each time.
const BACKOFF: Duration = Duration::from_millis(25);
/// At most this.
const BACKOFF_MAX: Duration = Duration::from_millis(800);

impl NodeState {
    /// Dials the coordinator, in a task of its own.
    pub(in crate::node) fn dial(&mut self) {
        let Standing::Apart { .. } = self.standing else { return };
        let address = (self.config.coordinator)();
        let (me, endpoint, introduce) = (self.me.clone(), self.links.endpoint.clone(), self.introduction());
        let Some(address) = address else {
            self.me.send_after(BACKOFF_MAX, || NodeMsg::Dial);
            return;
        };
        tokio::spawn(async move {
            let hello = introduce.await;
            let outcome = endpoint.connect(Callee::coordinator(), address, hello).await;
            // An error means that the worker is ending.
            let _ = me.cast(NodeMsg::Dialled(outcome));
        });
    }

    /// What this worker says of itself.
    pub(super) fn introduction(&self) -> impl Future<Output = Hello> + Send + use<> {
        let shelf = self.shelf.clone();
        let introduction = Introduction {
            node: self.links.me(),
            name: self.config.name.clone(),
            address: self.links.endpoint.local_address(),
            pid: std::process::id(),
            budget_bytes: self.config.budget_bytes,
            threads: self.config.threads,
            class: self.devices.compute.class().to_owned(),
            arithmetic: self.devices.compute.arithmetic(),
            written: Vec::new(),
        };
        async move {
            let written = tokio::task::spawn_blocking(move || shelf.jobs()).await;
            let written = written.ok().and_then(Result::ok).unwrap_or_default();
            Hello { protocol: VERSION, who: Who::Worker(Introduction { written, ..introduction }) }
        }
    }

    pub(in crate::node) fn dialled(&mut self, outcome: Result<(), ConnectError>) {
        let Standing::Apart { attempts } = self.standing else { return };
        match outcome {
            Ok(()) => self.standing = Standing::Admitted,
            Err(error @ (ConnectError::Certificate { .. } | ConnectError::Protocol { .. })) => {
                self.end(NodeEnd::Failed { reason: crate::chain(&error) });
            }
            Err(error @ ConnectError::Refused { .. }) if self.links.me().is_none() => {
                self.end(NodeEnd::Failed { reason: crate::chain(&error) });
            }
            Err(ConnectError::ShutDown) => self.end(NodeEnd::Stopped),
            Err(
                error @ (ConnectError::NobodyListens { .. }
                | ConnectError::NoAnswer { .. }
                | ConnectError::WrongPeer { .. }
                | ConnectError::Impostor { .. }
                | ConnectError::Refused { .. }
                | ConnectError::Broken { .. }),
            ) => {
                if attempts == 0 {
                    tracing::warn!(%error, "the coordinator cannot be reached; trying on");
                }
                self.standing = Standing::Apart { attempts: attempts + 1 };
                let wait = BACKOFF.saturating_mul(1 << attempts.min(10)).min(BACKOFF_MAX);
                self.me.send_after(wait, || NodeMsg::Dial);
            }
        }
    }
}
