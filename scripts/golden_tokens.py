#!/usr/bin/env python3
"""Makes actors/data/golden: token ids by other implementations, two small tokenizer.json, and small tables.

pip install tokenizers tiktoken pyarrow
scripts/golden_tokens.py VOCABULARIES actors/data/golden

VOCABULARIES has OpenAI's encoder.json, vocab.bpe and o200k_base.tiktoken (they lie in the assets of crate tiktoken-rs).
GPT-2's ids come from Hugging Face tokenizers, o200k's from Python's tiktoken.
"""

import json
import pathlib
import sys

import pyarrow
import pyarrow.parquet
import tiktoken
from tiktoken.load import load_tiktoken_bpe
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

TEXTS = [
    "",
    "Hello, world!",
    "  two spaces,\ttab\n\n\nthree newlines   \n",
    "don't we'll THEY'RE I'VE",
    "naïve café – “quotes” … Ελληνικά 日本語 한국어 🦀🦀 👩‍👩‍👧",
    "x = [1, 22, 333, 4444, 55555];\r\n\tif (a != b) { return a/b; } // ok\r\n",
    "<|endoftext|> is text here",
    "a\u0301 \u200b zero-width, nbsp\u00a0end",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "First Citizen:\nBefore we proceed any further, hear me speak.\n\nAll:\nSpeak, speak.\n",
]

O200K = "|".join([
    r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
    r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
    r"""\p{N}{1,3}""",
    r""" ?[^\s\p{L}\p{N}]+[\r\n/]*""",
    r"""\s*[\r\n]+""",
    r"""\s+(?!\S)""",
    r"""\s+""",
])


# Characters of several byte tokens each, one after the other.
BYTES = ["你好世界🦀🦀", "a 你好世界🦀🦀 b", "日本語ภาษาไทย end"]


def fallback(out: pathlib.Path) -> None:
    """A tokenizer as Llama 2's: words begin with U+2581, and what has no token becomes a token a byte."""
    texts = [*TEXTS, *BYTES]
    letters = sorted({c for text in TEXTS for c in text if c.isascii() and c.isalpha()})
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "\u2581", *letters]
    merges = [("\u2581", "t"), ("h", "e"), ("\u2581t", "he"), ("l", "l"), ("e", "r"), ("o", "r")]
    tokens += [left + right for left, right in merges]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence([
        decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)
    ])
    tokenizer.save(str(out / "fallback.json"), pretty=False)
    tokenizer.encode_special_tokens = True
    golden = []
    for text in texts:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        # Not always the text: one space at its beginning is lost.
        decoded = tokenizer.decode(ids, skip_special_tokens=False)
        golden.append({"text": text, "hf": ids, "decoded": decoded})
    (out / "fallback_tokens.json").write_text(json.dumps(golden, ensure_ascii=True) + "\n")


def main() -> None:
    vocabularies, out = map(pathlib.Path, sys.argv[1:3])
    out.mkdir(parents=True, exist_ok=True)

    gpt2 = Tokenizer(models.BPE.from_file(str(vocabularies / "encoder.json"), str(vocabularies / "vocab.bpe")))
    gpt2.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    o200k = tiktoken.Encoding(
        "o200k_base",
        pat_str=O200K,
        mergeable_ranks=load_tiktoken_bpe(str(vocabularies / "o200k_base.tiktoken")),
        special_tokens={"<|endoftext|>": 199999, "<|endofprompt|>": 200018},
    )

    small = Tokenizer(models.BPE())
    small.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    small.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>"],
        show_progress=False,
    )
    small.train_from_iterator(TEXTS[1:], trainer)
    small.enable_truncation(4)  # a file may ask for it; data must not be cut
    small.save(str(out / "tokenizer.json"), pretty=False)
    small.no_truncation()
    small.encode_special_tokens = True

    golden = [
        {
            "text": text,
            "gpt2": gpt2.encode(text).ids,
            "o200k": o200k.encode_ordinary(text),
            "hf": small.encode(text, add_special_tokens=False).ids,
        }
        for text in TEXTS
    ]
    (out / "tokens.json").write_text(json.dumps(golden, ensure_ascii=True, indent=1) + "\n")

    fallback(out)

    table = pyarrow.table({"id": list(range(7)), "text": [*TEXTS[:3], None, *TEXTS[3:6]]})
    for codec in ["snappy", "zstd", "gzip", "lz4", "none"]:
        pyarrow.parquet.write_table(table, out / f"{codec}.parquet", compression=codec, row_group_size=3)


main()
