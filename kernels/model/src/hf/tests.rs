use safetensors::SafeTensors;
use shoal_config::JobSpec;
use shoal_plan::blocks::ModelTable;
use shoal_plan::ids::BlockId;
use shoal_plan::space::Interval;

use super::*;
use crate::init;
use crate::testing::job;

/// Weights of every block, from the seed.
fn weights(table: &ModelTable, spec: &JobSpec) -> Vec<Vec<f32>> {
    let each = table.blocks.iter().map(|block| {
        let mut values = vec![0.0; block.len as usize];
        init::fill(table, spec, block.id, Interval::new(0, block.len), &mut values);
        values
    });
    each.collect()
}

fn file(table: &ModelTable, spec: &JobSpec, weights: &[Vec<f32>]) -> Vec<u8> {
    let mut file = Vec::new();
    let read = |block: BlockId, interval: Interval, out: &mut [f32]| {
        out.copy_from_slice(&weights[block.0 as usize][interval.range()]);
        Ok(())
    };
    write_model(table, spec, read, &mut file).expect("memory takes it");
    file
}

#[test]
fn what_was_exported_comes_back() {
    let spec = job(2, 3, 48, 10, 65, 0.0);
    let table = ModelTable::of(&spec.model);
    let weights = weights(&table, &spec);
    let file = file(&table, &spec, &weights);
    assert_eq!(file.len() as u64, model_len(&table, &spec));

    let mut back: Vec<Vec<f32>> = table.blocks.iter().map(|b| vec![0.0; b.len as usize]).collect();
    read_model(&file, &table, &spec, |block, interval, values| {
        back[block.0 as usize][interval.range()].copy_from_slice(values);
    })
    .expect("our own file");
    assert_eq!(back, weights);
}

#[test]
fn attention_columns_are_q_k_v() {
    let spec = job(1, 2, 16, 4, 65, 0.0);
    let table = ModelTable::of(&spec.model);
    let mut weights = weights(&table, &spec);
    let kv = table.blocks[1].params.iter().find(|p| p.name == "attn.kv.weight").expect("a layer has it");
    // Head 1, value row 3, input 5 of [heads 2, 2, d 8, 16].
    weights[1][kv.interval.start as usize + ((2 + 1) * 8 + 3) * 16 + 5] = 42.0;
    let file = file(&table, &spec, &weights);
    let parsed = SafeTensors::deserialize(&file).expect("our own file");
    let view = parsed.tensor("transformer.h.0.attn.c_attn.weight").expect("there");
    assert_eq!(view.shape(), [16, 48]);
    // V of head 1 is columns 40..48.
    let at = (5 * 48 + 32 + 8 + 3) * 4;
    assert_eq!(view.data()[at..at + 4], 42f32.to_le_bytes());
    assert!(!parsed.names().iter().any(|n| n.contains("lm_head")));
}

#[test]
fn wrong_files_are_refused_by_name() {
    let spec = job(1, 2, 16, 4, 65, 0.0);
    let table = ModelTable::of(&spec.model);
    let other = job(1, 2, 16, 8, 65, 0.0);
    let other_table = ModelTable::of(&other.model);
    let deeper = job(2, 2, 16, 4, 65, 0.0);
    let file = file(&table, &spec, &weights(&table, &spec));
    assert!(matches!(
        read_model(&file, &other_table, &other, |_, _, _| {}),
        Err(ImportError::Shape { name, .. }) if name == "transformer.wpe.weight"
    ));
    assert!(matches!(
        read_model(&file, &ModelTable::of(&deeper.model), &deeper, |_, _, _| {}),
        Err(ImportError::Missing { name }) if name.starts_with("transformer.h.1.")
    ));
    assert!(matches!(read_model(b"{}", &table, &spec, |_, _, _| {}), Err(ImportError::Format(_))));
}

#[test]
fn config_names_the_architecture_and_sizes() {
    let config = config_json(&job(2, 3, 48, 10, 65, 0.1));
    assert_eq!(config["n_embd"], 48);
    assert_eq!(config["resid_pdrop"], 0.1);
    assert_eq!(config["activation_function"], "gelu_new");
}
