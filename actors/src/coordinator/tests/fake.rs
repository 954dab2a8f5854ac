//! A coordinator over real loopback transport, with workers that say what the test tells them to.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ractor::rpc::CallResult;
use ractor::{Actor, ActorRef};
use shoal_config::JobSpec;
use shoal_exact::Arithmetic;
use shoal_plan::ids::NodeId;
use shoal_wire::api::NodeInfo;
use shoal_wire::control::{Control, FromWorker, Hello, Introduction, ToWorker, VERSION, Who};
use shoal_wire::journal::Entry;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::timeout;

use crate::coordinator::{
    CoordinatorActor, CoordinatorArgs, CoordinatorMsg, Journal, JournalError, MemoryJournal, Patience, Read, Reply,
    RequestError,
};
use crate::transport::{Callee, ClusterCa, ConnectError, DownCause, Endpoint, EndpointConfig, Inbound, NoBulk, PeerId};

/// Generous: two cores may be busy with other tests.
pub(super) const DEADLINE: Duration = Duration::from_secs(60);
const VALIDITY: Duration = Duration::from_secs(3600);

/// A journal whose flushes wait until they are let through.
#[derive(Debug)]
pub(super) struct Gate {
    kept: MemoryJournal,
    /// Flushes that may pass.
    pub(super) open: Semaphore,
    /// Flushes that were asked for.
    pub(super) asked: watch::Sender<u64>,
}

impl Gate {
    /// Lets everything through.
    pub(super) fn open() -> Arc<Self> {
        let open = Semaphore::new(Semaphore::MAX_PERMITS);
        Arc::new(Self { kept: MemoryJournal::default(), open, asked: watch::Sender::new(0) })
    }

    /// Holds flushes from now on. What comes back sees those that are asked for later.
    pub(super) fn close(&self) -> watch::Receiver<u64> {
        self.open.forget_permits(Semaphore::MAX_PERMITS);
        self.asked.subscribe()
    }
}

impl Journal for Gate {
    fn load(&self) -> Result<Vec<Entry>, JournalError> {
        self.kept.load()
    }

    fn append(&self, entry: &Entry) -> Result<(), JournalError> {
        self.kept.append(entry)
    }

    fn flush(&self) -> Result<(), JournalError> {
        self.asked.send_modify(|asked| *asked += 1);
        let pass = self.open.acquire();
        let pass = tokio::runtime::Handle::current().block_on(pass).map_err(|e| JournalError::Flush(Box::new(e)))?;
        pass.forget();
        Ok(())
    }
}

/// A coordinator.
pub(super) struct Stage {
    pub(super) ca: ClusterCa,
    pub(super) journal: Arc<Gate>,
    pub(super) actor: ActorRef<CoordinatorMsg>,
    pub(super) address: SocketAddr,
    /// Counts up with whatever its readers might see.
    changes: watch::Receiver<u64>,
}

impl Stage {
    pub(super) async fn up(patience: Patience) -> Self {
        let ca = ClusterCa::generate().expect("a CA");
        let journal = Gate::open();
        let (actor, address, changes) = start(&ca, &journal, patience).await;
        Self { ca, journal, actor, address, changes }
    }

    /// The coordinator dies, and another one takes over from its journal.
    pub(super) async fn replace(&mut self) {
        self.actor.kill_and_wait(Some(DEADLINE)).await.expect("it ends");
        (self.actor, self.address, self.changes) = start(&self.ca, &self.journal, Patience::default()).await;
    }

    /// Waits until that holds, looking again whenever anything has changed.
    pub(super) async fn until(&self, what: &str, holds: impl AsyncFn() -> bool) {
        let mut changes = self.changes.clone();
        let wait = async {
            while !holds().await {
                changes.changed().await.expect("the coordinator lives");
            }
        };
        timeout(DEADLINE, wait).await.unwrap_or_else(|_| panic!("{what} did not come true"));
    }

    pub(super) async fn ask<T: Send + 'static>(
        &self,
        message: impl FnOnce(Reply<T>) -> CoordinatorMsg,
    ) -> Result<T, RequestError> {
        match self.actor.call(message, Some(DEADLINE)).await {
            Ok(CallResult::Success(answer)) => answer,
            Ok(CallResult::Timeout | CallResult::SenderError) | Err(_) => panic!("the coordinator does not answer"),
        }
    }

    pub(super) async fn nodes(&self) -> Vec<NodeInfo> {
        self.ask(|reply| CoordinatorMsg::Read(Read::Nodes(reply))).await.expect("always answered")
    }

    /// A worker that introduces itself and waits to be welcomed.
    pub(super) async fn worker(&self, name: &str) -> Fake {
        let mut fake = Fake::new(&self.ca, name);
        fake.knock(self.address, None).await.expect("let in");
        fake
    }

    /// One whose processor does not fuse multiply and add.
    pub(super) async fn plain_worker(&self, name: &str) -> Fake {
        let mut fake = Fake { arithmetic: Arithmetic::Plain, ..Fake::new(&self.ca, name) };
        fake.knock(self.address, None).await.expect("let in");
        fake
    }
}

async fn start(
    ca: &ClusterCa,
    journal: &Arc<Gate>,
    patience: Patience,
) -> (ActorRef<CoordinatorMsg>, SocketAddr, watch::Receiver<u64>) {
    let identity = ca.identity("coordinator", VALIDITY).expect("an identity");
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let (endpoint, inbound) = Endpoint::bind(EndpointConfig::new(listen, identity), Arc::new(NoBulk)).expect("binds");
    let address = endpoint.local_address();
    let (changes, seen) = watch::channel(0);
    let journal: Arc<dyn Journal> = Arc::clone(journal) as _;
    let args = CoordinatorArgs { endpoint, inbound, journal, changes, patience };
    let (actor, _) = Actor::spawn(None, CoordinatorActor, args).await.expect("starts");
    (actor, address, seen)
}

/// A worker that says what it is told to.
pub(super) struct Fake {
    name: String,
    pub(super) node: NodeId,
    arithmetic: Arithmetic,
    endpoint: Endpoint,
    inbound: mpsc::Receiver<Inbound>,
}

impl Fake {
    pub(super) fn new(ca: &ClusterCa, name: &str) -> Self {
        let identity = ca.identity(name, VALIDITY).expect("an identity");
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let config = EndpointConfig::new(listen, identity);
        let (endpoint, inbound) = Endpoint::bind(config, Arc::new(NoBulk)).expect("binds");
        Self { name: name.to_owned(), node: NodeId(0), arithmetic: Arithmetic::Fused, endpoint, inbound }
    }

    /// Introduces itself, perhaps with an id from before, and takes the id it is welcomed with.
    pub(super) async fn knock(&mut self, coordinator: SocketAddr, had: Option<NodeId>) -> Result<(), ConnectError> {
        let introduction = Introduction {
            node: had,
            name: self.name.clone(),
            address: self.endpoint.local_address(),
            pid: std::process::id(),
            budget_bytes: 64 << 20,
            threads: 1,
            class: "portable".to_owned(),
            arithmetic: self.arithmetic,
            written: Vec::new(),
        };
        let hello = Hello { protocol: VERSION, who: Who::Worker(introduction) };
        self.endpoint.connect(Callee::coordinator(), coordinator, hello).await?;
        self.node = self
            .until("a welcome", |message| match message {
                ToWorker::Welcome { node } => Some(node),
                _ => None,
            })
            .await;
        Ok(())
    }

    pub(super) fn say(&self, message: FromWorker) {
        self.endpoint.send(PeerId::Coordinator, &Control::FromWorker(message)).expect("linked");
    }

    /// Reads until a message fits.
    pub(super) async fn until<T>(&mut self, what: &str, fits: impl Fn(ToWorker) -> Option<T>) -> T {
        let read = async {
            loop {
                match self.inbound.recv().await.expect("the endpoint lives") {
                    Inbound::Control { from: PeerId::Coordinator, message: Control::ToWorker(message) } => {
                        if let Some(found) = fits(*message) {
                            return found;
                        }
                    }
                    Inbound::PeerDown { cause, .. } => panic!("waiting for {what}, the link broke: {cause}"),
                    _ => {}
                }
            }
        };
        timeout(DEADLINE, read).await.unwrap_or_else(|_| panic!("{what} did not come"))
    }

    /// Everything that has been said by the time an answer to a heartbeat is back.
    pub(super) async fn drain(&mut self) -> Vec<ToWorker> {
        self.say(FromWorker::Heartbeat { number: 99, used_bytes: 7 });
        let mut said = Vec::new();
        loop {
            let message = self.until("an answer to a heartbeat", Some).await;
            if message == (ToWorker::HeartbeatAck { number: 99 }) {
                return said;
            }
            said.push(message);
        }
    }

    /// Reads until the link is down.
    pub(super) async fn down(&mut self) -> DownCause {
        let read = async {
            loop {
                if let Inbound::PeerDown { cause, .. } = self.inbound.recv().await.expect("the endpoint lives") {
                    return cause;
                }
            }
        };
        timeout(DEADLINE, read).await.expect("the link goes down")
    }
}

/// A small job whose text lies in `dir`.
pub(super) fn spec(dir: &Path, extra: &str) -> JobSpec {
    std::fs::write(dir.join("text.txt"), "every single fish may vanish\n".repeat(200)).expect("written");
    let text = format!(
        "name = \"small\"\n[model]\nkind = \"gpt2\"\nlayers = 2\nheads = 2\nwidth = 32\ncontext = 16\nvocab = \"bytes\"\n\
         [data]\nkind = \"text\"\npath = \"text.txt\"\n[train]\nsteps = 5\nglobal_batch = 4\n{extra}"
    );
    shoal_config::job::parse(&text, "job.toml", dir).expect("a good job file")
}
