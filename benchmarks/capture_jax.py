"""What capture costs a training step of a Flax Gemma, as paired ratios to the plain step.

    python benchmarks/capture_jax.py --folder DIR [--rounds 30] [--json FILE]

Each round runs the plain step and every way of capturing, one after the other; the order turns.
`asked` ways let the program ask the host which steps are wanted, `said` ways run under
`capture.step(n)`, where steps that are not wanted run the plain program. A block is 20 steps, of
which the first is wanted where every=20. The figures stand in docs/capture-jax.md.
"""

import argparse
import json
import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from pathlib import Path
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from assay.capture.jax import Capture, capturing_flax
from assay.laws import pairs
from assay.models import gemma_fast

BLOCK = 20
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "plain again": {},
    "statistics, every step": {"mode": "stats"},
    "statistics, 1 layer in 4": {"mode": "stats", "layers": "::4"},
    "full, 1 layer in 4, every 20th, asked": {"layers": "::4", "every": BLOCK},
    "full, 1 layer in 4, every 20th, said": {"layers": "::4", "every": BLOCK},
}


def main() -> None:
    """Measure; print a table, and JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=Path("capture-jax"))
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--depth", type=int, default=12)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    step, model = training_step(asked.width, asked.depth, asked.batch, asked.length)
    shutil.rmtree(asked.folder, ignore_errors=True)
    found = measured(step, model, asked.folder, asked.rounds)
    for name, one in found.items():
        print(f"{name:40} {one}")
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1) + "\n")


def training_step(
    width: int, depth: int, batch: int, length: int
) -> tuple[Callable[[], None], gemma_fast.Module]:
    """One step, to be waited for, of a model with 12 heads of 64 in bfloat16."""
    model = gemma_fast.Module(
        variant="bench",
        width=width,
        depth=depth,
        mlp_dim=4 * width,
        num_heads=12,
        num_kv_heads=12,
        head_dim=64,
        norm_eps=1e-6,
        vocab_size=8192,
        embed_dtype="bfloat16",
        cache_dtype="bfloat16",
        scan=True,
        remat_policy="nothing_saveable",
    )
    variables = jax.jit(lambda key: model.init_with_output(key, method="init")[1])(
        jax.random.key(0)
    )
    tokens = jnp.asarray(np.random.default_rng(0).integers(0, 8192, (batch, length)))

    @jax.jit
    def trained(variables: Any, tokens: jax.Array) -> Any:
        def loss(variables: Any) -> jax.Array:
            return model.apply(variables, tokens)[0].astype(jnp.float32).mean()

        return jax.tree.map(lambda w, g: w - 1e-3 * g, variables, jax.grad(loss)(variables))

    return lambda: jax.block_until_ready(trained(variables, tokens)), model


def measured(
    step: Callable[[], None], model: gemma_fast.Module, folder: Path, rounds: int
) -> dict[str, Any]:
    """Of each way the median time of a step, its ratio to the plain one with 95 %, what was lost.

    All captures stay open, so that each way is compiled once; all but one are paused at a time.
    """
    times: dict[str, list[float]] = {name: [] for name in WAYS}
    with ExitStack() as opened:
        captures = {
            name: opened.enter_context(capturing_flax(model, folder / str(place), **choices))
            for place, (name, choices) in enumerate(WAYS.items())
            if choices
        }
        for number in range(rounds + 1):
            turned = number % len(WAYS)
            for name in list(WAYS)[turned:] + list(WAYS)[:turned]:
                elapsed = block(step, captures, name, number * BLOCK)
                if number:  # the first compiles
                    times[name].append(elapsed)
    found = {name: ratio(times[name], times["plain"]) for name in WAYS}
    for name, capture in captures.items():
        report = capture.report()
        found[name] |= {"records": report.records, "MB": report.bytes / 1e6}
        found[name]["dropped"] = report.dropped
    shutil.rmtree(folder, ignore_errors=True)
    return found


def block(step: Callable[[], None], captures: dict[str, Capture], name: str, first: int) -> float:
    """Milliseconds of a step, over 20 of them."""
    with ExitStack() as paused:
        for other, capture in captures.items():
            if other != name:
                paused.enter_context(capture.paused())
        begun = time.perf_counter()
        for number in range(first, first + BLOCK):
            said = captures[name].step(number) if name.endswith("said") else nullcontext()
            with said:
                step()
        return (time.perf_counter() - begun) / BLOCK * 1e3


def ratio(times: list[float], plain: list[float]) -> dict[str, Any]:
    """The middle of the ratios within rounds."""
    logs = np.log(np.array(times) / np.array(plain))
    low, high = pairs.interval(np.exp(pairs.resampled_medians([logs])[:, 0]))
    return {"step_ms": median(times), "ratio": float(np.exp(np.median(logs))), "95 %": (low, high)}


if __name__ == "__main__":
    main()
