//! Which peer has which connection, and which of two dials stays.
//!
//! TT-1 (one connection a peer): a newer link is installed only after the older one's end was told.
//! TT-2 (crossing dials): if both ends dial at once, the dial of the lower peer stays, at both ends.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::connect::ConnectError;
use super::peer::PeerId;

/// How the opening of a slot went, once it is known.
pub(super) type Outcome = Option<Result<(), ConnectError>>;

/// Becomes true once the end of a link was told.
pub(super) type Told = watch::Receiver<bool>;

/// Every peer of an endpoint.
#[derive(Debug)]
pub(super) struct Table<L> {
    slots: HashMap<PeerId, Slot<L>>,
    tokens: u64,
    closed: bool,
}

#[derive(Debug)]
enum Slot<L> {
    /// A connection is on its way, first or again.
    Opening { token: u64, by: Dialler, outcome: watch::Sender<Outcome> },
    /// There is one.
    Up(Entry<L>),
    /// It is gone, and that is being told.
    Ending { token: u64, by: Dialler, told: watch::Sender<bool> },
}

/// A live connection.
#[derive(Debug)]
pub(super) struct Entry<L> {
    pub(super) link: Arc<L>,
    pub(super) by: Dialler,
    pub(super) since: Instant,
    pub(super) told: Told,
}

impl<L> Clone for Entry<L> {
    fn clone(&self) -> Self {
        Self { link: Arc::clone(&self.link), by: self.by, since: self.since, told: self.told.clone() }
    }
}

/// Who dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialler {
    /// This end.
    Here,
    /// The other end.
    There,
}

/// What a caller of `connect` finds.
#[derive(Debug)]
pub(super) enum Begin {
    /// There is a connection.
    Up,
    /// It is being opened: wait.
    Wait(watch::Receiver<Outcome>),
    /// Dial, under this token.
    Dial(u64, watch::Receiver<Outcome>),
    /// Try again after this was told.
    After(Told),
    /// No more connections.
    Closed,
}

/// What an inbound connection finds.
#[derive(Debug)]
pub(super) enum Arrival<L> {
    /// It is installed; tell those who wait once `PeerUp` is out.
    Installed(watch::Sender<Outcome>),
    /// An own dial stays instead.
    Crossing,
    /// Try again after this was told; end the older link if there is one.
    After(Option<Arc<L>>, Told),
    /// No more connections.
    Closed,
}

impl<L> Default for Table<L> {
    fn default() -> Self {
        Self { slots: HashMap::new(), tokens: 0, closed: false }
    }
}

impl<L> Table<L> {
    /// The owner wants a connection.
    pub(super) fn begin(&mut self, peer: PeerId) -> Begin {
        if self.closed {
            return Begin::Closed;
        }
        match self.slots.get(&peer) {
            Some(Slot::Up(_)) => Begin::Up,
            Some(Slot::Opening { outcome, .. }) => Begin::Wait(outcome.subscribe()),
            Some(Slot::Ending { told, .. }) => Begin::After(told.subscribe()),
            None => {
                let (token, outcome) = self.open(peer, Dialler::Here);
                Begin::Dial(token, outcome)
            }
        }
    }

    fn open(&mut self, peer: PeerId, by: Dialler) -> (u64, watch::Receiver<Outcome>) {
        self.tokens += 1;
        let (outcome, receiver) = watch::channel(None);
        self.slots.insert(peer, Slot::Opening { token: self.tokens, by, outcome });
        (self.tokens, receiver)
    }

    /// An own dial is through. Nothing comes back if another connection took the slot meanwhile.
    pub(super) fn dialled(&mut self, peer: PeerId, token: u64, entry: Entry<L>) -> Option<watch::Sender<Outcome>> {
        if !self.is_opening(peer, token) {
            return None;
        }
        match self.slots.insert(peer, Slot::Up(entry)) {
            Some(Slot::Opening { outcome, .. }) => Some(outcome),
            Some(Slot::Up(_) | Slot::Ending { .. }) | None => None,
        }
    }

    /// The other end dialled and is admitted under this name; `me` is the own name, if any. `grace` is how long after an
    /// own dial was through a crossing one may still be under way.
    pub(super) fn arrived(
        &mut self,
        peer: PeerId,
        me: Option<PeerId>,
        entry: &Entry<L>,
        grace: Duration,
    ) -> Arrival<L> {
        if self.closed {
            return Arrival::Closed;
        }
        let mine_stays = me.is_some_and(|me| me < peer);
        match self.slots.get(&peer) {
            Some(Slot::Opening { by: Dialler::Here, .. }) if mine_stays => return Arrival::Crossing,
            Some(Slot::Up(old)) if old.by == Dialler::Here && mine_stays && entry.since < old.since + grace => {
                return Arrival::Crossing;
            }
            Some(Slot::Up(old)) => return Arrival::After(Some(Arc::clone(&old.link)), old.told.clone()),
            Some(Slot::Ending { told, .. }) => return Arrival::After(None, told.subscribe()),
            Some(Slot::Opening { .. }) | None => {}
        }
        match self.slots.insert(peer, Slot::Up(entry.clone())) {
            Some(Slot::Opening { outcome, .. }) => Arrival::Installed(outcome),
            Some(Slot::Up(_) | Slot::Ending { .. }) | None => Arrival::Installed(watch::Sender::new(None)),
        }
    }

    /// A first dial failed: those who wait get the error, unless another connection took the slot.
    pub(super) fn failed(&mut self, peer: PeerId, token: u64, error: ConnectError) {
        if self.is_opening(peer, token)
            && let Some(Slot::Opening { outcome, .. }) = self.slots.remove(&peer)
        {
            outcome.send_replace(Some(Err(error)));
        }
    }

    /// A link is gone. With the token that comes back its end is to be told, then [`Self::told`] or [`Self::reopened`];
    /// nothing comes back if it does not stand for its peer any more.
    pub(super) fn ending(&mut self, peer: PeerId, link: &Arc<L>) -> Option<u64> {
        let by = match self.slots.get(&peer) {
            Some(Slot::Up(held)) if Arc::ptr_eq(&held.link, link) => held.by,
            Some(Slot::Up(_) | Slot::Opening { .. } | Slot::Ending { .. }) | None => return None,
        };
        self.tokens += 1;
        self.slots.insert(peer, Slot::Ending { token: self.tokens, by, told: watch::Sender::new(false) });
        Some(self.tokens)
    }

    /// A broken link does not come back. True if that is to be told, and then [`Self::told`].
    pub(super) fn given_up(&mut self, peer: PeerId, token: u64, error: ConnectError) -> bool {
        match self.slots.remove(&peer) {
            Some(Slot::Opening { token: t, by, outcome }) if t == token => {
                outcome.send_replace(Some(Err(error)));
                self.slots.insert(peer, Slot::Ending { token, by, told: watch::Sender::new(false) });
                true
            }
            other => {
                self.slots.extend(other.map(|slot| (peer, slot)));
                false
            }
        }
    }

    /// The end of a link was told: its slot is free.
    pub(super) fn told(&mut self, peer: PeerId, token: u64) {
        if self.is_ending(peer, token) {
            self.drop_peer(peer);
        }
    }

    /// The break of a link was told: it is to be dialled again by the end that dialled it.
    pub(super) fn reopened(&mut self, peer: PeerId, token: u64) -> Option<(u64, Dialler, watch::Receiver<Outcome>)> {
        match self.slots.get(&peer) {
            Some(Slot::Ending { token: t, by, told }) if *t == token => {
                let by = *by;
                told.send_replace(true);
                let (token, outcome) = self.open(peer, by);
                Some((token, by, outcome))
            }
            Some(Slot::Up(_) | Slot::Opening { .. } | Slot::Ending { .. }) | None => None,
        }
    }

    pub(super) fn link(&self, peer: PeerId) -> Option<Arc<L>> {
        match self.slots.get(&peer) {
            Some(Slot::Up(entry)) => Some(Arc::clone(&entry.link)),
            Some(Slot::Opening { .. } | Slot::Ending { .. }) | None => None,
        }
    }

    /// The peers that have a connection, ascending.
    pub(super) fn peers(&self) -> Vec<PeerId> {
        let mut peers: Vec<_> =
            self.slots.iter().filter(|(_, slot)| matches!(slot, Slot::Up(_))).map(|(peer, _)| *peer).collect();
        peers.sort_unstable();
        peers
    }

    /// Every peer that has a connection, or is about to have one, or has just lost it.
    pub(super) fn known(&self) -> Vec<PeerId> {
        self.slots.keys().copied().collect()
    }

    /// Takes a peer's slot away. Its connection, if it has one.
    pub(super) fn drop_peer(&mut self, peer: PeerId) -> Option<Entry<L>> {
        match self.slots.remove(&peer) {
            Some(Slot::Up(entry)) => Some(entry),
            Some(Slot::Opening { outcome, .. }) => {
                outcome.send_replace(Some(Err(ConnectError::ShutDown)));
                None
            }
            Some(Slot::Ending { told, .. }) => {
                told.send_replace(true);
                None
            }
            None => None,
        }
    }

    /// No more connections from here on. Those there were.
    pub(super) fn close(&mut self) -> Vec<Entry<L>> {
        self.closed = true;
        let peers: Vec<_> = self.slots.keys().copied().collect();
        peers.into_iter().filter_map(|peer| self.drop_peer(peer)).collect()
    }

    fn is_ending(&self, peer: PeerId, token: u64) -> bool {
        matches!(self.slots.get(&peer), Some(Slot::Ending { token: t, .. }) if *t == token)
    }

    fn is_opening(&self, peer: PeerId, token: u64) -> bool {
        matches!(self.slots.get(&peer), Some(Slot::Opening { token: t, .. }) if *t == token)
    }
}

#[cfg(test)]
mod tests;
