//! Small job files for tests.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Which family a job's model is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// With the job's dropout.
    Gpt2,
    /// The same without biases, with a head of its own.
    BareGpt2,
    /// Grouped queries, a head of its own; drops attention weights.
    Llama,
    /// Biases, and the head is the token table; drops nothing.
    TiedLlama,
}

/// A byte-level model small enough for a debug build, on text made from a fixed rule.
#[derive(Clone, Debug)]
pub struct JobFile {
    /// Family of the model.
    pub family: Family,
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
            family: Family::Gpt2,
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
        let Self { width, global_batch, eval_every, train, .. } = self;
        let model = self.model();
        let text = format!(
            r#"name = "{name}"
seed = 7

[model]
layers = 4
heads = 4
width = {width}
context = 32
vocab = "bytes"
{model}

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

impl JobFile {
    /// The keys of the model's family.
    fn model(&self) -> String {
        match self.family {
            Family::Gpt2 => format!("kind = \"gpt2\"\ndropout = {:?}", self.dropout),
            Family::BareGpt2 => {
                format!("kind = \"gpt2\"\ndropout = {:?}\nbias = false\ntied_head = false", self.dropout)
            }
            Family::Llama => {
                format!("kind = \"llama\"\nkv_heads = 2\ninner = 176\nattention_dropout = {:?}", self.dropout)
            }
            Family::TiedLlama => {
                "kind = \"llama\"\nkv_heads = 1\ninner = 176\ntied_head = true\nattention_bias = true\nmlp_bias = true"
                    .to_owned()
            }
        }
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
