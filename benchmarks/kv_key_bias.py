"""A key bias that captures the scale of 8-bit keys, planted in a real model, and its repair.

Some numbers of the bias of every kv head are set in the layers that are named, those that positions
turn slowest, so that the model itself changes little; the dense cache of the planted model is what
all layouts are held against. Prints a table in Markdown.

    python benchmarks/kv_key_bias.py --text wikitext2-valid.txt --bias 100 --numbers 4 --layers all
"""

import argparse
from math import exp
from pathlib import Path
from statistics import fmean

import torch

from assay.quality.bands import band_of
from assay.quality.proofs import prove
from assay.quality.readers import open_reader, windows_of
from assay.quality.scoring import score

LAYOUTS = ("dense", "k8v16", "k16v8", "k8v8", "k8prebias_v8")


def plant(model, *, size, numbers, layers):
    """Give every layer a key bias, zero but for one number of each head in `layers`."""
    for index, layer in enumerate(model.model.layers):
        attention = layer.self_attn
        weight = attention.k_proj.weight
        bias = torch.zeros(weight.shape[0], dtype=weight.dtype, device=weight.device)
        if index in layers:
            bias.view(-1, attention.head_dim)[:, -numbers:] = size
        attention.k_proj.bias = torch.nn.Parameter(bias)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--window", type=int, default=512)
    parser.add_argument("--bias", type=float, default=400.0)
    parser.add_argument("--numbers", type=int, default=1, help="of each head, the slowest")
    parser.add_argument("--layers", default="0")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    reader = open_reader(options.model, dtype=options.dtype, device=options.device)
    ids = reader.token_ids(options.text.read_text(encoding="utf-8"))
    windows = windows_of(
        ids, tokens=options.tokens, window=options.window, source=str(options.text)
    )
    before = fmean(score(reader, ["dense"], windows, dense="dense")["dense"].by_window["nll"])
    count = len(reader.loaded.model.model.layers)
    named = range(count) if options.layers == "all" else map(int, options.layers.split(","))
    layers = set(named)
    plant(reader.loaded.model, size=options.bias, numbers=options.numbers, layers=layers)
    for name in LAYOUTS:
        if problem := prove(reader, name, windows).problem:
            raise SystemExit(f"{name}: {problem}")
    scores = score(reader, LAYOUTS, windows, dense="dense")
    dense = fmean(scores["dense"].by_window["nll"])
    print(
        f"{options.model} in {options.dtype} on {options.device}, torch {torch.__version__}, "
        f"{windows.numel():,} tokens in windows of {windows.shape[1]}; bias {options.bias:g} in "
        f"{options.numbers} numbers of each head, layers {options.layers}: loss {before:.4f} "
        f"before, {dense:.4f} with it\n"
    )
    print("| layout | loss | above dense | perplexity | same choice | KL | band |")
    print("|---|---|---|---|---|---|---|")
    for name, scored in scores.items():
        rows = {metric: fmean(values) for metric, values in scored.by_window.items()}
        band = band_of(dense_nll=dense, nll=rows["nll"], agreement=rows["agrees"])
        print(
            f"| {name} | {rows['nll']:.4f} | {rows['nll'] - dense:+.4f} | {exp(rows['nll']):.2f} | "
            f"{rows['agrees']:.2%} | {rows['divergence']:.2g} | {band} |"
        )


if __name__ == "__main__":
    main()
