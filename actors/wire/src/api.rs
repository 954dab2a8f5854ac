//! JSON of the coordinator's HTTP interface, and of `shoalctl --json`.

mod report;

use serde::{Deserialize, Serialize};
use shoal_config::JobSpec;
use shoal_plan::layout::Plan;
use shoal_plan::ledger::LedgerEntry;

pub use report::{ArenaLine, CallLine, DeviceReport, NodeReport, TrafficLine};

/// Version in the path: `/v1/...`.
pub const VERSION: u16 = 1;

/// A worker, as `nodes` shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeInfo {
    /// Operator's name.
    pub node: String,
    /// Id of the process that has the name now; a process that starts again gets another.
    #[serde(default)]
    pub id: String,
    /// Process that holds tensors.
    pub pid: u32,
    /// `["worker"]`.
    pub role: Vec<String>,
    /// Transport address.
    pub address: String,
    /// Where it stands.
    pub state: NodeState,
    /// Bytes its arenas may hold.
    pub budget_bytes: u64,
    /// Bytes they hold.
    pub used_bytes: u64,
    /// Instruction-set class of its kernels.
    #[serde(default)]
    pub class: String,
    /// What it computes: `fused` or `plain`; only nodes of one arithmetic work for one job.
    #[serde(default)]
    pub arithmetic: String,
    /// Why the job that nodes work for has nothing for it, if so.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub left_out: Option<String>,
}

/// Where a node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    /// Member.
    Ready,
    /// Late.
    Suspect,
    /// Leaving.
    Draining,
    /// Left or lost.
    Gone,
}

/// Where a job stands, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// Behind another job.
    Queued,
    /// First plan being made and deployed.
    Planning,
    /// Stepping.
    Training,
    /// Between a fence and the next start.
    Recovering,
    /// Held by the operator.
    Paused,
    /// No node to run on, or no way on until something is done; it keeps what it holds. See `reason`.
    Parked,
    /// All steps committed and written.
    Done,
    /// Cannot go on.
    Failed,
    /// Ended by the operator.
    Cancelled,
}

impl JobState {
    /// Whether nothing will ever happen to a job in this state.
    #[must_use]
    pub fn is_over(self) -> bool {
        match self {
            Self::Done | Self::Failed | Self::Cancelled => true,
            Self::Queued | Self::Planning | Self::Training | Self::Recovering | Self::Paused | Self::Parked => false,
        }
    }
}

/// `status JOB`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobStatus {
    /// Its id.
    pub job: String,
    /// Its name.
    pub name: String,
    /// Its optimizer, as in a job file.
    pub optimizer: String,
    /// What it computes with, as in a job file.
    pub precision: String,
    /// What it sends, as in a job file.
    pub wire: String,
    /// What its nodes compute, `fused` or `plain`, once a first plan has fixed that.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub arithmetic: Option<String>,
    /// Where it stands.
    pub state: JobState,
    /// Committed steps.
    pub step: u64,
    /// Steps in all.
    pub steps: u64,
    /// Mean training loss per token of the last step that was not skipped.
    pub loss: Option<f64>,
    /// That step.
    pub loss_step: Option<u64>,
    /// Mean validation loss per token of the last pass.
    pub val_loss: Option<f64>,
    /// What gradients of the next step are scaled by, with precision fp16.
    pub loss_scale: Option<f64>,
    /// Current generation.
    pub generation: String,
    /// Copies of the state.
    pub redundancy: Redundancy,
    /// Committed steps given up after more losses than the redundancy covers.
    pub steps_lost: u64,
    /// Steps begun, aborted and begun again.
    pub steps_redone: u64,
    /// Over the last committed steps.
    pub tokens_per_second: Option<f64>,
    /// The plan in a line, e.g. `pipeline 2 x data 2, 1f1b, 4 nodes`.
    pub plan: Option<String>,
    /// Why it failed, parked, or runs as it does.
    pub reason: Option<String>,
    /// Of a job that computes plain products: what that costs, and what to do about it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub plain: Option<String>,
    /// Of a job that failed: what failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fault: Option<Fault>,
    /// How far its data has been read, while that goes on: it is `queued` then.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reading: Option<DataReading>,
    /// What made its tokens, as far as it is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tokenizer: Option<TokenizerInfo>,
}

/// What made a job's tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenizerInfo {
    /// `bytes`, `gpt2`, `o200k` or `hf`.
    pub kind: String,
    /// Of its definition.
    pub blake3: String,
    /// One more than its last token.
    pub vocab: u32,
    /// The token between documents, if it has one.
    pub end_of_text: Option<u32>,
}

/// What made a job fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fault {
    /// Its data cannot be used: it never began.
    Data,
    /// Anything later.
    Run,
}

/// How far a job's data has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataReading {
    /// Tokens read.
    pub tokens: u64,
    /// Tokens in all; 0 until the files are open.
    pub of_tokens: u64,
    /// Seconds in which nothing was read, up to now.
    #[serde(default)]
    pub idle_seconds: u64,
}

/// Copies of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redundancy {
    /// Shadows of the worst-off interval.
    pub have: u32,
    /// Shadows asked for.
    pub want: u32,
    /// In a word.
    pub state: RedundancyState,
}

/// Copies of the state, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RedundancyState {
    /// Every interval has all its shadows.
    Full,
    /// Shadows are being filled.
    Restoring,
    /// Too few nodes or too little memory for them.
    Short,
    /// The job failed or was cancelled: its nodes have let go of its state.
    Gone,
}

/// One line of `events JOB`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventLine {
    /// RFC 3339, UTC.
    pub time: String,
    /// Counted from 1 within the job.
    pub number: u64,
    /// Current generation.
    pub generation: String,
    /// Committed steps.
    pub step: u64,
    /// What happened, one word.
    pub kind: String,
    /// Why, with numbers.
    pub reason: String,
    /// Who, if it is about a node.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub node: Option<String>,
}

/// `digest JOB`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StateDigest {
    /// See docs/semantics.md.
    pub state_blake3: String,
    /// At this step.
    pub step: u64,
}

/// Error body of every HTTP answer that is not a success.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApiError {
    /// One word.
    pub error: String,
    /// What was asked, what was found, what to do.
    pub message: String,
}

/// The header of an answer with the number of a download: what `GET /v1/downloads/{number}` takes if it breaks off.
pub const DOWNLOAD_HEADER: &str = "shoal-download";

/// Body of `POST /v1/jobs`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubmitRequest {
    /// The job; its paths are absolute.
    pub spec: JobSpec,
    /// Whether a second job is meant if the very same one was submitted before and is not over.
    #[serde(default)]
    pub again: bool,
}

/// Answer to a submission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmitAnswer {
    /// Id of the job, e.g. `j1`.
    pub job: String,
    /// The very same job was submitted before and is not over: it is that one.
    #[serde(default)]
    pub known: bool,
    /// What its first plan would come to, if it were made now, that deserves attention.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub warning: Option<String>,
}

/// Body of `pause`, `digest` and `write`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AtStep {
    /// Committed step to act at; the next commit if none.
    pub at: Option<u64>,
}

/// Body of `chaos/panic-stage`, `chaos/hang-stage` and `chaos/poison-stage`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnNode {
    /// Name or id of the node.
    pub node: String,
}

/// `GET /v1/jobs/{id}/plan`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanAnswer {
    /// Generation the plan was made under.
    pub generation: String,
    /// The plan, once there is one.
    pub plan: Option<Plan>,
    /// For people.
    pub text: String,
}

/// One line of `GET /v1/jobs/{id}/ledger`: a commit record with annotations that do not enter its hash.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LedgerLine {
    /// The record.
    #[serde(flatten)]
    pub entry: LedgerEntry,
    /// Its hash, hexadecimal.
    pub hash: String,
    /// Mean loss per token; null if the step was skipped.
    pub mean_loss: Option<f64>,
    /// Generation it was committed under.
    pub generation: String,
    /// Milliseconds since 1970.
    pub committed_at_ms: u64,
}
