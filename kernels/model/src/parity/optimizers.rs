//! Five steps of every optimizer against PyTorch's, and Adafactor's against that of `transformers`: every parameter of a model
//! of each family, as `fixtures/make_optimizers.py` made them.

use shoal_config::spec::{AdafactorSpec, DecayRule, LrSpec, OptimizerSpec};

use super::*;
use crate::testing::optimizers;

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

/// Five steps of each family's model with what `change` makes of its job.
fn five_steps_are_theirs(name: &str, change: impl Fn(&Golden) -> Job) {
    for golden in [Golden::gpt2_one(), Golden::llama_tied()] {
        let job = change(&golden);
        let theirs = golden.with("optimizers");
        let table = ModelTable::of_job(&job.spec);
        let (device, arena) = device(1);
        let mut solo = golden.solo(&job, &table, &device, &arena);
        for (step, want) in theirs.tensor(&format!("{name}/losses")).into_iter().enumerate() {
            let loss = golden.step(&mut solo, &device, step).loss.to_f64();
            assert!((loss / want - 1.0).abs() < 1e-6, "{} {name}, loss of step {step}: {loss} {want}", golden.name);
        }
        theirs.assert_close(&table, &weights_of(&solo, &table), name, after_five_steps);
    }
}

#[test]
fn five_steps_of_each_are_theirs() {
    for (name, optimizer) in optimizers().into_iter().filter(|(name, _)| *name != "adamw") {
        five_steps_are_theirs(name, |golden| job_with(golden, optimizer));
    }
}

#[test]
fn five_steps_with_decay_rules_are_pytorchs() {
    let rule = |parameters: &str, weight_decay| DecayRule { parameters: parameters.to_owned(), weight_decay };
    five_steps_are_theirs("adamw_rules", |golden| {
        let mut job = golden.job(2, 1);
        job.spec.train.decay = vec![rule("*.bias", 0.05), rule("b0.w?e", 0.0)];
        shoal_plan::decay::check(&job.spec).expect("they name something");
        job
    });
}

#[test]
fn five_relative_steps_of_adafactor_are_theirs() {
    let scaled = AdafactorSpec {
        epsilon1: 1e-10,
        clip_threshold: 1.0,
        decay_rate: -0.8,
        beta1: None,
        parameter_scale: Some(1e-3),
        weight_decay: 0.1,
    };
    five_steps_are_theirs("adafactor_relative", |golden| {
        let mut job = job_with(golden, OptimizerSpec::Adafactor(scaled));
        job.spec.train.schedule = LrSpec::RELATIVE;
        job
    });
}
