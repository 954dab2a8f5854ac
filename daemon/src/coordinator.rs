//! Bootstrap of a coordinator: lock, journal, transport, actor, HTTP; and its end.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use ractor::Actor;
use shoal_actors::coordinator::{CoordinatorArgs, Patience};
use shoal_actors::startup;
use shoal_actors::transport::{Bearer, BindError, Endpoint, EndpointConfig, Identity, Inbound, NoBulk};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};

use crate::cluster::{COORDINATOR, ClusterDir};
use crate::files::{self, PidFile};
use crate::http;
use crate::lock::DirLock;
use crate::role::CoordinatorConfig;
use crate::root::{End, Root, RootArgs};
use crate::run::DaemonError;
use crate::signals;
use crate::store::Store;
use crate::token::Token;

/// Runs the coordinator of a cluster until it is told to stop.
pub(crate) fn run(cluster: &ClusterDir, config: &CoordinatorConfig) -> Result<(), DaemonError> {
    if !cluster.ca().is_dir() {
        return Err(DaemonError::NoCluster { dir: cluster.root().to_owned(), missing: "ca/" });
    }
    let _lock = DirLock::take(&cluster.coordinator())?;
    let _pid = PidFile::write(cluster.pid(COORDINATOR))?;
    let identity = Identity::load(&cluster.coordinator(), &Bearer::Coordinator).map_err(DaemonError::Identity)?;
    let store = Store::open(&cluster.state()).map_err(DaemonError::Store)?;
    tracing::info!(mended = ?store.mended(), "journal is open");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name(COORDINATOR)
        .enable_all()
        .build()
        .map_err(|source| DaemonError::System { what: "a runtime", source })?;
    let outcome = runtime.block_on(serve(cluster, config, identity, Arc::new(store)));
    // A flush of a disk that does not answer must not hold up the end of the process: its respawner waits for that.
    runtime.shutdown_background();
    outcome
}

async fn serve(
    cluster: &ClusterDir,
    config: &CoordinatorConfig,
    identity: Identity,
    store: Arc<Store>,
) -> Result<(), DaemonError> {
    let (endpoint, inbound) = bind(config.listen, &cluster.join_address(), &identity)?;
    files::put(&cluster.join_address(), &format!("{}\n", endpoint.local_address()))?;
    let listener = listen(config.http, &cluster.http_address()).await?;
    let (changes, seen) = watch::channel(0);
    let args = CoordinatorArgs { endpoint, inbound, journal: store, changes, patience: Patience::default() };
    let (started, actor) = oneshot::channel();
    let (sender, mut ended) = oneshot::channel();
    let root = RootArgs { coordinator: args, started, ended: sender };
    let failed = |error: ractor::SpawnErr| DaemonError::Actor { cause: startup(&error) };
    Actor::spawn(None, Root, root).await.map_err(failed)?;
    let actor = actor.await.map_err(|_| DaemonError::Actor { cause: "its root is gone".to_owned() })?;

    let address = listener
        .local_addr()
        .map_err(|source| DaemonError::System { what: "the address of its own listener", source })?;
    let file = cluster.token();
    let token = Token::keep(&file).map_err(|source| DaemonError::File { path: file, source })?;
    let router = http::router(http::App {
        coordinator: actor.clone(),
        changes: seen,
        token,
        exports: http::Exports::new(cluster.coordinator()),
        downloads: http::Downloads::default(),
    });
    let server = tokio::spawn(async move { axum::serve(listener, router).await });
    files::put(&cluster.http_address(), &format!("{address}\n"))?;
    tracing::info!(%address, "serving HTTP");

    let mut stop = signals::stop()?;
    let end = tokio::select! {
        end = &mut ended => end,
        _ = stop.recv() => {
            tracing::info!("told to stop");
            // It works off what it has been told; an error means that it has ended already.
            let _ = actor.drain();
            ended.await
        }
    };
    server.abort();
    match end {
        Ok(End::Stopped) => Ok(()),
        Ok(End::Failed(cause)) => Err(DaemonError::Actor { cause }),
        Err(_) => Err(DaemonError::Actor { cause: "its root is gone".to_owned() }),
    }
}

/// The transport on the address asked for; with port 0, on the one of the last start if it is free, so that workers find
/// the coordinator again.
fn bind(
    asked: SocketAddr,
    last: &Path,
    identity: &Identity,
) -> Result<(Endpoint, mpsc::Receiver<Inbound>), DaemonError> {
    let bind = |address| Endpoint::bind(EndpointConfig::new(address, identity.clone()), Arc::new(NoBulk));
    if let Some(last) = again(asked, last) {
        match bind(last) {
            Ok(bound) => return Ok(bound),
            Err(BindError::Listen { .. }) => tracing::warn!(%last, "the transport address of the last start is taken"),
            Err(error @ (BindError::Tls(_) | BindError::Thread(_))) => return Err(DaemonError::Transport(error)),
        }
    }
    bind(asked).map_err(DaemonError::Transport)
}

/// As [`bind`], for HTTP.
async fn listen(asked: SocketAddr, last: &Path) -> Result<TcpListener, DaemonError> {
    if let Some(last) = again(asked, last) {
        match TcpListener::bind(last).await {
            Ok(listener) => return Ok(listener),
            Err(error) => tracing::warn!(%last, %error, "the HTTP address of the last start is taken"),
        }
    }
    TcpListener::bind(asked).await.map_err(|source| DaemonError::Http { address: asked, source })
}

fn again(asked: SocketAddr, last: &Path) -> Option<SocketAddr> {
    if asked.port() != 0 {
        return None;
    }
    files::address(last).filter(|last| last.ip() == asked.ip())
}
