"""Speed of the writer of captures, against raw writes of the same bytes to the same disk.

    python benchmarks/capture_writer.py --folder DIR [--rounds 11] [--json FILE]

In each round the same records are written raw (open, write, perhaps fsync, close) and through a
recording, one after the other; which goes first alternates. Ratios are of the two in one round.
The writer's time is from the first put until everything is listed: it has checksums, names and a
manifest besides the bytes. The figures stand in docs/results/capture.md.
"""

import argparse
import json
import os
import shutil
import time
from pathlib import Path
from statistics import median

import numpy as np

from assay.captures import formats
from assay.captures.manifest import TensorEntry
from assay.captures.recording import Recording
from assay.captures.recording.captured_call import CapturedCall, LoadedTensors
from assay.captures.recording.options import CaptureOptions
from assay.captures.store import Store
from assay.captures.tensor import Tensor
from assay.laws import pairs
from assay.performance.rounds import Turns

MEGABYTES = (1, 4, 16, 64)
ROUND_MEGABYTES = 256
FEWEST = 4  # records a round
MIB = 1 << 20


def main() -> None:
    """Measure every size with and without fsync; print a table, and JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=Path("capture-writer"))
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(MEGABYTES))
    parser.add_argument("--round-megabytes", type=int, default=ROUND_MEGABYTES)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    results = [
        measured(arguments.folder, size, sync, arguments.rounds, arguments.round_megabytes)
        for sync in (True, False)
        for size in arguments.sizes
    ]
    print("record MB | fsync | raw MB/s | writer MB/s | writer / raw (95 %)")
    for result in results:
        low, high = result["interval"]
        print(
            f"{result['megabytes']:9} | {'each' if result['sync'] else 'none':5} | "
            f"{result['raw_mb_s']:8.0f} | {result['writer_mb_s']:11.0f} | "
            f"{result['ratio']:.2f} ({low:.2f} to {high:.2f})"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


def measured(folder: Path, size: int, sync: bool, rounds: int, round_megabytes: int) -> dict:
    """Both ways, side by side in each round."""
    tensors = _tensors(size)
    count = max(FEWEST, round_megabytes // size)
    ways = {"raw": _raw_s, "writer": _writer_s}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number, name in Turns(ways, rounds=rounds + 1):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        os.sync()
        elapsed_s = ways[name](folder, tensors, count, sync)
        if number:  # the first warms up and is not counted
            seconds[name].append(elapsed_s)
    shutil.rmtree(folder)
    logs = np.log(np.array(seconds["raw"]) / np.array(seconds["writer"]))
    low, high = pairs.interval(pairs.resampled_medians([logs])[:, 0])
    megabytes = count * sum(t.nbytes for t in tensors.values()) / 1e6
    return {
        "megabytes": size,
        "records": count,
        "sync": sync,
        "raw_mb_s": megabytes / median(seconds["raw"]),
        "writer_mb_s": megabytes / median(seconds["writer"]),
        "ratio": float(np.exp(np.median(logs))),
        "interval": [float(np.exp(low)), float(np.exp(high))],
        "seconds": seconds,
    }


def _tensors(megabytes: int) -> dict[str, Tensor]:
    """q, k, v and out of one call, in bfloat16."""
    shape = (1, 8, megabytes * MIB // (4 * 8 * 64 * 2), 64)
    draw = np.random.default_rng(0)
    return {
        name: Tensor("bfloat16", draw.integers(0, 1 << 16, shape, np.uint16))
        for name in ("q", "k", "v", "out")
    }


def _raw_s(folder: Path, tensors: dict[str, Tensor], count: int, sync: bool) -> float:
    content = b"".join(formats.encode(tensors, form="safetensors"))
    start = time.perf_counter()
    for number in range(count):
        descriptor = os.open(folder / f"{number}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        if sync:
            os.fsync(descriptor)
        os.close(descriptor)
    return time.perf_counter() - start


def _writer_s(folder: Path, tensors: dict[str, Tensor], count: int, sync: bool) -> float:
    shapes = {n: TensorEntry(dtype=t.dtype, shape=t.shape) for n, t in tensors.items()}
    store = Store.create(folder / "store")
    with Recording(store, options=CaptureOptions(sync=sync, wait_s=60.0)) as recording:
        start = time.perf_counter()
        for step in range(count):
            recording.put(
                CapturedCall(
                    key=recording.key(step=step, layer=0, site="model.layers.0.self_attn"),
                    phase="train",
                    framework="numpy",
                    device="cpu",
                    implementation=None,
                    scalars={"causal": True},
                    shapes=shapes,
                    nbytes=sum(tensor.nbytes for tensor in tensors.values()),
                    load=lambda: LoadedTensors(tensors=tensors),
                )
            )
        recording.flush()
        taken_s = time.perf_counter() - start
    assert recording.report().records == count, recording.report()
    return taken_s


if __name__ == "__main__":
    main()
