//! Which samples a lane trains on: a pure function of (seed, step).
//!
//! ```text
//! position  0 .. B-1 | B .. 2B-1 | ...        step k takes positions (k-1)B .. kB
//! epoch     position / windows                a permutation of the windows for each epoch
//! sample    epoch * windows + window          unique over the whole run: "used exactly once" can be checked
//! lane l    samples l*B/V .. (l+1)*B/V        micro-batches of `micro_batch` samples, the last one ragged
//! ```
//!
//! * BA-1 (a position lies inside its epoch): a position is the remainder by the number of windows.
//! * BA-2 (a job has a window): [`check_data`] refuses data that has none.
//! * BA-3 (steps are counted from 1): step 0 is the state before the first batch, which has no samples.

use std::ops::Range;

use shoal_config::JobSpec;

use crate::ids::{Digest, Lane, MicroBatch as MicroBatchId};
use crate::job::Job;

mod order;
#[cfg(test)]
mod tests;

use order::EpochOrder;

/// Some samples of one lane that go through the model together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MicroBatch {
    /// Counted over the replica's lanes.
    pub index: MicroBatchId,
    /// Its lane.
    pub lane: Lane,
    /// The first of its lane: a lane accumulator begins.
    pub first_of_lane: bool,
    /// The last of its lane: the lane's sum is complete.
    pub last_of_lane: bool,
    /// Sample ids, in order.
    pub samples: Vec<u64>,
}

impl MicroBatch {
    /// Samples that are all of their lane, and the only one.
    #[must_use]
    pub fn alone(samples: Vec<u64>) -> Self {
        Self { index: MicroBatchId(0), lane: Lane(0), first_of_lane: true, last_of_lane: true, samples }
    }
}

/// The data has too few tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the training data has {tokens} tokens, but one sample of {context} tokens takes {} with its last target; \
         give more data or a smaller context", context + 1)]
pub struct TooFewTokens {
    /// Found.
    pub tokens: u64,
    /// Tokens of a sample.
    pub context: u64,
}

/// Tokens of one sample, its last target apart.
#[must_use]
pub fn context(spec: &JobSpec) -> u64 {
    u64::from(spec.model.context())
}

/// Training windows: each is `context` tokens and shares its last target with the first token of the next.
#[must_use]
pub fn windows(job: &Job) -> u64 {
    job.data.train_tokens.saturating_sub(1) / context(&job.spec)
}

/// Validation windows of a pass: the first ones of the validation tokens.
#[must_use]
pub fn validation_windows(job: &Job) -> u64 {
    let there = job.data.validation_tokens.saturating_sub(1) / context(&job.spec);
    job.spec.train.evaluate.map_or(0, |evaluate| there.min(u64::from(evaluate.samples)))
}

/// Says whether there is a sample at all; to be asked at submission.
///
/// # Errors
/// If the training tokens do not fill one window.
pub fn check_data(job: &Job) -> Result<(), TooFewTokens> {
    if windows(job) == 0 {
        return Err(TooFewTokens { tokens: job.data.train_tokens, context: context(&job.spec) });
    }
    Ok(())
}

/// Samples of a global batch of `batch` that lane `lane` of `lanes` takes.
#[must_use]
pub fn lane_samples(batch: u64, lanes: u32, lane: u32) -> Range<u64> {
    let edge = |l: u32| u64::from(l) * batch / u64::from(lanes);
    edge(lane)..edge(lane + 1)
}

/// The sample at a position of the run.
///
/// # Panics
/// If the data has no window, see [`check_data`].
#[must_use]
pub fn sample_at(job: &Job, position: u64) -> u64 {
    let windows = windows(job);
    assert!(windows > 0, "BA-2 (a job has a window)");
    let epoch = position / windows;
    epoch * windows + EpochOrder::new(job.spec.seed, epoch, windows).at(position % windows)
}

/// Sample ids of a step (counted from 1), in lane order.
#[must_use]
pub fn samples_of_step(job: &Job, step: u64) -> Vec<u64> {
    assert!(step > 0, "BA-3 (steps are counted from 1)");
    let batch = u64::from(job.spec.train.global_batch);
    ((step - 1) * batch..step * batch).map(|position| sample_at(job, position)).collect()
}

/// Tokens of a sample within the training tokens: inputs are all but the last, targets all but the first.
#[must_use]
pub fn window_of(job: &Job, sample: u64) -> Range<u64> {
    tokens_of(context(&job.spec), sample % windows(job))
}

/// Tokens of a validation sample within the validation tokens.
#[must_use]
pub fn validation_window_of(job: &Job, sample: u64) -> Range<u64> {
    tokens_of(context(&job.spec), sample)
}

fn tokens_of(context: u64, window: u64) -> Range<u64> {
    window * context..(window + 1) * context + 1
}

/// Digest of a step's sample ids, in lane order: what the ledger records.
#[must_use]
pub fn digest_of_step(job: &Job, step: u64) -> Digest {
    let mut hasher = blake3::Hasher::new();
    for sample in samples_of_step(job, step) {
        hasher.update(&sample.to_le_bytes());
    }
    Digest(*hasher.finalize().as_bytes())
}

/// Micro-batches of a replica that runs `lanes`, in a step (counted from 1).
#[must_use]
pub fn micro_batches(job: &Job, step: u64, lanes: Range<u32>) -> Vec<MicroBatch> {
    assert!(step > 0, "BA-3 (steps are counted from 1)");
    let batch = u64::from(job.spec.train.global_batch);
    cut(job, batch, lanes, |offset| sample_at(job, (step - 1) * batch + offset))
}

/// Micro-batches of a replica that runs `lanes`, in a validation pass: the first windows, split over the lanes.
#[must_use]
pub fn validation_micro_batches(job: &Job, lanes: Range<u32>) -> Vec<MicroBatch> {
    cut(job, validation_windows(job), lanes, |offset| offset)
}

/// Micro-batches of a replica that runs `lanes`, in every training step.
#[must_use]
pub fn micro_batch_count(spec: &JobSpec, lanes: Range<u32>) -> u32 {
    let (batch, of) = (u64::from(spec.train.global_batch), spec.parallel.virtual_replicas);
    let size = u64::from(spec.train.micro_batch);
    lanes
        .map(|lane| {
            let samples = lane_samples(batch, of, lane);
            (samples.end - samples.start).div_ceil(size) as u32
        })
        .sum()
}

fn cut(job: &Job, batch: u64, lanes: Range<u32>, sample: impl Fn(u64) -> u64) -> Vec<MicroBatch> {
    let size = u64::from(job.spec.train.micro_batch);
    let mut out: Vec<MicroBatch> = Vec::new();
    for lane in lanes {
        let samples = lane_samples(batch, job.spec.parallel.virtual_replicas, lane);
        let mut start = samples.start;
        while start < samples.end {
            let end = (start + size).min(samples.end);
            out.push(MicroBatch {
                index: MicroBatchId(out.len() as u32),
                lane: Lane(lane),
                first_of_lane: start == samples.start,
                last_of_lane: end == samples.end,
                samples: (start..end).map(&sample).collect(),
            });
            start = end;
        }
    }
    out
}
