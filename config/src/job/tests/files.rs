//! Models whose weights lie in files.

use super::*;
use crate::spec::InitSpec;

/// A job file whose `[model]` has these lines, in a directory with a model of 2 layers, 2 heads, width 32, context 16.
fn with_model(lines: &str) -> Result<JobSpec, ConfigError> {
    let dir = tempfile::tempdir().expect("temp dir");
    let config = r#"{"model_type":"gpt2","n_layer":2,"n_head":2,"n_embd":32,"n_positions":16,"vocab_size":256,
        "resid_pdrop":0.1,"embd_pdrop":0.1,"attn_pdrop":0.1}"#;
    std::fs::create_dir(dir.path().join("m")).expect("made");
    std::fs::write(dir.path().join("m/config.json"), config).expect("written");
    let header = crate::llmc::Header {
        version: crate::llmc::Version::Single,
        context: 16,
        vocab: 256,
        layers: 2,
        heads: 2,
        width: 32,
        padded_vocab: 256,
    };
    let mut checkpoint = header.to_bytes();
    checkpoint.resize(header.bytes().expect("small") as usize, 0);
    std::fs::write(dir.path().join("m.bin"), checkpoint).expect("written");
    let text = format!("[model]\n{lines}\n[data]\nkind = \"text\"\npath = \"a\"\n[train]\nsteps = 0\n");
    let spec = parse(&text, "job.toml", dir.path())?;
    assert!(spec.init.path().is_some_and(|path| path.starts_with(dir.path())));
    Ok(spec)
}

#[test]
fn a_model_may_lie_in_files() {
    let typed = "kind = \"gpt2\"\nlayers = 2\nheads = 2\nwidth = 32\n";
    let spec = with_model("hf = \"m\"").expect("a model");
    assert_eq!((spec.model.layers(), spec.model.context(), spec.model.dropout()), (2, 16, 0.1));
    assert!(matches!(spec.init, InitSpec::Hf(_)));
    assert_eq!((spec.train.steps, spec.train.evaluate), (0, None));
    let spec = with_model("hf = \"m\"\ncontext = 8\ndropout = 0").expect("a model");
    assert_eq!((spec.model.context(), spec.model.dropout()), (8, 0.0));
    let spec = with_model("llmc = \"m.bin\"").expect("a model");
    assert!(matches!(spec.init, InitSpec::LlmC(_)) && spec.model.vocab() == 256);
    let spec = with_model(&format!("{typed}context = 8\ninit_from = \"m\"")).expect("a model");
    assert!(matches!(spec.init, InitSpec::Hf(_)) && spec.model.context() == 8);
    let spec = with_model(&format!("{typed}context = 16\ninit_from = \"m.bin\"")).expect("a model");
    assert!(matches!(spec.init, InitSpec::LlmC(_)));
}

/// More positions than are trained, and more than a micro-batch has, are refused in words, not in a panic.
#[test]
fn files_with_many_positions_need_a_context() {
    let config = |positions: u32| {
        format!(
            r#"{{"model_type":"llama","hidden_act":"silu","num_hidden_layers":2,"num_attention_heads":2,"hidden_size":32,
            "intermediate_size":64,"vocab_size":256,"max_position_embeddings":{positions}}}"#
        )
    };
    for positions in [131_072, 262_144, u32::MAX] {
        let dir = tempfile::tempdir().expect("temp dir");
        std::fs::create_dir(dir.path().join("m")).expect("made");
        std::fs::write(dir.path().join("m/config.json"), config(positions)).expect("written");
        let read = |beside: &str| {
            let text =
                format!("[model]\nhf = \"m\"\n{beside}[data]\nkind = \"text\"\npath = \"a\"\n[train]\nsteps = 1\n");
            parse(&text, "job.toml", dir.path())
        };
        let error = read("").expect_err("too many").to_string();
        let says =
            format!("`model.context` is {positions}; allowed: a whole number from 1 to 65536; context = N beside");
        assert!(error.starts_with("job.toml:2: `model.hf` is \"m\": ") && error.contains(&says), "{error}");
        assert_eq!(read("context = 512\n").expect("fewer").model.context(), 512);
        let error = read("context = 70000\n").expect_err("too many").to_string();
        assert!(error.contains("`model.context` is 70000; allowed: a whole number from 1 to 65536"), "{error}");
    }
}

#[test]
fn what_conflicts_with_files_is_refused_with_its_line() {
    let typed = "kind = \"gpt2\"\nheads = 4\nwidth = 32\n";
    for (lines, says) in [
        (
            "hf = \"m\"\nwidth = 32",
            "job.toml:3: `model.width` is 32: model.hf says it already; only context and dropout",
        ),
        ("hf = \"m\"\ncontext = 17", "job.toml:3: `model.context` is 17; allowed: a whole number from 1 to 16"),
        ("hf = \"n\"", "job.toml:2: `model.hf` is \"n\": "),
        ("llmc = \"m/config.json\"", "bytes are shorter than its header of 1024"),
        ("hf = \"m\"\ninit_from = \"m\"", "model.hf and model.init_from cannot both"),
        (
            &format!("{typed}layers = 3\ncontext = 32\ninit_from = \"m\""),
            "its layers is 2, and the job's 3; its heads is 2, and the job's 4; it has 16 positions, and the job's context is 32",
        ),
    ] {
        let found = with_model(lines).expect_err(says).to_string();
        assert!(found.contains(says), "{found}");
    }
}
