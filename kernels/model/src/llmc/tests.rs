//! Files that `fixtures/make_llmc.py` made, which knows nothing of this code.

use std::path::{Path, PathBuf};

use shoal_config::spec::InitSpec;
use shoal_plan::blocks::BlockTable;
use shoal_plan::space::Interval;

use super::*;
use crate::files::{Files, FilesError};
use crate::testing::{in_memory, job};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

fn open(path: &Path, spec: &JobSpec) -> Result<Files, FilesError> {
    let table = ModelTable::of(&spec.model);
    Files::open(&InitSpec::LlmC(path.to_owned()), &spec.model, &table).map(|files| files.expect("a file is named"))
}

fn spec() -> JobSpec {
    job(2, 2, 16, 8, 65, 0.0)
}

/// The formula of the script.
fn value(tensor: i64, layer: i64, i: i64) -> f32 {
    ((tensor * 131 + layer * 31 + i * 7).rem_euclid(509) - 254) as f32 / 1024.0
}

fn element(files: &Files, block: &BlockTable, param: &str, at: u64) -> f32 {
    let start = crate::files::map::param(block, param).interval.start + at;
    let mut found = [0.0];
    files.read(block.id, Interval::new(start, start + 1), &mut found).expect("readable");
    found[0]
}

#[test]
fn elements_are_where_the_script_put_them() {
    let spec = spec();
    let table = ModelTable::of(&spec.model);
    let files = open(&golden("llmc_v3.bin"), &spec).expect("a checkpoint");
    let (embedding, layer) = (&table.blocks[0], &table.blocks[2]);
    assert_eq!(element(&files, embedding, "wte", 64 * 16 + 5), value(0, 0, 64 * 16 + 5));
    assert_eq!(element(&files, embedding, "wpe", 3), value(1, 0, 3));
    // Head 1's value row 3, input 5 of ours is row 2 x 16 + 8 + 3 of qkvw.
    assert_eq!(
        element(&files, layer, "attn.kv.weight", ((2 + 1) * 8 + 3) * 16 + 5),
        value(4, 1, (32 + 8 + 3) * 16 + 5)
    );
    assert_eq!(element(&files, layer, "attn.q.bias", 9), value(5, 1, 9));
    // Ours are [in, out] where theirs are [out, in].
    assert_eq!(element(&files, layer, "attn.proj.weight", 2 * 16 + 7), value(6, 1, 7 * 16 + 2));
    assert_eq!(element(&files, layer, "mlp.fc.weight", 33 * 16 + 4), value(10, 1, 33 * 16 + 4));
    assert_eq!(element(&files, layer, "mlp.proj.weight", 61 * 16 + 4), value(12, 1, 4 * 64 + 61));
    assert_eq!(element(&files, &table.blocks[3], "ln_f.bias", 15), value(15, 0, 15));
}

#[test]
fn what_is_read_is_written_to_the_same_bytes() {
    let spec = spec();
    let table = ModelTable::of(&spec.model);
    for (name, version) in [("llmc_v3.bin", Version::Single), ("llmc_v5.bin", Version::Half)] {
        let files = open(&golden(name), &spec).expect("a checkpoint");
        let mut written = Vec::new();
        let read = |block, interval, out: &mut [f32]| files.read(block, interval, out);
        let header = header(&spec, version, None).expect("a GPT-2");
        write_model((&table, &spec), &header, read, in_memory(&mut written)).expect("memory takes it");
        assert!(written == std::fs::read(golden(name)).expect("readable"), "{name}");
    }
}

#[test]
fn what_is_no_such_checkpoint_is_refused_with_what_was_found() {
    let whole = std::fs::read(golden("llmc_v3.bin")).expect("readable");
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("model.bin");
    let found = |bytes: &[u8]| {
        std::fs::write(&path, bytes).expect("written");
        open(&path, &spec()).expect_err("refused").to_string()
    };
    let changed = |at: usize, number: i32| {
        let mut bytes = whole.clone();
        bytes[at * 4..at * 4 + 4].copy_from_slice(&number.to_le_bytes());
        found(&bytes)
    };
    assert!(changed(0, 20_240_527).contains("it begins with 20240527, which is an optimizer state"));
    assert!(changed(1, 2).contains("it has version 2, and 3 (fp32) and 5 (bf16) are known"));
    let length = format!("it has {} bytes, and {} belong to the sizes in its header", whole.len() - 4, whole.len());
    assert!(found(&whole[..whole.len() - 4]).contains(&length));
    assert!(found(&whole[..100]).contains("100 bytes are shorter"));
    std::fs::write(&path, &whole).expect("written");
    let other = open(&path, &job(3, 4, 16, 9, 65, 0.0)).expect_err("another model").to_string();
    assert!(other.contains("its layers is 2, and 3 is needed; its heads is 2, and 4 is needed"), "{other}");
    assert!(other.contains("its context is 8, and 9 is needed"), "{other}");
}
