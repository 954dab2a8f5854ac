//! Bootstrap of a worker: lock, node file, transport and device; and its end.

use std::sync::Arc;

use shoal_actors::node::{self, FindCoordinator, NodeConfig, NodeEnd};
use shoal_actors::transport::{Bearer, Identity};
use shoal_config::NodeSpec;

use crate::cluster::ClusterDir;
use crate::files::{self, PidFile};
use crate::lock::DirLock;
use crate::role::WorkerConfig;
use crate::run::DaemonError;
use crate::signals;

/// What a worker process takes beyond its arenas: code, thread stacks, transport buffers, the allocator's slack. Its
/// resident memory stays within `memory` plus this, on loopback. Windows for longer paths are a matter of each peer
/// (docs/semantics.md, memory).
pub const RESIDENT_OVERHEAD_BYTES: u64 = 256 << 20;

/// Runs a worker until it has left or is told to stop.
pub(crate) fn run(cluster: &ClusterDir, config: &WorkerConfig) -> Result<(), DaemonError> {
    let home = cluster.node(&config.name);
    if !home.is_dir() {
        return Err(DaemonError::NoCluster { dir: cluster.root().to_owned(), missing: "the node's directory" });
    }
    let _lock = DirLock::take(&home)?;
    let spec = shoal_config::node::read(&cluster.node_file(&config.name)).map_err(DaemonError::NodeFile)?;
    let data_lock = if spec.data_dir.starts_with(&home) { None } else { Some(DirLock::take(&spec.data_dir)?) };
    let _pid = PidFile::write(cluster.pid(&config.name))?;
    let identity = Identity::load(&home, &Bearer::Worker(config.name.clone())).map_err(DaemonError::Identity)?;
    let node = node_config(cluster, config, spec, identity);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("worker")
        .enable_all()
        .build()
        .map_err(|source| DaemonError::System { what: "a runtime", source })?;
    let outcome = runtime.block_on(serve(node));
    // A closure that still computes must not hold up the end of the process.
    runtime.shutdown_background();
    drop(data_lock);
    outcome
}

fn node_config(cluster: &ClusterDir, config: &WorkerConfig, spec: NodeSpec, identity: Identity) -> NodeConfig {
    let (told, file, written) = (config.join, cluster.join_address(), spec.join);
    let coordinator: FindCoordinator = Arc::new(move || told.or_else(|| files::address(&file)).or(written));
    NodeConfig {
        name: config.name.clone(),
        identity,
        listen: config.listen.unwrap_or(spec.listen),
        coordinator,
        data_dir: spec.data_dir,
        budget_bytes: config.memory_bytes.unwrap_or(spec.memory.0),
        threads: config.threads.unwrap_or(spec.threads),
        class: config.class.unwrap_or(spec.class),
    }
}

async fn serve(config: NodeConfig) -> Result<(), DaemonError> {
    let mut stop = signals::stop()?;
    let mut node = node::run(config).await.map_err(DaemonError::Worker)?;
    tracing::info!(address = %node.address(), "worker is up");
    // Asked once: leave in peace. Asked again: stop.
    let first = tokio::select! {
        end = node.ended() => Some(end),
        _ = stop.recv() => None,
    };
    let end = match first {
        Some(end) => end,
        None => {
            node.leave();
            tokio::select! {
                end = node.ended() => end,
                _ = stop.recv() => {
                    node.stop();
                    node.ended().await
                }
            }
        }
    };
    tracing::info!(?end, "worker ends");
    match end {
        NodeEnd::Left | NodeEnd::Shutdown | NodeEnd::Stopped => Ok(()),
        NodeEnd::Failed { reason } => Err(DaemonError::Failed { reason }),
    }
}
