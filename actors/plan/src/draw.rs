//! A plan for people.

use shoal_config::spec::{Auto, ParallelSpec};

/// `pipeline 2 x data 3`.
#[must_use]
pub fn shape(stages: usize, replicas: usize) -> String {
    format!("pipeline {stages} x data {replicas}")
}

/// What the job file asks for, in the same words.
#[must_use]
pub fn asked(parallel: &ParallelSpec) -> String {
    let word = |wish: Auto<u32>| match wish {
        Auto::Auto => "auto".to_owned(),
        Auto::Set(value) => value.to_string(),
    };
    format!("pipeline {} x data {}", word(parallel.pipeline), word(parallel.data))
}
