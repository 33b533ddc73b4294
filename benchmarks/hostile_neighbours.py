"""Latency of a baseline beside files that change what all code of a process shares.

    python benchmarks/hostile_neighbours.py --pairs 10 --lanes 4 --out neighbours.json
    python benchmarks/hostile_neighbours.py --keep neighbours.json

A pair is two new processes: the baseline beside a hostile file, and beside a harmless copy of it,
in either order. What two harmless copies differ by is the noise of this machine. As a control, the
file that asks for one thread is also run without what keeps subjects apart: there it must show.
A lane is a set of cores of its own, and lanes run at once.
"""

import argparse
import json
import multiprocessing
import os
import random
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any

from assay.host import CHECKOUT
from assay.verify import marked_tables as tables

PAGE = CHECKOUT / "docs/results/bench.md"
KEPT = CHECKOUT / "docs/results/neighbours.json"
BASELINE, HARMLESS, CONTROL = "sdpa", "harmless", "one_thread, not kept apart"
# name -> what it does on import, and in each call
NEIGHBOURS = {
    "one_thread": ("torch.set_num_threads(1)", ""),
    "one_thread_later": ("", "torch.set_num_threads(1)"),
    "variable": ("os.environ['OMP_NUM_THREADS'] = '7'", ""),
    "no_variable": ("", "os.environ.pop('HOME', None)"),
    "doubles": ("torch.set_default_dtype(torch.float64)", ""),
    "deterministic": ("torch.use_deterministic_algorithms(True)", ""),
    "careless": ("", "np.seterr(over='ignore')"),
    "seeds": ("", "random.seed(1); np.random.seed(1); torch.manual_seed(1)"),
    "moves": ("os.chdir('/')", ""),
    "flushes": ("", "torch.set_flush_denormal(True)"),
    "plain_kernels": (
        "torch.backends.cuda.enable_flash_sdp(False)",
        "gc.disable(); sys.setrecursionlimit(900); decimal.getcontext().prec = 5",
    ),
}
FILE = '''"""A neighbour."""
import decimal, gc, os, random, sys, warnings
import numpy as np
import torch
from assay.attention.sequence import eager
from assay.frameworks.torch.settings import settings
from assay.instruments import shared_state

FRAMEWORK = "torch"
SEEN = []
{on_import}


def attention(q, k, v, *, causal, scale):
    {in_call}
    return eager.attention(q, k, v, causal=causal, scale=scale)
'''
WORKLOAD = dict(
    batch=1, heads=8, kv_heads=8, query_length=512, key_length=512, head_dim=64, dtype="float32",
    causal=True, seed=0,
)  # fmt: skip
RESAMPLES, LEVEL = 20_000, 0.05
_fork = multiprocessing.get_context("fork")


def write(folder: Path, name: str, on_import: str = "", in_call: str = "") -> None:
    """Write a neighbour as a file."""
    text = FILE.format(on_import=on_import, in_call=in_call or "pass")
    (folder / f"{name}.py").write_text(text)


def measured(pairs: int, lanes: int, seed: int) -> dict[str, Any]:
    """Ratios of paired latencies for each neighbour, for harmless pairs and for the control."""
    import torch  # no operation of it in this process: forks must be able to start threads

    draw = random.Random(seed)
    jobs = [(name, pair) for name in (*NEIGHBOURS, CONTROL) for pair in range(pairs)]
    jobs += [(HARMLESS, pair) for pair in range(max(40, 2 * pairs))]
    draw.shuffle(jobs)
    cores = sorted(os.sched_getaffinity(0))
    share = len(cores) // lanes
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for name, (on_import, in_call) in NEIGHBOURS.items():
            write(folder, name, on_import, in_call)
        write(folder, HARMLESS)
        queue = _fork.Queue()
        workers = [
            _fork.Process(
                target=_lane,
                args=(jobs[lane::lanes], cores[lane * share : (lane + 1) * share], folder, queue),
            )
            for lane in range(lanes)
        ]
        for worker in workers:
            worker.start()
        ratios: dict[str, list[float]] = {name: [] for name, _ in jobs}
        for _ in jobs:
            name, ratio = queue.get(timeout=120)
            ratios[name].append(ratio)
        for worker in workers:
            worker.join()
    return {
        "baseline": BASELINE, "workload": WORKLOAD, "pairs": pairs, "threads": share,
        "lanes": lanes, "torch": torch.__version__, "seed": seed, "ratios": ratios,
    }  # fmt: skip


def _lane(jobs: list[tuple[str, int]], cores: list[int], folder: Path, queue: Any) -> None:
    os.sched_setaffinity(0, cores)
    for name, pair in jobs:
        sides = [(name, name != CONTROL), (HARMLESS, True)]
        order = (0, 1) if pair % 2 else (1, 0)
        latencies = {}
        for place in order:
            answer = _fork.Queue()
            child = _fork.Process(target=_latency, args=(*sides[place], len(cores), folder, answer))
            child.start()
            latencies[place] = answer.get(timeout=60)
            child.join()
        queue.put((name, latencies[0] / latencies[1]))


def _latency(neighbour: str, is_kept_apart: bool, threads: int, folder: Path, answer: Any) -> None:
    import torch

    from assay import host
    from assay.performance.cell import CellRequest, run
    from assay.performance.rounds import RoundSettings
    from assay.subjects.neighbours import kept_apart
    from assay.workloads.spec import WorkloadSpec

    torch.set_num_threads(threads)
    file = "one_thread" if neighbour == CONTROL else neighbour
    request = CellRequest(
        probes=("latency",),
        workload=WorkloadSpec(**WORKLOAD),
        subjects=(file, BASELINE),
        device="cpu",
        settings=RoundSettings(warmup=3, rounds=25),
        folders=[folder],
    )
    events = run(request, host.inspect(commit=False))
    (samples,) = [
        event.samples
        for event in (kept_apart(events) if is_kept_apart else events)
        if getattr(event, "metric", "") == "latency_ms" and event.subject == BASELINE
    ]
    answer.put(median(samples))


def noise(result: dict[str, Any]) -> tuple[float, float]:
    """The interval of the median of so many harmless pairs, for all neighbours together."""
    draw = random.Random(result["seed"])
    harmless, pairs = result["ratios"][HARMLESS], result["pairs"]
    medians = sorted(median(draw.choices(harmless, k=pairs)) for _ in range(RESAMPLES))
    outside = int(RESAMPLES * LEVEL / len(NEIGHBOURS) / 2)
    return medians[outside], medians[-1 - outside]


def table(result: dict[str, Any]) -> str:
    """Markdown: neighbours with what became of the baseline beside them."""
    low, high = noise(result)
    lines = [
        "| neighbour | pairs | baseline's time, over beside a harmless copy (quartiles) | moved |",
        "| --- | --- | --- | --- |",
    ]
    for name in (*NEIGHBOURS, HARMLESS, CONTROL):
        ratios = result["ratios"][name]
        first, middle, last = quantiles(ratios, n=4)
        moved = "—" if name == HARMLESS else "no" if low <= middle <= high else "yes"
        lines.append(
            f"| {name} | {len(ratios)} | {middle:.3f} ({first:.3f} to {last:.3f}) | {moved} |"
        )
    lines += [
        "",
        f"Noise of a median of {result['pairs']} pairs, at a level of {LEVEL} for all rows "
        f"together: {low:.3f} to {high:.3f}. {result['threads']} threads, {result['lanes']} lanes, "
        f"torch {result['torch']}, seed {result['seed']}.",
    ]
    return "\n".join(lines) + "\n"


def written(text: str) -> str:
    """The page with the table of the kept results."""
    return tables.written(text, {"neighbours": lambda: table(json.loads(KEPT.read_text()))})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--lanes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--keep", type=Path, help="keep these results and write the page, no more")
    given = parser.parse_args()
    if given.keep:
        KEPT.write_text(given.keep.read_text())
        PAGE.write_text(written(PAGE.read_text()))
        return
    result = measured(given.pairs, given.lanes, given.seed)
    if given.out:
        given.out.write_text(json.dumps(result, indent=1) + "\n")
    print(table(result))


if __name__ == "__main__":
    main()
