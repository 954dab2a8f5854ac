//! Half types: any layout ends where one process does, to the bit.

use shoal_config::spec::{LossScaleSpec, Precision, Wire};
use shoal_kernels::{Arena, Budget, Device, Tier};
use shoal_model::solo::Solo;
use shoal_plan::batch::context;
use shoal_plan::job::Job;
use shoal_plan::ledger::{LedgerEntry, Update};
use shoal_plan::loss_scale::LossScale;

use super::*;
use crate::loader::Corpus;

fn rounded(dir: &TempDir, layout: Layout) -> Arc<Job> {
    let mut job = Arc::unwrap_or_clone(job(text(dir), layout, STEPS));
    job.spec.train.numerics.wire = Wire::Bf16;
    Arc::new(job)
}

/// How the job ends in one place, without daemons or pieces, with an infinite gradient at a step or not.
fn alone(job: &Job, poisoned: Option<u64>) -> Ending {
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
    for step in 1..=job.spec.train.steps {
        if poisoned == Some(step) {
            solo.poison(f32::INFINITY);
        }
        solo.step(&device, &mut window).expect("room");
    }
    Ending { ledger: solo.version().chain, state: solo.digest().expect("a processor") }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rounded_wire_ends_in_the_bits_of_one_process() {
    let dir = TempDir::new().expect("a temp dir");
    let reference = alone(&rounded(&dir, Layout::new(1, 1)), None);
    assert_ne!(reference, alone(&job(text(&dir), Layout::new(1, 1), STEPS), None), "rounding enters bits");
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

/// One stage of one replica makes one gradient infinite in one step: nobody changes a parameter, the optimizer's time stands still,
/// the scale is halved by its rule, and training goes on as it does in one process that had the same accident.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_infinite_gradient_changes_nothing_but_the_scale() {
    let dir = TempDir::new().expect("a temp dir");
    let mut job = Arc::unwrap_or_clone(rounded(&dir, Layout::new(2, 2)));
    let rule = LossScaleSpec { start: 256, window: 1000, hysteresis: 1, minimum: 1 };
    (job.spec.train.steps, job.spec.train.numerics.precision) = (4 * STEPS, Precision::Fp16(rule));
    let job = Arc::new(job);
    let mut cluster = Cluster::new(Arc::clone(&job));
    for node in 1..=4 {
        cluster.join(node).await;
    }
    cluster.until_step(2).await;
    cluster.holder(3).cast(HolderMsg::FailStage(StageFault::Poison)).expect("it lives");
    let skipped = |cluster: &Cluster| cluster.entries().find(|entry| entry.update == Update::Skip).cloned();
    cluster.until("a skip", |cluster| skipped(cluster).is_some()).await;
    let found: LedgerEntry = skipped(&cluster).expect("just seen");
    let before = cluster.entries().find(|entry| entry.step + 1 == found.step).expect("it was not the first").clone();
    assert_eq!(found.optimizer_time, before.optimizer_time);
    let factor = |entry: &LedgerEntry| entry.loss_scale.map(LossScale::factor);
    assert_eq!((factor(&before), factor(&found)), (Some(256.0), Some(128.0)));
    let log = cluster.log();
    let event = log.lines().find(|line| line.starts_with("step_skipped")).expect(&log).to_owned();
    assert!(event.contains("not finite: the gradient of block b") && event.contains(" (n"), "{event}");
    assert!(event.contains("; the loss scale from here on is 128"), "{event}");
    assert_eq!(cluster.ending().await, alone(&job, Some(found.step)), "{log}");
}
