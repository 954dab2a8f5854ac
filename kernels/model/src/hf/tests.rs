use std::convert::Infallible;

use safetensors::SafeTensors;
use shoal_plan::blocks::ModelTable;
use shoal_plan::ids::BlockId;
use shoal_plan::space::Interval;
use shoal_plan::weights::Dtypes;

use super::*;
use crate::testing::{in_memory, job, weights};
use shoal_config::spec::Dtype;

#[test]
fn attention_columns_are_q_k_v() {
    let spec = job(1, 2, 16, 4, 65, 0.0);
    let table = ModelTable::of(&spec.model);
    let mut weights = weights(&spec, &table);
    let kv = table.blocks[1].params.iter().find(|p| p.name == "attn.kv.weight").expect("a layer has it");
    // Head 1, value row 3, input 5 of [heads 2, 2, d 8, 16].
    weights[1][kv.interval.start as usize + ((2 + 1) * 8 + 3) * 16 + 5] = 42.0;
    let mut file = Vec::new();
    let read = |block: BlockId, interval: Interval, out: &mut [f32]| {
        out.copy_from_slice(&weights[block.0 as usize][interval.range()]);
        Ok::<_, Infallible>(())
    };
    write_model(&table, &spec, read, in_memory(&mut file)).expect("memory takes it");
    let parsed = SafeTensors::deserialize(&file).expect("our own file");
    let view = parsed.tensor("transformer.h.0.attn.c_attn.weight").expect("there");
    assert_eq!(view.shape(), [16, 48]);
    // V of head 1 is columns 40..48.
    let at = (5 * 48 + 32 + 8 + 3) * 4;
    assert_eq!(view.data()[at..at + 4], 42f32.to_le_bytes());
    assert!(!parsed.names().iter().any(|n| n.contains("lm_head")));
    assert_eq!(
        part_len(&table, &spec, &parts(&table, &spec, &Dtypes::All(Dtype::F32), u64::MAX)[0], &Dtypes::All(Dtype::F32)),
        file.len() as u64
    );
}

#[test]
fn config_names_the_architecture_and_sizes_as_it_is_read_back() {
    let spec = job(2, 3, 48, 10, 65, 0.1);
    let config = config_json(&spec, Dtype::Bf16);
    assert_eq!(config["n_embd"], 48);
    assert_eq!(config["resid_pdrop"], 0.1);
    assert_eq!(config["activation_function"], "gelu_new");
    assert_eq!(config["dtype"], "bfloat16");
    let dir = tempfile::tempdir().expect("temp dir");
    std::fs::write(dir.path().join("config.json"), config.to_string()).expect("written");
    assert_eq!(shoal_config::hf::model_of(dir.path()).expect("our own file"), spec.model);
}

#[test]
fn shards_are_no_larger_than_asked_and_have_every_tensor_once() {
    let spec = job(2, 3, 48, 10, 65, 0.0);
    let table = ModelTable::of(&spec.model);
    let whole = parts(&table, &spec, &Dtypes::All(Dtype::F16), u64::MAX);
    assert_eq!((whole.len(), whole[0].name.as_str()), (1, "model.safetensors"));
    let parts = parts(&table, &spec, &Dtypes::All(Dtype::F16), 30_000);
    assert!(parts.len() > 4 && parts[0].name == format!("model-00001-of-{:05}.safetensors", parts.len()));
    let index = index_json(&table, &spec, &Dtypes::All(Dtype::F16), &parts);
    let map = index["weight_map"].as_object().expect("a map");
    let mut tensors = 0;
    for part in &parts {
        let mut file = Vec::new();
        let ones = |_, _, out: &mut [f32]| {
            out.fill(1.0);
            Ok::<_, Infallible>(())
        };
        write_part((&table, &spec), part, &Dtypes::All(Dtype::F16), ones, in_memory(&mut file))
            .expect("memory takes it");
        assert_eq!(part_len(&table, &spec, part, &Dtypes::All(Dtype::F16)), file.len() as u64);
        let parsed = SafeTensors::deserialize(&file).expect("our own file");
        assert!(parsed.len() == 1 || file.len() < 30_000 + 2_000, "{} bytes", file.len());
        tensors += parsed.len();
        for name in parsed.names() {
            assert_eq!(map[name], part.name);
        }
    }
    assert_eq!((tensors, index["metadata"]["total_size"].as_u64()), (map.len(), Some(table.parameters() * 2)));
}
