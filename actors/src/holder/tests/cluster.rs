//! Real holders, seats, devices and loaders of several nodes in one process, under the real engine. Peers reach each other
//! through memory instead of a transport, and a node is killed by taking it out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use ractor::{Actor, ActorRef};

use shoal_config::spec::{Auto, ElasticSpec, EvalSpec, OnLoss, ParallelSpec, Schedule};
use shoal_kernels::{Class, Tag};
use shoal_model::half;
use shoal_plan::blocks::ModelTable;
use shoal_plan::digest::{self, PieceLeaves};
use shoal_plan::engine::{Command, Engine, Event, LossCause, Millis, Offer, Record, Setup, State, Timing};
use shoal_plan::ids::{Digest, Generation, JobId, NodeId};
use shoal_plan::job::Job;
use shoal_plan::ledger::LedgerEntry;
use shoal_plan::memory::{self, NodeBytes};
use shoal_plan::protocol::FromNode;
use shoal_wire::api::TrafficLine;
use shoal_wire::control::ToPeer;
use shoal_wire::data::{Header, Purpose};
use tempfile::TempDir;
use tokio::sync::mpsc;

use crate::device::Devices;
use crate::holder::{HolderActor, HolderArgs, HolderMsg, LinkError, Outside};
use crate::loader;
use crate::transport::Payload;
use crate::written::Shelf;

pub(super) const JOB: JobId = JobId(1);
/// Generous: two cores may be busy with other tests.
const DEADLINE: Duration = Duration::from_secs(120);
const BUDGET: u64 = 256 << 20;

/// What differs between runs of one job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) pipeline: u32,
    pub(crate) data: u32,
    pub(crate) schedule: Schedule,
    pub(crate) redundancy: u32,
}

impl Layout {
    pub(crate) fn new(pipeline: u32, data: u32) -> Self {
        Self { pipeline, data, schedule: Schedule::OneFOneB, redundancy: 1 }
    }
}

/// A directory with a text of a few thousand bytes.
pub(crate) fn text(dir: &TempDir) -> PathBuf {
    let path = dir.path().join("text.txt");
    let words = ["shoal ", "swims ", "where ", "every ", "single ", "fish ", "may ", "vanish\n"];
    let text: String = (0..1200u64).map(|i| words[(i * i * 7 + i / 3) as usize % words.len()]).collect();
    std::fs::write(&path, text).expect("the temp dir is writable");
    path
}

pub(crate) fn job(data: PathBuf, layout: Layout, steps: u64) -> Arc<Job> {
    let mut spec = shoal_config::preset("tiny", &data).expect("a preset");
    let model = spec.model.as_gpt2_mut().expect("a GPT-2");
    (model.layers, model.heads, model.width, model.context) = (2, 2, 32, 16);
    let train = &mut spec.train;
    (train.steps, train.global_batch) = (steps, 7);
    (train.schedule.peak, train.schedule.minimum) = (3e-3, 3e-4);
    train.evaluate = Some(EvalSpec { every: 3, samples: 5 });
    spec.parallel = ParallelSpec {
        pipeline: Auto::Set(layout.pipeline),
        data: Auto::Set(layout.data),
        virtual_replicas: 4,
        schedule: layout.schedule,
        fixed: false,
    };
    spec.elastic = ElasticSpec { redundancy: layout.redundancy, on_loss: OnLoss::Halt };
    let facts = loader::facts(&spec.data, &spec.model).expect("the text is fine");
    Arc::new(Job { spec, data: facts, weights: None })
}

/// Who can be reached.
type Hub = Arc<Mutex<BTreeMap<NodeId, (ActorRef<HolderMsg>, Devices)>>>;

/// A node's way to the others.
struct Wire {
    node: NodeId,
    hub: Hub,
    engine: mpsc::UnboundedSender<(NodeId, FromNode)>,
    floor: Arc<Mutex<Generation>>,
}

impl Wire {
    fn peer(&self, peer: NodeId) -> Result<(ActorRef<HolderMsg>, Devices), LinkError> {
        let hub = self.hub.lock().unwrap_or_else(PoisonError::into_inner);
        if !hub.contains_key(&self.node) {
            return Err(LinkError::Unreachable("this node is dead".to_owned()));
        }
        hub.get(&peer).cloned().ok_or_else(|| LinkError::Unreachable(format!("{peer} is dead")))
    }

    fn deliver(&self, peer: NodeId, header: Header, payload: &Payload) -> Result<(), LinkError> {
        if header.generation < *self.floor.lock().unwrap_or_else(PoisonError::into_inner) {
            return Err(LinkError::Over);
        }
        let (holder, devices) = self.peer(peer)?;
        let device = match header.purpose {
            Purpose::State { .. } | Purpose::ShadowGradient { .. } => devices.store,
            Purpose::Activation { .. }
            | Purpose::ActivationGradient { .. }
            | Purpose::GradientPartial { .. }
            | Purpose::Weights { .. }
            | Purpose::SeatWeights { .. } => devices.compute,
        };
        assert_eq!(header.elements, payload.elements(), "a header says what follows");
        let values = payload.gather();
        if let Some(half) = half(header.dtype) {
            let fits = |x: &f32| x.is_nan() || half.nearest(*x).to_bits() == x.to_bits();
            assert!(values.iter().all(fits), "what goes in halves is rounded: {:?}", header.purpose);
        }
        let mut buffer = device.arena().alloc(Tag::Communication, values.len()).expect("within the budget");
        buffer.host_visible_mut().expect("on the host").copy_from_slice(&values);
        holder.cast(HolderMsg::Arrived(header, buffer)).map_err(|e| LinkError::Unreachable(e.to_string()))
    }
}

impl Outside for Wire {
    fn tell_engine(&self, _: JobId, message: FromNode) {
        if self.peer(self.node).is_ok() {
            let _ = self.engine.send((self.node, message));
        }
    }

    fn ask(&self, peer: NodeId, message: ToPeer) -> BoxFuture<'static, Result<(), LinkError>> {
        let asked = self.peer(peer).and_then(|(holder, _)| {
            holder.cast(HolderMsg::Asked(self.node, message)).map_err(|e| LinkError::Unreachable(e.to_string()))
        });
        Box::pin(async move { asked })
    }

    fn send(&self, peer: NodeId, header: Header, payload: Payload) -> BoxFuture<'static, Result<(), LinkError>> {
        let sent = self.deliver(peer, header, &payload);
        Box::pin(async move { sent })
    }

    fn fence(&self, _: JobId, generation: Generation) {
        *self.floor.lock().unwrap_or_else(PoisonError::into_inner) = generation;
    }

    fn traffic(&self, _: JobId) -> Vec<TrafficLine> {
        Vec::new()
    }
}

/// Some nodes and the engine.
pub(super) struct Cluster {
    pub(super) engine: Engine,
    pub(super) records: Vec<Record>,
    /// Messages of nodes so far.
    pub(super) heard: usize,
    job: Arc<Job>,
    table: Arc<ModelTable>,
    started: Instant,
    wakes: BTreeSet<Instant>,
    hub: Hub,
    inbox: mpsc::UnboundedReceiver<(NodeId, FromNode)>,
    outbox: mpsc::UnboundedSender<(NodeId, FromNode)>,
    leaves: Vec<PieceLeaves>,
    dirs: TempDir,
}

/// What two runs of one job must agree on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ending {
    pub(super) ledger: Digest,
    pub(super) state: Digest,
}

impl Cluster {
    pub(super) fn new(job: Arc<Job>) -> Self {
        Self::with_timing(job, Timing { gather: 0, ..Timing::default() })
    }

    pub(super) fn with_timing(job: Arc<Job>, timing: Timing) -> Self {
        let table = Arc::new(ModelTable::of_job(&job.spec));
        let setup = Setup { job: Arc::clone(&job), table: Arc::clone(&table), incarnation: 1, timing };
        let (outbox, inbox) = mpsc::unbounded_channel();
        Self {
            engine: Engine::new(setup),
            records: Vec::new(),
            heard: 0,
            job,
            table,
            started: Instant::now(),
            wakes: BTreeSet::new(),
            hub: Hub::default(),
            inbox,
            outbox,
            leaves: Vec::new(),
            dirs: TempDir::new().expect("a temp dir"),
        }
    }

    /// A new process.
    pub(super) async fn join(&mut self, node: u64) {
        let node = NodeId(node);
        let devices = Devices::start(&node.to_string(), Class::detect(), 1, BUDGET).expect("a device");
        let (hub, engine) = (Arc::clone(&self.hub), self.outbox.clone());
        let args = HolderArgs {
            node,
            id: JOB,
            job: Arc::clone(&self.job),
            devices: devices.clone(),
            outside: Arc::new(Wire { node, hub, engine, floor: Arc::default() }),
            shelf: Shelf::open(&self.dirs.path().join(node.to_string())).expect("a shelf"),
        };
        let (holder, _) = Actor::spawn(None, HolderActor, args).await.expect("the holder starts");
        let offer = Offer {
            budget_bytes: BUDGET,
            threads: 1,
            class: devices.compute.class().to_owned(),
            arithmetic: devices.compute.arithmetic(),
        };
        self.hub.lock().unwrap_or_else(PoisonError::into_inner).insert(node, (holder, devices));
        self.feed(Event::Joined { node, offer });
    }

    /// A process dies: its memory is gone at once, the others hear of it.
    pub(super) fn kill(&mut self, node: u64) {
        let node = NodeId(node);
        let gone = self.hub.lock().unwrap_or_else(PoisonError::into_inner).remove(&node);
        gone.expect("it lived").0.kill();
        self.feed(Event::Lost { node, cause: LossCause::Died });
    }

    pub(super) fn holder(&self, node: u64) -> ActorRef<HolderMsg> {
        let hub = self.hub.lock().unwrap_or_else(PoisonError::into_inner);
        hub.get(&NodeId(node)).expect("it lives").0.clone()
    }

    pub(super) fn devices(&self, node: u64) -> Devices {
        let hub = self.hub.lock().unwrap_or_else(PoisonError::into_inner);
        hub.get(&NodeId(node)).expect("it lives").1.clone()
    }

    /// Most bytes that a node's arenas ever held: device, host.
    pub(super) fn high(&self, node: u64) -> (u64, u64) {
        let devices = self.devices(node);
        (devices.compute.arena().total().high, devices.store.arena().total().high)
    }

    /// What the planner counts for the plan in force.
    pub(super) fn counted(&self) -> BTreeMap<NodeId, NodeBytes> {
        memory::of_plan(self.engine.plan().expect("there is a plan"), &self.job.spec, &self.table)
    }

    pub(super) fn feed(&mut self, event: Event) {
        let mut events = std::collections::VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let now = Millis(self.started.elapsed().as_millis() as u64);
            for command in self.engine.handle(now, event) {
                match command {
                    Command::Send { node, message } => {
                        let hub = self.hub.lock().unwrap_or_else(PoisonError::into_inner);
                        if let Some((holder, _)) = hub.get(&node) {
                            let _ = holder.cast(HolderMsg::Engine(message));
                        }
                    }
                    Command::Journal(record) => self.records.push(record),
                    Command::Flush { mark } => events.push_back(Event::Flushed { mark }),
                    // Nobody here is a process of its own.
                    Command::Answer { .. } | Command::Dismiss { .. } => {}
                    Command::WakeAt(at) => {
                        self.wakes.insert(self.started + Duration::from_millis(at.0 + 1));
                    }
                }
            }
        }
    }

    /// Carries messages until something is so.
    pub(super) async fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while !is_so(self) {
            let state = self.engine.status().state;
            assert!(!state.is_over(), "waiting for {what}, the job ended as {state:?}");
            assert!(Instant::now() < deadline, "{what} did not come: {:?}\n{}", self.engine.status(), self.log());
            let wake = self.wakes.first().map_or(deadline, |wake| (*wake).min(deadline));
            tokio::select! {
                Some((node, message)) = self.inbox.recv() => {
                    if let FromNode::Persisted { leaves, .. } = &message {
                        self.leaves.extend(leaves.iter().cloned());
                    }
                    self.heard += 1;
                    self.feed(Event::From { node, message });
                }
                () = tokio::time::sleep_until(wake.into()) => {
                    self.wakes.pop_first();
                    self.feed(Event::Tick);
                }
            }
        }
    }

    pub(super) async fn until_step(&mut self, step: u64) {
        self.until(&format!("step {step}"), |cluster| cluster.engine.status().step >= step).await;
    }

    /// Runs until nothing will ever happen again, however it ends.
    pub(super) async fn until_over(&mut self) {
        self.until("any end", |cluster| cluster.engine.status().state.is_over()).await;
    }

    /// Runs to the end.
    pub(super) async fn ending(mut self) -> Ending {
        self.until("the end", |cluster| cluster.engine.status().state == State::Done).await;
        let entries: Vec<&LedgerEntry> = self.entries().collect();
        assert_eq!(entries.len() as u64, self.job.spec.train.steps, "every step is committed once");
        let ledger = entries.last().expect("there are steps").hash();
        let state = digest::assemble(&self.table, &self.leaves).expect("everything was written, and agrees");
        Ending { ledger, state }
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &LedgerEntry> {
        self.records.iter().filter_map(|record| match record {
            Record::Committed(entry) => Some(entry),
            _ => None,
        })
    }

    /// What a person would be told.
    pub(super) fn log(&self) -> String {
        let lines = self.records.iter().filter_map(|record| match record {
            Record::Happened(happening) => Some(format!("{}: {happening}", happening.kind())),
            _ => None,
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}
