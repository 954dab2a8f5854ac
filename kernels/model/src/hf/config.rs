//! `config.json` as `transformers` reads it.

use serde_json::{Value, json};
use shoal_config::JobSpec;
use shoal_config::spec::{Dtype, LlamaSpec, ModelSpec, RopeScaling};

use crate::files::dtype::torch_name;

/// The model's `config.json`, but for the tokens that begin and end a text, which [`super::mark`] says.
#[must_use]
pub fn config_json(spec: &JobSpec, dtype: Dtype) -> Value {
    let mut config = match &spec.model {
        ModelSpec::Gpt2(gpt2) => self::gpt2(&spec.model, gpt2.tied_head),
        ModelSpec::Llama(llama) => self::llama(llama),
    };
    config["dtype"] = json!(torch_name(dtype));
    config["torch_dtype"] = json!(torch_name(dtype));
    config
}

fn gpt2(model: &ModelSpec, tied_head: bool) -> Value {
    json!({
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "activation_function": "gelu_new",
        "vocab_size": model.vocab(),
        "n_positions": model.context(),
        "n_ctx": model.context(),
        "n_embd": model.width(),
        "n_layer": model.layers(),
        "n_head": model.heads(),
        "n_inner": Value::Null,
        "resid_pdrop": shortest(model.dropout()),
        "embd_pdrop": shortest(model.dropout()),
        "attn_pdrop": shortest(model.dropout()),
        "layer_norm_epsilon": shortest(model.norm_epsilon()),
        "initializer_range": shortest(model.init_range()),
        "scale_attn_weights": true,
        "scale_attn_by_inverse_layer_idx": false,
        "reorder_and_upcast_attn": false,
        "tie_word_embeddings": tied_head,
        "use_cache": true,
    })
}

/// Releases up to 4 read `rope_theta` and `rope_scaling`, later ones `rope_parameters`.
fn llama(model: &LlamaSpec) -> Value {
    let scaling = match model.rope.scaling {
        RopeScaling::None => None,
        RopeScaling::Linear { factor } => Some(json!({"rope_type": "linear", "factor": factor})),
        RopeScaling::Llama3 { factor, low_frequency_factor, high_frequency_factor, original_context } => Some(json!({
            "rope_type": "llama3",
            "factor": factor,
            "low_freq_factor": low_frequency_factor,
            "high_freq_factor": high_frequency_factor,
            "original_max_position_embeddings": original_context,
        })),
    };
    let mut parameters = scaling.clone().unwrap_or_else(|| json!({"rope_type": "default"}));
    parameters["rope_theta"] = json!(model.rope.theta);
    json!({
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_act": "silu",
        "vocab_size": model.vocab,
        "max_position_embeddings": model.context,
        "hidden_size": model.width,
        "intermediate_size": model.inner,
        "num_hidden_layers": model.layers,
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads,
        "head_dim": model.head_size,
        "rms_norm_eps": shortest(model.norm_epsilon),
        "initializer_range": shortest(model.init_range),
        "rope_parameters": parameters,
        "rope_theta": model.rope.theta,
        "rope_scaling": scaling,
        "tie_word_embeddings": model.tied_head,
        "attention_bias": model.attention_bias,
        "attention_dropout": shortest(model.attention_dropout),
        "mlp_bias": model.mlp_bias,
        "use_cache": true,
    })
}

/// The f64 whose shortest decimal is the f32's shortest decimal: 0.1, not 0.10000000149.
fn shortest(x: f32) -> f64 {
    x.to_string().parse().expect("an f32 prints as a number")
}
