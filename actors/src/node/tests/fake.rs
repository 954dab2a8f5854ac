//! A worker against a coordinator that only says what the test says, and writes down what it hears.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use shoal_config::spec::Auto;
use shoal_exact::Arithmetic;
use shoal_plan::ids::{Generation, JobId, NodeId, StageIndex};
use shoal_plan::job::Job;
use shoal_plan::layout::{Plan, StagePlan};
use shoal_plan::ledger::Version;
use shoal_plan::protocol::{Deploy, FromNode, Inventory, Resolution, ToNode, Trouble};
use shoal_wire::control::{Answer, Control, FromWorker, Hello, Introduction, Peer, Question, ToWorker, VERSION, Who};
use tempfile::TempDir;
use tokio::sync::mpsc;

use crate::holder::tests::cluster::{Layout, job, text};
use crate::node::{self, NodeConfig, NodeEnd, NodeHandle};
use crate::transport::{Callee, Caller, ClusterCa, ConnectError, Endpoint, EndpointConfig, Inbound, NoBulk, PeerId};

const DEADLINE: Duration = Duration::from_secs(20);
const VALIDITY: Duration = Duration::from_secs(3600);
const JOB: JobId = JobId(4);

struct Fake {
    ca: ClusterCa,
    endpoint: Endpoint,
    inbound: mpsc::Receiver<Inbound>,
    node: NodeId,
    _dir: TempDir,
    job: Arc<Job>,
}

fn generation(number: u32) -> Generation {
    Generation { incarnation: 1, number }
}

fn fence(number: u32) -> ToNode {
    ToNode::Fence { generation: generation(number), members: vec![NodeId(1)], flushed: 0 }
}

impl Fake {
    /// A coordinator, and a worker that dials it.
    async fn new() -> (Self, NodeHandle) {
        let ca = ClusterCa::generate().expect("a CA");
        let identity = |name| ca.identity(name, VALIDITY).expect("an identity");
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listen = EndpointConfig::new(any, identity("coordinator"));
        let (endpoint, inbound) = Endpoint::bind(listen, Arc::new(NoBulk)).expect("a port");
        let (dir, address) = (TempDir::new().expect("a temp dir"), endpoint.local_address());
        let config = NodeConfig {
            name: "w".to_owned(),
            identity: identity("w"),
            listen: any,
            coordinator: Arc::new(move || Some(address)),
            data_dir: dir.path().join("w"),
            budget_bytes: 64 << 20,
            threads: 1,
            class: Auto::Auto,
        };
        let job = job(text(&dir), Layout::new(1, 1), 2);
        let worker = node::run(config).await.expect("the worker starts");
        (Self { ca, endpoint, inbound, node: NodeId(1), _dir: dir, job }, worker)
    }

    async fn inbound(&mut self) -> Inbound {
        tokio::time::timeout(DEADLINE, self.inbound.recv()).await.expect("in time").expect("the endpoint lives")
    }

    async fn knock(&mut self) -> Caller {
        loop {
            if let Inbound::Knock(caller) = self.inbound().await {
                return caller;
            }
        }
    }

    /// Lets the next caller in under a name and welcomes it.
    async fn welcome(&mut self, node: u64) -> Introduction {
        let caller = self.knock().await;
        let Who::Worker(introduction) = caller.hello().who.clone() else { panic!("{:?}", caller.hello()) };
        self.node = NodeId(node);
        let who = Who::Coordinator { incarnation: 1 };
        caller.admit(PeerId::Worker(self.node), Hello { protocol: VERSION, who });
        while !matches!(self.inbound().await, Inbound::PeerUp { .. }) {}
        self.tell(ToWorker::Welcome { node: self.node });
        introduction
    }

    fn tell(&self, message: ToWorker) {
        self.endpoint.send(PeerId::Worker(self.node), &Control::ToWorker(Box::new(message))).expect("the link is up");
    }

    fn give_job(&self) {
        self.tell(ToWorker::Job { id: JOB, job: Arc::clone(&self.job) });
    }

    fn say(&self, message: ToNode) {
        self.tell(ToWorker::Holder { job: JOB, message });
    }

    /// The next message of the worker that is no heartbeat.
    async fn heard(&mut self) -> FromWorker {
        loop {
            if let Inbound::Control { message: Control::FromWorker(message), .. } = self.inbound().await
                && !matches!(message, FromWorker::Heartbeat { .. })
            {
                return message;
            }
        }
    }

    async fn inventory(&mut self) -> Inventory {
        match self.heard().await {
            FromWorker::Holder { job: JOB, message: FromNode::Inventory(inventory) } => inventory,
            other => panic!("not an inventory: {other:?}"),
        }
    }
}

/// Another worker is let in by its own certificate only, and not before the coordinator has told of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_is_let_in_under_the_id_of_its_own_name() {
    let (mut fake, worker) = Fake::new().await;
    fake.welcome(1).await;
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let [(early, mut arrivals), (other, _)] = ["x", "y"].map(|name| {
        let identity = fake.ca.identity(name, VALIDITY).expect("an identity");
        Endpoint::bind(EndpointConfig::new(any, identity), Arc::new(NoBulk)).expect("a port")
    });
    let callee = Callee::worker(NodeId(1), "w");
    let hello = Hello { protocol: VERSION, who: Who::Peer(NodeId(2)) };
    let connect = early.connect(callee.clone(), worker.address(), hello.clone());
    let told = async {
        let peer = Peer { node: NodeId(2), name: "x".to_owned(), address: early.local_address() };
        fake.tell(ToWorker::Peers(vec![peer]));
    };
    let (connected, ()) = tokio::join!(connect, told);
    connected.expect("its turn comes when it is known");
    assert!(matches!(arrivals.recv().await, Some(Inbound::PeerUp { peer: PeerId::Worker(NodeId(1)), .. })));
    let refused = other.connect(callee, worker.address(), hello).await;
    let Err(ConnectError::Refused { reason, .. }) = refused else { panic!("{refused:?}") };
    assert!(reason.contains("n2 is worker x") && reason.contains("worker y"), "{reason}");
}

async fn end(worker: &mut NodeHandle) -> NodeEnd {
    tokio::time::timeout(DEADLINE, worker.ended()).await.expect("it ends in time")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_introduces_itself_beats_and_comes_back_under_its_name() {
    let (mut fake, mut worker) = Fake::new().await;
    let introduction = fake.welcome(1).await;
    assert_eq!((introduction.name.as_str(), introduction.node, introduction.threads), ("w", None, 1));
    assert_eq!((introduction.address, introduction.budget_bytes), (worker.address(), 64 << 20));
    let mut beats = Vec::new();
    while beats.len() < 3 {
        if let Inbound::Control { message: Control::FromWorker(FromWorker::Heartbeat { number, used_bytes }), .. } =
            fake.inbound().await
        {
            assert!(used_bytes > 0, "the device's scratch is there");
            beats.push(number);
        }
    }
    assert!(beats.windows(2).all(|pair| pair[0] < pair[1]), "{beats:?}");

    fake.give_job();
    fake.say(fence(1));
    assert_eq!(fake.inventory().await.seen, Generation::default());
    fake.endpoint.disconnect(PeerId::Worker(NodeId(1)), "the coordinator restarts");
    assert_eq!(fake.welcome(1).await.node, Some(NodeId(1)));
    // The books have outlived the link.
    fake.say(fence(2));
    assert_eq!(fake.inventory().await.seen, generation(1));

    fake.tell(ToWorker::Shutdown);
    assert_eq!(end(&mut worker).await, NodeEnd::Shutdown);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_another_name_a_worker_starts_afresh() {
    let (mut fake, _worker) = Fake::new().await;
    fake.welcome(1).await;
    fake.give_job();
    fake.say(fence(7));
    assert_eq!(fake.inventory().await.generation, generation(7));
    fake.endpoint.disconnect(PeerId::Worker(NodeId(1)), "lost");
    assert_eq!(fake.welcome(2).await.node, Some(NodeId(1)));
    fake.give_job();
    fake.say(fence(1));
    let inventory = fake.inventory().await;
    assert_eq!((inventory.generation, inventory.seen), (generation(1), Generation::default()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_fails_is_told_and_replaced_by_an_empty_one() {
    let (mut fake, _worker) = Fake::new().await;
    fake.welcome(1).await;
    fake.give_job();
    fake.say(fence(1));
    assert_eq!(fake.inventory().await.generation, generation(1));
    // No planner makes such a plan: its stage has blocks that the model has not.
    let stage = StagePlan { blocks: 0..99, seats: vec![NodeId(1)] };
    let plan = Plan {
        arithmetic: Arithmetic::Fused,
        schedule: shoal_config::spec::Schedule::GPipe,
        stages: vec![stage],
        lanes: std::iter::once(0..4).collect(),
        pieces: Vec::new(),
        spares: Vec::new(),
    };
    assert_eq!(plan.stage_of(shoal_plan::ids::BlockId(0)), StageIndex(0));
    fake.say(ToNode::Deploy(Box::new(Deploy {
        generation: generation(1),
        resolve: Resolution::Initialise,
        attempt: generation(0),
        version: Version { step: 0, chain: fake.job.genesis(Arithmetic::Fused) },
        plan: Arc::new(plan),
        fetches: Vec::new(),
        unfilled: Vec::new(),
    })));
    match fake.heard().await {
        FromWorker::Holder { job: JOB, message: FromNode::Trouble { generation: of, trouble } } => {
            assert_eq!(of, generation(1));
            assert!(matches!(trouble, Trouble::HoldingLost { .. }), "{trouble:?}");
        }
        other => panic!("no trouble: {other:?}"),
    }
    fake.say(fence(2));
    let inventory = fake.inventory().await;
    assert_eq!((inventory.seen, inventory.holdings), (Generation::default(), Vec::new()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_answers_what_it_can_and_leaves_when_it_may() {
    let (mut fake, mut worker) = Fake::new().await;
    fake.welcome(1).await;
    for (request, question) in [(1, Question::Report { job: JOB }), (2, Question::Manifest { job: JOB })] {
        fake.tell(ToWorker::Ask { request, question });
        match fake.heard().await {
            FromWorker::Answer { request: of, answer: Answer::Refused(reason) } => {
                assert_eq!(of, request);
                assert!(reason.contains("nothing is written here for j4"), "{reason}");
            }
            other => panic!("not a refusal: {other:?}"),
        }
    }
    worker.leave();
    assert_eq!(fake.heard().await, FromWorker::Leaving);
    fake.tell(ToWorker::Shutdown);
    assert_eq!(end(&mut worker).await, NodeEnd::Left);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_refused_at_the_door_says_why() {
    let (mut fake, mut worker) = Fake::new().await;
    fake.knock().await.refuse("a worker named w is in the cluster already");
    let NodeEnd::Failed { reason } = end(&mut worker).await else { panic!("it has failed") };
    assert!(reason.contains("a worker named w is in the cluster already"), "{reason}");
}
