"""Steps of GPT-2 124M on a GPU: ours beside nanoGPT's, tokens/s, memory and the loss of each step.

    python benchmarks/train_step.py --peer nanoGPT/model.py --out train.json
    python benchmarks/train_step.py --table train.json

The peer is the `model.py` of github.com/karpathy/nanoGPT, in the loop of its train.py: bfloat16 by
autocast, torch.compile, its own AdamW (fused), gradients clipped. All arms start from the same
weights, read the same batches and have a process each, so that none meets another's compiled code.
First they all train, at once, and their losses are kept; then they take turns, so many steps each,
and their times are paired by turns. An arm needs 14 to 22 GB, so that six of them fit on an H200:
--arms names them, the peer among them.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import Any

import torch

from assay import host, peaks
from assay.instruments.telemetry import Telemetry

BATCH, LENGTH, VOCABULARY = 32, 1024, 50257
TRAINED, SHORT = 300, 5  # steps before the turns, of arms whose loss is compared and of others
ROUNDS, TURN = 7, 8  # turns of each arm, and steps of one
PEER = "nanoGPT"
# What an arm does otherwise than `assay train` with TRAIN_STREAM=bfloat16 and TRAIN_COMPILED=y.
ARMS: dict[str, dict[str, Any]] = {
    PEER: {"losses": True},
    "forward": {"losses": True, "loss": "forward", "stream": "float32"},
    "loss": {"losses": True, "stream": "float32"},
    "stream": {"losses": True},
    "flash": {"attention": "FLASH_ATTENTION"},
    "foreach": {"optimizer": "foreach"},
    "graph": {"mode": "reduce-overhead"},
    "eager": {"compiled": False},
    "recompute": {"recompute": True},
}
WORDS = {
    PEER: "nanoGPT's model.py, compiled",
    "forward": "ours as nanoGPT computes: the loss of `forward`, residual stream in float32",
    "loss": "then the loss of `loss(idx, targets)`",
    "stream": "then the residual stream in bfloat16: **`assay train`, `TRAIN_STREAM=bfloat16`**",
    "gelu": "then GELU by a shorter formula (tried, not kept)",
    "flash": "that with FlashAttention-2, not cuDNN's attention",
    "foreach": "that with AdamW by foreach, not fused",
    "graph": "that compiled with mode reduce-overhead (CUDA graphs)",
    "eager": "that without torch.compile",
    "recompute": "that with blocks computed again (`TRAIN_RECOMPUTE`)",
}


def trainer(arm: dict[str, Any], folder: Path) -> Any:
    """Our trainer on the standard library's sources; nothing of it is written but the data."""
    from assay.models.gpt2 import variants
    from assay.train import data
    from assay.train.settings import TrainSettings
    from assay.train.trainer import Trainer

    settings = TrainSettings(
        model="GPT2", seed=0, dataset="stdlib", place="", tokenizer="bpe", vocabulary=VOCABULARY,
        data_folder=str(folder), layers=12, heads=12, width=768, length=LENGTH, dropout=0.0,
        batch=BATCH, micro_batch=BATCH, steps=10_000, most_tokens=0, most_seconds=0,
        optimizer="adamw", learning_rate=6e-4, least_learning_rate=6e-5, warmup=100,
        weight_decay=0.1, clip=1.0, dtype="bfloat16", stream=arm.get("stream", "bfloat16"),
        compiled=False, recompute=arm.get("recompute", False), deterministic=False,
        report_every=10, evaluate_every=10, save_every=10, windows=1, sample_tokens=1,
        part_metrics=False,
    )  # fmt: skip
    prepared = data.prepare("stdlib", "bpe", vocabulary=VOCABULARY, folder=folder)
    variant = variants.parse("GPT2")
    made = Trainer(
        settings, variant, {"bias": False}, prepared, device="cuda:0", folder=folder / "none"
    )
    if "optimizer" in arm:
        groups = made.optimizer.param_groups
        made.optimizer = torch.optim.AdamW(
            [{"params": g["params"], "weight_decay": g["weight_decay"]} for g in groups],
            lr=groups[0]["lr"], betas=groups[0]["betas"], foreach=True,
        )  # fmt: skip
    loss = made.model.loss
    if arm.get("loss") == "forward":
        loss = lambda idx, targets: made.model(idx, targets)[1]  # noqa: E731
    made._loss = torch.compile(loss, mode=arm.get("mode")) if arm.get("compiled", True) else loss
    return made


def our_steps(arm: dict[str, Any], folder: Path) -> Callable[[], torch.Tensor]:
    made = trainer(arm, folder)

    def step() -> torch.Tensor:
        with attention(arm.get("attention")):
            made.take_step()
        return made._losses.pop()

    return step


def peer_steps(file: Path, folder: Path) -> Callable[[], torch.Tensor]:
    """The loop of nanoGPT's train.py with our batches and our weights."""
    sys.path.insert(0, str(file.parent.resolve()))
    import model as nanogpt

    from assay.train.schedule import learning_rate

    ours = trainer({"compiled": False}, folder)
    config = nanogpt.GPTConfig(
        block_size=LENGTH, vocab_size=ours.model.config.vocab_size, n_layer=12, n_head=12,
        n_embd=768, dropout=0.0, bias=False,
    )  # fmt: skip
    peer = nanogpt.GPT(config).to("cuda")
    with torch.no_grad():
        theirs = dict(peer.transformer.named_parameters())
        for name, weight in ours.model.named_parameters():
            theirs.pop(name.replace("attn.source.", "attn.")).copy_(weight)
    assert not theirs, f"weights of the peer that ours has not: {list(theirs)}"
    ours.model.to("meta")
    optimizer = peer.configure_optimizers(0.1, 6e-4, (0.9, 0.95), "cuda")
    compiled = torch.compile(peer)
    batches, settings = ours.batches, ours.settings

    def placed(number: int) -> tuple[torch.Tensor, ...]:
        arrays = (torch.from_numpy(a).pin_memory() for a in batches.at(number))
        return tuple(a.to("cuda", non_blocking=True) for a in arrays)

    state = {"number": 0, "batch": placed(0)}

    def step() -> torch.Tensor:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(state["number"], settings)
        with torch.autocast("cuda", torch.bfloat16):
            _, loss = compiled(*state["batch"])
        state["number"] += 1
        state["batch"] = placed(state["number"])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(peer.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


def attention(backend: str | None) -> AbstractContextManager[Any]:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    return sdpa_kernel(getattr(SDPBackend, backend)) if backend else nullcontext()


def work(name: str, peer: Path, folder: Path) -> None:
    """One arm: answers each line of its input with a line of JSON."""
    answers, sys.stdout = sys.stdout, sys.stderr  # the peer prints
    torch.set_float32_matmul_precision("high")
    arm, begun = ARMS[name], time.monotonic()
    step = peer_steps(peer, folder) if name == PEER else our_steps(arm, folder)
    losses = [step() for _ in range(TRAINED if arm.get("losses") else SHORT)]
    answer = {
        "losses": torch.stack(losses).tolist(),
        "peak_bytes": torch.cuda.max_memory_allocated(),
        "ready_s": time.monotonic() - begun,
    }
    torch.cuda.empty_cache()
    print(json.dumps(answer), file=answers, flush=True)
    for line in sys.stdin:
        if line.strip() == "kernels":
            print(json.dumps(kernels(step)), file=answers, flush=True)
            continue
        step()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(TURN):
            step()
        torch.cuda.synchronize()
        elapsed = time.perf_counter() - start
        print(json.dumps(elapsed / TURN * 1e3), file=answers, flush=True)


def kernels(step: Callable[[], torch.Tensor], steps: int = 3) -> dict[str, float]:
    """Milliseconds of each kernel in a step, the largest first, and of those without any."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
    ran = sorted(
        (event.time_range.start, event.time_range.end, event.name[:120])
        for event in profiled.events()
        if event.device_type == torch.autograd.DeviceType.CUDA
    )
    total: dict[str, float] = {}
    idle, last = 0.0, ran[0][0]
    for start, end, name in ran:
        total[name] = total.get(name, 0.0) + (end - start) / steps / 1e3
        idle, last = idle + max(0.0, start - last) / steps / 1e3, max(last, end)
    return {"no kernel": idle, **dict(sorted(total.items(), key=lambda item: -item[1]))}


def answer(name: str, process: subprocess.Popen) -> Any:
    line = process.stdout.readline()
    if not line:
        sys.exit(f"the arm {name} ended with {process.wait()}; its last words are above")
    return json.loads(line)


def measure(peer: Path, folder: Path, names: list[str]) -> dict[str, Any]:
    trainer({"compiled": False}, folder)  # the data, once
    torch.cuda.empty_cache()
    command = [sys.executable, __file__, "--peer", str(peer), "--folder", str(folder), "--arm"]
    processes = {
        name: subprocess.Popen(
            [*command, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for name in names
    }
    arms = {name: answer(name, process) for name, process in processes.items()}
    machine = host.inspect()
    telemetry = Telemetry(machine, "cuda:0")

    def ask(name: str, request: str) -> Any:
        processes[name].stdin.write(f"{request}\n")
        processes[name].stdin.flush()
        return answer(name, processes[name])

    for name in names:
        arms[name]["ms"] = []
    for number in range(ROUNDS):
        for name in names if number % 2 == 0 else names[::-1]:
            arms[name]["ms"].append(ask(name, "turn"))
            telemetry.read()
    for name in names:
        arms[name]["kernels"] = ask(name, "kernels")
    for process in processes.values():
        process.stdin.close()
        process.wait()
    ceilings = {m.metric: m.value for m in peaks.measure("cuda:0")}
    readings = {m.metric: m.value for m in telemetry.measurements()}
    return {"host": machine.describe(), "ceilings": ceilings, "readings": readings, "arms": arms}


def table(result: dict[str, Any]) -> str:
    """Rows of the page; ratios are of paired turns."""
    arms = result["arms"]
    base = arms[PEER]
    rows = ["| step | ms | tokens/s | beside nanoGPT | peak GiB | loss, last 50 of 300 |"]
    rows.append("|---|---|---|---|---|---|")
    for name, arm in arms.items():
        ratios = [b / own for b, own in zip(base["ms"], arm["ms"], strict=True)]
        low, _, high = quantiles(ratios, n=4)
        ms = median(arm["ms"])
        loss = "—"
        if len(arm["losses"]) == TRAINED:
            loss = f"{fmean(arm['losses'][-50:]):.4f}"
        rows.append(
            f"| {WORDS.get(name, name)} | {ms:.1f} | {BATCH * LENGTH / ms:,.0f}k "
            f"| {median(ratios):.3f} ({low:.3f} to {high:.3f}) | {arm['peak_bytes'] / 2**30:.1f} "
            f"| {loss} |"
        )
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer", type=Path)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/assay-train-step"))
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--arm")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path)
    given = parser.parse_args()
    if given.table:
        print(table(json.loads(given.table.read_text())))
    elif given.arm:
        work(given.arm, given.peer, given.folder)
    else:
        result = measure(given.peer, given.folder, given.arms.split(","))
        given.out.write_text(json.dumps(result, indent=1) + "\n")
        print(table(result))


if __name__ == "__main__":
    main()
