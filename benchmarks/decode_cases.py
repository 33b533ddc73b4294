"""Random cases of every decode kernel on a GPU, in budgets of the check.

    python -m benchmarks.decode_cases --cases 3000 --processes 14

Kernels, widths, groups of heads, new tokens, pages, parts and configurations are drawn; behind
every length and in every page that no sequence has lies NaN. Ends with the worst of each kernel, a
graph of each that is replayed 1,000 times, and exit code 1 if a case is over its budget.
"""

import argparse
import os
import random
import sys
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

import torch

from assay import plugins
from assay.attention.decode._split_kv import DecodeConfig
from assay.attention.decode._split_kv.configs import choose
from assay.kv import contract
from benchmarks.decode_errors import errors

LAYOUTS = ("dense", "k16v8", "k16v8_e5m2", "k8v16", "k8v8", "int8", "int4")
WIDTHS = {"any": (64, 128, 256, 80), "grouped": (64, 128, 256)}
FORMATS = {"dense": ("whole", "whole"), "k8v8": ("e4m3", "e4m3"), "int8": ("int8", "int8"),
           "int4": ("int4", "int4"), "k8v16": ("e4m3", "whole")}  # fmt: skip
REPLAYS = 1000


def shape(rng: random.Random) -> dict:
    """Kernel, dtype and sizes that decide what is compiled."""
    name = rng.choice([*LAYOUTS, "mla_latent", "splice"])
    dtype = rng.choices([torch.bfloat16, torch.float16, torch.float32], [6, 3, 1])[0]
    if name in ("mla_latent", "splice"):
        width, rope = rng.choice([(256, 0), (256, 32), (512, 64), (128, 0)])
        heads = rng.choice([12, 16, 128])
        return {"name": name, "dtype": dtype, "width": width, "rope": rope, "heads": heads,
                "page": rng.choice([0, 16, 64]), "new": rng.choice([1, 3])}  # fmt: skip
    grouped = name in ("int8", "int4")
    widths = WIDTHS["grouped" if grouped else "any"]
    return {"name": name, "dtype": dtype, "width": rng.choice(widths),
            "group": rng.choice([1, 3, 4, 8]), "page": rng.choice([0, 0, 16, 24, 64]),
            "new": rng.choice([1, 1, 2, 16]), "many": rng.random() < 0.5}  # fmt: skip


def paged(
    tensor: torch.Tensor, tables: torch.Tensor, lengths: list[int], page: int
) -> torch.Tensor:
    """[B, ..., S, W] as pages in a pool with NaN in every byte that no sequence has written."""
    bits = tensor.contiguous().view(torch.uint8)
    bits = bits.movedim(-2, 1)  # [B, S, ..., bytes]
    pool = torch.full(
        (tables.numel(), page, *bits.shape[2:]), 0x7F, dtype=torch.uint8, device="cuda"
    )
    for sequence, length in enumerate(lengths):
        token = torch.arange(length, device="cuda")
        pool[tables[sequence].long()[token // page], token % page] = bits[sequence, :length]
    pool = pool.movedim(1, -2).contiguous()
    return pool.view(tensor.dtype)


def case(rng: random.Random, form: dict) -> tuple[str, dict[str, float]]:
    """Errors of one draw of lengths, numbers and parts."""
    torch.manual_seed(rng.randrange(1 << 30))
    batch, most = rng.choice([1, 2, 3]), rng.choice([1, 17, 63, 64, 65, 113, 257, 600])
    if form.get("heads", 0) > 16:  # float64 on the host takes its time
        batch, most = 1, min(most, 257)
    lengths = [rng.choice([0, 1, most // 2, most, most]) for _ in range(batch)]
    size = rng.choice([1.0, 1.0, 30.0, 1e-4])
    latent, dtype, page, new = "heads" in form, form["dtype"], form["page"], form["new"]
    wide = most if not page else -(-most // page) * page
    q_scale = rng.choice([1.0, 20.0])
    kwargs, k_heads = {"splits": rng.choice([1, 2, 5, 16]), "lse": True}, 1
    if latent:
        width, heads = form["width"] + form["rope"], form["heads"]
        rows = size * torch.randn(batch, wide, width, device="cuda").to(dtype)
        streams, k, v = {"latent": rows}, rows[:, None], rows[:, None, :, : form["width"]]
        kwargs["value_width"] = form["width"]
    else:
        width, k_heads = form["width"], (8 if form["many"] else 2)
        heads = k_heads * form["group"]
        values = {n: size * torch.randn(batch, k_heads, wide, width, device="cuda") for n in "kv"}
        layout = contract.load(form["name"])
        streams = layout.encode({n: value.to(dtype) for n, value in values.items()}, ())
        whole = layout.decode(streams, ())
        k, v = whole["k"], whole["v"]
        if dtype != torch.float32 and form["name"] in FORMATS and rng.random() < 0.5:
            kwargs["config"] = other_config(rng, form)
    q = q_scale * torch.randn(batch, heads, new, width, device="cuda").to(dtype)
    scale = width**-0.5 / (size if size < 1 else 1)
    stored = dict(streams)
    if page:
        count = wide // page
        tables = torch.randperm(batch * count, device="cuda").reshape(batch, count).to(torch.int32)
        stored = {n: paged(t, tables, lengths, page) for n, t in streams.items()}
        kwargs["pages"] = tables
    else:
        stored = {n: t.clone() for n, t in streams.items()}
        for tensor in stored.values():
            for sequence, length in enumerate(lengths):
                tensor.view(torch.uint8)[sequence, ..., length:, :] = 0x7F
    on_device = torch.tensor(lengths, dtype=torch.int32, device="cuda")
    decode = plugins.load(plugins.find("decode", form["name"])).decode
    out, lse = decode(q, stored, scale=scale, lengths=on_device, **kwargs)
    measured = errors(
        out.double().cpu().numpy(), lse.double().cpu().numpy(), q=q.double().cpu().numpy(),
        k=k.double().cpu().numpy(), v=v.double().cpu().numpy(),
        lengths=on_device.cpu().numpy(), scale=scale, dtype=str(dtype).removeprefix("torch."),
    )  # fmt: skip
    return f"{form} batch {batch} lengths {lengths} size {size} {kwargs.get('splits')}", measured


def other_config(rng: random.Random, form: dict) -> DecodeConfig:
    """Another configuration than the one that would be chosen."""
    keys, values = FORMATS[form["name"]]
    chosen = choose(
        keys=keys, values=values, head_dim=form["width"], element_bytes=2,
        slots=rng.choice([8, 512]), columns=rng.choice([8, 64]),
    )  # fmt: skip
    return replace(chosen, stages=rng.choice([2, 3]))


def replays(name: str) -> int:
    """Number of replays of a step whose bits are those of the first."""
    torch.manual_seed(0)
    layout = contract.load(name)
    values = {n: torch.randn(4, 8, 2048, 128, device="cuda").bfloat16() for n in "kv"}
    streams, q = layout.encode(values, ()), torch.randn(4, 32, 1, 128, device="cuda").bfloat16()
    decode = plugins.load(plugins.find("decode", name)).decode
    decode(q, streams, scale=0.09, splits=7)
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.graph(graph, stream=stream):
        out = decode(q, streams, scale=0.09, splits=7)
    graph.replay()
    first, equal = out.clone(), 0
    for _ in range(REPLAYS):
        out.fill_(float("nan"))
        graph.replay()
        equal += torch.equal(out, first)
    return equal


def work(task: tuple[int, int, int]) -> list[tuple[str, str, dict[str, float]]]:
    """Cases of one process: a few shapes, many draws of each."""
    seed, count, draws = task
    rng, results = random.Random(seed), []
    while len(results) < count:
        form = shape(rng)
        for _ in range(draws):
            try:
                description, measured = case(rng, form)
            except torch.OutOfMemoryError:
                raise
            except Exception as error:  # a kernel that does not run is a failed case
                description, measured = f"{form}: {error!r:.300}", {"out": float("inf")}
            results.append((form["name"], description, measured))
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int, default=3000)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--draws", type=int, default=15, help="cases of each compiled kernel")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    share = -(-options.cases // options.processes)
    tasks = [(1000 * options.seed + i, share, options.draws) for i in range(options.processes)]
    worst, counts, over = defaultdict(float), defaultdict(int), []
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        for results in pool.map(work, tasks):
            for name, description, measured in results:
                counts[name] += 1
                worst[name] = max(worst[name], *measured.values())
                over += [(description, measured)] if max(measured.values()) > 1 else []
    for name in sorted(counts):
        print(f"{name}: {counts[name]} cases, worst {worst[name]:.2f} of the budget")
    for description, measured in over[:20]:
        print("OVER", measured, description)
    equal = {name: replays(name) for name in LAYOUTS}
    print(f"replays that are bit-equal, of {REPLAYS}: {equal}")
    print(f"{sum(counts.values())} cases, {len(over)} over their budget")
    return 1 if over or set(equal.values()) != {REPLAYS} else 0


if __name__ == "__main__":
    sys.exit(main())
