use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use quinn::VarInt;
use shoal_config::spec::Dtype;
use shoal_plan::ids::{BlockId, Generation, JobId, PieceId};
use shoal_plan::ledger::Version;
use shoal_plan::space::Interval;
use shoal_wire::data::{self, Header, Purpose, StateReason};
use shoal_wire::frame;

use super::*;

/// Gives a fresh vector for what it is asked, and counts.
#[derive(Default)]
pub(super) struct Fresh {
    pub(super) accepted: AtomicU64,
    refuse: Mutex<Option<Refused>>,
}

impl BulkSink for Fresh {
    fn accept(&self, header: &Header) -> Result<Destination, Refused> {
        if let Some(refused) = *self.refuse.lock().expect("no panic") {
            return Err(refused);
        }
        self.accepted.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(vec![0.0; header.elements as usize]))
    }
}

pub(super) fn header(from: u64, step: u64, elements: u64) -> Header {
    Header {
        job: JobId(1),
        generation: Generation { incarnation: 1, number: 3 },
        from: NodeId(from),
        step,
        purpose: Purpose::Weights { piece: PieceId(4) },
        elements,
        dtype: Dtype::F32,
    }
}

pub(super) fn values(seed: u64, elements: usize) -> Vec<f32> {
    (0..elements as u64).map(|i| f32::from_bits(((seed * 2_654_435_761 + i) & 0x7f7f_ffff) as u32)).collect()
}

pub(super) async fn bulk_pair() -> (End, End, Arc<Fresh>) {
    let ca = ClusterCa::generate().expect("a cluster");
    let sink = Arc::new(Fresh::default());
    let mut a = End::with(&ca, 1, Arc::new(Fresh::default()), |_| {});
    let mut b = End::with(&ca, 2, Arc::clone(&sink) as Arc<dyn BulkSink>, |_| {});
    join(&mut a, &mut b).await;
    (a, b, sink)
}

pub(super) async fn received(end: &mut End) -> (Header, Vec<f32>) {
    match end.next().await {
        Inbound::Bulk { header, buffer, .. } => {
            (header, *buffer.into_any().downcast::<Vec<f32>>().expect("what the sink gave"))
        }
        other => panic!("expected a bulk transfer, found {other:?}"),
    }
}

const SIZES: [usize; 9] = [0, 1, 3, 117, 4096, 65_537, 1 << 20, (2 << 20) + 1, 3_000_001];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_size_arrives_bit_for_bit_in_both_directions_at_once() {
    let (mut a, mut b, _) = bulk_pair().await;
    let mut sends = Vec::new();
    for (from, to, end) in [(1, 2, &a), (2, 1, &b)] {
        for (step, size) in SIZES.into_iter().enumerate() {
            let (endpoint, payload) =
                (end.endpoint.clone(), Payload::whole(Arc::new(values(from + step as u64, size))));
            let header = header(from, step as u64, size as u64);
            sends.push(tokio::spawn(async move { endpoint.send_bulk(worker(to), header, payload).await }));
        }
    }
    for (from, end) in [(2, &mut a), (1, &mut b)] {
        let mut seen = Vec::new();
        for _ in SIZES {
            let (header, got) = received(end).await;
            let want = values(from + header.step, SIZES[header.step as usize]);
            assert!(got.iter().map(|x| x.to_bits()).eq(want.iter().map(|x| x.to_bits())), "{}", want.len());
            seen.push(header.step);
        }
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..SIZES.len() as u64));
    }
    for send in sends {
        assert_eq!(timeout(DEADLINE, send).await.expect("in time").expect("no panic"), Ok(()));
    }
    let total: u64 = SIZES.iter().map(|size| 4 * *size as u64).sum();
    for end in [&a, &b] {
        let line = end.endpoint.traffic_of(JobId(1)).pop().expect("a line");
        assert_eq!(line.purpose, "weights");
        assert_eq!((line.bytes_sent, line.messages_sent), (total, SIZES.len() as u64));
        assert_eq!((line.bytes_received, line.messages_received), (total, SIZES.len() as u64));
        assert_eq!(line.framing_sent, line.framing_received);
    }
    assert!(a.endpoint.traffic_of(JobId(2)).is_empty());
}

#[tokio::test]
async fn ranges_are_sent_one_after_the_other_and_the_buffer_is_free_again() {
    let (a, mut b, _) = bulk_pair().await;
    let source = Arc::new(values(9, 1000));
    let payload = Payload::ranges(Arc::clone(&source) as Arc<dyn BulkSource>, vec![10..20, 500..500, 990..1000, 0..1]);
    let mut head = header(1, 0, 21);
    head.purpose = Purpose::State {
        block: BlockId(1),
        interval: Interval::new(0, 7),
        version: Version { step: 0, chain: shoal_plan::ids::Digest::default() },
        reason: StateReason::Fill,
    };
    a.endpoint.send_bulk(worker(2), head.clone(), payload).await.expect("it arrives");
    let (got_head, got) = received(&mut b).await;
    assert_eq!(got_head, head);
    let want: Vec<f32> = [&source[10..20], &source[990..1000], &source[0..1]].concat();
    assert_eq!(got, want);
    assert_eq!(Arc::strong_count(&source), 1, "nothing refers to the buffer once the send has returned");
    assert_eq!(a.endpoint.traffic()[0].purpose, "state_fill");
}

#[tokio::test]
async fn a_wrong_length_is_refused_before_it_is_sent() {
    let (a, _b, _) = bulk_pair().await;
    let payload = Payload::whole(Arc::new(values(1, 10)));
    let error = a.endpoint.send_bulk(worker(2), header(1, 0, 11), payload).await;
    assert_eq!(error, Err(BulkError::Length { header: 11, payload: 10 }));
}

/// A refused transfer ends with the reason; the connection and later transfers are untouched.
#[tokio::test]
async fn a_refusal_stops_one_stream_only() {
    let (a, mut b, sink) = bulk_pair().await;
    let large = || Payload::whole(Arc::new(values(1, 8 << 20)));
    for reason in [Refused::NoRoom, Refused::Stale, Refused::Unknown] {
        *sink.refuse.lock().expect("no panic") = Some(reason);
        let error = a.endpoint.send_bulk(worker(2), header(1, 0, 8 << 20), large()).await;
        assert_eq!(error, Err(BulkError::Refused { peer: worker(2), reason }));
    }
    *sink.refuse.lock().expect("no panic") = None;
    a.endpoint.send_bulk(worker(2), header(1, 1, 8 << 20), large()).await.expect("it arrives");
    assert_eq!(received(&mut b).await.0.step, 1);
}

/// The receiver stops a stream while nothing more may be written to the connection: the sender learns it all the same.
#[tokio::test]
async fn a_refusal_is_heard_while_the_connection_has_no_window_left() {
    const WINDOW: usize = 1 << 20;
    // Below what a receiver gives credit for.
    const LEFT: usize = WINDOW / 16;
    let ca = ClusterCa::generate().expect("a cluster");
    let a = End::new(&ca, 1);
    let shared = a.endpoint.shared();
    let (receiver, _, _tcp) = raw_endpoint(&identity(&ca, 2));
    let configs = Configs::new(&identity(&ca, 2), &Timing::default(), 2 * WINDOW).expect("a configuration");
    receiver.set_server_config(Some(Arc::unwrap_or_clone(configs.server(true))));
    let address = receiver.local_addr().expect("bound");
    let dial = shared.quic.connect_with(configs.client(true), address, pki::SERVER_NAME).expect("an address");
    let answer = async { receiver.accept().await.expect("a caller").await.expect("a connection") };
    let (here, there) = timeout(DEADLINE, async { tokio::join!(dial, answer) }).await.expect("in time");
    let here = here.expect("a connection");
    let mut unread = here.open_uni().await.expect("a stream");
    unread.write_all(&vec![0; WINDOW - LEFT]).await.expect("within the window");

    let (queue, _frames) = mpsc::channel(1);
    let queue = crate::transport::control::Queue::new(queue);
    let link = link::Link { peer: worker(2), connection: here, queue, stop: tokio::sync::watch::Sender::new(None) };
    let payload = Payload::whole(Arc::new(values(1, WINDOW)));
    let send = timeout(DEADLINE, crate::transport::bulk::send(shared, &link, header(1, 0, WINDOW as u64), payload));
    let refuse = async {
        let held = there.accept_uni().await.expect("the first stream");
        let mut refused = there.accept_uni().await.expect("the second stream");
        refused.stop(VarInt::from_u32(Refused::Unknown.code())).expect("still open");
        held
    };
    let (sent, _held) = tokio::join!(send, refuse);
    let refused = BulkError::Refused { peer: worker(2), reason: Refused::Unknown };
    assert_eq!(sent.expect("the refusal is heard"), Err(refused));
}

#[tokio::test]
async fn a_transfer_over_the_bound_is_never_given_a_buffer() {
    let ca = ClusterCa::generate().expect("a cluster");
    let sink = Arc::new(Fresh::default());
    let mut a = End::new(&ca, 1);
    let mut b = End::with(&ca, 2, Arc::clone(&sink) as Arc<dyn BulkSink>, |c| c.limits.bulk_elements = 1 << 20);
    join(&mut a, &mut b).await;
    let error =
        a.endpoint.send_bulk(worker(2), header(1, 0, 6 << 20), Payload::whole(Arc::new(values(1, 6 << 20)))).await;
    assert_eq!(error, Err(BulkError::Refused { peer: worker(2), reason: Refused::NoRoom }));
    assert_eq!(sink.accepted.load(Ordering::Relaxed), 0);
}

/// What a broken or hostile peer may put on a stream: the stream is stopped, the connection lives.
#[tokio::test]
async fn malformed_streams_are_stopped() {
    let (a, mut b, sink) = bulk_pair().await;
    let connection = a.link(2).connection.clone();
    let valid = frame::encode(data::VERSION, frame::MAX_HEADER_BYTES, &header(1, 0, 2)).expect("a frame");
    let impostor = frame::encode(data::VERSION, frame::MAX_HEADER_BYTES, &header(3, 0, 2)).expect("a frame");
    let cases: [(&str, Vec<u8>, Refused); 6] = [
        ("header over its bound", vec![0xff; 1 << 16], Refused::Header),
        ("garbage", [&[40u8, 0, 0, 0][..], &[0xab; 40]].concat(), Refused::Header),
        ("no header", vec![1], Refused::Header),
        ("another sender's name", [&impostor[..], &[0; 8]].concat(), Refused::Header),
        ("too few elements", [&valid[..], &[0; 7]].concat(), Refused::Length),
        ("too many elements", [&valid[..], &vec![0; 1 << 16]].concat(), Refused::Length),
    ];
    for (name, bytes, reason) in cases {
        let mut stream = connection.open_uni().await.expect("a stream");
        // A stopped stream refuses more; the code is what counts.
        let _ = stream.write_all(&bytes).await;
        if reason == Refused::Header && bytes.len() > 1 || bytes.len() > 1 << 16 {
            let code = timeout(DEADLINE, stream.stopped()).await.expect(name).expect("the connection lives");
            assert_eq!(code, Some(VarInt::from_u32(reason.code())), "{name}");
        } else {
            // Short ones may be acknowledged before they are judged; they must not be delivered.
            stream.finish().expect("still open");
        }
    }
    a.endpoint.send_bulk(worker(2), header(1, 77, 1), Payload::whole(Arc::new(vec![1.5]))).await.expect("it arrives");
    assert_eq!(received(&mut b).await.0.step, 77, "nothing malformed was delivered");
    assert!(sink.accepted.load(Ordering::Relaxed) <= 3);
}
