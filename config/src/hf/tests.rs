use serde_json::json;

use super::*;

fn gpt2() -> Value {
    json!({
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "activation_function": "gelu_new",
        "vocab_size": 50257, "n_positions": 1024, "n_ctx": 1024, "n_embd": 768, "n_layer": 12, "n_head": 12,
        "n_inner": null, "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1, "layer_norm_epsilon": 1e-5,
        "initializer_range": 0.02, "summary_type": "cls_index", "task_specific_params": {"a": {"b": 1}},
    })
}

fn read(config: &Value) -> Result<ModelSpec, HfError> {
    let dir = tempfile::tempdir().expect("temp dir");
    fs::write(dir.path().join("config.json"), config.to_string()).expect("written");
    model_of(dir.path())
}

#[test]
fn the_sizes_of_gpt2() {
    let model = read(&gpt2()).expect("a GPT-2");
    let sizes = (model.layers(), model.heads(), model.width(), model.context(), model.vocab());
    assert_eq!(sizes, (12, 12, 768, 1024, 50_257));
    assert_eq!((model.dropout(), model.norm_epsilon()), (0.1, 1e-5));
}

#[test]
fn what_is_not_computed_is_refused_by_name() {
    for (key, value, says) in [
        ("model_type", json!("bert"), "model_type is \"bert\""),
        ("activation_function", json!("relu"), "activation_function is \"relu\"; gelu_new or gelu_pytorch_tanh"),
        ("n_inner", json!(1000), "n_inner is 1000"),
        ("scale_attn_by_inverse_layer_idx", json!(true), "scale_attn_by_inverse_layer_idx is true; false is computed"),
        ("tie_word_embeddings", json!(false), "tie_word_embeddings is false; true is computed"),
        ("attn_pdrop", json!(0.2), "attn_pdrop is 0.2; one probability"),
        ("n_layer", json!(-1), "n_layer is -1; a whole number above 0"),
        ("n_head", Value::Null, "n_head is null"),
    ] {
        let mut config = gpt2();
        config[key] = value;
        let found = read(&config).expect_err(key).to_string();
        assert!(found.contains(says), "{found}");
    }
    assert!(matches!(read(&json!([1])), Err(HfError::Json { .. })));
    assert!(matches!(model_of(Path::new("/no/such/place")), Err(HfError::Read { .. })));
}
