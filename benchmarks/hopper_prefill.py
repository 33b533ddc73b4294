"""flash_hopper beside cuDNN and flash2_triton on an H200: forward, TFLOP/s and ratios.

    python benchmarks/hopper_prefill.py --out hopper.json
    python benchmarks/hopper_prefill.py --table hopper.json

Implementations of a shape take turns, each replayed from a CUDA graph of several calls; device time
between events, medians of rounds. FLOPs are 4 B H S² D, half of that when causal. The output of
some rows is held against float64 first. Shapes are 16,384 tokens and a width of 2,048, two of
grouped heads, and neighbours of those of D 64 and 128: what a kernel loses there was tuned to them.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from math import exp, log
from pathlib import Path
from statistics import median

import torch

from assay import plugins
from assay.host import inspect

NAMES = ("flash_hopper", "sdpa_cudnn", "flash2_triton")
PEER = "sdpa_cudnn"
TOKENS, WIDTH = 16384, 2048
LENGTHS, HEAD_DIMS = (1024, 4096, 16384), (128, 64, 256)
ROUNDS, GRAPH_MS = 11, 2.5
CHECKED_ROWS = 64


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A workload, and what it is measured for: the grid, groups or neighbours."""

    part: str
    batch: int
    heads: int
    kv_heads: int
    length: int
    head_dim: int
    causal: bool
    dtype: str = "bfloat16"

    @property
    def flops(self) -> float:
        whole = 4 * self.batch * self.heads * self.length**2 * self.head_dim
        return whole / 2 if self.causal else whole


def shapes() -> Iterator[Shape]:
    """The grid, grouped heads, then the neighbours of the grid up to 4,096 tokens."""
    for head_dim in HEAD_DIMS:
        for causal in (False, True):
            for length in LENGTHS:
                yield _of_grid(head_dim, causal, length)
    for causal in (False, True):
        for heads, kv_heads in ((32, 8), (8, 1)):
            yield Shape(
                part="groups", batch=4, heads=heads, kv_heads=kv_heads, length=4096, head_dim=128,
                causal=causal,
            )  # fmt: skip
    for head_dim in HEAD_DIMS[:2]:
        for causal in (False, True):
            for length in LENGTHS[:2]:
                yield from _neighbours(_of_grid(head_dim, causal, length))


def _of_grid(head_dim: int, causal: bool, length: int) -> Shape:
    heads = WIDTH // head_dim
    return Shape(
        part="grid", batch=TOKENS // length, heads=heads, kv_heads=heads, length=length,
        head_dim=head_dim, causal=causal,
    )  # fmt: skip


def _neighbours(shape: Shape) -> Iterator[Shape]:
    given = asdict(shape) | {"part": "neighbours"}
    changes = [{"length": shape.length + n} for n in (-64, 64)]
    changes += [{"batch": shape.batch + n} for n in (-1, 1)]
    changes += [{"heads": shape.heads + n, "kv_heads": shape.heads + n} for n in (-1, 1)]
    for change in [*changes, {"dtype": "float16"}]:
        yield Shape(**(given | change))


def measured(shape: Shape) -> dict:
    """Milliseconds of a call in every round, by implementation."""
    torch.manual_seed(0)
    dtype = getattr(torch, shape.dtype)
    q, k, v = (
        torch.randn(shape.batch, n, shape.length, shape.head_dim, device="cuda", dtype=dtype)
        for n in (shape.heads, shape.kv_heads, shape.kv_heads)
    )
    names = NAMES if shape.part == "grid" else NAMES[:2]
    options = {"causal": shape.causal, "scale": shape.head_dim**-0.5}
    calls = {}
    for name in names:
        attention = plugins.load(plugins.find("sequence", name)).attention
        calls[name] = lambda attention=attention: attention(q, k, v, **options)
        hold(calls[name](), q, k, v, **options)
    count = max(1, int(GRAPH_MS * 1e-3 / (shape.flops / 5e14)))
    graphs = {name: captured(call, count) for name, call in calls.items()}
    samples: dict[str, list[float]] = {name: [] for name in graphs}
    for number in range(ROUNDS):
        for name in list(graphs)[:: -1 if number % 2 else 1]:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graphs[name].replay()
            end.record()
            end.synchronize()
            samples[name].append(begin.elapsed_time(end) / count)
    return {**asdict(shape), "flops": shape.flops, "ms": samples}


def captured(call: Callable, count: int) -> torch.cuda.CUDAGraph:
    """A graph of `count` calls."""
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            call()
    return graph


def hold(out: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **options) -> None:
    """Refuse an output whose last rows, in the last head, are off by more than rounding is."""
    rows, keys = q[-1, -1, -CHECKED_ROWS:].double(), k[-1, -1].double()
    scores = rows @ keys.T * options["scale"]
    if options["causal"]:
        first = len(keys) - len(rows)
        seen = torch.ones(scores.shape, dtype=torch.bool, device=q.device).tril(first)
        scores = scores.masked_fill(~seen, -torch.inf)
    right = scores.softmax(-1) @ v[-1, -1].double()
    error = (out[-1, -1, -CHECKED_ROWS:].double() - right).norm() / right.norm()
    if not error < 0.01:
        raise SystemExit(f"a relative error of {error:.3g} in shape {tuple(q.shape)}: not timed")


def matrix_rate() -> float:
    """TFLOP/s of a product of two random 8,192 x 8,192 matrices in bfloat16."""
    matrix = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    graph, ms = captured(lambda: matrix @ matrix, 3), []
    for _ in range(ROUNDS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        ms.append(begin.elapsed_time(end) / 3)
    return 2 * 8192**3 / median(ms) / 1e9


def rate(row: dict, name: str) -> float:
    """TFLOP/s of the median round."""
    return row["flops"] / median(row["ms"][name]) / 1e9


def ratio(row: dict) -> float:
    """cuDNN's time over that of flash_hopper."""
    return median(row["ms"][PEER]) / median(row["ms"][NAMES[0]])


def table(rows: list[dict]) -> str:
    """The grid in Markdown, with the geometric mean of each head dimension."""
    lines = [
        "| D, mask | length | cuDNN | flash2_triton | flash_hopper | over cuDNN |",
        "|---|---|---|---|---|---|",
    ]
    grid = [row for row in rows if row["part"] == "grid"]
    for row in grid:
        mask = "causal" if row["causal"] else "full"
        rates = " | ".join(f"{rate(row, name):.0f}" for name in (PEER, NAMES[2], NAMES[0]))
        lines.append(
            f"| {row['head_dim']} {mask} | {row['length']:,} | {rates} | {ratio(row):.3f} |"
        )
    for head_dim in HEAD_DIMS:
        ratios = [ratio(row) for row in grid if row["head_dim"] == head_dim]
        mean = exp(sum(map(log, ratios)) / len(ratios))
        lines.append(
            f"| {head_dim}, geometric mean | | | | | {mean:.3f}, least {min(ratios):.3f} |"
        )
    return "\n".join(lines)


def others(rows: list[dict]) -> str:
    """Grouped heads, and the time for each FLOP of neighbours over that of the shape itself."""
    lines, per_flop = [], {}
    for row in rows:
        own = median(row["ms"][NAMES[0]]) / row["flops"]
        if row["part"] == "grid":
            per_flop[row["head_dim"], row["causal"], row["length"]] = own
        elif row["part"] == "groups":
            mask = "causal" if row["causal"] else "full"
            lines.append(
                f"{row['heads']}/{row['kv_heads']} {mask}: {rate(row, NAMES[0]):.0f} TFLOP/s, "
                f"{ratio(row):.3f}"
            )
    worst = []
    for row in rows:
        if row["part"] == "neighbours":
            length = min(LENGTHS, key=lambda n: abs(n - row["length"]))
            beside = per_flop[row["head_dim"], row["causal"], length]
            worst.append(median(row["ms"][NAMES[0]]) / row["flops"] / beside)
    return "\n".join([*lines, f"{len(worst)} neighbours: at most {max(worst):.3f}"])


def main() -> int:
    """Measure and write, or show what was written."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, help="measure, and write this file")
    parser.add_argument("--table", type=Path, help="show this file")
    options = parser.parse_args()
    if options.out:
        from tools.compile_ahead.flash_hopper import assembler

        host = inspect()
        written = {
            "device": torch.cuda.get_device_name(), "driver": host.devices[-1].driver,
            "versions": host.versions, "ptxas": assembler(), "commit": host.commit,
            "dirty": host.dirty, "matrix_rate": matrix_rate(), "rows": [],
        }  # fmt: skip
        for shape in shapes():
            written["rows"].append(measured(shape))
            print(shape, f"{ratio(written['rows'][-1]):.3f}", flush=True)
        options.out.write_text(json.dumps(written))
    written = json.loads((options.out or options.table).read_text())
    print(f"matrix product: {written['matrix_rate']:.0f} TFLOP/s, ptxas {written['ptxas']}")
    print(table(written["rows"]), others(written["rows"]), sep="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
