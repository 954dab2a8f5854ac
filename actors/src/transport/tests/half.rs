//! Elements of a half type: half the bytes, and f32 at both ends.

use shoal_config::spec::Dtype;
use shoal_kernels::Half;
use shoal_plan::ids::JobId;
use shoal_wire::data::Header;

use super::bulk::{bulk_pair, header, received};
use super::*;

/// Below, at and over the elements that are converted at once.
const SIZES: [usize; 6] = [0, 1, 3, 32 << 10, (32 << 10) + 1, 300_001];

#[tokio::test]
async fn rounded_elements_arrive_bit_for_bit_in_half_the_bytes() {
    let (a, mut b, _) = bulk_pair().await;
    for (step, size) in SIZES.into_iter().enumerate() {
        // Every value of the type, not-a-number and infinities among them.
        let values: Vec<f32> = (0..size).map(|i| Half::Bf16.value((i * 40_503) as u16)).collect();
        let header = Header { dtype: Dtype::Bf16, ..header(1, step as u64, size as u64) };
        let payload = Payload::whole(Arc::new(values.clone()));
        a.endpoint.send_bulk(worker(2), header.clone(), payload).await.expect("it arrives");
        let (got_header, got) = received(&mut b).await;
        assert_eq!(got_header, header);
        for (got, want) in got.iter().zip(&values) {
            assert!(got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()), "{got} is not {want}");
        }
        assert_eq!(got.len(), size);
    }
    let total: u64 = SIZES.iter().map(|size| 2 * *size as u64).sum();
    let line = a.endpoint.traffic_of(JobId(1)).pop().expect("a line");
    assert_eq!((line.bytes_sent, line.messages_sent), (total, SIZES.len() as u64));
    let line = b.endpoint.traffic_of(JobId(1)).pop().expect("a line");
    assert_eq!((line.bytes_received, line.messages_received), (total, SIZES.len() as u64));
}

#[tokio::test]
async fn ranges_are_converted_one_after_the_other() {
    let (a, mut b, _) = bulk_pair().await;
    let source: Arc<Vec<f32>> = Arc::new((0..100_000).map(|i| Half::Bf16.nearest(i as f32)).collect());
    let ranges = vec![10..20, 500..500, 1000..90_000, 0..1];
    let payload = Payload::ranges(Arc::clone(&source) as Arc<dyn BulkSource>, ranges);
    let header = Header { dtype: Dtype::Bf16, ..header(1, 0, payload.elements()) };
    a.endpoint.send_bulk(worker(2), header, payload).await.expect("it arrives");
    let (_, got) = received(&mut b).await;
    assert_eq!(got, [&source[10..20], &source[1000..90_000], &source[0..1]].concat());
    assert_eq!(Arc::strong_count(&source), 1, "nothing refers to the buffer once the send has returned");
}
