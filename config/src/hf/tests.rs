use std::fs;

use serde_json::json;

use super::*;
use crate::spec::{RopeScaling, RopeSpec};

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
    assert!(model.as_gpt2().is_some_and(Gpt2Spec::is_usual));
    let mut own = gpt2();
    own["tie_word_embeddings"] = json!(false);
    let own = read(&own).expect("a GPT-2 with a head of its own");
    assert!(own.as_gpt2().is_some_and(|model| model.bias && !model.tied_head) && !own.is_of_llmc());
    assert_eq!(own.can_begin_with(&model).expect_err("two tables"), "its tied_head is true, and the job's false");
}

/// A GPT-2 with three probabilities can be trained with one that the job says.
#[test]
fn a_dropout_that_the_job_says_goes_before_three_that_differ() {
    let mut config = gpt2();
    config["attn_pdrop"] = json!(0.0);
    let dir = tempfile::tempdir().expect("temp dir");
    fs::write(dir.path().join("config.json"), config.to_string()).expect("written");
    let said = model_of(dir.path()).expect_err("three").to_string();
    assert!(said.contains("attn_pdrop is 0.0; one probability") && said.contains("dropout = X in [model]"), "{said}");
    let model = model_with(dir.path(), Some(0.25)).expect("one");
    assert_eq!(model.dropout(), 0.25);
    check(dir.path(), &model).expect("the model of these files");
}

#[test]
fn what_is_not_computed_is_refused_by_name() {
    for (key, value, says) in [
        ("model_type", json!("bert"), "model_type is \"bert\"; \"gpt2\" and \"llama\" can be trained"),
        ("activation_function", json!("relu"), "activation_function is \"relu\"; gelu_new or gelu_pytorch_tanh"),
        ("n_inner", json!(1000), "n_inner is 1000"),
        ("scale_attn_by_inverse_layer_idx", json!(true), "scale_attn_by_inverse_layer_idx is true; false is computed"),
        ("tie_word_embeddings", json!(1), "tie_word_embeddings is 1; true or false is needed"),
        ("attn_pdrop", json!(0.2), "attn_pdrop is 0.2; one probability"),
        ("n_layer", json!(-1), "n_layer is -1; a whole number from 1"),
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

fn llama() -> Value {
    json!({
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "vocab_size": 128_256,
        "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
        "num_key_value_heads": 8, "head_dim": 64, "max_position_embeddings": 131_072, "rms_norm_eps": 1e-5,
        "initializer_range": 0.02, "tie_word_embeddings": true, "attention_bias": false, "mlp_bias": false,
        "attention_dropout": 0.0, "pretraining_tp": 1, "rope_theta": 500_000.0, "rope_scaling": {
            "rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
    })
}

/// The same said the way of later releases, and what is left out has the family's defaults.
#[test]
fn a_llama_as_early_and_late_releases_say_it() {
    let ModelSpec::Llama(model) = read(&llama()).expect("a Llama") else { panic!("a Llama") };
    let (grouped, rope) = ((model.heads, model.kv_heads, model.head_size, model.inner), model.rope);
    assert_eq!((grouped, model.tied_head, model.norm_epsilon), ((32, 8, 64, 8192), true, 1e-5));
    let scaling = RopeScaling::Llama3 {
        factor: 32.0,
        low_frequency_factor: 1.0,
        high_frequency_factor: 4.0,
        original_context: 8192,
    };
    assert_eq!(rope, RopeSpec { theta: 500_000.0, scaling });

    let mut late = llama();
    let mut parameters = late["rope_scaling"].clone();
    parameters["rope_theta"] = json!(500_000.0);
    late["rope_parameters"] = parameters;
    for key in ["rope_theta", "rope_scaling"] {
        late.as_object_mut().expect("an object").remove(key);
    }
    assert_eq!(read(&late).expect("a Llama"), ModelSpec::Llama(model));

    let mut bare = llama();
    for key in ["num_key_value_heads", "head_dim", "rms_norm_eps", "tie_word_embeddings", "rope_theta", "rope_scaling"]
    {
        bare.as_object_mut().expect("an object").remove(key);
    }
    let ModelSpec::Llama(bare) = read(&bare).expect("a Llama") else { panic!("a Llama") };
    assert_eq!((bare.kv_heads, bare.head_size, bare.norm_epsilon, bare.tied_head), (32, 64, 1e-6, false));
    assert_eq!(bare.rope, RopeSpec { theta: 1e4, scaling: RopeScaling::None });
}

#[test]
fn of_a_llama_too_what_is_not_computed_is_refused_by_name() {
    for (key, value, says) in [
        ("hidden_act", json!("gelu"), "hidden_act is \"gelu\"; silu or swish is computed"),
        ("attention_dropout", json!("some"), "attention_dropout is \"some\"; a number is needed"),
        ("rope_scaling", json!({"type": "yarn", "factor": 2.0}), "rope_type default, linear or llama3 is computed"),
        ("rope_scaling", json!({"type": "linear"}), "a number factor is needed in it"),
        (
            "rope_scaling",
            json!({"type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                   "original_max_position_embeddings": 8192.7}),
            "a whole number original_max_position_embeddings from 1 to 4294967295 is needed in it",
        ),
        ("rope_scaling", json!(3), "rope_scaling is 3; an object is needed"),
        ("rope_parameters", json!({"rope_type": "default"}), "rope_parameters says otherwise; take one of them out"),
        ("rope_theta", json!("big"), "rope_theta is \"big\"; a number is needed"),
        ("tie_word_embeddings", json!(1), "tie_word_embeddings is 1; true or false is needed"),
        ("num_key_value_heads", json!(0), "num_key_value_heads is 0; a whole number from 1"),
        ("intermediate_size", Value::Null, "intermediate_size is null"),
    ] {
        let mut config = llama();
        config[key] = value;
        let found = read(&config).expect_err(key).to_string();
        assert!(found.contains(says), "{found}");
    }
}
