//! Endpoints on loopback, in one process; and in two where one has to die.

mod bulk;
mod control;
mod death;
mod given_up;
mod half;
mod meeting;
mod trust;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use shoal_plan::ids::NodeId;
use shoal_wire::control::{self as wire, Control, FromWorker, Hello, Who};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::quic::Configs;
use super::*;

/// Longer than anything here takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(20);

fn loopback() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

fn worker(number: u64) -> PeerId {
    PeerId::Worker(NodeId(number))
}

fn callee(number: u64) -> Callee {
    Callee::worker(NodeId(number), format!("node-{number}"))
}

fn hello(number: u64) -> Hello {
    Hello { protocol: wire::VERSION, who: Who::Peer(NodeId(number)) }
}

fn identity(ca: &ClusterCa, number: u64) -> Identity {
    ca.identity(&format!("node-{number}"), pki::NODE_VALIDITY).expect("an identity")
}

fn heartbeat(number: u64) -> Control {
    Control::FromWorker(FromWorker::Heartbeat { number, used_bytes: 7 })
}

/// One worker's endpoint that lets in every peer by the name it gives.
struct End {
    endpoint: Endpoint,
    inbound: mpsc::Receiver<Inbound>,
    number: u64,
}

impl End {
    fn with(ca: &ClusterCa, number: u64, sink: Arc<dyn BulkSink>, adjust: impl FnOnce(&mut EndpointConfig)) -> Self {
        let mut config = EndpointConfig::new(loopback(), identity(ca, number));
        adjust(&mut config);
        let (endpoint, inbound) = Endpoint::bind(config, sink).expect("a free port");
        Self { endpoint, inbound, number }
    }

    fn new(ca: &ClusterCa, number: u64) -> Self {
        Self::with(ca, number, Arc::new(NoBulk), |_| {})
    }

    fn address(&self) -> SocketAddr {
        self.endpoint.local_address()
    }

    /// Dials another end. Borrows neither while it waits.
    fn connect(&self, to: &Self) -> impl Future<Output = Result<(), ConnectError>> + use<> {
        let (endpoint, callee, address, hello) =
            (self.endpoint.clone(), callee(to.number), to.address(), hello(self.number));
        async move { endpoint.connect(callee, address, hello).await }
    }

    /// The next thing but a knock, which is admitted.
    async fn next(&mut self) -> Inbound {
        loop {
            match timeout(DEADLINE, self.inbound.recv()).await.expect("something arrives in time") {
                Some(Inbound::Knock(caller)) => {
                    let Who::Peer(node) = caller.hello().who else { panic!("{:?}", caller.hello()) };
                    caller.admit(PeerId::Worker(node), hello(self.number));
                }
                Some(other) => return other,
                None => panic!("the endpoint is gone"),
            }
        }
    }

    async fn up(&mut self) -> PeerId {
        match self.next().await {
            Inbound::PeerUp { peer, .. } => peer,
            other => panic!("expected PeerUp, found {other:?}"),
        }
    }

    async fn down(&mut self) -> DownCause {
        match self.next().await {
            Inbound::PeerDown { cause, .. } => cause,
            other => panic!("expected PeerDown, found {other:?}"),
        }
    }

    async fn heard(&mut self) -> u64 {
        match self.next().await {
            Inbound::Control { message: Control::FromWorker(FromWorker::Heartbeat { number, .. }), .. } => number,
            other => panic!("expected a heartbeat, found {other:?}"),
        }
    }

    fn link(&self, to: u64) -> Arc<link::Link> {
        self.endpoint.shared().table().link(worker(to)).expect("a link")
    }
}

/// The transport's own QUIC, without anything above it.
fn raw_endpoint(identity: &Identity) -> (quinn::Endpoint, Configs, std::net::TcpListener) {
    let (udp, tcp, buffer) = quic::sockets(loopback()).expect("a free port");
    let configs = Configs::new(identity, &Timing::default(), buffer).expect("a configuration");
    let server = Arc::unwrap_or_clone(configs.server(true));
    let endpoint = quinn::Endpoint::new(quic::endpoint_config(), Some(server), udp, Arc::new(quinn::TokioRuntime));
    (endpoint.expect("an endpoint"), configs, tcp)
}

/// Connects `a` to `b`; both have reported it.
async fn join(a: &mut End, b: &mut End) {
    let connect = a.connect(b);
    let (connected, _) = tokio::join!(connect, b.up());
    connected.expect("a connection");
    assert_eq!(a.up().await, worker(b.number));
}

async fn pair() -> (End, End) {
    let ca = ClusterCa::generate().expect("a cluster");
    let (mut a, mut b) = (End::new(&ca, 1), End::new(&ca, 2));
    join(&mut a, &mut b).await;
    (a, b)
}
