//! Someone dialled, proved to be of the cluster, and said hello; its name is the owner's to give.

use std::net::SocketAddr;

use shoal_wire::control::Hello;
use tokio::sync::oneshot;

use super::bearer::Bearer;
use super::peer::PeerId;

/// An inbound connection without a name. Dropping it refuses it.
#[derive(Debug)]
pub struct Caller {
    pub(super) address: SocketAddr,
    pub(super) hello: Hello,
    pub(super) bearer: Bearer,
    pub(super) verdict: oneshot::Sender<Verdict>,
}

/// What the owner makes of a caller.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It has this name; answer with this hello.
    Admit(PeerId, Hello),
    /// Close, with this reason.
    Refuse(String),
}

impl Caller {
    /// Where it dialled from: its own endpoint's address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether it still waits to be let in; not for longer than the connect timeout.
    #[must_use]
    pub fn waits(&self) -> bool {
        !self.verdict.is_closed()
    }

    /// Whose certificate it has. What it said of itself agrees with that; which id belongs to which name is for the owner
    /// to judge.
    #[must_use]
    pub fn bearer(&self) -> &Bearer {
        &self.bearer
    }

    /// What it said.
    #[must_use]
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Lets it in under a name and answers with `hello`. `PeerUp` follows, unless an own dial to the same peer is under
    /// way and wins, or the caller is gone by now. A connection that this peer already has is replaced (`LinkReset`).
    pub fn admit(self, peer: PeerId, hello: Hello) {
        // An error means that the caller is gone; then there is nothing to admit.
        let _ = self.verdict.send(Verdict::Admit(peer, hello));
    }

    /// Turns it away; the far end's `connect` fails with this reason.
    pub fn refuse(self, reason: impl Into<String>) {
        let _ = self.verdict.send(Verdict::Refuse(reason.into()));
    }
}
