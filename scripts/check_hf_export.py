"""Checks that `transformers` loads a model that Shoal wrote, and computes the same logits.

    pip install torch numpy transformers safetensors
    cargo run -p shoal-model --example hf_export -- DIR [PRESET]
    python scripts/check_hf_export.py DIR

Also takes a directory written by `shoalctl export JOB --to DIR`, in shards or not; then there are no logits of ours to compare
with, and it only checks that the model loads with every weight in place and predicts. With a second directory, which a job with
`[model] hf = "ORIGINAL"` and `steps = 0` began with, every tensor must have the same bytes, and logits must be equal:

    python scripts/check_hf_export.py DIR ORIGINAL

Exits 1 if something differs.
"""

import pathlib
import sys

import numpy
import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM

TOLERANCE = 1e-4
FAMILIES = ("GPT2LMHeadModel", "LlamaForCausalLM")


def load(directory: pathlib.Path):
    """The model, and what is wrong with it."""
    model, info = AutoModelForCausalLM.from_pretrained(directory, output_loading_info=True, dtype=torch.float32)
    wrong = {k: sorted(v) for k, v in info.items() if v and k in ("missing_keys", "unexpected_keys", "mismatched_keys")}
    if set(wrong.get("missing_keys", [])) == {"lm_head.weight"} and model.config.tie_word_embeddings:
        del wrong["missing_keys"]
    if type(model).__name__ not in FAMILIES:
        wrong["loaded as"] = type(model).__name__
    return model.eval(), wrong


def tensors(directory: pathlib.Path) -> dict[str, torch.Tensor]:
    found = {}
    for path in sorted(directory.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            found.update({name: file.get_tensor(name) for name in file.keys()})
    return found


def same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a.view(torch.uint8), b.view(torch.uint8))


def against(model, directory: pathlib.Path, original: pathlib.Path) -> int:
    ours, theirs = tensors(directory), tensors(original)
    odd = sorted(name for name in ours.keys() | theirs.keys() if name not in ours or name not in theirs)
    odd += sorted(name for name in ours.keys() & theirs.keys() if not same_bytes(ours[name], theirs[name]))
    tokens = torch.arange(min(model.config.max_position_embeddings, model.config.vocab_size))[None]
    with torch.no_grad():
        equal = torch.equal(model(tokens).logits, load(original)[0](tokens).logits)
    print(f"{len(ours)} tensors, {len(odd)} of other bytes {odd[:5]}; logits equal: {equal}")
    return 0 if equal and not odd else 1


def main(directory: pathlib.Path, *others: pathlib.Path) -> int:
    model, wrong = load(directory)
    if wrong:
        print(f"loaded with {wrong}")
        return 1
    if others:
        return against(model, directory, others[0])
    context = model.config.max_position_embeddings
    if not (directory / "shoal_logits.f32").exists():
        logits = model(torch.zeros(1, context, dtype=torch.long)).logits
        print(f"loads; logits {tuple(logits.shape)}, finite: {bool(logits.isfinite().all())}")
        return 0 if logits.isfinite().all() else 1
    tokens = numpy.fromfile(directory / "shoal_tokens.u32", dtype="<u4").astype(numpy.int64)
    ours = numpy.fromfile(directory / "shoal_logits.f32", dtype="<f4")
    with torch.no_grad():
        theirs = model(torch.from_numpy(tokens.reshape(-1, context))).logits
    worst = float(numpy.abs(theirs.numpy().reshape(-1) - ours).max())
    print(f"loads; {theirs.numel()} logits differ by at most {worst:.2e} (largest {theirs.abs().max():.2f})")
    return 0 if worst <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main(*map(pathlib.Path, sys.argv[1:])))
