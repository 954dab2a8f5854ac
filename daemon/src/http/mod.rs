//! The coordinator's HTTP interface: JSON of `shoal_wire::api`, on loopback.
//!
//! `guard` decides who is served; `call` asks the coordinator actor with a deadline; `cluster`, `jobs`, `orders`, `state`, `hf` and `llmc` are the routes; `fault`
//! turns whatever goes wrong into an `ApiError`, and `downloads` keeps it for whoever finds a body too short.

mod call;
mod cluster;
mod downloads;
mod export;
mod fault;
mod guard;
mod hf;
mod jobs;
mod llmc;
mod metrics;
mod orders;
mod page;
mod reader;
mod state;

#[cfg(test)]
mod tests;

use axum::routing::{get, post};
use axum::{Router, middleware};
use ractor::ActorRef;
use shoal_actors::coordinator::CoordinatorMsg;
use shoal_wire::control::Chaos;
use tokio::sync::watch;

use crate::token::Token;

pub use downloads::Downloads;
pub use export::Exports;

/// What every route needs.
#[derive(Clone, Debug)]
pub struct App {
    /// Whom to ask.
    pub coordinator: ActorRef<CoordinatorMsg>,
    /// Raised at every change.
    pub changes: watch::Receiver<u64>,
    /// What a client has to know.
    pub token: Token,
    /// Models that may be written out at once.
    pub exports: Exports,
    /// Downloads, and why some broke off.
    pub downloads: Downloads,
}

/// All routes.
pub fn router(app: App) -> Router {
    Router::new()
        .route("/", get(page::index))
        .route("/metrics", get(metrics::metrics))
        .route("/v1/nodes", get(cluster::nodes))
        .route("/v1/nodes/{name}/drain", post(cluster::drain))
        .route("/v1/shutdown", post(cluster::shutdown))
        .route("/v1/jobs", get(jobs::list).post(jobs::submit))
        .route("/v1/jobs/{id}", get(jobs::status))
        .route("/v1/jobs/{id}/job", get(jobs::job))
        .route("/v1/jobs/{id}/plan", get(jobs::plan))
        .route("/v1/jobs/{id}/events", get(jobs::events))
        .route("/v1/jobs/{id}/ledger", get(jobs::ledger))
        .route("/v1/jobs/{id}/report", get(jobs::report))
        .route("/v1/jobs/{id}/pause", post(orders::pause))
        .route("/v1/jobs/{id}/resume", post(orders::resume))
        .route("/v1/jobs/{id}/cancel", post(orders::cancel))
        .route("/v1/jobs/{id}/digest", post(orders::digest))
        .route("/v1/jobs/{id}/write", post(orders::write))
        .route("/v1/jobs/{id}/chaos/panic-stage", cluster::chaos(|job| Chaos::PanicStage { job }))
        .route("/v1/jobs/{id}/chaos/hang-stage", cluster::chaos(|job| Chaos::HangStage { job }))
        .route("/v1/jobs/{id}/chaos/poison-stage", cluster::chaos(|job| Chaos::PoisonStage { job }))
        .route("/v1/jobs/{id}/state/{step}/{block}/{kind}", get(state::block))
        .route("/v1/jobs/{id}/hf", get(hf::files))
        .route("/v1/jobs/{id}/hf/{file}", get(hf::file))
        .route("/v1/jobs/{id}/llmc/model.bin", get(llmc::model))
        .route("/v1/downloads/{number}", get(downloads::reason))
        .fallback(fault::no_route)
        .method_not_allowed_fallback(fault::no_method)
        .layer(middleware::from_fn_with_state(app.clone(), guard::admit))
        .with_state(app)
}
