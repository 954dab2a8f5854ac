//! Five steps of every optimizer against PyTorch's, and Adafactor's against that of `transformers`.

use safetensors::SafeTensors;
use shoal_config::spec::{AdafactorSpec, DecayRule, LrSpec, OptimizerSpec};

use super::*;
use crate::testing::optimizers;

const OPTIMIZERS: &[u8] = include_bytes!("../../fixtures/gpt2_optimizers.safetensors");

/// The job of the script with one of its optimizers.
fn job_with(golden: &Golden, optimizer: OptimizerSpec) -> Job {
    let mut job = golden.job(2, 1);
    job.spec.train.optimizer = optimizer;
    if let OptimizerSpec::Adafactor(spec) = &mut job.spec.train.optimizer {
        // Softmax does not see a bias on k: squares of such a gradient, zero but for rounding, must not decide anything.
        spec.epsilon1 = 1e-10;
    }
    job
}

fn five_steps_are_theirs(golden: &Golden, name: &str, job: &Job) {
    let table = ModelTable::of_job(&job.spec);
    let (device, arena) = device(1);
    let mut solo = golden.solo(job, &table, &device, &arena);
    for (step, want) in tensor(OPTIMIZERS, &format!("{name}/losses")).into_iter().enumerate() {
        let loss = golden.step(&mut solo, &device, step).loss.to_f64();
        assert!((loss / want - 1.0).abs() < 1e-6, "{name}, loss of step {step}: {loss} {want}");
    }
    let read = |block: BlockId, interval: Interval, out: &mut [f32]| {
        out.copy_from_slice(&solo.read(Kind::Weight, block).expect("a processor")[interval.range()]);
        Ok(())
    };
    let mut file = Vec::new();
    hf::write_model(&table, &job.spec, read, &mut file).expect("memory takes it");
    let ours = SafeTensors::deserialize(&file).expect("our own file");
    let wanted = SafeTensors::deserialize(OPTIMIZERS).expect("the script wrote safetensors");
    let kept = wanted.names().into_iter().filter_map(|full| full.strip_prefix(&format!("{name}/")).map(str::to_owned));
    let kept: Vec<String> = kept.filter(|kept| kept != "losses").collect();
    assert_eq!(kept.len(), 4, "{name}: {kept:?}");
    for kept in kept {
        let bytes = ours.tensor(&kept).expect("a parameter").data();
        let values: Vec<f32> = bytes.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)).collect();
        let distance = distance(&values, &tensor(OPTIMIZERS, &format!("{name}/{kept}")));
        // As with AdamW: rounding of the gradient of a bias on k is blown up.
        let most = if kept.ends_with("c_attn.bias") { 3e-4 } else { 1e-5 };
        assert!(distance < most, "{name}, {kept}: {distance:e}");
    }
}

#[test]
fn five_steps_of_each_are_theirs() {
    let golden = Golden::gpt2();
    for (name, optimizer) in optimizers().into_iter().filter(|(name, _)| *name != "adamw") {
        five_steps_are_theirs(&golden, name, &job_with(&golden, optimizer));
    }
}

#[test]
fn five_steps_with_decay_rules_are_pytorchs() {
    let golden = Golden::gpt2();
    let mut job = golden.job(2, 1);
    let rule = |parameters: &str, weight_decay| DecayRule { parameters: parameters.to_owned(), weight_decay };
    job.spec.train.decay = vec![rule("*.bias", 0.05), rule("b0.w?e", 0.0)];
    shoal_plan::decay::check(&job.spec).expect("they name something");
    five_steps_are_theirs(&golden, "adamw_rules", &job);
}

#[test]
fn five_relative_steps_of_adafactor_are_theirs() {
    let golden = Golden::gpt2();
    let scaled = AdafactorSpec {
        epsilon1: 1e-10,
        clip_threshold: 1.0,
        decay_rate: -0.8,
        beta1: None,
        parameter_scale: Some(1e-3),
        weight_decay: 0.1,
    };
    let mut job = job_with(&golden, OptimizerSpec::Adafactor(scaled));
    job.spec.train.schedule = LrSpec::RELATIVE;
    five_steps_are_theirs(&golden, "adafactor_relative", &job);
}
