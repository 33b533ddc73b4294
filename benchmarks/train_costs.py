"""Cost in time and memory of what a step of training does besides: recomputed blocks, pruning.

    python benchmarks/train_costs.py recompute --set TRAIN_LENGTH=256 --out recompute.json
    python benchmarks/train_costs.py pruning --device cuda:0 --config gpt2-baseline --turn 50
    python benchmarks/train_costs.py --table recompute.json

Arms are settings of one study that differ in what is measured. Each has a process of its own, and
they take turns of so many steps; ratios are of paired turns, to the first arm. On a CPU the time is
that of the processor, for one thread, so that a busy machine does not count, and memory is the
highest that the process held beyond what it held before there was a model.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any

from assay import host

PRUNED = "prune_from=0+prune_until=1"  # weights go in every turn
GROUPS: dict[str, dict[str, list[str]]] = {
    "recompute": {
        "kept": ["TRAIN_RECOMPUTE=n"],
        "recomputed": ["TRAIN_RECOMPUTE=y"],
    },
    "pruning": {
        "adamw": ["TRAIN_OPTIMIZERS=adamw"],
        **{
            score: [f"TRAIN_OPTIMIZERS=adamw+prune={score}+{PRUNED}"]
            for score in ("magnitude", "movement", "bitter0", "bitter7")
        },
        "adamwspam": ["TRAIN_OPTIMIZERS=adamwspam"],
        "adamwspam, bitter7": [f"TRAIN_OPTIMIZERS=adamwspam+prune=bitter7+{PRUNED}"],
    },
}
BASES = {"adamwspam, bitter7": "adamwspam"}  # of arms that are not held against the first


class Arm:
    """A trainer in this process, a turn at a time."""

    def __init__(self, sets: list[str], config: str | None, device: str, folder: Path) -> None:
        import torch

        from assay.correctness.models.selection import select
        from assay.studies.stages.train import settings_for
        from assay.train import data
        from assay.train.trainer import Trainer
        from assay.verbs._flags import load_study

        study = load_study(config=Path(config) if config else None, sets=sets, plugins=None)
        settings = settings_for(study, study.models[0], study.train_optimizers[0], 0)
        (model,) = select([settings.model]).models
        prepared = data.prepare(
            settings.dataset, settings.tokenizer, vocabulary=settings.vocabulary, folder=folder
        )
        self._device = torch.device(device)
        self._before = 0 if self._on_gpu else _status("VmRSS")
        self._trainer = Trainer(
            settings, model.variant, dict(model.options), prepared,
            device=device, folder=folder / "none",
        )  # fmt: skip
        self.settings = settings

    @property
    def _on_gpu(self) -> bool:
        return self._device.type == "cuda"

    def turn(self, steps: int) -> dict[str, float]:
        """Milliseconds of a step, and the most bytes held in these steps."""
        self._forget_peak()
        start = self._seconds()
        for _ in range(steps):
            self._trainer.take_step()
        elapsed = self._seconds() - start
        return {"ms": elapsed / steps * 1e3, "bytes": self._peak()}

    def _seconds(self) -> float:
        import torch

        if not self._on_gpu:
            return time.process_time()
        torch.cuda.synchronize()
        return time.perf_counter()

    def _forget_peak(self) -> None:
        import torch

        if self._on_gpu:
            torch.cuda.reset_peak_memory_stats()
        else:
            Path("/proc/self/clear_refs").write_text("5")

    def _peak(self) -> int:
        import torch

        if self._on_gpu:
            return torch.cuda.max_memory_allocated()
        return _status("VmHWM") - self._before


def _status(entry: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{entry}:"))


def work(given: argparse.Namespace) -> None:
    """One arm: answers each line of its input, a number of steps, with a line of JSON."""
    import torch

    answers, sys.stdout = sys.stdout, sys.stderr
    if given.device == "cpu":
        torch.set_num_threads(1)
    own = GROUPS[given.group][given.arm]
    arm = Arm(["MODELS=GPT2", *given.set, *own], given.config, given.device, Path(given.folder))
    for line in sys.stdin:
        print(json.dumps(arm.turn(int(line))), file=answers, flush=True)


def measure(given: argparse.Namespace, folder: str) -> dict[str, Any]:
    names = list(GROUPS[given.group])
    shared = [f"--set={entry}" for entry in given.set]
    shared += [f"--config={given.config}"] if given.config else []
    processes = {}
    for name in names:
        command = [sys.executable, __file__, given.group, "--arm", name, "--folder", folder]
        processes[name] = subprocess.Popen(
            [*command, "--device", given.device, *shared],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        _say(processes[name], given.warmup)
        if name == names[0]:  # prepares the data and compiles for the others, who start at once
            _hear(processes[name])
    for name in names[1:]:
        _hear(processes[name])
    turns: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for number in range(given.rounds):
        for name in names if number % 2 == 0 else names[::-1]:
            _say(processes[name], given.turn)
            turns[name].append(_hear(processes[name]))
    for process in processes.values():
        process.stdin.close()
        process.wait()
    return {
        "host": host.inspect().describe(),
        "device": given.device,
        "group": given.group,
        "config": given.config,
        "set": given.set,
        "steps of a turn": given.turn,
        "arms": turns,
    }


def _say(process: subprocess.Popen, steps: int) -> None:
    process.stdin.write(f"{steps}\n")
    process.stdin.flush()


def _hear(process: subprocess.Popen) -> dict[str, float]:
    line = process.stdout.readline()
    if not line:
        sys.exit(f"an arm ended with {process.wait()}; its last words are above")
    return json.loads(line)


def table(result: dict[str, Any]) -> str:
    """Rows of a page."""
    arms = result["arms"]
    rows = [
        "| arm | ms for a step | against | time | peak MiB | MiB more |",
        "|---|---|---|---|---|---|",
    ]
    for name, turns in arms.items():
        base = BASES.get(name, next(iter(arms)))
        ratios = [own["ms"] / other["ms"] for own, other in zip(turns, arms[base], strict=True)]
        low, _, high = quantiles(ratios, n=4)
        peak, before = (max(turn["bytes"] for turn in arms[arm]) / 2**20 for arm in (name, base))
        rows.append(
            f"| {name} | {median(turn['ms'] for turn in turns):.1f} | {base} "
            f"| {median(ratios):.3f} ({low:.3f} to {high:.3f}) "
            f"| {peak:,.0f} | {peak - before:+,.0f} |"
        )
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("group", nargs="?", choices=GROUPS)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--config")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--turn", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--warmup", type=int, default=1, help="steps before the first turn")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--arm", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.table:
        print(table(json.loads(given.table.read_text())))
        return
    if given.arm:
        work(given)
        return
    with TemporaryDirectory() as folder:
        result = measure(given, folder)
    if given.out:
        given.out.write_text(json.dumps(result, indent=1) + "\n")
    print(table(result))


if __name__ == "__main__":
    main()
