//! Nodes, and the cluster as a whole.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use shoal_actors::coordinator::{CoordinatorMsg, NodeOrder, Read};
use shoal_plan::ids::JobId;
use shoal_wire::api::{NodeInfo, OnNode};
use shoal_wire::control::Chaos;

use super::App;
use super::call::{self, ORDER, READ};
use super::fault::Fault;

pub(super) async fn nodes(State(app): State<App>) -> Result<Json<Vec<NodeInfo>>, Fault> {
    Ok(Json(app.read(Read::Nodes).await?))
}

pub(super) async fn drain(State(app): State<App>, Path(name): Path<String>) -> Result<StatusCode, Fault> {
    app.ask(READ, |reply| CoordinatorMsg::Node(NodeOrder::Drain(name, reply))).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn shutdown(State(app): State<App>) -> Result<StatusCode, Fault> {
    app.ask(ORDER, CoordinatorMsg::Shutdown).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn panic_stage(
    State(app): State<App>,
    Path(id): Path<String>,
    bytes: Bytes,
) -> Result<StatusCode, Fault> {
    chaos(app, &id, &bytes, |job| Chaos::PanicStage { job }).await
}

pub(super) async fn hang_stage(
    State(app): State<App>,
    Path(id): Path<String>,
    bytes: Bytes,
) -> Result<StatusCode, Fault> {
    chaos(app, &id, &bytes, |job| Chaos::HangStage { job }).await
}

pub(super) async fn poison_stage(
    State(app): State<App>,
    Path(id): Path<String>,
    bytes: Bytes,
) -> Result<StatusCode, Fault> {
    chaos(app, &id, &bytes, |job| Chaos::PoisonStage { job }).await
}

async fn chaos(app: App, id: &str, bytes: &Bytes, chaos: impl FnOnce(JobId) -> Chaos) -> Result<StatusCode, Fault> {
    let chaos = chaos(call::job_id(id)?);
    let OnNode { node } = call::full_body(bytes)?;
    app.ask(READ, |reply| CoordinatorMsg::Node(NodeOrder::Chaos(node, chaos, reply))).await?;
    Ok(StatusCode::NO_CONTENT)
}
