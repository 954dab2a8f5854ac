//! Where received elements go: straight into a buffer of the arena that will work on them.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};

use shoal_kernels::Tag;
use shoal_plan::ids::JobId;
use shoal_wire::data::{Header, Purpose};
use tokio::sync::mpsc;

use crate::device::Devices;
use crate::transport::{BulkSink, Destination, Refused};

/// A transfer for which there was no room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Overflow {
    /// Its job.
    pub(super) job: JobId,
    /// Node, tag and bytes.
    pub(super) cause: String,
}

/// Gives room in a worker's arenas.
#[derive(Clone, Debug)]
pub(super) struct ArenaSink {
    devices: Devices,
    jobs: Arc<RwLock<BTreeSet<JobId>>>,
    overflow: mpsc::UnboundedSender<Overflow>,
}

impl ArenaSink {
    pub(super) fn new(devices: Devices, overflow: mpsc::UnboundedSender<Overflow>) -> Self {
        Self { devices, jobs: Arc::default(), overflow }
    }

    /// Transfers of these jobs are wanted from now on.
    pub(super) fn expect(&self, jobs: BTreeSet<JobId>) {
        *self.jobs.write().unwrap_or_else(PoisonError::into_inner) = jobs;
    }
}

impl BulkSink for ArenaSink {
    fn accept(&self, header: &Header) -> Result<Destination, Refused> {
        if !self.jobs.read().unwrap_or_else(PoisonError::into_inner).contains(&header.job) {
            return Err(Refused::Unknown);
        }
        let elements = usize::try_from(header.elements).map_err(|_| Refused::Header)?;
        let arena = match header.purpose {
            Purpose::Activation { .. }
            | Purpose::ActivationGradient { .. }
            | Purpose::GradientPartial { .. }
            | Purpose::Weights { .. }
            | Purpose::SeatWeights { .. } => self.devices.compute.arena(),
            Purpose::ShadowGradient { .. } | Purpose::State { .. } => self.devices.store.arena(),
        };
        match arena.alloc(Tag::Communication, elements) {
            Ok(buffer) => Ok(Box::new(buffer)),
            Err(error) => {
                let cause = format!("{} from {}: {}", header.job, header.from, crate::chain(&error));
                // An error means that the worker is ending.
                let _ = self.overflow.send(Overflow { job: header.job, cause });
                Err(Refused::NoRoom)
            }
        }
    }
}
