//! Files against the safetensors crate and against the digest that scattered holders compute.

use shoal_plan::blocks::ModelTable;
use shoal_plan::digest::{PieceLeaves, assemble, leaves};
use shoal_plan::space::Interval;

use super::*;
use crate::export::aside::publish;
use crate::export::state;

fn table() -> ModelTable {
    let mut spec = shoal_config::preset("tiny", "/".as_ref()).expect("a preset");
    let model = spec.model.as_gpt2_mut().expect("a GPT-2");
    (model.layers, model.heads, model.width, model.context, model.vocab) = (2, 2, 48, 10, 101);
    ModelTable::of_job(&spec)
}

fn target(dir: &Path) -> Target {
    Target::prepare(dir, |_| true).expect("a directory")
}

/// Distinct values everywhere, zero in the gaps.
fn space(block: &BlockTable, kind: Kind) -> Vec<f32> {
    let mut values = vec![0.0; block.len as usize];
    for param in &block.params {
        for i in param.interval.range() {
            values[i] = i as f32 + 1e5 * block.id.0 as f32 + if kind == Kind::Weight { 0.25 } else { 0.5 };
        }
    }
    values
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[test]
fn any_reader_of_safetensors_finds_the_tensors() {
    let dir = tempfile::tempdir().expect("temp dir");
    let target = target(dir.path());
    for block in &table().blocks {
        let values = space(block, Kind::Moment1);
        publish(vec![write(&target, block, Kind::Moment1, bytes(&values).as_slice()).expect("write")], &[])
            .expect("named");
        let file = std::fs::read(dir.path().join(file_name(block, Kind::Moment1))).expect("read");
        let tensors = safetensors::SafeTensors::deserialize(&file).expect("a safetensors file");
        assert_eq!(tensors.len(), block.params.len());
        for param in &block.params {
            let tensor = tensors.tensor(&format!("moment1.{}", param.name)).expect("tensor");
            assert_eq!(tensor.shape().iter().map(|d| *d as u64).collect::<Vec<_>>(), param.shape);
            assert_eq!(tensor.data(), bytes(&values[param.interval.range()]));
        }
    }
}

#[test]
fn the_files_have_the_digest_that_holders_compute() {
    let dir = tempfile::tempdir().expect("temp dir");
    let table = table();
    let target = target(dir.path());
    let (mut reports, mut files) = (Vec::new(), Vec::new());
    for &kind in table.kinds() {
        for block in &table.blocks {
            let values = space(block, kind);
            files.push(write(&target, block, kind, bytes(&values).as_slice()).expect("write"));
            let interval = Interval::new(0, block.len);
            reports.push(PieceLeaves { block: block.id, interval, kind, leaves: leaves(block, interval, &values) });
        }
    }
    publish(files, &[]).expect("named");
    let digest = assemble(&table, &reports).expect("complete");
    assert_eq!(state::recompute(dir.path(), &table).expect("recompute"), digest);

    let victim = dir.path().join(file_name(&table.blocks[1], Kind::Moment2));
    let mut file = std::fs::read(&victim).expect("read");
    *file.last_mut().expect("not empty") ^= 1;
    std::fs::write(&victim, file).expect("write");
    assert_ne!(state::recompute(dir.path(), &table).expect("recompute"), digest, "one bit changes it");
}

#[test]
fn too_little_and_too_much_are_refused() {
    let dir = tempfile::tempdir().expect("temp dir");
    let target = target(dir.path());
    let block = &table().blocks[3];
    let whole = bytes(&space(block, Kind::Weight));
    let error = write(&target, block, Kind::Weight, &whole[..whole.len() - 1]).expect_err("too little");
    assert!(error.to_string().contains("broke off"), "{error}");
    let error = write(&target, block, Kind::Weight, [&whole[..], &[0]].concat().as_slice()).expect_err("too much");
    assert!(error.to_string().contains("more than the"), "{error}");
    assert!(!dir.path().join(file_name(block, Kind::Weight)).exists());
}
