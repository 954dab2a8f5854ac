//! Models that `fixtures/make_hf_types.py` had `transformers` write: what goes in comes out, each tensor in its own type.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use shoal_plan::weights::WeightFacts;

use super::*;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

/// Type, shape and bytes of every tensor.
fn tensors(bytes: &[u8]) -> BTreeMap<String, (safetensors::Dtype, Vec<usize>, Vec<u8>)> {
    let parsed = safetensors::SafeTensors::deserialize(bytes).expect("safetensors");
    let described = |(name, view): (String, safetensors::tensor::TensorView<'_>)| {
        (name, (view.dtype(), view.shape().to_vec(), view.data().to_vec()))
    };
    parsed.tensors().into_iter().map(described).collect()
}

fn opened(init: InitSpec, spec: &JobSpec) -> (ModelTable, Files, WeightFacts) {
    let table = ModelTable::of(&spec.model);
    let files = Files::open(&init, &spec.model, &table).expect("their model").expect("files are named");
    let facts = files.facts(&table, |_| true).expect("readable");
    (table, files, facts)
}

#[test]
fn every_tensor_comes_out_in_the_type_and_with_the_bytes_that_it_had() {
    for (name, words, main) in [
        ("hf_gpt2_f16", "fp16", Dtype::F16),
        ("hf_llama_bf16", "bf16", Dtype::Bf16),
        ("hf_llama_mixed", "fp32 and bf16", Dtype::Bf16),
    ] {
        let dir = fixture(name);
        let model = shoal_config::hf::model_of(&dir).expect("their configuration");
        let spec = JobSpec { model, ..job(1, 1, 16, 10, 65, 0.0) };
        let (table, files, facts) = opened(InitSpec::Hf(dir.clone()), &spec);
        assert_eq!(facts.dtypes.words(), words, "{name}");
        assert_eq!(hf::main_dtype(&table, &spec, &facts.dtypes), main, "{name}");
        let read = |block, interval, out: &mut [f32]| files.read(block, interval, out);
        for most in [u64::MAX, 5_000] {
            let parts = hf::parts(&table, &spec, &facts.dtypes, most);
            assert_eq!(parts.len() > 1, most < u64::MAX);
            let mut written = BTreeMap::new();
            for part in &parts {
                let mut file = Vec::new();
                hf::write_part((&table, &spec), part, &facts.dtypes, read, in_memory(&mut file))
                    .expect("memory takes it");
                assert_eq!(file.len() as u64, hf::part_len(&table, &spec, part, &facts.dtypes));
                written.extend(tensors(&file));
            }
            let theirs = tensors(&fs::read(dir.join(hf::MODEL)).expect("readable"));
            assert!(written == theirs, "{name}");
        }
    }
}

/// llm.c leaves rows beyond the vocabulary zero, however many there are; others would be lost.
#[test]
fn a_checkpoints_padding_comes_out_as_it_was_or_is_refused() {
    let spec = job(2, 2, 16, 8, 65, 0.0);
    let whole = fs::read(fixture("llmc_v5.bin")).expect("readable");
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("model.bin");
    // Of 128 rows, the vocabulary's 65 and seven more stay.
    let (row, header) = (16 * 2, 256 * 4);
    let mut short = whole.clone();
    short.drain(header + 72 * row..header + 128 * row);
    short[7 * 4..8 * 4].copy_from_slice(&72_i32.to_le_bytes());
    for bytes in [whole.clone(), short] {
        fs::write(&path, &bytes).expect("written");
        let (table, files, facts) = opened(InitSpec::LlmC(path.clone()), &spec);
        let read = |block, interval, out: &mut [f32]| files.read(block, interval, out);
        let header = llmc::header(&spec, facts.dtypes.llmc(), facts.padded_vocab).expect("a GPT-2");
        let mut written = Vec::new();
        llmc::write_model((&table, &spec), &header, read, in_memory(&mut written)).expect("memory takes it");
        assert!(written == bytes, "{:?} rows", facts.padded_vocab);
    }
    let mut dirty = whole;
    dirty[header + 70 * row + 3] = 1;
    fs::write(&path, &dirty).expect("written");
    let table = ModelTable::of(&spec.model);
    let files =
        Files::open(&InitSpec::LlmC(path), &spec.model, &table).expect("a checkpoint").expect("a file is named");
    let refused = files.facts(&table, |_| true).expect_err("values in the padding");
    assert!(matches!(refused, FilesError::Padding { row: 70, .. }), "{refused}");
}
