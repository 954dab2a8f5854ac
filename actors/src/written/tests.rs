use std::fs;
use std::sync::Arc;

use safetensors::SafeTensors;
use shoal_plan::blocks::ModelTable;
use shoal_plan::digest;
use shoal_plan::ids::{BlockId, Digest, JobId};
use shoal_plan::ledger::Version;
use shoal_plan::space::{Interval, Kind};
use shoal_wire::api::NodeReport;
use tempfile::TempDir;

use super::*;
use crate::testing::gpt2;

const JOB: JobId = JobId(7);
const KINDS: [Kind; 3] = [Kind::Weight, Kind::Moment1, Kind::Moment2];

fn table() -> ModelTable {
    ModelTable::of(&gpt2([1, 2, 32, 8, 256]))
}

fn version(step: u64) -> Version {
    Version { step, chain: Digest::of(&step.to_le_bytes()) }
}

/// Element `i` of kind `k` of block `b` at step `s` has a value of its own.
fn value(block: BlockId, kind: usize, step: u64, i: u64) -> f32 {
    (i as f32).mul_add(0.25, block.0 as f32 * 1e4 + kind as f32 * 1e5 + step as f32 * 1e6)
}

fn piece(block: u32, start: u64, end: u64, step: u64) -> PieceData {
    let (block, interval) = (BlockId(block), Interval::new(start, end));
    let data = |kind| -> Vec<f32> { (start..end).map(|i| value(block, kind, step, i)).collect() };
    let kinds = KINDS.iter().enumerate().map(|(k, &kind)| KindData { kind, interval, data: Arc::new(data(k)) });
    PieceData { block, interval, kinds: kinds.collect() }
}

#[test]
fn what_is_written_is_read_back_by_a_later_process() {
    let (dir, table) = (TempDir::new().expect("temp dir"), table());
    let embedding = table.blocks[0].len;
    let pieces = [piece(0, 0, 4096, 3), piece(0, 4096, embedding, 3), piece(2, 0, table.blocks[2].len, 3)];
    let shelf = Shelf::open(dir.path()).expect("shelf");
    let leaves = shelf.write(JOB, &table, version(3), &pieces).expect("written");

    let later = Shelf::open(dir.path()).expect("shelf");
    assert_eq!(later.jobs().expect("jobs"), [JOB]);
    let manifest = later.manifest(JOB).expect("manifest");
    assert_eq!(manifest.len(), 9);
    for (found, told) in manifest.iter().zip(&leaves) {
        assert_eq!(found.version, version(3));
        assert_eq!((found.block, found.interval, found.kind), (told.block, told.interval, told.kind));
        assert_eq!(found.leaves, told.leaves);
        let wanted = Interval::new(found.interval.start + 5, found.interval.end - 3);
        let bytes = later.read(JOB, 3, (found.block, found.kind, wanted)).expect("read");
        let kind = KINDS.iter().position(|&k| k == found.kind).expect("a state kind");
        let expected: Vec<u8> =
            (wanted.start..wanted.end).flat_map(|i| value(found.block, kind, 3, i).to_le_bytes()).collect();
        assert_eq!(bytes, expected);
    }
    let whole: Vec<f32> = (0..4096).map(|i| value(BlockId(0), 1, 3, i)).collect();
    let told = leaves.iter().find(|l| l.kind == Kind::Moment1).expect("moment1 of the first piece");
    assert_eq!(told.leaves, digest::leaves(table.block(BlockId(0)), Interval::new(0, 4096), &whole));
}

#[test]
fn a_piece_is_a_safetensors_file_named_by_the_manifest_with_its_digest() {
    let (dir, table) = (TempDir::new().expect("temp dir"), table());
    Shelf::open(dir.path()).expect("shelf").write(JOB, &table, version(1), &[piece(0, 0, 4096, 1)]).expect("written");
    let home = dir.path().join("jobs/j7");
    let version = fs::read_dir(&home).expect("listed").next().expect("one version").expect("entry").path();
    let manifest: Manifest =
        serde_json::from_slice(&fs::read(version.join("manifest.json")).expect("manifest")).expect("JSON");
    let bytes = fs::read(version.join(&manifest.files[0].name)).expect("the piece");
    assert_eq!(manifest.files[0].blake3, Digest::of(&bytes));
    let tensors = SafeTensors::deserialize(&bytes).expect("safetensors");
    let tensor = tensors.tensor("moment2").expect("moment2");
    assert_eq!(tensor.shape(), [4096]);
    let first: Vec<u8> = value(BlockId(0), 2, 1, 0).to_le_bytes().to_vec();
    assert_eq!(tensor.data()[..4], first[..]);
}

#[test]
fn an_unfinished_version_is_no_version_and_is_cleared_away() {
    let (dir, table) = (TempDir::new().expect("temp dir"), table());
    let shelf = Shelf::open(dir.path()).expect("shelf");
    shelf.write(JOB, &table, version(1), &[piece(0, 0, 4096, 1)]).expect("written");
    let torn = dir.path().join("jobs/j7/000000000002-0123456789abcdef.unfinished");
    fs::create_dir(&torn).expect("directory");
    fs::write(torn.join("b0-0-4096.safetensors"), b"half").expect("file");
    let steps = |shelf: &Shelf| -> Vec<u64> {
        let mut steps: Vec<_> = shelf.manifest(JOB).expect("manifest").iter().map(|p| p.version.step).collect();
        steps.dedup();
        steps
    };
    assert_eq!(steps(&shelf), [1]);
    assert_eq!(steps(&Shelf::open(dir.path()).expect("shelf")), [1]);
    assert!(!torn.exists());
}

#[test]
fn the_newest_versions_are_kept_and_one_is_replaced_when_written_again() {
    let (dir, table) = (TempDir::new().expect("temp dir"), table());
    let shelf = Shelf::open(dir.path()).expect("shelf");
    for step in [1, 2, 3, 4, 5, 12, 12] {
        shelf.write(JOB, &table, version(step), &[piece(0, 0, 4096, step)]).expect("written");
    }
    let mut steps: Vec<_> = shelf.manifest(JOB).expect("manifest").iter().map(|p| p.version.step).collect();
    steps.dedup();
    assert_eq!(steps, [3, 4, 5, 12]);
}

#[test]
fn what_is_not_here_is_refused_with_what_was_asked() {
    let (dir, table) = (TempDir::new().expect("temp dir"), table());
    let shelf = Shelf::open(dir.path()).expect("shelf");
    assert!(matches!(shelf.manifest(JOB), Err(WrittenError::NoJob { job: JOB })));
    assert!(matches!(shelf.report(JOB), Err(WrittenError::NoJob { job: JOB })));
    shelf.write(JOB, &table, version(2), &[piece(0, 0, 4096, 2)]).expect("written");
    let ask = |step, start, end| shelf.read(JOB, step, (BlockId(0), Kind::Weight, Interval::new(start, end)));
    assert!(ask(2, 0, 4096).is_ok());
    assert!(matches!(ask(1, 0, 16), Err(WrittenError::NotHere { step: 1, .. })));
    assert!(matches!(ask(2, 4090, 4100), Err(WrittenError::NotHere { .. })));
    assert!(matches!(ask(2, 0, (MAX_ANSWER_BYTES / 4) + 1), Err(WrittenError::TooMuch { .. })));
}

#[test]
fn a_report_outlives_the_process() {
    let dir = TempDir::new().expect("temp dir");
    let report = NodeReport { node: "n3".to_owned(), ..NodeReport::default() };
    Shelf::open(dir.path()).expect("shelf").write_report(JOB, &report).expect("written");
    assert_eq!(Shelf::open(dir.path()).expect("shelf").report(JOB).expect("report"), report);
}
