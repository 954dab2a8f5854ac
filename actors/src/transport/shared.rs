//! What every task of an endpoint uses.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shoal_wire::control::Hello;
use tokio::sync::mpsc;

use super::bearer::Callee;
use super::config::{Limits, Timing, Tuning};
use super::counters::Counters;
use super::fences::Fences;
use super::instance::Instance;
use super::link::Link;
use super::payload::BulkSink;
use super::peer::{Inbound, PeerId};
use super::quic::Configs;
use super::table::Table;
use super::watch::Desk;

pub(super) struct Shared {
    pub(super) local: SocketAddr,
    pub(super) own: Instance,
    pub(super) limits: Limits,
    pub(super) timing: Timing,
    pub(super) tuning: Tuning,
    pub(super) quic: quinn::Endpoint,
    pub(super) configs: Configs,
    pub(super) sink: Arc<dyn BulkSink>,
    pub(super) inbound: mpsc::Sender<Inbound>,
    pub(super) desk: Arc<Desk>,
    pub(super) fences: Fences,
    pub(super) counters: Counters,
    pub(super) books: Books,
}

/// What an endpoint knows of its peers.
#[derive(Default)]
pub(super) struct Books {
    table: Mutex<Table<Link>>,
    dialled: Mutex<HashMap<PeerId, (Callee, Hello)>>,
    numbers: AtomicU64,
}

impl Shared {
    /// Never held across a wait.
    pub(super) fn table(&self) -> MutexGuard<'_, Table<Link>> {
        self.books.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The peers that this end dials: whom to expect, and what to say.
    pub(super) fn dialled(&self) -> MutexGuard<'_, HashMap<PeerId, (Callee, Hello)>> {
        self.books.dialled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number that this endpoint has not used.
    pub(super) fn number(&self) -> u64 {
        self.books.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Hands something to the endpoint's owner, when it has room. An owner that is gone wants nothing more.
    pub(super) async fn tell(&self, inbound: Inbound) {
        let _ = self.inbound.send(inbound).await;
    }
}
