//! What can be typed after `shoald`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use shoal_config::node::Class;
use shoal_config::spec::Auto;

use crate::role::{CoordinatorConfig, Role, WorkerConfig};

/// One daemon of a Shoal cluster.
#[derive(Parser, Debug)]
#[command(name = "shoald", version)]
pub struct Cli {
    /// What to be.
    #[command(subcommand)]
    pub role: RoleArgs,
}

/// What to be.
#[derive(Subcommand, Debug)]
pub enum RoleArgs {
    /// Keep the journal, plan, serve HTTP.
    Coordinator(CoordinatorArgs),
    /// Run a coordinator, and run it again whenever it dies.
    Respawn(CoordinatorArgs),
    /// Hold tensors and compute.
    Worker(WorkerArgs),
}

/// Arguments of a coordinator.
#[derive(Args, Debug)]
pub struct CoordinatorArgs {
    /// Cluster directory.
    #[arg(long, env = "SHOAL_DIR")]
    dir: PathBuf,
    /// Address of the HTTP interface.
    #[arg(long, default_value = "127.0.0.1:0")]
    http: SocketAddr,
    /// Address for workers (UDP, and TCP of the same number).
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Log file instead of standard error.
    #[arg(long)]
    log: Option<PathBuf>,
}

/// Arguments of a worker.
#[derive(Args, Debug)]
pub struct WorkerArgs {
    /// Cluster directory.
    #[arg(long, env = "SHOAL_DIR")]
    dir: PathBuf,
    /// Name of the node: its directory is `nodes/<name>`.
    #[arg(long)]
    name: String,
    /// Bytes that its arenas may hold, instead of `node.toml`'s `memory`.
    #[arg(long)]
    memory_bytes: Option<u64>,
    /// Compute threads, instead of `node.toml`'s.
    #[arg(long)]
    threads: Option<u32>,
    /// What its devices compute with, instead of `node.toml`'s `class`.
    #[arg(long)]
    class: Option<Auto<Class>>,
    /// Address for peers (UDP, and TCP of the same number).
    #[arg(long)]
    listen: Option<SocketAddr>,
    /// Address of the coordinator's transport, instead of the one the cluster directory names.
    #[arg(long)]
    join: Option<SocketAddr>,
    /// Log file instead of standard error.
    #[arg(long)]
    log: Option<PathBuf>,
}

impl RoleArgs {
    /// As a role.
    #[must_use]
    pub fn into_role(self) -> Role {
        match self {
            Self::Coordinator(args) => Role::Coordinator(args.into_config()),
            Self::Respawn(args) => Role::Respawn(args.into_config()),
            Self::Worker(args) => Role::Worker(WorkerConfig {
                dir: args.dir,
                name: args.name,
                memory_bytes: args.memory_bytes,
                threads: args.threads,
                class: args.class,
                listen: args.listen,
                join: args.join,
                log: args.log,
            }),
        }
    }
}

impl CoordinatorArgs {
    fn into_config(self) -> CoordinatorConfig {
        CoordinatorConfig { dir: self.dir, http: self.http, listen: self.listen, log: self.log }
    }
}
