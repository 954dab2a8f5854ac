//! Where received elements go: straight into a buffer of the arena that will work on them.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use shoal_config::JobSpec;
use shoal_config::spec::Wire;
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

/// What of a job decides about the type of a transfer's elements.
#[derive(Clone, Copy, Debug)]
struct Expected {
    wire: Wire,
    lanes: u32,
}

/// Gives room in a worker's arenas.
#[derive(Clone, Debug)]
pub(super) struct ArenaSink {
    devices: Devices,
    jobs: Arc<RwLock<BTreeMap<JobId, Expected>>>,
    overflow: mpsc::UnboundedSender<Overflow>,
}

impl ArenaSink {
    pub(super) fn new(devices: Devices, overflow: mpsc::UnboundedSender<Overflow>) -> Self {
        Self { devices, jobs: Arc::default(), overflow }
    }

    /// Transfers of these jobs are wanted from now on.
    pub(super) fn expect<'j>(&self, jobs: impl Iterator<Item = (JobId, &'j JobSpec)>) {
        let expected =
            |spec: &JobSpec| Expected { wire: spec.train.numerics.wire, lanes: spec.parallel.virtual_replicas };
        let jobs = jobs.map(|(id, spec)| (id, expected(spec))).collect();
        *self.jobs.write().unwrap_or_else(PoisonError::into_inner) = jobs;
    }
}

impl BulkSink for ArenaSink {
    fn accept(&self, header: &Header) -> Result<Destination, Refused> {
        let expected = self.jobs.read().unwrap_or_else(PoisonError::into_inner).get(&header.job).copied();
        let Expected { wire, lanes } = expected.ok_or(Refused::Unknown)?;
        // State that came as halves would be widened, its lower bits gone, and nothing would tell.
        let dtype = header.purpose.dtype(wire, lanes);
        if header.dtype != dtype {
            tracing::warn!(job = %header.job, from = %header.from, found = ?header.dtype, wanted = ?dtype, "elements of another type");
            return Err(Refused::Header);
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

#[cfg(test)]
mod tests {
    use shoal_config::spec::Dtype;
    use shoal_kernels::Class;
    use shoal_plan::ids::{Generation, MicroBatch, NodeId, PieceId, Replica, Seat, StageIndex};
    use shoal_plan::schedule::Pass;

    use super::*;

    /// Weights marked as halves would be widened and half of their bits be gone.
    #[test]
    fn elements_of_another_type_than_the_jobs_are_refused() {
        let mut spec = shoal_config::preset("tiny", "/".as_ref()).expect("a preset");
        let devices = Devices::start("sink-test", Class::detect(), 1, 64 << 20).expect("room");
        let sink = ArenaSink::new(devices, mpsc::unbounded_channel().0);
        let accepted = |purpose: Purpose, dtype| {
            let generation = Generation::default();
            let header = Header { job: JobId(1), generation, from: NodeId(2), step: 1, purpose, elements: 64, dtype };
            sink.accept(&header).map(|_| ()).map_err(|refused| format!("{refused:?}"))
        };
        let weights = || Purpose::Weights { piece: PieceId(0) };
        let activation = || Purpose::Activation {
            to: Seat { stage: StageIndex(1), replica: Replica(0) },
            micro_batch: MicroBatch(0),
            pass: Pass::Train,
        };
        assert_eq!(accepted(weights(), Dtype::F32), Err("Unknown".to_owned()));
        for (wire, own, other) in [(Wire::Fp32, Dtype::F32, Dtype::Bf16), (Wire::Bf16, Dtype::Bf16, Dtype::F32)] {
            spec.train.numerics.wire = wire;
            sink.expect([(JobId(1), &spec)].into_iter());
            assert_eq!(accepted(weights(), Dtype::F32), Ok(()), "{wire:?}");
            assert_eq!(accepted(weights(), Dtype::Bf16), Err("Header".to_owned()), "{wire:?}");
            assert_eq!(accepted(activation(), own), Ok(()), "{wire:?}");
            assert_eq!(accepted(activation(), other), Err("Header".to_owned()), "{wire:?}");
        }
    }
}
