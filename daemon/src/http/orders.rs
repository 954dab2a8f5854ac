//! What the operator says about a job.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use shoal_actors::coordinator::{CoordinatorMsg, Read, RequestError};
use shoal_plan::engine::{Order, OrderAnswer};
use shoal_plan::ids::JobId;
use shoal_plan::protocol::PersistMode;
use shoal_wire::api::{AtStep, JobState, StateDigest};

use super::App;
use super::call::{self, ORDER, STATE};
use super::fault::Fault;
use super::reader::StateReader;

pub(super) async fn pause(State(app): State<App>, Path(id): Path<String>, bytes: Bytes) -> Result<StatusCode, Fault> {
    let AtStep { at } = call::body(&bytes)?;
    accept(&app, &id, Order::Pause { at }).await
}

pub(super) async fn resume(State(app): State<App>, Path(id): Path<String>) -> Result<StatusCode, Fault> {
    accept(&app, &id, Order::Resume).await
}

pub(super) async fn cancel(State(app): State<App>, Path(id): Path<String>) -> Result<StatusCode, Fault> {
    accept(&app, &id, Order::Cancel).await
}

async fn accept(app: &App, id: &str, order: Order) -> Result<StatusCode, Fault> {
    let id = call::job_id(id)?;
    app.ask(ORDER, |reply| CoordinatorMsg::Order(id, order, reply)).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn digest(
    State(app): State<App>,
    Path(id): Path<String>,
    bytes: Bytes,
) -> Result<Json<StateDigest>, Fault> {
    persist(&app, call::job_id(&id)?, call::body(&bytes)?, PersistMode::Hash).await
}

pub(super) async fn write(
    State(app): State<App>,
    Path(id): Path<String>,
    bytes: Bytes,
) -> Result<Json<StateDigest>, Fault> {
    persist(&app, call::job_id(&id)?, call::body(&bytes)?, PersistMode::Write).await
}

/// From written pieces if the job is done or past that step; from the holders of a job that goes on.
async fn persist(app: &App, id: JobId, AtStep { at }: AtStep, mode: PersistMode) -> Result<Json<StateDigest>, Fault> {
    let status = app.read(|reply| Read::Status(id, reply)).await?;
    if matches!(status.state, JobState::Done) || at.is_some_and(|at| at < status.step) {
        let past = |fault| match (fault, at) {
            (Fault::Written { .. } | Fault::Digest { .. }, Some(at)) if at < status.step => {
                Fault::Past { job: id, at, step: status.step, steps: status.steps }
            }
            (fault, _) => fault,
        };
        return written(app, id, at).await.map_err(past);
    }
    let order = Order::Persist { at, mode };
    match app.ask(STATE, |reply| CoordinatorMsg::Order(id, order, reply)).await {
        Ok(OrderAnswer::Persisted { step, digest, .. }) => {
            Ok(Json(StateDigest { state_blake3: digest.to_hex(), step }))
        }
        Ok(OrderAnswer::Accepted) => Err(Fault::Request(RequestError::Refused(
            "the order was accepted, but no state came of it; ask again".to_owned(),
        ))),
        Ok(OrderAnswer::Refused(reason)) => Err(Fault::Request(RequestError::Refused(reason))),
        // It may have ended since the status was read.
        Err(refused @ Fault::Request(RequestError::Refused(_))) => written(app, id, at).await.map_err(|_| refused),
        Err(fault) => Err(fault),
    }
}

async fn written(app: &App, id: JobId, at: Option<u64>) -> Result<Json<StateDigest>, Fault> {
    let reader = StateReader::open(app, id, at).await?;
    let digest = reader.digest()?;
    Ok(Json(StateDigest { state_blake3: digest.to_hex(), step: reader.step() }))
}
