pub(crate) mod cluster;

use cluster::{Cluster, Ending, Layout, job, text};
use shoal_config::spec::Schedule;
use tempfile::TempDir;

use super::HolderMsg;

const STEPS: u64 = 6;

async fn cluster(layout: Layout, nodes: u64) -> (TempDir, Cluster) {
    let dir = TempDir::new().expect("a temp dir");
    let mut cluster = Cluster::new(job(text(&dir), layout, STEPS));
    for node in 1..=nodes {
        cluster.join(node).await;
    }
    (dir, cluster)
}

async fn undisturbed(layout: Layout, nodes: u64) -> Ending {
    let (_dir, cluster) = cluster(layout, nodes).await;
    cluster.ending().await
}

async fn reference() -> Ending {
    undisturbed(Layout { redundancy: 0, ..Layout::new(1, 1) }, 1).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_layout_ends_in_the_same_bits() {
    let reference = reference().await;
    for (layout, nodes) in [
        (Layout::new(1, 1), 2),
        (Layout::new(2, 1), 1),
        (Layout::new(2, 1), 2),
        (Layout { schedule: Schedule::GPipe, ..Layout::new(4, 1) }, 4),
        (Layout::new(1, 3), 3),
        (Layout::new(2, 2), 4),
        (Layout { schedule: Schedule::GPipe, ..Layout::new(2, 2) }, 3),
    ] {
        assert_eq!(undisturbed(layout, nodes).await, reference, "{layout:?} on {nodes} nodes");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_node_and_a_new_one_leave_no_trace() {
    let reference = reference().await;
    for victim in 1..=4 {
        let (_dir, mut cluster) = cluster(Layout::new(2, 2), 4).await;
        cluster.until_step(2).await;
        cluster.kill(victim);
        cluster.until_step(3).await;
        cluster.join(5).await;
        let log = cluster.log();
        assert_eq!(cluster.ending().await, reference, "n{victim} was killed:\n{log}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stage_that_panics_loses_nothing() {
    let reference = reference().await;
    let (_dir, mut cluster) = cluster(Layout::new(2, 2), 4).await;
    cluster.until_step(2).await;
    cluster.holder(1).cast(HolderMsg::PanicStage).expect("it lives");
    cluster.until("the failure", |cluster| cluster.log().contains("stage_failed")).await;
    assert_eq!(cluster.engine.members().len(), 4, "no node is lost");
    assert_eq!(cluster.ending().await, reference);
}
