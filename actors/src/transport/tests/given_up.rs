//! Transfers that do not come to their end: fenced off, standing still, stopped.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};

use quinn::VarInt;
use shoal_plan::ids::{Generation, JobId};
use shoal_wire::data;
use shoal_wire::data::Header;
use shoal_wire::frame;

use super::bulk::{bulk_pair, header, received, values};
use super::*;

/// Holds the receiver's transport still while it is closed.
#[derive(Default)]
struct Gate {
    asked: AtomicU64,
    open: Mutex<bool>,
    opened: Condvar,
}

impl BulkSink for Gate {
    fn accept(&self, header: &Header) -> Result<Destination, Refused> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let open = self.open.lock().expect("no panic");
        let waited = self.opened.wait_timeout_while(open, DEADLINE, |open| !*open).expect("no panic");
        assert!(!waited.1.timed_out(), "the test opens the gate");
        Ok(Box::new(vec![0.0; header.elements as usize]))
    }
}

async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let waiting = async {
        while !done() {
            tokio::task::yield_now().await;
        }
    };
    timeout(DEADLINE, waiting).await.expect(what);
}

/// A fence at the sender resets what is under way; the receiver never sees it, and the buffer is free.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fence_cancels_transfers_under_way() {
    let ca = ClusterCa::generate().expect("a cluster");
    let gate = Arc::new(Gate::default());
    let mut a = End::with(&ca, 1, Arc::new(NoBulk), |c| c.timing.idle = DEADLINE);
    let mut b = End::with(&ca, 2, Arc::clone(&gate) as Arc<dyn BulkSink>, |c| c.timing.idle = DEADLINE);
    join(&mut a, &mut b).await;
    let elements = 6 << 20;
    let source: Arc<dyn BulkSource> = Arc::new(values(3, elements));
    let sends: Vec<_> = (0..4)
        .map(|step| {
            let (endpoint, payload) = (a.endpoint.clone(), Payload::whole(Arc::clone(&source)));
            let header = header(1, step, elements as u64);
            tokio::spawn(async move { endpoint.send_bulk(worker(2), header, payload).await })
        })
        .collect();
    until("the receiver is asked", || gate.asked.load(Ordering::Relaxed) > 0).await;
    let next = Generation { incarnation: 1, number: 4 };
    a.endpoint.fence(JobId(1), next);
    for send in sends {
        let sent = timeout(DEADLINE, send).await.expect("a fence ends every wait").expect("no panic");
        assert_eq!(sent, Err(BulkError::Fenced));
    }
    *gate.open.lock().expect("no panic") = true;
    gate.opened.notify_all();
    let late = a.endpoint.send_bulk(worker(2), header(1, 0, 1), Payload::whole(Arc::new(vec![1.0]))).await;
    assert_eq!(late, Err(BulkError::Fenced), "an older generation stays out");
    let mut newer = header(1, 999, 1);
    newer.generation = next;
    let send = a.endpoint.send_bulk(worker(2), newer, Payload::whole(Arc::new(vec![1.0])));
    let (sent, (arrived, _)) = tokio::join!(send, received(&mut b));
    assert_eq!((sent, arrived.step), (Ok(()), 999), "nothing of the old generation was delivered");
    until("a reset transfer lets go of its buffer", || Arc::strong_count(&source) == 1).await;
}

/// A receiver that does nothing any more while its link stays up: the transfer ends by itself, and the buffer is free.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_that_stands_still_is_given_up() {
    const WAIT: Duration = Duration::from_millis(300);
    let ca = ClusterCa::generate().expect("a cluster");
    let gate = Arc::new(Gate::default());
    let mut a = End::with(&ca, 1, Arc::new(NoBulk), |c| {
        c.timing.idle = DEADLINE;
        c.timing.progress = WAIT;
    });
    let mut b = End::with(&ca, 2, Arc::clone(&gate) as Arc<dyn BulkSink>, |c| c.timing.idle = DEADLINE);
    join(&mut a, &mut b).await;
    let elements = 6 << 20;
    let source: Arc<dyn BulkSource> = Arc::new(values(3, elements));
    let send = a.endpoint.send_bulk(worker(2), header(1, 0, elements as u64), Payload::whole(Arc::clone(&source)));
    let sent = timeout(DEADLINE, send).await.expect("it ends by itself");
    assert_eq!(sent, Err(BulkError::Stalled { peer: worker(2), waited: WAIT }));
    until("a transfer that was given up lets go of its buffer", || Arc::strong_count(&source) == 1).await;
    *gate.open.lock().expect("no panic") = true;
    gate.opened.notify_all();
    let send = a.endpoint.send_bulk(worker(2), header(1, 1, 1), Payload::whole(Arc::new(vec![1.0])));
    let (sent, (arrived, _)) = tokio::join!(send, received(&mut b));
    assert_eq!((sent, arrived.step), (Ok(()), 1), "the link is as good as before");
}

/// Gives buffers that show whether they are still held.
#[derive(Default)]
struct Lent {
    accepted: AtomicU64,
    held: Arc<()>,
}

struct Loan {
    elements: Vec<f32>,
    _held: Arc<()>,
}

impl BulkTarget for Loan {
    fn elements_mut(&mut self) -> &mut [f32] {
        &mut self.elements
    }

    fn into_any(self: Box<Self>) -> Box<dyn std::any::Any + Send> {
        self
    }
}

impl BulkSink for Lent {
    fn accept(&self, header: &Header) -> Result<Destination, Refused> {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(Loan { elements: vec![0.0; header.elements as usize], _held: Arc::clone(&self.held) }))
    }
}

/// A sender that goes no further while its link stays up: the receiver lets go of what it holds for it.
#[tokio::test]
async fn a_transfer_that_stops_coming_is_let_go() {
    let ca = ClusterCa::generate().expect("a cluster");
    let sink = Arc::new(Lent::default());
    let mut a = End::new(&ca, 1);
    let mut b = End::with(&ca, 2, Arc::clone(&sink) as Arc<dyn BulkSink>, |c| {
        c.timing.progress = Duration::from_millis(300);
    });
    join(&mut a, &mut b).await;
    let connection = a.link(2).connection.clone();
    let head = frame::encode(data::VERSION, frame::MAX_HEADER_BYTES, &header(1, 0, 2)).expect("a frame");
    let [mut half, mut nothing] =
        [connection.open_uni().await.expect("a stream"), connection.open_uni().await.expect("a stream")];
    half.write_all(&[&head[..], &[0; 4]].concat()).await.expect("written");
    nothing.write_all(&head[..3]).await.expect("written");
    until("the receiver has taken a buffer", || sink.accepted.load(Ordering::Relaxed) == 1).await;
    for stream in [&half, &nothing] {
        let code = timeout(DEADLINE, stream.stopped()).await.expect("in time").expect("the connection lives");
        assert_eq!(code, Some(VarInt::from_u32(Refused::Stalled.code())));
    }
    until("the receiver lets go of it", || Arc::strong_count(&sink.held) == 1).await;
}

/// A fence at the receiver refuses what was under way and what comes later.
#[tokio::test]
async fn a_fence_at_the_receiver_refuses_the_old_generation() {
    let (a, mut b, sink) = bulk_pair().await;
    b.endpoint.fence(JobId(1), Generation { incarnation: 2, number: 0 });
    let old =
        a.endpoint.send_bulk(worker(2), header(1, 0, 8 << 20), Payload::whole(Arc::new(values(1, 8 << 20)))).await;
    assert_eq!(old, Err(BulkError::Refused { peer: worker(2), reason: Refused::Stale }));
    assert_eq!(sink.accepted.load(Ordering::Relaxed), 0, "the sink is not even asked");
    let mut other_job = header(1, 5, 1);
    other_job.job = JobId(2);
    a.endpoint.send_bulk(worker(2), other_job, Payload::whole(Arc::new(vec![1.0]))).await.expect("it arrives");
    assert_eq!(received(&mut b).await.0.job, JobId(2));
}
