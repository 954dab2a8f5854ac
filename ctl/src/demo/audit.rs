//! Was every sample used exactly once? The ledger says which ones each committed step used.

use std::collections::HashSet;

use shoal_plan::batch;
use shoal_plan::job::Job;
use shoal_wire::api::LedgerLine;

/// Whether the ledger is the whole run, once: every step from 1 to the last, in order, on one hash chain, with exactly
/// the samples that the batch function names for it, none of them named twice.
#[must_use]
pub fn samples_exactly_once(job: &Job, ledger: &[LedgerLine]) -> bool {
    let steps = 1..=job.spec.train.steps;
    let whole = ledger.iter().map(|line| line.entry.step).eq(steps.clone());
    let chained = ledger.windows(2).all(|pair| pair[1].entry.previous == pair[0].entry.hash());
    let honest = ledger.iter().all(|line| line.entry.hash().to_hex() == line.hash);
    let named = ledger.iter().all(|line| line.entry.samples == batch::digest_of_step(job, line.entry.step));
    let mut seen = HashSet::new();
    let once = steps.into_iter().flat_map(|step| batch::samples_of_step(job, step)).all(|sample| seen.insert(sample));
    whole && chained && honest && named && once
}

#[cfg(test)]
pub(super) mod tests {
    use std::path::Path;

    use shoal_plan::ids::Digest;
    use shoal_plan::job::DataFacts;
    use shoal_plan::ledger::{LedgerEntry, Update};

    use super::*;

    fn job() -> Job {
        let mut spec = shoal_config::preset("demo", Path::new("/text")).expect("known preset");
        spec.train.steps = 5;
        Job {
            spec,
            data: DataFacts {
                digest: Digest::of(b"text"),
                train_tokens: 20_000,
                validation_digest: Digest::default(),
                validation_tokens: 0,
                tokenizer: None,
            },
            weights: None,
        }
    }

    /// A ledger line of a step, for tests that do not look at its entry.
    pub(in crate::demo) fn line(step: u64) -> LedgerLine {
        let entry = LedgerEntry {
            step,
            previous: Digest::default(),
            samples: Digest::default(),
            tokens: 1,
            loss: Default::default(),
            norm: Default::default(),
            update: Update::Skip,
            optimizer_time: 0,
            loss_scale: None,
        };
        LedgerLine {
            hash: entry.hash().to_hex(),
            entry,
            mean_loss: Some(1.0),
            generation: "1.1".into(),
            committed_at_ms: 0,
        }
    }

    fn ledger(job: &Job) -> Vec<LedgerLine> {
        let mut previous = Digest::default();
        (1..=job.spec.train.steps)
            .map(|step| {
                let mut made = line(step);
                made.entry.previous = previous;
                made.entry.samples = batch::digest_of_step(job, step);
                previous = made.entry.hash();
                made.hash = previous.to_hex();
                made
            })
            .collect()
    }

    #[test]
    fn a_whole_ledger_passes_and_every_defect_is_seen() {
        let job = job();
        let good = ledger(&job);
        assert!(samples_exactly_once(&job, &good));
        let broken = |change: fn(&mut Vec<LedgerLine>)| {
            let mut ledger = good.clone();
            change(&mut ledger);
            !samples_exactly_once(&job, &ledger)
        };
        assert!(broken(|l| drop(l.pop())), "a step is missing");
        assert!(broken(|l| l.insert(2, l[1].clone())), "a step is there twice");
        assert!(broken(|l| l.swap(1, 2)), "order");
        assert!(broken(|l| l[4].entry.samples = Digest::of(b"others")), "other samples");
        assert!(broken(|l| l[2].hash = "00".into()), "another hash");
    }
}
