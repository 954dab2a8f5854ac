//! Small job files for tests.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// A byte-level GPT small enough for a debug build, on text made from a fixed rule.
#[derive(Clone, Debug)]
pub struct JobFile {
    /// Steps.
    pub steps: u64,
    /// Pipeline stages.
    pub pipeline: u32,
    /// Replicas.
    pub data: u32,
    /// `gpipe` or `1f1b`.
    pub schedule: &'static str,
    /// Refuse other layouts.
    pub fixed: bool,
    /// Shadows.
    pub redundancy: u32,
    /// `rollback` or `halt`.
    pub on_loss: &'static str,
    /// Width of the model.
    pub width: u32,
    /// Samples a step.
    pub global_batch: u32,
    /// Dropout probability.
    pub dropout: f32,
    /// Validate every so many steps.
    pub eval_every: u64,
    /// More lines of `[train]`.
    pub train: &'static str,
}

impl Default for JobFile {
    fn default() -> Self {
        Self {
            steps: 12,
            pipeline: 2,
            data: 2,
            schedule: "1f1b",
            fixed: false,
            redundancy: 1,
            on_loss: "rollback",
            width: 64,
            global_batch: 8,
            dropout: 0.1,
            eval_every: 5,
            train: "",
        }
    }
}

impl JobFile {
    /// Writes the job and its data into `dir`; returns the job's path.
    ///
    /// # Panics
    /// If the directory cannot be written.
    pub fn write(&self, dir: &Path, name: &str) -> PathBuf {
        let data = dir.join("corpus.txt");
        if !data.exists() {
            fs::write(&data, corpus()).expect("corpus can be written");
        }
        let Self { steps, pipeline, data: replicas, schedule, fixed, redundancy, on_loss, .. } = self;
        let Self { width, global_batch, dropout, eval_every, train, .. } = self;
        let text = format!(
            r#"name = "{name}"
seed = 7

[model]
kind = "gpt2"
layers = 4
heads = 4
width = {width}
context = 32
vocab = "bytes"
dropout = {dropout:?}

[data]
kind = "text"
path = "{}"

[train]
steps = {steps}
global_batch = {global_batch}
micro_batch = 1
eval_every = {eval_every}
{train}

[parallel]
pipeline = {pipeline}
data = {replicas}
schedule = "{schedule}"
fixed = {fixed}

[elastic]
redundancy = {redundancy}
on_loss = "{on_loss}"
"#,
            data.display()
        );
        let path = dir.join(format!("{name}.toml"));
        fs::write(&path, text).expect("job file can be written");
        path
    }
}

/// About 60 kB of text with structure to learn: counted lines.
fn corpus() -> String {
    let mut text = String::new();
    for i in 0..1500u32 {
        let square = i.wrapping_mul(i) % 997;
        writeln!(text, "line {i}: the square of {i} is {square} modulo 997").expect("a String takes all");
    }
    text
}
