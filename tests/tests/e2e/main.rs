//! Real processes on loopback: what the product promises, seen from its command line.

mod again;
mod classes;
mod data;
mod disk;
mod eval;
mod faults;
mod files;
mod hosts;
mod input;
mod killed_export;
mod layouts;
mod memory;
mod numerics;
mod optimizers;
mod prepare;
mod sample;

use shoal_tests::Cluster;

/// A cluster with `nodes` workers.
fn cluster(nodes: usize) -> Cluster {
    Cluster::up(env!("CARGO_BIN_EXE_shoalctl-under-test"), nodes)
}
