//! The half types against golden tensors that `fixtures/make_gpt2_halves.py` made with PyTorch, rounding where we round.
//!
//! A value that lies on the edge between two of a half type may fall on either side, since ours are f32 and theirs f64 before
//! they are rounded; what follows from it then differs by about a unit of that type. So tolerances are those of the type, not
//! of f32: a step that is left out, or rounded twice, is far outside of them.

use shoal_config::spec::{LossScaleSpec, Precision};
use shoal_plan::loss_scale::LossScale;

use super::*;

const FP16: Precision = Precision::Fp16(LossScaleSpec { start: 1024, window: 1000, hysteresis: 2, minimum: 1 });

/// Type, its name in the file, and what a tensor may be off by, as a share of its largest element.
const TYPES: [(Precision, &str, f64); 2] = [(Precision::Bf16, "bf16", 2e-2), (FP16, "fp16", 3e-3)];

/// What the script found with rounding, and the model it rounded.
fn golden() -> (Golden, Golden) {
    let plain = Golden::gpt2();
    (plain.with("halves"), plain)
}

fn job_in(plain: &Golden, precision: Precision, lanes: u32, micro_batch: u32) -> (Job, f32) {
    let mut job = plain.job(lanes, micro_batch);
    job.spec.train.numerics.precision = precision;
    let scale = LossScale::first(&job.spec).map_or(1.0, LossScale::factor);
    (job, scale)
}

#[test]
fn logits_loss_and_every_gradient_are_pytorchs_in_halves() {
    let (halves, plain) = golden();
    for (precision, name, off) in TYPES {
        let (job, scale) = job_in(&plain, precision, 1, SAMPLES as u32);
        let table = ModelTable::of_job(&job.spec);
        let (logits, loss, gradients) = first_pass(&plain, &job, &table, scale);
        let logits = distance(&logits, &halves.tensor(&format!("{name}/logits")));
        assert!(logits < off, "{name} logits: {logits:e}");
        let expected = halves.tensor(&format!("{name}/loss"))[0];
        let loss = (loss.sum.to_f64() / expected - 1.0).abs();
        assert!(loss < off / 10.0, "{name} loss: {loss:e}");
        assert!((expected / plain.tensor("loss")[0] - 1.0).abs() > 1e-6, "{name}: rounding shows");
        halves.assert_close(&table, &gradients, &format!("{name}/grad"), |_| off);
    }
}

#[test]
fn five_steps_on_unrounded_weights_are_pytorchs_in_halves() {
    let (halves, plain) = golden();
    for (precision, name, off) in TYPES {
        for (lanes, micro_batch) in [(1, 4), (2, 1)] {
            let (job, scale) = job_in(&plain, precision, lanes, micro_batch);
            let [losses, norms] = ["losses", "norms"].map(|what| halves.tensor(&format!("{name}/{what}")));
            let table = ModelTable::of_job(&job.spec);
            let (device, arena) = device(1);
            let mut solo = plain.solo(&job, &table, &device, &arena);
            for step in 0..STEPS {
                let entry = plain.step(&mut solo, &device, step);
                let mean = 1.0 / (entry.tokens as f64 * f64::from(backward_seed(&job.spec) * scale));
                let (loss, norm) = (entry.loss.to_f64() / losses[step] - 1.0, entry.norm.to_f64().sqrt() * mean);
                assert!(loss.abs() < off / 10.0, "{name}: loss of step {step}: {loss:e}");
                let norm = norm / norms[step] - 1.0;
                assert!(norm.abs() < off, "{name}: norm of step {step}: {norm:e}");
            }
            // What is updated has all its bits; what is computed with has not.
            let master = solo.read(Kind::Weight, BlockId(1)).expect("a processor");
            assert!(master.iter().any(|x| x.to_bits() & 0x1fff != 0), "{name}");
        }
    }
}
