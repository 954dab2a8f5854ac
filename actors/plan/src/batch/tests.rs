use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::fixture;

fn job(batch: u32, micro: u32, lanes: u32, tokens: u64) -> Job {
    let mut job = fixture::job();
    job.spec.train.global_batch = batch;
    job.spec.train.micro_batch = micro;
    job.spec.parallel.virtual_replicas = lanes;
    job.data.train_tokens = tokens;
    job
}

#[test]
fn windows_share_their_last_target() {
    let job = job(16, 1, 8, 3 * 32 + 1);
    assert_eq!(windows(&job), 3);
    assert_eq!(window_of(&job, 0), 0..33);
    assert_eq!(window_of(&job, 2), 64..97);
    assert_eq!(window_of(&job, 3 + 2), 64..97, "the same window in the next epoch");
    assert_eq!(windows(&self::job(16, 1, 8, 3 * 32)), 2, "the last target is missing");
}

#[test]
fn too_little_data_is_refused_with_numbers() {
    let error = check_data(&job(16, 1, 8, 32)).expect_err("32 tokens");
    assert_eq!(
        error.to_string(),
        "the training data has 32 tokens, but one sample of 32 tokens takes 33 with its last target; give more data \
         or a smaller context"
    );
    assert_eq!(check_data(&job(16, 1, 8, 33)), Ok(()));
}

/// ```text
/// B = 7, V = 3, micro_batch = 2:  lane 0: 0 1 | lane 1: 2 3 | lane 2: 4 5 . 6
/// ```
#[test]
fn ragged_lanes() {
    let job = job(7, 2, 3, 5000);
    let batches = micro_batches(&job, 1, 0..3);
    let shape: Vec<_> =
        batches.iter().map(|m| (m.index.0, m.lane.0, m.samples.len(), m.first_of_lane, m.last_of_lane)).collect();
    assert_eq!(shape, [(0, 0, 2, true, true), (1, 1, 2, true, true), (2, 2, 2, true, false), (3, 2, 1, false, true)]);
    assert_eq!(micro_batch_count(&job.spec, 0..3), 4);
}

/// The order is part of the bits: it may not change silently.
#[test]
fn golden_order() {
    let job = fixture::job();
    assert_eq!(windows(&job), 156);
    assert_eq!(samples_of_step(&job, 1)[..8], GOLDEN);
    assert_eq!(digest_of_step(&job, 1).to_hex()[..16], *GOLDEN_DIGEST);
}

const GOLDEN: [u64; 8] = [77, 144, 107, 61, 146, 0, 67, 127];
const GOLDEN_DIGEST: &str = "aafc3119e13bba5b";

proptest! {
    /// Every sample is used exactly once an epoch, ids never repeat, and neighbouring epochs differ.
    #[test]
    fn an_epoch_is_a_permutation(windows in 1u64..3000, seed: u64, epoch in 0u64..5) {
        let order = EpochOrder::new(seed, epoch, windows);
        let seen: BTreeSet<u64> = (0..windows).map(|position| order.at(position)).collect();
        prop_assert_eq!(seen.len() as u64, windows);
        prop_assert_eq!(seen.last().copied(), Some(windows - 1));
        if windows > 100 {
            let next = EpochOrder::new(seed, epoch + 1, windows);
            let fixed = (0..windows).filter(|&p| order.at(p) == next.at(p)).count();
            prop_assert!(fixed < 20, "{fixed} of {windows} windows at the same place");
            let still = (0..windows).filter(|&p| order.at(p) == p).count();
            prop_assert!(still < 20, "{still} of {windows} windows not moved");
        }
    }

    #[test]
    fn a_run_uses_every_sample_once(batch in 1u32..20, tokens in 33u64..2000, steps in 1u64..40) {
        let job = job(batch, 1, 1, tokens);
        let windows = windows(&job);
        let ids: Vec<u64> = (1..=steps).flat_map(|step| samples_of_step(&job, step)).collect();
        let distinct: BTreeSet<u64> = ids.iter().copied().collect();
        prop_assert_eq!(distinct.len(), ids.len());
        let whole = ids.len() as u64 / windows * windows;
        let epochs: BTreeSet<u64> = ids[..whole as usize].iter().copied().collect();
        prop_assert_eq!(epochs, (0..whole).collect::<BTreeSet<u64>>());
    }

    /// However lanes are dealt to replicas, the replicas' samples in lane order are the step's samples, and the digest
    /// is theirs.
    #[test]
    fn replicas_partition_a_step(
        batch in 1u32..40, micro in 1u32..6, lanes in 1u32..9, cut in 0u32..9, step in 1u64..9,
    ) {
        prop_assume!(lanes <= batch);
        let job = job(batch, micro, lanes, 5000);
        let cut = cut.min(lanes);
        let mut all = Vec::new();
        for run in [0..cut, cut..lanes] {
            let batches = micro_batches(&job, step, run.clone());
            prop_assert_eq!(batches.len() as u32, micro_batch_count(&job.spec, run.clone()));
            for (i, m) in batches.iter().enumerate() {
                prop_assert_eq!(m.index.0 as usize, i);
                prop_assert!(run.contains(&m.lane.0));
                prop_assert!(!m.samples.is_empty() && m.samples.len() <= micro as usize);
                let before = i.checked_sub(1).map(|j| batches[j].lane);
                let after = batches.get(i + 1).map(|m| m.lane);
                prop_assert_eq!(m.first_of_lane, before != Some(m.lane));
                prop_assert_eq!(m.last_of_lane, after != Some(m.lane));
                prop_assert!(m.last_of_lane || m.samples.len() == micro as usize, "only a lane's last is ragged");
            }
            let with_work: BTreeSet<u32> = batches.iter().map(|m| m.lane.0).collect();
            prop_assert_eq!(with_work, run.collect::<BTreeSet<u32>>(), "no lane is empty");
            all.extend(batches.into_iter().flat_map(|m| m.samples));
        }
        prop_assert_eq!(&all, &samples_of_step(&job, step));
        let bytes: Vec<u8> = all.iter().flat_map(|id| id.to_le_bytes()).collect();
        prop_assert_eq!(digest_of_step(&job, step), Digest::of(&bytes));
    }

    #[test]
    fn replicas_partition_a_validation_pass(samples in 0u32..30, lanes in 1u32..9, cut in 0u32..9, tokens in 0u64..900) {
        let mut job = job(16, 3, lanes, 5000);
        job.data.validation_tokens = tokens;
        job.spec.train.evaluate.as_mut().expect("set").samples = samples;
        let cut = cut.min(lanes);
        let all: Vec<u64> = [0..cut, cut..lanes]
            .into_iter()
            .flat_map(|run| validation_micro_batches(&job, run))
            .flat_map(|m| m.samples)
            .collect();
        prop_assert_eq!(&all, &(0..validation_windows(&job)).collect::<Vec<u64>>());
        prop_assert!(all.iter().all(|&s| validation_window_of(&job, s).end <= tokens));
        prop_assert!(all.len() <= samples as usize);
    }
}
