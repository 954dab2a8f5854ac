//! Nodes, and the cluster as a whole.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{MethodRouter, post};
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

/// A fault of one kind, at a node of a job.
pub(super) fn chaos(fault: fn(JobId) -> Chaos) -> MethodRouter<App> {
    post(async move |State(app): State<App>, Path(id): Path<String>, bytes: Bytes| -> Result<StatusCode, Fault> {
        let fault = fault(call::job_id(&id)?);
        let OnNode { node } = call::full_body(&bytes)?;
        app.ask(READ, |reply| CoordinatorMsg::Node(NodeOrder::Chaos(node, fault, reply))).await?;
        Ok(StatusCode::NO_CONTENT)
    })
}
