"""Our caches beside transformers' own, DynamicCache and QuantizedCache("fp8"): bytes, loss, time.

Windows of a text are read as `generate` reads them: a prompt in one pass, then token by token, all
caches in turn. The loss is of the tokens behind the prompt, so that every cache is read as it was
written. Prints a table in Markdown.

    python benchmarks/kv_peer.py --model smollm2 --text wikitext2-valid.txt
"""

import argparse
import time
from pathlib import Path
from statistics import fmean, median, stdev

import torch
import transformers

from assay.integrations.transformers import LayoutCache
from assay.kv.calibration import calibrated
from assay.models.pretrained import catalog

DYNAMIC, PEER = "transformers DynamicCache", 'transformers QuantizedCache("fp8")'
OURS = ("dense", "k16v8", "k8v8", "k8v8_frozen")


def caches_of(model, prompt):
    """Empty caches by name. Frozen scales are calibrated from the prompt, as the peer's are."""
    with torch.no_grad():
        dense = LayoutCache(model, "dense")
        model(prompt, past_key_values=dense)
        scales = calibrated([layer.encoded for layer in dense.layers])
    made = {DYNAMIC: transformers.DynamicCache(config=model.config)}
    try:
        made[PEER] = transformers.QuantizedCache("fp8", model.config)
    except (ValueError, TypeError) as error:
        print(f"without the peer: transformers {transformers.__version__} says {error}")
    for name in OURS:
        made[name] = LayoutCache(model, name, scales=scales if "frozen" in name else None)
    return made


def kept_bytes(cache):
    if isinstance(cache, LayoutCache):
        return cache.nbytes
    tensors = []
    for layer in cache.layers:
        quantised = getattr(layer, "_quantized_keys", None)
        if quantised is None:
            tensors += [layer.keys, layer.values]
        else:
            tensors += [*layer._quantized_keys, *layer._quantized_values]
    return sum(tensor.nbytes for tensor in tensors)


@torch.no_grad()
def read_window(model, ids, prompt):
    """Loss of each token behind the prompt, choices and seconds of its steps, by cache."""
    caches = caches_of(model, ids[:, :prompt])
    losses, choices, seconds = ({name: [] for name in caches} for _ in range(3))
    logits = {n: model(ids[:, :prompt], past_key_values=c).logits[:, -1] for n, c in caches.items()}
    for place in range(prompt, ids.shape[1]):
        target = ids[:, place : place + 1]
        for name, cache in caches.items():
            losses[name].append(-logits[name].float().log_softmax(-1).gather(-1, target).item())
            choices[name].append(logits[name].argmax(-1).item())
            begun = time.perf_counter()
            logits[name] = model(target, past_key_values=cache).logits[:, -1]
            seconds[name].append(time.perf_counter() - begun)
    return losses, choices, seconds, {name: kept_bytes(cache) for name, cache in caches.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--windows", type=int, default=4)
    parser.add_argument("--prompt", type=int, default=256)
    parser.add_argument("--steps", type=int, default=128)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    opened = catalog.open_model(options.model, dtype=options.dtype, device=options.device)
    ids = torch.tensor(opened.token_ids(options.text.read_text(encoding="utf-8")))
    length = options.prompt + options.steps
    windows = ids[: options.windows * length].view(options.windows, 1, length).to(options.device)
    totals = [read_window(opened.model, window, options.prompt) for window in windows]
    print(
        f"{options.model} in {options.dtype} on {options.device}, transformers "
        f"{transformers.__version__}, torch {torch.__version__}: {options.windows} windows, "
        f"{options.steps} tokens behind {options.prompt}\n"
    )
    print(
        "| cache | bytes | of DynamicCache | loss | above it | same choice | ms a token | ratio |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name in totals[0][0]:
        print(row(name, totals))


def row(name, totals):
    size, dense = (fmean(total[3][each] for total in totals) for each in (name, DYNAMIC))
    means = [fmean(total[0][name]) - fmean(total[0][DYNAMIC]) for total in totals]
    half = stdev(means) / len(means) ** 0.5 if len(means) > 1 else float("nan")
    pairs = [
        ours == plain for t in totals for ours, plain in zip(t[1][name], t[1][DYNAMIC], strict=True)
    ]
    steps = [s for total in totals for s in total[2][name]]
    ratios = [
        ours / plain
        for total in totals
        for ours, plain in zip(total[2][name], total[2][DYNAMIC], strict=True)
    ]
    loss = fmean(value for total in totals for value in total[0][name])
    return (
        f"| {name} | {size:,.0f} | {size / dense:.4f} | {loss:.4f} | {fmean(means):+.4f} ± "
        f"{half:.4f} | {fmean(pairs):.2%} | {1e3 * median(steps):.1f} | {median(ratios):.2f} |"
    )


if __name__ == "__main__":
    main()
