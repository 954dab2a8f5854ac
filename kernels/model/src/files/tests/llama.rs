//! A Llama's files.

use shoal_config::spec::RopeScaling;

use super::*;
use crate::testing::llama;

/// Grouped queries, heads whose elements are not the width, ragged sizes.
fn spec(biases: bool, tied_head: bool) -> JobSpec {
    JobSpec { model: llama([2, 6, 2, 16, 48, 80, 10, 65], biases, tied_head), ..job(1, 1, 16, 10, 65, 0.0) }
}

#[test]
fn any_interval_of_a_llama_is_read_back() {
    for (biases, tied) in [(false, false), (true, true), (true, false)] {
        let model = Model::of(spec(biases, tied));
        for cuts in [0, 1, 7] {
            model.assert_same(&model.open(&model.hf(Dtype::F32, u64::MAX)).expect("good"), cuts, |x| x);
        }
        fs::remove_file(model.dir.path().join(hf::MODEL)).expect("removed");
        let bf16 = |x: f32| Half::Bf16.nearest(x);
        model.assert_same(&model.open(&model.hf(Dtype::Bf16, 20_000)).expect("good"), 3, bf16);
    }
}

/// Names and shapes that `transformers` looks for, and nothing else.
#[test]
fn tensors_have_the_names_and_shapes_of_transformers() {
    let model = Model::of(JobSpec { model: llama([1, 6, 2, 16, 48, 80, 10, 65], true, false), ..spec(true, false) });
    let map = hf::map(&model.table, &model.spec.model);
    let mut found: Vec<(&str, &[u64])> = map.tensors.iter().map(|t| (t.name.as_str(), t.shape.as_slice())).collect();
    found.sort_unstable();
    let mut expected: Vec<(&str, &[u64])> = vec![
        ("lm_head.weight", &[65, 48]),
        ("model.embed_tokens.weight", &[65, 48]),
        ("model.layers.0.input_layernorm.weight", &[48]),
        ("model.layers.0.mlp.down_proj.bias", &[48]),
        ("model.layers.0.mlp.down_proj.weight", &[48, 80]),
        ("model.layers.0.mlp.gate_proj.bias", &[80]),
        ("model.layers.0.mlp.gate_proj.weight", &[80, 48]),
        ("model.layers.0.mlp.up_proj.bias", &[80]),
        ("model.layers.0.mlp.up_proj.weight", &[80, 48]),
        ("model.layers.0.post_attention_layernorm.weight", &[48]),
        ("model.layers.0.self_attn.k_proj.bias", &[32]),
        ("model.layers.0.self_attn.k_proj.weight", &[32, 48]),
        ("model.layers.0.self_attn.o_proj.bias", &[48]),
        ("model.layers.0.self_attn.o_proj.weight", &[48, 96]),
        ("model.layers.0.self_attn.q_proj.bias", &[96]),
        ("model.layers.0.self_attn.q_proj.weight", &[96, 48]),
        ("model.layers.0.self_attn.v_proj.bias", &[32]),
        ("model.layers.0.self_attn.v_proj.weight", &[32, 48]),
        ("model.norm.weight", &[48]),
    ];
    expected.sort_unstable();
    assert_eq!(found, expected);
    assert_eq!(found.iter().map(|(_, shape)| shape.iter().product::<u64>()).sum::<u64>(), model.table.parameters());
}

#[test]
fn keys_and_values_lie_apart_and_projections_are_turned() {
    let mut model = Model::of(spec(false, false));
    let layer = &model.table.blocks[1];
    // kv head 1, value row 3, input 5 of [kv heads 2, 2, d 16, 48]; input 7 and output 11 of [inner 80, 48].
    let value = layer.place("attn.kv.weight").start as usize + ((2 + 1) * 16 + 3) * 48 + 5;
    let down = layer.place("mlp.down.weight").start as usize + 7 * 48 + 11;
    (model.weights[1][value], model.weights[1][down]) = (42.0, 43.0);
    model.hf(Dtype::F32, u64::MAX);
    let bytes = fs::read(model.dir.path().join(hf::MODEL)).expect("readable");
    let parsed = safetensors::SafeTensors::deserialize(&bytes).expect("our own file");
    for (name, at, value) in [("self_attn.v_proj", (16 + 3) * 48 + 5, 42f32), ("mlp.down_proj", 11 * 80 + 7, 43f32)] {
        let view = parsed.tensor(&format!("model.layers.0.{name}.weight")).expect("there");
        assert_eq!(view.data()[4 * at..4 * at + 4], value.to_le_bytes(), "{name}");
    }
}

#[test]
fn the_configuration_comes_back_and_tells_what_shapes_do_not() {
    for (biases, tied) in [(false, false), (true, true)] {
        for scaling in [
            RopeScaling::None,
            RopeScaling::Linear { factor: 2.5 },
            RopeScaling::Llama3 {
                factor: 8.0,
                low_frequency_factor: 1.0,
                high_frequency_factor: 4.0,
                original_context: 64,
            },
        ] {
            let mut written = spec(biases, tied);
            let rope = &mut written.model.as_llama_mut().expect("a Llama").rope;
            (rope.theta, rope.scaling) = (500_000.0, scaling);
            let model = Model::of(written);
            let init = model.hf(Dtype::F32, u64::MAX);
            assert_eq!(shoal_config::hf::model_of(model.dir.path()).expect("our own file"), model.spec.model);
            let mut other = Model::of(model.spec.clone());
            other.spec.model.as_llama_mut().expect("a Llama").rope.theta = 10_000.0;
            let Err(FilesError::Config { source, .. }) = other.open(&init) else { panic!("another theta") };
            assert!(source.to_string().ends_with("its rope_theta is 500000, and the job's 10000"), "{source}");
        }
    }
    let gpt2 = Model::of(job(1, 2, 16, 8, 65, 0.0));
    let there = Model::of(spec(false, false));
    let Err(FilesError::Config { source, .. }) = gpt2.open(&there.hf(Dtype::F32, u64::MAX)) else { panic!("a Llama") };
    assert!(source.to_string().ends_with("its kind is llama, and the job's gpt2"), "{source}");
}

/// No llm.c checkpoint is a Llama.
#[test]
fn a_checkpoint_of_the_other_family_is_refused() {
    assert_eq!(llmc::header(&spec(false, false), Version::Single, None), None);
    let init = Model::of(job(1, 2, 16, 8, 65, 0.0));
    let checkpoint = init.llmc(Version::Single);
    let Err(FilesError::Tensors { wrong, .. }) = Model::of(spec(false, false)).open(&checkpoint) else {
        panic!("another family")
    };
    assert_eq!(wrong, ["it is a GPT-2, and the job's model is a Llama"]);
}
