//! `shoalctl bench kernels`: every operation of a training step at the sizes of a model, beside what this machine gives.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use shoal_config::JobSpec;
use shoal_kernels::{Arena, ArenaError, Budget, Device, Tier};
use shoal_plan::batch::context;

use super::cases::{Case, Sizes, Work, cases};
use super::ceilings::Ceilings;
use super::products;

/// One operation is measured for at least this long, and at least [`RUNS`] times.
const SPAN: Duration = Duration::from_millis(200);
/// Least number of measured runs of an operation.
const RUNS: u32 = 3;
/// The arena's cap: a bound for mistakes, not a budget.
const CAP: u64 = 16 << 30;

/// What `bench kernels` found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelsReport {
    /// Instruction-set class.
    pub class: String,
    /// Compute threads.
    pub threads: usize,
    /// Best rate of a matrix product, 2048 cubed or one of those listed, in GFLOP/s.
    pub ceiling_gflops: f64,
    /// Best rate of a copy that no cache holds, bytes read and written, in GB/s.
    pub ceiling_gbytes: f64,
    /// One entry an operation and size.
    pub kernels: Vec<KernelLine>,
}

/// One operation at one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelLine {
    /// Whose sizes.
    pub preset: String,
    /// Name of the operation.
    pub kernel: String,
    /// Its sizes, e.g. `2048 x 384 -> 1152`.
    pub size: String,
    /// Median time of a run, in microseconds.
    pub micros: f64,
    /// `GFLOP/s` or `GB/s`.
    pub unit: String,
    /// At the median time.
    pub rate: f64,
    /// `rate` over the ceiling of that unit. More than 1 where a cache holds the operands.
    pub share: f64,
}

/// Measures every operation at the sizes of each of `specs`, with `threads` threads, turn by turn with the ceilings; `done`
/// hears of each operation as it is measured.
///
/// # Errors
/// If memory runs out.
pub fn kernels(
    specs: &[JobSpec],
    threads: usize,
    mut done: impl FnMut(&str, &str),
) -> Result<KernelsReport, ArenaError> {
    let arena = Arena::new(Tier::Device, CAP, &Budget::new(CAP));
    let device = Device::cpu(threads, &arena)?;
    let mut ceilings = Ceilings::new(&device, &arena)?;
    let mut found = Vec::new();
    for spec in specs {
        let sizes = sizes(spec);
        for case in cases(sizes) {
            ceilings.measure(&device);
            let seconds = case.measure(&device, &arena, SPAN, RUNS)?;
            done(&spec.name, case.kernel);
            found.push((spec.name.clone(), case, seconds));
        }
    }
    ceilings.measure(&device);
    let products = found.iter().filter(|(_, case, _)| matches!(case.work, Work::Product(_)));
    let products = products.map(|(_, case, seconds)| case.work.rate(*seconds));
    let ceiling_gflops = products.fold(ceilings.gflops(), f64::max);
    let ceiling_gbytes = ceilings.gbytes();
    let line = |(preset, case, seconds): (String, Case, f64)| {
        let rate = case.work.rate(seconds);
        let (unit, ceiling) = match case.work {
            Work::Product(_) | Work::Flop(_) => ("GFLOP/s", ceiling_gflops),
            Work::Bytes(_) => ("GB/s", ceiling_gbytes),
        };
        KernelLine {
            preset,
            kernel: case.kernel.to_owned(),
            size: case.size,
            micros: seconds * 1e6,
            unit: unit.to_owned(),
            rate,
            share: rate / ceiling,
        }
    };
    Ok(KernelsReport {
        class: device.class().to_owned(),
        threads,
        ceiling_gflops,
        ceiling_gbytes,
        kernels: found.into_iter().map(line).collect(),
    })
}

fn sizes(spec: &JobSpec) -> Sizes {
    let model = &spec.model;
    Sizes {
        samples: spec.train.micro_batch.min(spec.train.global_batch) as usize,
        positions: context(spec) as usize,
        heads: model.heads() as usize,
        kv_heads: model.kv_heads() as usize,
        size: model.head_size() as usize,
        width: model.width() as usize,
        inner: model.inner() as usize,
        hidden: products::hidden(model),
        vocab: model.vocab() as usize,
    }
}

impl Case {
    /// Median seconds of a run, the first one apart.
    fn measure(&self, device: &Device, arena: &Arena, span: Duration, runs: u32) -> Result<f64, ArenaError> {
        let mut run = (self.prepare)(device, arena)?;
        let mut time = || {
            let start = Instant::now();
            device.enter(|| run(device));
            start.elapsed()
        };
        time();
        let (mut all, mut times) = (Duration::ZERO, Vec::new());
        while all < span || times.len() < runs as usize {
            let once = time();
            all += once;
            times.push(once);
        }
        times.sort_unstable();
        Ok(times[times.len() / 2].as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::cases::tests::SMALL;

    /// Each operation can be run at its sizes, and does what its name says often enough to be timed.
    #[test]
    fn every_case_runs() {
        let arena = Arena::new(Tier::Device, 1 << 30, &Budget::new(1 << 30));
        let device = Device::cpu(2, &arena).expect("room");
        for case in cases(SMALL) {
            let seconds = case.measure(&device, &arena, Duration::ZERO, 1).expect("room");
            assert!(seconds > 0.0 && case.work.rate(seconds) > 0.0, "{}", case.kernel);
        }
    }
}
