use proptest::prelude::*;

use super::*;
use crate::fixture;

/// A state with a value of its own for every element and kind.
fn value(kind: Kind, block: BlockId, element: u64) -> f32 {
    (element as f32).mul_add(0.25, f32::from(kind as u8) * 100.0) + block.0 as f32 * 1e6
}

/// What a holder of an interval of weights reports.
fn reports(table: &ModelTable, block: BlockId, interval: Interval) -> impl Iterator<Item = PieceLeaves> {
    table.kinds().iter().filter_map(move |&kind| {
        let interval = table.part(kind, block, interval)?;
        let data: Vec<f32> = (interval.start..interval.end).map(|e| value(kind, block, e)).collect();
        Some(PieceLeaves { block, interval, kind, leaves: leaves(table.space(kind, block), interval, &data) })
    })
}

fn whole(table: &ModelTable) -> Vec<PieceLeaves> {
    table.blocks.iter().flat_map(|b| reports(table, b.id, Interval::new(0, b.len))).collect()
}

fn tiny() -> ModelTable {
    fixture::table(&fixture::job())
}

/// The definition, written out over the whole state at once.
#[test]
fn the_digest_is_what_it_is_said_to_be() {
    let (table, mut hashes) = (tiny(), Vec::new());
    for kind in [Kind::Weight, Kind::Moment1, Kind::Moment2] {
        for block in &table.blocks {
            for param in &block.params {
                let values: Vec<f32> =
                    (param.interval.start..param.interval.end).map(|e| value(kind, block.id, e)).collect();
                for segment in values.chunks(4096) {
                    let bytes: Vec<u8> = segment.iter().flat_map(|v| v.to_le_bytes()).collect();
                    hashes.extend(*blake3::hash(&bytes).as_bytes());
                }
            }
        }
    }
    assert_eq!(assemble(&table, &whole(&table)), Ok(Digest(*blake3::hash(&hashes).as_bytes())));
}

#[test]
fn edges_are_where_segments_start() {
    let table = tiny();
    for block in &table.blocks {
        let mut edges: Vec<u64> = segments(block, Interval::new(0, block.len)).map(|s| s.start).collect();
        edges.push(block.len);
        for target in (0..=block.len).step_by(7) {
            let nearest = edges.iter().copied().min_by_key(|&e| (e.abs_diff(target), e));
            assert_eq!(Some(nearest_edge(block, target)), nearest, "{} {target}", block.id);
        }
    }
}

#[test]
fn what_is_missing_is_named() {
    let table = tiny();
    let mut reports = whole(&table);
    let gone = reports.iter().position(|r| r.block == BlockId(5) && r.kind == Kind::Moment2).expect("is there");
    reports.remove(gone);
    let missing = IntervalSet::from(Interval::new(0, 128));
    let error = DigestError::Missing { block: BlockId(5), kind: Kind::Moment2, missing };
    assert_eq!(error.to_string(), "moment2 of b5 is not complete: nobody reported 0..128");
    assert_eq!(assemble(&table, &reports), Err(error));
}

#[test]
fn disagreement_is_named() {
    let table = tiny();
    let mut reports = whole(&table);
    let mut other = reports[0].clone();
    other.leaves[2] = Digest::default();
    reports.push(other);
    let error = assemble(&table, &reports).expect_err("they disagree");
    assert!(
        matches!(
            error,
            DigestError::Conflict { segment: Interval { start: 8192, end: 12288 }, kind: Kind::Weight, .. }
        ),
        "{error}"
    );
    reports.pop();
    reports[0].leaves.pop();
    let error = assemble(&table, &reports).expect_err("one hash too few");
    assert_eq!(error.to_string(), "weight of b0, elements 0..34816: 8 hashes for 9 segments");
}

proptest! {
    /// Any cut at segment edges, in any order, with any overlap, gives the digest of a single holder.
    #[test]
    fn any_cut_gives_the_same_digest(
        cuts in prop::collection::vec((0u32..6, 0u64..60_000), 0..14), twice: bool, turn in 0usize..50, factors: bool,
    ) {
        let mut job = fixture::job();
        if factors {
            job.spec.train.optimizer = fixture::adafactor();
        }
        let table = fixture::table(&job);
        let mut reports = Vec::new();
        for block in &table.blocks {
            let own = cuts.iter().filter(|(b, _)| *b == block.id.0).map(|(_, at)| table.nearest_edge(block, *at));
            let mut edges: Vec<u64> = own.collect();
            edges.sort_unstable();
            for interval in IntervalSet::from(Interval::new(0, block.len)).split_at(&edges) {
                reports.extend(self::reports(&table, block.id, interval));
            }
        }
        if twice {
            reports.extend(whole(&table));
        }
        let turn = turn % reports.len();
        reports.rotate_left(turn);
        prop_assert_eq!(assemble(&table, &reports), assemble(&table, &whole(&table)));
    }
}
