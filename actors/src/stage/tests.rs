//! One seat among recording neighbours: what it says, and that it waits for what it is owed.

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use shoal_config::spec::Schedule;
use shoal_exact::Arithmetic;
use shoal_kernels::{Budget, Device, Tag, Tier};
use shoal_model::StageModel;
use shoal_plan::blocks::ModelTable;
use shoal_plan::ids::{Generation, MicroBatch, NodeId, Replica, Seat, StageIndex};
use shoal_plan::layout::{Plan, StagePlan};
use shoal_plan::schedule::Pass;
use tempfile::TempDir;
use tokio::sync::mpsc;

use super::*;
use crate::device::{Cancel, DeviceThread};
use crate::holder::HolderMsg;
use crate::holder::tests::cluster::{Layout, job, text};
use crate::loader::{Loader, LoaderActor};

const DEADLINE: Duration = Duration::from_secs(20);
const GENERATION: Generation = Generation { incarnation: 1, number: 1 };

/// Writes down what a seat says, and how it ends.
struct Recorder;

#[derive(Debug)]
enum Heard {
    News(SeatNews),
    Failed(String),
}

impl Actor for Recorder {
    type Msg = HolderMsg;
    type State = mpsc::UnboundedSender<Heard>;
    type Arguments = mpsc::UnboundedSender<Heard>;

    async fn pre_start(
        &self,
        _: ActorRef<HolderMsg>,
        heard: mpsc::UnboundedSender<Heard>,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(heard)
    }

    async fn handle(
        &self,
        _: ActorRef<HolderMsg>,
        message: HolderMsg,
        heard: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        if let HolderMsg::Seat(GENERATION, _, news) = message {
            let _ = heard.send(Heard::News(news));
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<HolderMsg>,
        event: SupervisionEvent,
        heard: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(_, error) = event {
            let _ = heard.send(Heard::Failed(error.to_string()));
        }
        Ok(())
    }
}

struct Bench {
    seat: ActorRef<StageMsg>,
    heard: mpsc::UnboundedReceiver<Heard>,
    device: DeviceThread,
    cancel: Cancel,
    core: Arc<SeatCore>,
    _dir: TempDir,
}

impl Bench {
    /// Stage `stage` of two, with all four lanes of seven samples: seven micro-batches.
    async fn new(stage: u16) -> Self {
        let dir = TempDir::new().expect("a temp dir");
        let job = job(text(&dir), Layout::new(2, 1), 4);
        let table = Arc::new(ModelTable::of(&job.spec.model));
        let stage_plan = |blocks| StagePlan { blocks, seats: vec![NodeId(1)] };
        let plan = Arc::new(Plan {
            arithmetic: Arithmetic::Fused,
            schedule: Schedule::OneFOneB,
            stages: vec![stage_plan(0..2), stage_plan(2..4)],
            lanes: std::iter::once(0..4).collect(),
            pieces: Vec::new(),
            spares: Vec::new(),
        });
        let arena = shoal_kernels::Arena::new(Tier::Device, 64 << 20, &Budget::new(64 << 20));
        let device = Device::cpu(1, &arena).expect("room");
        let device = DeviceThread::of("seat-test", device, arena).expect("a thread");
        let blocks = plan.stages[usize::from(stage)].blocks.clone();
        let (arena, spec, of) = (device.arena().clone(), job.spec.clone(), Arc::clone(&table));
        let model = device.run(move |device| StageModel::new((device, &arena), &spec, of, blocks, 0..4)).await;
        let model = model.expect("the device runs").expect("there is room");
        let cancel = Cancel::default();
        let core = Arc::new(SeatCore::new(model, cancel.clone()));
        let (tell, heard) = mpsc::unbounded_channel();
        let (holder, _) = Actor::spawn(None, Recorder, tell).await.expect("it starts");
        let (loader, _) = Actor::spawn(None, LoaderActor, Arc::clone(&job)).await.expect("it starts");
        let args = StageArgs {
            generation: GENERATION,
            seat: seat(stage),
            job,
            table,
            plan,
            core: Arc::clone(&core),
            device: device.clone(),
            loader: Loader::new(loader),
            holder: holder.clone(),
        };
        let (seat, _) = Actor::spawn_linked(None, StageActor, args, holder.get_cell()).await.expect("it starts");
        Self { seat, heard, device, cancel, core, _dir: dir }
    }

    async fn next(&mut self) -> Heard {
        tokio::time::timeout(DEADLINE, self.heard.recv()).await.expect("in time").expect("the recorder lives")
    }

    /// Nothing was said, even though the device has done everything that it was given.
    async fn assert_silent(&mut self) {
        self.device.run(|_| ()).await.expect("an empty job");
        assert!(self.heard.try_recv().is_err());
    }

    fn arrive(&self, micro_batch: u32, flow: Flow) {
        let mut buffer = self.device.arena().alloc_zeroed(Tag::Activation, 16 * 32).expect("room");
        buffer.host_visible_mut().expect("on the host").fill(1e-3);
        let cargo = Cargo { pass: Pass::Train, step: 1, micro_batch: MicroBatch(micro_batch), flow };
        self.seat.cast(StageMsg::Arrived(cargo, buffer)).expect("it lives");
    }

    fn run(&self, pass: Pass, step: u64) {
        self.seat.cast(StageMsg::Run { pass, step, scale: 1.0 }).expect("it lives");
    }
}

fn seat(stage: u16) -> Seat {
    Seat { stage: StageIndex(stage), replica: Replica(0) }
}

#[tokio::test]
async fn the_first_stage_runs_ahead_by_one_and_reduces_when_all_gradients_are_back() {
    let mut bench = Bench::new(0).await;
    bench.run(Pass::Train, 1);
    for m in 0..2 {
        let Heard::News(SeatNews::Send(to, cargo, buffer)) = bench.next().await else { panic!("an activation") };
        assert_eq!((to, cargo.flow, cargo.micro_batch, buffer.len()), (seat(1), Flow::Forward, MicroBatch(m), 16 * 32));
    }
    bench.assert_silent().await;
    for m in 0..7 {
        bench.arrive(m, Flow::Backward);
        if m < 5 {
            let Heard::News(SeatNews::Send(_, cargo, _)) = bench.next().await else { panic!("an activation") };
            assert_eq!(cargo.micro_batch, MicroBatch(m + 2));
        }
    }
    for block in [1, 0] {
        let Heard::News(SeatNews::Sums { step: 1, unit, sums }) = bench.next().await else { panic!("sums") };
        assert_eq!((unit.block.0, sums.len()), (block, 1), "one replica has the whole tree");
        assert!(sums.iter().all(|(_, loss)| loss.is_none()), "this stage knows no loss");
    }
    bench.assert_silent().await;
    assert!(bench.core.calls().iter().all(|calls| (calls.forward, calls.backward) == (7, 7)));
}

#[tokio::test]
async fn the_last_stage_takes_what_comes_early_and_out_of_turn() {
    let mut bench = Bench::new(1).await;
    // Before the pass was ordered, and backwards.
    for m in (0..7).rev() {
        bench.arrive(m, Flow::Forward);
    }
    bench.run(Pass::Train, 1);
    for m in 0..7 {
        let Heard::News(SeatNews::Send(to, cargo, _)) = bench.next().await else { panic!("a gradient") };
        assert_eq!((to, cargo.flow, cargo.micro_batch), (seat(0), Flow::Backward, MicroBatch(m)));
    }
    let mut tokens = Vec::new();
    for _ in 0..3 {
        let Heard::News(SeatNews::Sums { unit: _, sums, .. }) = bench.next().await else { panic!("sums") };
        tokens.extend(sums.iter().filter_map(|(_, loss)| loss.map(|l| l.tokens)));
    }
    assert_eq!(tokens, [7 * 16; 3], "the loss of all lanes goes with each contribution");
}

#[tokio::test]
async fn validation_is_forward_only_and_its_loss_is_told_once() {
    let mut bench = Bench::new(1).await;
    for m in 0..5 {
        let buffer = bench.device.arena().alloc_zeroed(Tag::Activation, 16 * 32).expect("room");
        let cargo = Cargo { pass: Pass::Evaluate, step: 3, micro_batch: MicroBatch(m), flow: Flow::Forward };
        bench.seat.cast(StageMsg::Arrived(cargo, buffer)).expect("it lives");
    }
    bench.run(Pass::Evaluate, 3);
    let Heard::News(SeatNews::Evaluated { step: 3, loss }) = bench.next().await else { panic!("a loss") };
    assert_eq!(loss.tokens, 5 * 16);
    bench.assert_silent().await;
}

#[tokio::test]
async fn a_fault_asked_for_ends_the_seat_at_its_next_instruction() {
    let mut bench = Bench::new(0).await;
    bench.seat.cast(StageMsg::Fail(StageFault::Panic)).expect("it lives");
    bench.assert_silent().await;
    bench.run(Pass::Train, 1);
    let Heard::Failed(cause) = bench.next().await else { panic!("a failure") };
    assert!(cause.contains("a fault was asked for at step 1"), "{cause}");
}

#[tokio::test]
async fn a_panic_on_the_device_ends_the_seat_with_its_words() {
    let mut bench = Bench::new(1).await;
    let buffer = bench.device.arena().alloc_zeroed(Tag::Activation, 3).expect("room");
    let cargo = Cargo { pass: Pass::Train, step: 1, micro_batch: MicroBatch(0), flow: Flow::Forward };
    bench.seat.cast(StageMsg::Arrived(cargo, buffer)).expect("it lives");
    bench.run(Pass::Train, 1);
    let Heard::Failed(cause) = bench.next().await else { panic!("a failure") };
    assert!(cause.contains("SM-7"), "{cause}");
}

#[tokio::test]
async fn a_seat_that_is_cancelled_or_dismantled_computes_nothing_more() {
    let bench = Bench::new(0).await;
    let works = || matches!(bench.core.compute(|_| Ok(Outcome::Finished)), Outcome::Finished);
    assert!(works());
    bench.core.dismantle();
    assert!(!works());
    let bench = Bench::new(0).await;
    bench.cancel.cancel();
    assert!(matches!(bench.core.compute(|_| Ok(Outcome::Finished)), Outcome::Cancelled));
}
