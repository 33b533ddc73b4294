"""Cost of capture in a training step: transformers' GPT-2, off and on, paired and interleaved.

    python benchmarks/capture_overhead.py                     124 M parameters, on a GPU
    python benchmarks/capture_overhead.py --small             a small one, to try it on a CPU

Every round trains one block of steps in each way, in an order that alternates; a ratio is of two
blocks of one round. A block of the way `full` has one captured step, its first, so that most of its
writing falls into the block. What is left to write behind a block is timed apart.
"""

import argparse
import json
import shutil
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from statistics import median

import numpy as np
import torch
import transformers

import assay
from assay.laws.pairs import interval, resampled_medians
from assay.performance.rounds import Turns

BLOCK = 20  # steps
WAYS = {
    "off": None,
    "statistics": {"mode": "stats"},
    "full": {"layers": "::4", "every": BLOCK},
}
LARGE = {"batch": 8, "length": 1024, "model": {}}
SMALL = {
    "batch": 2,
    "length": 64,
    "model": {"n_embd": 96, "n_head": 4, "n_layer": 4, "vocab_size": 512},
}


class Training:
    """One model, one batch of random tokens, one step after another."""

    def __init__(self, device: str, size: dict) -> None:
        torch.manual_seed(0)
        torch.set_flush_denormal(True)  # a model that knows its batch by heart is slow on a CPU
        self.device = torch.device(device)
        config = transformers.GPT2Config(**size["model"])
        config._attn_implementation = "sdpa"
        self.model = transformers.GPT2LMHeadModel(config).to(self.device).train()
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=1e-6, fused=self.device.type == "cuda"
        )
        shape = (size["batch"], size["length"])
        self.tokens = torch.randint(0, config.vocab_size, shape, device=self.device)

    def step(self) -> None:
        with torch.autocast(self.device.type, torch.bfloat16):
            loss = self.model(self.tokens, labels=self.tokens).loss
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def block_ms(self, steps: int) -> float:
        """Milliseconds per step."""
        self.wait()
        start = time.perf_counter()
        for _ in range(steps):
            self.step()
        self.wait()
        return (time.perf_counter() - start) * 1e3 / steps

    def wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def main() -> None:
    arguments = _arguments()
    training = Training(arguments.device, SMALL if arguments.small else LARGE)
    folder = Path(tempfile.mkdtemp(prefix="capture-overhead-", dir=arguments.folder))
    try:
        results = measure(training, folder, rounds=arguments.rounds)
    finally:
        shutil.rmtree(folder)
    results["device"] = _name(training.device)
    results["versions"] = {"torch": torch.__version__, "transformers": transformers.__version__}
    print(table(results))
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


def measure(training: Training, folder: Path, *, rounds: int) -> dict:
    """Milliseconds per step of each block, what was captured and lost, and the paired ratios."""
    ways = {name: {"step_ms": [], "drain_ms": [], "records": 0, "bytes": 0} for name in WAYS}
    for name in WAYS:  # kernels are compiled, memory is taken
        _block(training, folder / "warm-up", name, {})
    for number, name in Turns(WAYS, rounds=rounds):
        _block(training, folder / f"{name}-{number}", name, ways[name])
        shutil.rmtree(folder / f"{name}-{number}", ignore_errors=True)
    off = np.array(ways["off"]["step_ms"])
    for way in ways.values():
        logs = np.log(np.array(way["step_ms"]) / off)
        low, high = interval(np.exp(resampled_medians([logs])[:, 0]))
        way["ratio"] = {"median": float(np.exp(np.median(logs))), "low": low, "high": high}
    return {"block_steps": BLOCK, "rounds": rounds, "ways": ways}


def _block(training: Training, store: Path, name: str, way: dict) -> None:
    """Train one block in one way, and add what it took to `way`."""
    choices = WAYS[name]
    capturing = (
        nullcontext() if choices is None else assay.capturing(training.model, store, **choices)
    )
    with capturing as capture:
        step_ms = training.block_ms(BLOCK)
        start = time.perf_counter()
    drain_ms = (time.perf_counter() - start) * 1e3
    if not way:
        return
    way["step_ms"].append(step_ms)
    way["drain_ms"].append(drain_ms)
    if capture is not None:
        report = capture.report()
        way["records"] += report.records
        way["bytes"] += report.bytes
        for reason, count in report.dropped.items():
            lost = way.setdefault("dropped", {})
            lost[reason] = lost.get(reason, 0) + count


def table(results: dict) -> str:
    """For people."""
    lines = [
        f"{results['device']}, {results['rounds']} rounds of {results['block_steps']} steps "
        "each way",
        f"{'':12} {'step ms':>8} {'ratio to off':>24} {'records':>8} {'MB':>9} {'dropped':>8} "
        f"{'drain ms':>9}",
    ]
    for name, way in results["ways"].items():
        ratio = way["ratio"]
        interval = f"{ratio['median']:.4f} [{ratio['low']:.4f}, {ratio['high']:.4f}]"
        lines.append(
            f"{name:12} {median(way['step_ms']):8.2f} {interval:>24} {way['records']:8} "
            f"{way['bytes'] / 1e6:9.1f} {sum(way.get('dropped', {}).values()):8} "
            f"{median(way['drain_ms']):9.1f}"
        )
    return "\n".join(lines)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    default = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", default=default)
    parser.add_argument("--small", action="store_true", help="a small model, for a CPU")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--folder", type=Path, help="on the disk that is written to")
    parser.add_argument("--json", type=Path, help="write all that was measured to this file")
    return parser.parse_args()


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"


if __name__ == "__main__":
    main()
