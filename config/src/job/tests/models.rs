//! `[model]` of the Llama family, and the keys that one family has and the other has not.

use super::*;
use crate::spec::{LlamaSpec, RopeScaling, RopeSpec};

fn llama(keys: &str) -> Result<ModelSpec, ConfigError> {
    let text = MINIMAL.replace("kind = \"gpt2\"", "kind = \"llama\"");
    parse_here(&text.replace("context = 16\n", &format!("context = 16\n{keys}"))).map(|spec| spec.model)
}

#[test]
fn a_llama_needs_no_more_keys_than_a_gpt2() {
    let spec = LlamaSpec {
        layers: 2,
        heads: 2,
        kv_heads: 2,
        head_size: 16,
        width: 32,
        inner: 256,
        context: 16,
        vocab: 256,
        norm_epsilon: 1e-6,
        init_range: 0.02,
        rope: RopeSpec { theta: 10_000.0, scaling: RopeScaling::None },
        tied_head: false,
        attention_bias: false,
        mlp_bias: false,
        attention_dropout: 0.0,
    };
    assert_eq!(llama("").expect("valid file"), ModelSpec::Llama(spec));
}

#[test]
fn every_key_of_a_llama_is_read() {
    let keys = "vocab = 1000000\nkv_heads = 1\nhead_size = 24\ninner = 48\nnorm_epsilon = 1e-5\ninit_range = 0.01\n\
                rope_theta = 500000\nrope_scaling = \"llama3\"\nrope_factor = 8\nrope_low_frequency_factor = 0.5\n\
                rope_high_frequency_factor = 3.5\nrope_original_context = 4096\ntied_head = true\nattention_bias = true\n\
                mlp_bias = true\nattention_dropout = 0.25\n";
    let text = MINIMAL.replace("kind = \"gpt2\"", "kind = \"llama\"").replace("kind = \"text\"", "kind = \"nanogpt\"");
    let spec = parse_here(&text.replace("context = 16\n", &format!("context = 16\n{keys}"))).expect("valid file");
    let scaling = RopeScaling::Llama3 {
        factor: 8.0,
        low_frequency_factor: 0.5,
        high_frequency_factor: 3.5,
        original_context: 4096,
    };
    let expected = LlamaSpec {
        layers: 2,
        heads: 2,
        kv_heads: 1,
        head_size: 24,
        width: 32,
        inner: 48,
        context: 16,
        vocab: 1_000_000,
        norm_epsilon: 1e-5,
        init_range: 0.01,
        rope: RopeSpec { theta: 500_000.0, scaling },
        tied_head: true,
        attention_bias: true,
        mlp_bias: true,
        attention_dropout: 0.25,
    };
    assert_eq!(spec.model, ModelSpec::Llama(expected));
    assert_eq!(spec.check(), Ok(()));
}

#[test]
fn inner_is_two_thirds_of_four_widths_in_whole_256s() {
    for (width, inner) in [(32, 256), (384, 1024), (768, 2048), (4096, 11_008), (5120, 13_824)] {
        let text = MINIMAL
            .replace("kind = \"gpt2\"", "kind = \"llama\"")
            .replace("heads = 2", "heads = 8")
            .replace("width = 32", &format!("width = {width}"));
        assert_eq!(parse_here(&text).expect("valid file").model.inner(), inner, "{width}");
    }
}

#[test]
fn errors_of_a_llama_name_line_key_found_and_allowed() {
    for (keys, message) in [
        ("kv_heads = 0", "small.toml:7: `model.kv_heads` is 0; allowed: a whole number from 1 to 1024"),
        ("kv_heads = 3", "small.toml:7: `model.kv_heads` is 3; allowed: a number that divides model.heads = 2"),
        (
            "head_size = 15",
            "small.toml:7: `model.head_size` is 15; allowed: an even number, with heads x head_size a mult",
        ),
        (
            "head_size = 12",
            "small.toml:7: `model.head_size` is 12; allowed: an even number, with heads x head_size a mult",
        ),
        ("inner = 100", "small.toml:7: `model.inner` is 100; allowed: a multiple of 16"),
        ("inner = \"big\"", "small.toml:7: `model.inner` is \"big\"; allowed: a whole number from 16 to 1048576"),
        ("norm_epsilon = 0", "small.toml:7: `model.norm_epsilon` is 0; allowed: a number above 0"),
        ("rope_theta = 0.5", "small.toml:7: `model.rope_theta` is 0.5; allowed: a number from 1"),
        ("tied_head = 1", "small.toml:7: `model.tied_head` is 1; allowed: true or false"),
        (
            "rope_scaling = \"yarn\"",
            "small.toml:7: `model.rope_scaling` is \"yarn\"; allowed: \"none\", \"linear\" or \"llama3\"",
        ),
        ("rope_scaling = \"linear\"", "small.toml:1: `model.rope_factor` is missing; allowed: a number from 1"),
        (
            "rope_factor = 2",
            "small.toml:7: `model.rope_factor` is 2; allowed: left out, unless rope_scaling = \"linear\" or",
        ),
        (
            "rope_scaling = \"linear\"\nrope_factor = 2\nrope_original_context = 9",
            "small.toml:9: `model.rope_original_context` is 9; allowed: left out, unless rope_scaling = \"llama3\"",
        ),
        (
            "rope_scaling = \"llama3\"\nrope_factor = 2\nrope_low_frequency_factor = 4",
            "small.toml:9: `model.rope_low_frequency_factor` is 4; allowed: a number below rope_high_frequency_factor = 4",
        ),
        (
            "rope_scaling = \"llama3\"\nrope_factor = 2\nrope_high_frequency_factor = 1",
            "small.toml:9: `model.rope_high_frequency_factor` is 1; allowed: a number above rope_low_frequency_factor = 1",
        ),
        (
            "vocab = 2000000",
            "small.toml:7: `model.vocab` is 2000000; allowed: \"bytes\" or a whole number from 2 to 1048576",
        ),
    ] {
        let error = llama(&format!("{keys}\n")).expect_err(keys).to_string();
        assert!(error.starts_with(message), "found    {error}\nexpected {message}");
    }
    let odd = MINIMAL.replace("kind = \"gpt2\"", "kind = \"llama\"").replace("heads = 2", "heads = 3");
    let error = parse_here(&odd).expect_err("3 heads of 32").to_string();
    let message =
        "small.toml:4: `model.heads` is 3; allowed: a number that divides model.width = 32, unless model.head_size";
    assert!(error.starts_with(message), "{error}");
}

#[test]
fn a_head_size_that_follows_from_heads_is_held_to_its_limits() {
    let text = MINIMAL.replace("kind = \"gpt2\"", "kind = \"llama\"").replace("heads = 2", "heads = 1");
    let error = parse_here(&text.replace("width = 32", "width = 2048")).expect_err("2048 in a head").to_string();
    let says =
        "small.toml:4: `model.heads` is 1; allowed: a number that makes model.width / heads a whole number from 2";
    assert!(error.starts_with(says), "{error}");
}

#[test]
fn a_gpt2_has_biases_and_one_table_unless_it_says_otherwise() {
    for (keys, bias, tied_head) in [("", true, true), ("bias = false\ntied_head = false\n", false, false)] {
        let text = MINIMAL.replace("context = 16\n", &format!("context = 16\n{keys}"));
        let model = parse_here(&text).expect("valid file").model;
        assert_eq!(model.as_gpt2().map(|model| (model.bias, model.tied_head)), Some((bias, tied_head)));
    }
}

/// A key of the other family is named, not passed over.
#[test]
fn keys_of_the_other_family_are_refused() {
    for key in ["dropout = 0.1", "layer_norm_epsilon = 1e-5", "bias = true"] {
        let error = llama(&format!("{key}\n")).expect_err(key).to_string();
        let name = key.split(' ').next().unwrap_or_default();
        assert!(
            error.starts_with(&format!("small.toml:7: `model.{name}` is ")) && error.contains("left out"),
            "{error}"
        );
    }
    for key in [
        "kv_heads = 2",
        "head_size = 16",
        "inner = 64",
        "norm_epsilon = 1e-5",
        "rope_theta = 1e4",
        "rope_scaling = \"none\"",
        "rope_factor = 2",
        "rope_low_frequency_factor = 1",
        "rope_high_frequency_factor = 4",
        "rope_original_context = 8192",
        "attention_bias = false",
        "mlp_bias = false",
        "attention_dropout = 0.1",
    ] {
        let text = MINIMAL.replace("context = 16\n", &format!("context = 16\n{key}\n"));
        let error = parse_here(&text).expect_err(key).to_string();
        let name = key.split(' ').next().unwrap_or_default();
        assert!(
            error.starts_with(&format!("small.toml:7: `model.{name}` is ")) && error.contains("left out"),
            "{error}"
        );
    }
}

const ON_A_PRESET: &str = "[model]\npreset = \"llama-tiny\"\nlayers = 2\nvocab = 300\n[data]\nkind = \"text\"\npath = \"a\"\n\
                           [train]\nsteps = 20\n";

#[test]
fn a_model_by_preset_takes_what_is_typed_beside_it() {
    let spec = parse(ON_A_PRESET, "a.toml", Path::new("/")).expect("a job");
    let mut preset = crate::preset("llama-tiny", Path::new("/a")).expect("a preset").model;
    let llama = preset.as_llama_mut().expect("a Llama");
    (llama.layers, llama.vocab) = (2, 300);
    assert_eq!(spec.model, preset);
    assert_eq!((spec.name.as_str(), spec.train.steps), ("a", 20), "only the model is the preset's");
    let refused = |from: &str, to: &str| {
        let text = ON_A_PRESET.replace(from, to);
        parse(&text, "a.toml", Path::new("/")).expect_err("refused").to_string()
    };
    let said = refused("llama-tiny", "llama-huge");
    assert!(said.starts_with("a.toml:2: `model.preset` is \"llama-huge\"; allowed: demo, bench-s"), "{said}");
    let said = refused("layers = 2", "kind = \"gpt2\"");
    assert!(said.contains("a.toml:3: `model.kind` is \"gpt2\"; allowed: left out"), "{said}");
    let said = refused("layers = 2", "dropout = 0.1");
    assert!(said.contains("a.toml:3: `model.dropout`"), "{said}");
    let said = refused("layers = 2", "width = 72");
    assert!(said.contains("a.toml:3: `model.width`"), "{said}");
    let said = refused("layers = 2", "hf = \"/somewhere\"");
    assert!(said.contains("`model.hf`") && said.contains("/somewhere"), "{said}");
}
