//! Jobs: submitting and reading.

use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use serde::Deserialize;
use shoal_actors::coordinator::{CoordinatorMsg, Read, Repeat, Submitted, To};
use shoal_plan::decay;
use shoal_plan::job::Job;
use shoal_wire::api::{EventLine, JobStatus, LedgerLine, NodeReport, PlanAnswer, SubmitAnswer, SubmitRequest};
use shoal_wire::control::{Answer, Question};
use tokio::time::Instant;

use super::App;
use super::call::{self, SUBMIT};
use super::fault::Fault;

/// Longest poll for events.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Which part of a growing list.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct After {
    after: u64,
    wait_ms: u64,
}

pub(super) async fn submit(State(app): State<App>, bytes: Bytes) -> Result<Json<SubmitAnswer>, Fault> {
    let SubmitRequest { spec, again } = call::full_body(&bytes)?;
    spec.check().map_err(|error| Fault::Malformed(format!("the job is not what this takes: {error}")))?;
    decay::check(&spec).map_err(|error| Fault::Malformed(format!("the job is not what this takes: {error}")))?;
    let repeat = if again { Repeat::Again } else { Repeat::Join };
    let submitted = app.ask(SUBMIT, |reply| CoordinatorMsg::Submit(Box::new(spec), repeat, reply)).await?;
    let job = submitted.job().to_string();
    Ok(Json(match submitted {
        Submitted::Known(_) => SubmitAnswer { job, known: true, warning: None },
        Submitted::New { plain, .. } => {
            let warning = plain.map(|why| why.ahead());
            SubmitAnswer { job, known: false, warning }
        }
    }))
}

pub(super) async fn list(State(app): State<App>) -> Result<Json<Vec<JobStatus>>, Fault> {
    Ok(Json(app.read(Read::Jobs).await?))
}

pub(super) async fn status(State(app): State<App>, Path(id): Path<String>) -> Result<Json<JobStatus>, Fault> {
    let id = call::job_id(&id)?;
    Ok(Json(app.read(|reply| Read::Status(id, reply)).await?))
}

pub(super) async fn job(State(app): State<App>, Path(id): Path<String>) -> Result<Json<Job>, Fault> {
    let id = call::job_id(&id)?;
    Ok(Json((*app.read(|reply| Read::Job(id, reply)).await?).clone()))
}

pub(super) async fn plan(State(app): State<App>, Path(id): Path<String>) -> Result<Json<PlanAnswer>, Fault> {
    let id = call::job_id(&id)?;
    let (generation, plan) = app.read(|reply| Read::Plan(id, reply)).await?;
    let status = app.read(|reply| Read::Status(id, reply)).await?;
    let text = status.plan.unwrap_or_else(|| "there is no plan yet".to_owned());
    let plan = plan.map(|plan| (*plan).clone());
    Ok(Json(PlanAnswer { generation: generation.to_string(), plan, text }))
}

pub(super) async fn events(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(After { after, wait_ms }): Query<After>,
) -> Result<Json<Vec<EventLine>>, Fault> {
    let id = call::job_id(&id)?;
    let read = || app.read(move |reply| Read::Events(id, after, reply));
    poll(&app, wait_ms, read, Vec::is_empty).await.map(Json)
}

pub(super) async fn ledger(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(After { after, wait_ms }): Query<After>,
) -> Result<Json<Vec<LedgerLine>>, Fault> {
    let id = call::job_id(&id)?;
    let read = || app.read(move |reply| Read::Ledger(id, after, reply));
    poll(&app, wait_ms, read, Vec::is_empty).await.map(Json)
}

/// Reads; while there is nothing and time is left, reads again after the next change.
async fn poll<T, F: Future<Output = Result<T, Fault>>>(
    app: &App,
    wait_ms: u64,
    read: impl Fn() -> F,
    nothing: impl Fn(&T) -> bool,
) -> Result<T, Fault> {
    let deadline = Instant::now() + Duration::from_millis(wait_ms).min(LONGEST_WAIT);
    let mut changes = app.changes.clone();
    loop {
        changes.mark_unchanged();
        let answer = read().await?;
        let over = !nothing(&answer) || Instant::now() >= deadline;
        if over || !matches!(tokio::time::timeout_at(deadline, changes.changed()).await, Ok(Ok(()))) {
            return Ok(answer);
        }
    }
}

pub(super) async fn report(State(app): State<App>, Path(id): Path<String>) -> Result<Json<Vec<NodeReport>>, Fault> {
    let job = call::job_id(&id)?;
    app.read(|reply| Read::Status(job, reply)).await?;
    let answers = app.question(To::All, Question::Report { job }).await?;
    let reports = answers.into_iter().filter_map(|answer| match answer.answer {
        Answer::Report(report) => Some(*report),
        Answer::Refused(reason) => {
            tracing::debug!(%job, node = %answer.node, reason, "no report");
            None
        }
        Answer::Manifest(_) | Answer::Written(_) => None,
    });
    Ok(Json(reports.collect()))
}
