"""Decode kernels and their peers on a GPU: microseconds, GB/s of what a cache keeps, and ratios.

    python -m benchmarks.decode_bandwidth --out decode.json
    python -m benchmarks.decode_bandwidth --table decode.json

Implementations of a shape take turns, each replayed from a CUDA graph over caches that together are
several times the L2 cache, so nothing is read from it; device time between events, without the
launches of single kernels. Every output is held against float64 on the same cache first. A ratio to
cuDNN above the byte bound of its layout is refused, unless our own 16-bit kernel shows that cuDNN
was slow.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from statistics import median, quantiles

import torch

from assay import plugins
from assay.attention.decode._split_kv import Scratch
from assay.host import inspect
from assay.kv import contract
from assay.kv.contract import KVSpec
from assay.peaks import measure as measure_peaks
from benchmarks.decode_errors import errors

HEADS, KV_HEADS, DIM = 32, 8, 128
SHAPES = ((128, 4096), (64, 8192), (16, 8192), (1, 8192), (1, 131072), (16, 4096))
LAYOUTS = ("dense", "k16v8", "k8v16", "k8v8", "int8", "int4")
LATENTS = (  # heads, width, rotated, sequences, tokens
    (16, 512, 64, 64, 8192), (128, 512, 64, 64, 8192), (12, 256, 0, 64, 1024),
    (12, 256, 32, 64, 1024), (12, 128, 0, 64, 1024),
)  # fmt: skip
BEYOND_L2 = 300_000_000  # bytes of the caches that a graph reads
ROUNDS, CHECKED = 31, 1  # samples of each, and sequences that are held against float64
BASELINE = "sdpa_cudnn"


def decoder(name: str) -> Callable:
    return plugins.load(plugins.find("decode", name)).decode


def made(layout: str, batch: int, keys: int) -> dict[str, torch.Tensor]:
    """Streams of a layout for random keys and values, a few sequences at a time."""
    pieces: dict[str, list[torch.Tensor]] = {}
    step = max(1, (1 << 27) // (KV_HEADS * keys * DIM))
    for first in range(0, batch, step):
        size = (min(step, batch - first), KV_HEADS, keys, DIM)
        values = {n: torch.randn(size, device="cuda", dtype=torch.bfloat16) for n in "kv"}
        for name, tensor in contract.load(layout).encode(values, ()).items():
            pieces.setdefault(name, []).append(tensor)
    return {
        name: torch.cat([t.view(torch.uint8) for t in parts]).view(parts[0].dtype)
        for name, parts in pieces.items()
    }


def captured(calls: list[Callable]) -> torch.cuda.CUDAGraph:
    for call in calls[:2]:
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
        for call in calls:
            call()
    return graph


def in_turns(graphs: dict[str, torch.cuda.CUDAGraph], calls: int) -> dict[str, list[float]]:
    """Microseconds of a call in each round; every other round in reverse."""
    samples: dict[str, list[float]] = {name: [] for name in graphs}
    for graph in graphs.values():
        graph.replay()
    for number in range(ROUNDS):
        for name in list(graphs)[:: -1 if number % 2 else 1]:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graphs[name].replay()
            end.record()
            end.synchronize()
            samples[name].append(begin.elapsed_time(end) * 1e3 / calls)
    return samples


def worst_error(out, q, k, v, scale: float) -> float:
    """Budgets of the first sequences, in the last kv head."""
    heads = q.shape[1] // k.shape[1]
    arrays = {"out": out[:, -heads:], "q": q[:, -heads:], "k": k[:, -1:], "v": v[:, -1:]}
    arrays = {name: t[:CHECKED].double().cpu().numpy() for name, t in arrays.items()}
    lengths = torch.full((len(arrays["q"]),), k.shape[2]).numpy()
    return errors(
        arrays.pop("out"), None, **arrays, lengths=lengths, scale=scale, dtype="bfloat16"
    )["out"]  # fmt: skip


def of_shape(batch: int, keys: int) -> Iterator[dict]:
    """Rows of all layouts and peers of a shape."""
    spec = KVSpec(dtype="bfloat16", head_dim=DIM, key_heads=KV_HEADS, value_heads=KV_HEADS)
    q = torch.randn(batch, HEADS, 1, DIM, device="cuda", dtype=torch.bfloat16)
    scratch = Scratch.make(blocks=batch * KV_HEADS, splits=64, rows=8, width=DIM, device="cuda")
    graphs, rows, kept = {}, {}, []
    dense_bytes = contract.load("dense").bytes_per_token(spec) * batch * keys
    sets = max(1, -(-BEYOND_L2 // dense_bytes))
    for layout in LAYOUTS:
        caches = [made(layout, batch, keys) for _ in range(sets)]
        kept.append(caches)
        names = (layout, BASELINE) if layout == "dense" else (layout,)
        for name in names:
            decode = decoder(name)
            own = {"scratch": scratch} if name == layout else {}
            first = decode(q, caches[0], scale=DIM**-0.5, **own)
            whole = contract.load(layout).decode({n: t[:CHECKED] for n, t in caches[0].items()}, ())
            share = worst_error(first, q, whole["k"], whole["v"], DIM**-0.5)
            rows[name] = {
                "layout": layout,
                "bytes": contract.load(layout).bytes_per_token(spec) * batch * keys,
                "budget": share,
            }
            if share <= 1:  # no time for a result that is wrong
                calls = [
                    lambda cache=cache, decode=decode, own=own: decode(
                        q, cache, scale=DIM**-0.5, **own
                    )
                    for cache in caches
                ]
                graphs[name] = captured(calls)
    samples = in_turns(graphs, sets)
    for name, row in rows.items():
        yield {"shape": f"B {batch}, {keys:,} keys", "name": name, **row,
               **judged(row, samples.get(name), samples, dense_bytes)}  # fmt: skip


def judged(row: dict, own: list[float] | None, samples: dict, dense_bytes: int) -> dict:
    """Time, GB/s and the ratio to cuDNN in the same rounds, with its quartiles."""
    if own is None:
        return {"us": None, "reason": f"{row['budget']:.2f} of the error budget"}
    pairs = sorted(b / a for a, b in zip(own, samples[BASELINE], strict=True))
    low, ratio, high = quantiles(pairs, n=4)
    bound = dense_bytes / row["bytes"]
    row_of_times = {"us": median(own), "GB/s": row["bytes"] / median(own) / 1e3, "bound": bound}
    if ratio > bound * 1.02:
        ours = median(b / a for a, b in zip(own, samples["dense"], strict=True))
        if ours > bound * 1.02:
            return {
                **row_of_times,
                "ratio": None,
                "reason": f"{ratio:.2f} is above the bound {bound:.2f}",
            }
        return {**row_of_times, "ratio": ours, "reason": "to our own 16-bit kernel: cuDNN was slow"}
    return {**row_of_times, "ratio": ratio, "low": low, "high": high}


def of_latents(heads: int, width: int, rope: int, batch: int, keys: int) -> dict:
    """Row of one kind of latent; there is no peer of it in torch."""
    q = torch.randn(batch, heads, 1, width + rope, device="cuda", dtype=torch.bfloat16)
    size = batch * keys * (width + rope) * 2
    caches = [
        torch.randn(batch, keys, width + rope, device="cuda", dtype=torch.bfloat16)
        for _ in range(max(1, -(-BEYOND_L2 // size)))
    ]
    scale, decode = (width + rope) ** -0.5, decoder("mla_latent")
    out = decode(q, {"latent": caches[0]}, scale=scale, value_width=width)
    rows = caches[0][:, None]
    share = worst_error(out, q, rows, rows[..., :width], scale)
    scratch = Scratch.make(blocks=batch * 2, splits=64, rows=64, width=width, device="cuda")
    calls = [
        lambda c=c: decode(q, {"latent": c}, scale=scale, value_width=width, scratch=scratch)
        for c in caches
    ]
    us = median(in_turns({"mla_latent": captured(calls)}, len(caches))["mla_latent"])
    flops = 2 * batch * keys * heads * (2 * width + rope)
    return {
        "shape": f"{heads} heads, {width}+{rope}, B {batch}, {keys:,} tokens", "name": "mla_latent",
        "bytes": size, "budget": share, "us": us if share <= 1 else None, "GB/s": size / us / 1e3,
        "TFLOP/s": flops / us / 1e6,
    }  # fmt: skip


def all_latents() -> Iterator[dict]:
    return (of_latents(*latent) for latent in LATENTS)


def table(rows: list[dict]) -> str:
    """The rows of a run as in docs/kernels/decode.md; a dash where there is nothing to compare."""
    lines = [
        "| shape | file | µs | GB/s | TFLOP/s | bound by bytes | cuDNN's time over it |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        ratio = f"{row['ratio']:.3f} ({row['low']:.3f}–{row['high']:.3f})" if "low" in row else "—"
        bound = f"{row['bound']:.3f}" if "bound" in row else "—"
        rate = f"{row['TFLOP/s']:.0f}" if "TFLOP/s" in row else "—"
        us, speed = f"{row['us']:.1f}", f"{row['GB/s']:,.0f}"
        lines.append(
            f"| {row['shape']} | {row['name']} | {us} | {speed} | {rate} | {bound} | {ratio} |"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", default="decode.json")
    parser.add_argument("--table", help="print the table of a run that is there already")
    options = parser.parse_args()
    if options.table:
        with open(options.table, encoding="utf-8") as file:
            print(table(json.load(file)["rows"]))
        return 0
    peaks = {m.metric: m.value for m in measure_peaks("cuda:0")}
    print({name: round(value) for name, value in peaks.items() if value}, flush=True)
    rows = []
    for measured in (all_latents(), *(of_shape(*shape) for shape in SHAPES)):
        for row in measured:
            rows.append(row)
            print(
                {k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()}, flush=True
            )
        torch.cuda.empty_cache()
    device = torch.cuda.get_device_name()
    host = inspect()
    provenance = {
        "device": device,
        "torch": torch.__version__,
        "triton": version("triton"),
        "commit": host.commit,
        "dirty": host.dirty,
        "peaks": peaks,
    }
    with open(options.out, "w", encoding="utf-8") as file:
        json.dump({**provenance, "rows": rows}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
