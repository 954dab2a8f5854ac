//! The state digest, recomputed from an export by the words of docs/semantics.md alone.

use std::fs;
use std::path::Path;

/// The digest of an exported state of a GPT-2 with so many layers.
///
/// # Panics
/// If a tensor that the definition names is not there.
#[must_use]
pub fn recompute(dir: &Path, layers: usize) -> String {
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
    let blocks = std::iter::once(["wte", "wpe"].as_slice())
        .chain(std::iter::repeat_n(layer.as_slice(), layers))
        .chain([["ln_f.weight", "ln_f.bias"].as_slice()]);
    let blocks: Vec<_> = blocks.collect();
    let mut whole = blake3::Hasher::new();
    for kind in ["weight", "moment1", "moment2"] {
        for (number, names) in blocks.iter().enumerate() {
            let path = dir.join(format!("block{number:03}.{kind}.safetensors"));
            let bytes = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            let tensors = safetensors::SafeTensors::deserialize(&bytes).expect("safetensors");
            for name in *names {
                let tensor = tensors.tensor(&format!("{kind}.{name}")).unwrap_or_else(|e| panic!("{name}: {e}"));
                for segment in tensor.data().chunks(4096 * 4) {
                    whole.update(blake3::hash(segment).as_bytes());
                }
            }
        }
    }
    whole.finalize().to_hex().to_string()
}
