"""Checks that `transformers` loads a model that Shoal wrote, and computes the same logits.

    pip install torch numpy transformers safetensors
    cargo run -p shoal-model --example hf_export -- DIR
    python scripts/check_hf_export.py DIR

Also takes a directory written by `shoalctl export JOB --to DIR`; then there are no logits of ours to compare with, and it
only checks that the model loads with every weight in place and predicts. Exits 1 if something differs.
"""

import pathlib
import sys

import numpy
import torch
from transformers import AutoModelForCausalLM

TOLERANCE = 1e-4


def main(directory: pathlib.Path) -> int:
    model, info = AutoModelForCausalLM.from_pretrained(directory, output_loading_info=True, dtype=torch.float32)
    wrong = {k: sorted(v) for k, v in info.items() if v and k in ("missing_keys", "unexpected_keys", "mismatched_keys")}
    if set(wrong.get("missing_keys", [])) == {"lm_head.weight"}:
        del wrong["missing_keys"]  # tied
    if wrong or type(model).__name__ != "GPT2LMHeadModel":
        print(f"loaded as {type(model).__name__} with {wrong}")
        return 1
    if not (directory / "shoal_logits.f32").exists():
        logits = model.eval()(torch.zeros(1, model.config.n_positions, dtype=torch.long)).logits
        print(f"loads; logits {tuple(logits.shape)}, finite: {bool(logits.isfinite().all())}")
        return 0 if logits.isfinite().all() else 1
    tokens = numpy.fromfile(directory / "shoal_tokens.u32", dtype="<u4").astype(numpy.int64)
    ours = numpy.fromfile(directory / "shoal_logits.f32", dtype="<f4")
    with torch.no_grad():
        theirs = model.eval()(torch.from_numpy(tokens.reshape(-1, model.config.n_positions))).logits
    worst = float(numpy.abs(theirs.numpy().reshape(-1) - ours).max())
    print(f"loads; {theirs.numel()} logits differ by at most {worst:.2e} (largest {theirs.abs().max():.2f})")
    return 0 if worst <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
