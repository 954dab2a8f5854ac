//! What the transport carries on loopback, beside a plain TCP stream in the same run.
//!
//! `cargo bench -p shoal-actors --bench transport`; a number as argument sets the rounds. Both ends are in this process, each
//! on threads of its own; rounds of TCP and QUIC alternate, so that whatever else the machine does hits both. On a busy
//! machine the processor seconds per GB (both ends together) tell more than the rate.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use shoal_actors::transport::pki::NODE_VALIDITY;
use shoal_actors::transport::{
    BulkSink, Callee, ClusterCa, Destination, Endpoint, EndpointConfig, Inbound, Payload, PeerId, Refused,
};
use shoal_config::spec::Dtype;
use shoal_plan::ids::{Generation, JobId, NodeId, PieceId};
use shoal_wire::control::{Control, FromWorker, Hello, VERSION, Who};
use shoal_wire::data::{Header, Purpose};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

const MIB: usize = 1 << 20;
/// Bytes of one round.
const ROUND: usize = 512 * MIB;

struct Vectors;

impl BulkSink for Vectors {
    fn accept(&self, header: &Header) -> Result<Destination, Refused> {
        Ok(Box::new(vec![0f32; header.elements as usize]))
    }
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn loopback() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

fn hello(number: u64) -> Hello {
    Hello { protocol: VERSION, who: Who::Peer(NodeId(number)) }
}

fn worker(number: u64) -> PeerId {
    PeerId::Worker(NodeId(number))
}

/// Two connected endpoints; everything that arrives at the second is counted by `arrived`, heartbeats are sent back.
fn endpoints() -> (Endpoint, mpsc::Receiver<Inbound>, Endpoint) {
    let ca = ClusterCa::generate().expect("a cluster");
    let bind = |number: u64| {
        let identity = ca.identity(&number.to_string(), NODE_VALIDITY).expect("an identity");
        Endpoint::bind(EndpointConfig::new(loopback(), identity), Arc::new(Vectors)).expect("a free port")
    };
    let ((a, mut at_a), (b, mut at_b)) = (bind(1), bind(2));
    let answering = b.clone();
    std::thread::spawn(move || {
        while let Some(event) = at_b.blocking_recv() {
            match event {
                Inbound::Knock(caller) => caller.admit(worker(1), hello(2)),
                Inbound::Control { from, message } => answering.send(from, &message).expect("connected"),
                Inbound::Bulk { .. } | Inbound::PeerUp { .. } | Inbound::PeerDown { .. } | Inbound::Rejected { .. } => {
                }
            }
        }
    });
    runtime().block_on(a.connect(Callee::worker(NodeId(2), "2"), b.local_address(), hello(1))).expect("a connection");
    assert!(matches!(at_a.blocking_recv(), Some(Inbound::PeerUp { .. })));
    (a, at_a, b)
}

/// One round of transfers of `bytes` each, `open` at a time.
fn quic(a: &Endpoint, source: &Arc<Vec<f32>>, bytes: usize, open: usize) -> Duration {
    let header = Header {
        job: JobId(1),
        generation: Generation::default(),
        from: NodeId(1),
        step: 0,
        purpose: Purpose::Weights { piece: PieceId(0) },
        elements: (bytes / 4) as u64,
        dtype: Dtype::F32,
    };
    runtime().block_on(async {
        let started = Instant::now();
        let senders: Vec<_> = (0..open)
            .map(|_| {
                let (a, header, source) = (a.clone(), header.clone(), Arc::clone(source));
                let payload = move || Payload::ranges(source.clone(), std::iter::once(0..bytes / 4).collect());
                tokio::spawn(async move {
                    for _ in 0..ROUND / bytes / open {
                        a.send_bulk(worker(2), header.clone(), payload()).await.expect("it arrives");
                    }
                })
            })
            .collect();
        for sender in senders {
            sender.await.expect("no panic");
        }
        started.elapsed()
    })
}

/// One round of messages of `bytes` over one connection, each answered with a byte, into fresh buffers as with QUIC.
fn tcp(source: &Arc<Vec<f32>>, bytes: usize) -> Duration {
    let (tell, address) = std::sync::mpsc::channel();
    let receiver = std::thread::spawn(move || {
        runtime().block_on(async {
            let listener = TcpListener::bind(loopback()).await.expect("a free port");
            tell.send(listener.local_addr().expect("bound")).expect("waiting");
            let (mut stream, _) = listener.accept().await.expect("a caller");
            for _ in 0..ROUND / bytes {
                let mut buffer = vec![0f32; bytes / 4];
                stream.read_exact(bytemuck::cast_slice_mut(&mut buffer)).await.expect("it arrives");
                stream.write_all(&[1]).await.expect("it goes back");
            }
        });
    });
    let address = address.recv().expect("it listens");
    let elapsed = runtime().block_on(async {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        stream.set_nodelay(true).expect("a socket");
        let started = Instant::now();
        for _ in 0..ROUND / bytes {
            stream.write_all(bytemuck::cast_slice(&source[..bytes / 4])).await.expect("it arrives");
            stream.read_exact(&mut [0]).await.expect("an answer");
        }
        started.elapsed()
    });
    receiver.join().expect("no panic");
    elapsed
}

fn processor_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Round trips of a small control message, sorted.
fn round_trips(a: &Endpoint, at_a: &mut mpsc::Receiver<Inbound>) -> Vec<Duration> {
    let message = Control::FromWorker(FromWorker::Heartbeat { number: 1, used_bytes: 1 });
    let mut times: Vec<_> = (0..2000)
        .map(|_| {
            let started = Instant::now();
            a.send(worker(2), &message).expect("connected");
            assert!(matches!(at_a.blocking_recv(), Some(Inbound::Control { .. })));
            started.elapsed()
        })
        .collect();
    times.sort_unstable();
    times
}

fn main() {
    // `cargo bench` passes --bench; `cargo test --benches` does not, and only wants to know that it runs.
    let measured = std::env::args().any(|arg| arg == "--bench");
    let rounds = std::env::args().filter_map(|arg| arg.parse().ok()).next().unwrap_or(if measured { 5 } else { 0 });
    let (a, mut at_a, _b) = endpoints();
    let trips = round_trips(&a, &mut at_a);
    println!("control round trip: p50 {:?}, p99 {:?}", trips[trips.len() / 2], trips[trips.len() * 99 / 100]);
    let describe = || println!("{:?}", a.path(worker(2)).expect("connected"));
    describe();
    let source = Arc::new((0..16 * MIB / 4).map(|i| i as f32).collect::<Vec<_>>());
    let gigabytes = ROUND as f64 / 1e9;
    let measure = |round: &dyn Fn() -> Duration| {
        let before = processor_seconds();
        let rate = gigabytes / round().as_secs_f64();
        (rate, (processor_seconds() - before) / gigabytes)
    };
    for (bytes, open) in [(MIB, 1), (MIB, 4), (16 * MIB, 1), (16 * MIB, 4)] {
        let (mut over_quic, mut over_tcp) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            over_tcp.push(measure(&|| tcp(&source, bytes)));
            over_quic.push(measure(&|| quic(&a, &source, bytes, open)));
        }
        for (name, mut found) in [("tcp ", over_tcp), ("quic", over_quic)] {
            found.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
            if let (Some((least, _)), Some((most, _))) = (found.first(), found.last()) {
                let (median, _) = found[found.len() / 2];
                let cost = found.iter().map(|(_, cost)| cost).fold(f64::INFINITY, |least, cost| least.min(*cost));
                let mib = bytes / MIB;
                println!("{name} {mib:>2} MiB x {open}: {median:.2} GB/s ({least:.2} to {most:.2}), {cost:.2} s/GB");
            }
        }
        describe();
    }
}
