//! Half types: any layout ends where one process does, to the bit.

use shoal_config::spec::Wire;
use shoal_kernels::{Arena, Budget, Device, Tier};
use shoal_model::solo::Solo;
use shoal_plan::batch::context;
use shoal_plan::job::Job;

use super::*;
use crate::loader::Corpus;

fn rounded(dir: &TempDir, layout: Layout) -> Arc<Job> {
    let mut job = Arc::unwrap_or_clone(job(text(dir), layout, STEPS));
    job.spec.train.numerics.wire = Wire::Bf16;
    Arc::new(job)
}

/// How the job ends in one place, without daemons or pieces.
fn alone(job: &Job) -> Ending {
    let arena = Arena::new(Tier::Device, 1 << 30, &Budget::new(1 << 30));
    let device = Device::cpu(1, &arena).expect("room");
    let corpus = Corpus::open(&job.spec.data, &job.spec.model).expect("the text is fine");
    let context = context(&job.spec);
    let windows = shoal_plan::batch::windows(job);
    let mut window = |sample: u64| {
        let mut tokens = vec![0; context as usize + 1];
        corpus.train().read(sample % windows * context, &mut tokens).expect("the text is fine");
        tokens
    };
    let mut solo = Solo::new(&device, &arena, job).expect("room");
    for _ in 0..job.spec.train.steps {
        solo.step(&device, &mut window).expect("room");
    }
    Ending { ledger: solo.version().chain, state: solo.digest().expect("a processor") }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rounded_wire_ends_in_the_bits_of_one_process() {
    let dir = TempDir::new().expect("a temp dir");
    let reference = alone(&rounded(&dir, Layout::new(1, 1)));
    assert_ne!(reference, alone(&job(text(&dir), Layout::new(1, 1), STEPS)), "rounding enters bits");
    for (layout, nodes) in [
        (Layout::new(1, 1), 2),
        (Layout { schedule: Schedule::GPipe, ..Layout::new(4, 1) }, 4),
        (Layout::new(1, 3), 3),
        (Layout::new(2, 2), 4),
    ] {
        let mut cluster = Cluster::new(rounded(&dir, layout));
        for node in 1..=nodes {
            cluster.join(node).await;
        }
        assert_eq!(cluster.ending().await, reference, "{layout:?} on {nodes} nodes");
    }
}
