//! A job, valid by construction.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

mod dtype;
mod fits;
mod init;
mod model;
mod numerics;
mod optimizer;

pub use dtype::Dtype;
pub use init::InitSpec;
pub use model::{Gpt2Spec, LlamaSpec, ModelSpec, RopeScaling, RopeSpec};
pub use numerics::{LossScaleSpec, NumericsSpec, Precision, Wire};
pub use optimizer::{AdafactorSpec, AdamSpec, DecayRule, Momentum, OptimizerSpec, RmsPropSpec, SgdSpec};

/// Everything a job file says, resolved. Two equal values train to the same bits on any cluster of one arithmetic (docs/semantics.md).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobSpec {
    /// What people call the job.
    pub name: String,
    /// Root of every random draw: initialisation, dropout, sample order.
    pub seed: u64,
    /// The network.
    pub model: ModelSpec,
    /// The weights that it begins with.
    pub init: InitSpec,
    /// Where its tokens come from.
    pub data: DataSpec,
    /// How it is trained.
    pub train: TrainSpec,
    /// How the work is laid out.
    pub parallel: ParallelSpec,
    /// What happens when nodes go.
    pub elastic: ElasticSpec,
}

/// Where tokens come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataSpec {
    /// File format.
    pub format: DataFormat,
    /// A file, or a directory as far as the format has them, read in sorted path order. Absolute once resolved.
    pub path: PathBuf,
    /// What made the tokens, if the job says so: shards and text know it themselves and are held against it.
    pub tokenizer: Option<TokenizerSpec>,
    /// Validation tokens: a path of their own, or a share cut from the end.
    pub validation: Validation,
}

/// Token file formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum DataFormat {
    /// UTF-8 text as bytes, one token a byte.
    Text,
    /// nanoGPT: headerless little-endian u16.
    NanoGpt,
    /// llm.c: 256 i32 of header (20240520, 1, tokens), then u16; or (20240801, 7, tokens), then u32. A file, a directory of
    /// `.bin` files, or a pattern.
    LlmC,
    /// A directory of token shards with a manifest, as `shoalctl data prepare` makes it.
    Shards,
}

/// How text becomes tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum TokenizerSpec {
    /// A byte is a token.
    Bytes,
    /// GPT-2's vocabulary of 50,257.
    Gpt2,
    /// OpenAI's o200k, 200,019.
    O200k,
    /// A `tokenizer.json` of Hugging Face tokenizers, or a directory with one.
    Hf(PathBuf),
}

impl TokenizerSpec {
    /// By the word for it; anything else is a path.
    #[must_use]
    pub fn named(word: &str) -> Self {
        match word {
            "bytes" => Self::Bytes,
            "gpt2" => Self::Gpt2,
            "o200k" => Self::O200k,
            path => Self::Hf(PathBuf::from(path)),
        }
    }
}

/// Which tokens validate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Validation {
    /// The last `fraction` of the tokens, 0 for none.
    Tail {
        /// Between 0 and 0.5.
        fraction: f64,
    },
    /// A file or directory of the same format.
    Path(PathBuf),
    /// Of shards: what was set apart when they were prepared.
    Prepared,
}

/// How to train.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainSpec {
    /// Optimizer steps.
    pub steps: u64,
    /// Samples a step.
    pub global_batch: u32,
    /// Samples a micro-batch; enters bits.
    pub micro_batch: u32,
    /// How a gradient becomes an update.
    pub optimizer: OptimizerSpec,
    /// Weight decay by name; the first that matches a parameter holds. What none matches decays by the optimizer's
    /// `weight_decay` if it has two or more dimensions, else not at all.
    pub decay: Vec<DecayRule>,
    /// Learning rate over steps.
    pub schedule: LrSpec,
    /// Global gradient norm above which gradients are scaled down.
    pub clip: Option<f32>,
    /// Types of what is computed and sent.
    pub numerics: NumericsSpec,
    /// Skipped steps in a row (something in them was not finite) after which the job has failed, if ever.
    pub max_skips: Option<u32>,
    /// Validation pass after every so many steps (and after the last), if any.
    pub evaluate: Option<EvalSpec>,
}

/// When and how much to validate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvalSpec {
    /// Steps between passes.
    pub every: u64,
    /// Samples a pass, at most; the same ones each time.
    pub samples: u32,
}

/// Learning rate over steps: linear warm-up to the peak, then a shape.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LrSpec {
    /// Peak learning rate.
    pub peak: f64,
    /// Floor: reached at the last step by shapes that end, never gone below by the others.
    pub minimum: f64,
    /// Steps of linear warm-up.
    pub warmup: u64,
    /// What comes after it.
    pub shape: LrShape,
}

impl LrSpec {
    /// Adafactor's own: the only one of relative steps.
    pub const RELATIVE: Self = Self { peak: 1e-2, minimum: 0.0, warmup: 0, shape: LrShape::RelativeStep };
}

/// How the learning rate goes on after warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum LrShape {
    /// Half a cosine down to the floor.
    Cosine,
    /// A straight line down to the floor.
    Linear,
    /// The peak.
    Constant,
    /// The peak times the root of (warm-up, at least 1) over step (Vaswani et al.).
    InverseSqrt,
    /// One over the root of the optimizer's time (steps that were not skipped), the peak at most (Shazeer and Stern, "Adafactor": relative steps).
    RelativeStep,
    /// The peak, then a straight line down to the floor over the last steps (warmup-stable-decay, Hu et al., "MiniCPM").
    Wsd {
        /// Steps of the line.
        decay: u64,
    },
}

/// How the work is laid out. Only `virtual_replicas` enters bits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParallelSpec {
    /// Pipeline stages.
    pub pipeline: Auto<u32>,
    /// Data-parallel replicas of the pipeline.
    pub data: Auto<u32>,
    /// Lanes (V): the global batch is cut into this many, and lane sums form one fixed tree.
    pub virtual_replicas: u32,
    /// Order of micro-batches on a stage.
    pub schedule: Schedule,
    /// Refuse any other layout than the one asked for (stages share nodes if they must).
    pub fixed: bool,
}

/// A choice the planner may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Auto<T> {
    /// The planner chooses.
    Auto,
    /// The operator chose.
    Set(T),
}

/// Pipeline schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Schedule {
    /// All forwards, then all backwards (Huang et al., GPipe).
    GPipe,
    /// One forward, one backward in the steady state (PipeDream-flush).
    OneFOneB,
}

/// What happens when nodes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ElasticSpec {
    /// Shadows (r) of every interval, on nodes other than its owner.
    pub redundancy: u32,
    /// What to do when an interval has no holder left.
    pub on_loss: OnLoss,
}

/// What to do when an interval has no holder left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum OnLoss {
    /// Say which steps are lost and go on from the newest durable state (the initial one if there is none).
    Rollback,
    /// Fail the job with that reason.
    Halt,
}
