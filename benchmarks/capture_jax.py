"""Cost of capture in a training step of a Flax Gemma, as paired ratios to the plain step.

    python benchmarks/capture_jax.py --folder DIR [--rounds 30] [--json FILE]

Each round runs the plain step and every way of capturing, in an order that alternates.
`asked` ways let the program ask the host which steps are wanted, `said` ways run under
`capture.step(n)`, where steps that are not wanted run the plain program. A block is 20 steps, of
which the first is wanted where every=20. The `results` way calls a function made by `collect` in
that step and the plain one in the others. The figures stand in docs/capture-jax.md.
"""

import argparse
import json
import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import assay
from assay.captures.jax import FlaxCapture
from assay.laws import pairs
from assay.models.gemma.fast.model import AutoregressiveModel
from assay.performance.rounds import Turns

BLOCK = 20
RESULTS = "full, 1 layer in 4, every 20th, results"
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "plain again": {},
    "statistics, every step": {"mode": "stats"},
    "statistics, 1 layer in 4": {"mode": "stats", "layers": "::4"},
    "full, 1 layer in 4, every 20th, asked": {"layers": "::4", "every": BLOCK},
    "full, 1 layer in 4, every 20th, said": {"layers": "::4", "every": BLOCK},
    RESULTS: {"layers": "::4", "every": BLOCK},
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
    arguments = parser.parse_args()
    trained = training(arguments.width, arguments.depth, arguments.batch, arguments.length)
    shutil.rmtree(arguments.folder, ignore_errors=True)
    ways = measured(trained, arguments.folder, arguments.rounds)
    for name, way in ways.items():
        print(f"{name:40} {way}")
    if arguments.json:
        arguments.json.write_text(json.dumps(ways, indent=1) + "\n")


@dataclass(frozen=True, kw_only=True)
class Training:
    """A model and its training step, plain and as `collect` makes it."""

    variables: Any
    model: AutoregressiveModel
    plain: Callable[[Any], Any]
    results: Callable[[FlaxCapture], Callable[[Any], Any]]


def training(width: int, depth: int, batch: int, length: int) -> Training:
    """A model with 12 heads of 64 in bfloat16."""
    model = AutoregressiveModel(
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

    def loss(variables: Any) -> jax.Array:
        return model.apply(variables, tokens)[0].astype(jnp.float32).mean()

    def trained(variables: Any, gradient: Any) -> Any:
        return jax.tree.map(lambda w, g: w - 1e-3 * g, variables, gradient)

    @jax.jit
    def plain(variables: Any) -> Any:
        return trained(variables, jax.grad(loss)(variables))

    def results(capture: FlaxCapture) -> Callable[[Any], Any]:
        def step(variables: Any) -> Any:
            gradient, collected = jax.grad(capture.collect(loss), has_aux=True)(variables)
            return trained(variables, gradient), collected

        return jax.jit(step)

    return Training(variables=variables, model=model, plain=plain, results=results)


def measured(trained: Training, folder: Path, rounds: int) -> dict[str, Any]:
    """Of each way the median time of a step, its ratio to the plain one with 95 %, what was lost.

    All captures stay open, so that each way is compiled once; all but one are paused at a time.
    """
    times: dict[str, list[float]] = {name: [] for name in WAYS}
    with ExitStack() as opened:
        captures = {
            name: opened.enter_context(
                assay.capturing(trained.model, folder / str(place), **choices)
            )
            for place, (name, choices) in enumerate(WAYS.items())
            if choices
        }
        results = trained.results(captures[RESULTS])
        for number, name in Turns(WAYS, rounds=rounds + 1):
            elapsed_ms = block(trained, results, captures, name, number * BLOCK)
            if number:  # the first compiles
                times[name].append(elapsed_ms)
    ways = {name: ratio(times[name], times["plain"]) for name in WAYS}
    for name, capture in captures.items():
        report = capture.report()
        ways[name] |= {"records": report.records, "MB": report.bytes / 1e6}
        ways[name]["dropped"] = report.dropped
    shutil.rmtree(folder, ignore_errors=True)
    return ways


def block(
    trained: Training,
    results: Callable[[Any], Any],
    captures: dict[str, FlaxCapture],
    name: str,
    first: int,
) -> float:
    """Milliseconds of a step, over 20 of them."""
    with ExitStack() as paused:
        for other, capture in captures.items():
            if other != name or name == RESULTS:
                paused.enter_context(capture.paused())
        start = time.perf_counter()
        for number in range(first, first + BLOCK):
            if name == RESULTS and number == first:
                done, collected = results(trained.variables)
                captures[name].save(collected, step=number)
            else:
                context = captures[name].step(number) if name.endswith("said") else nullcontext()
                with context:
                    done = trained.plain(trained.variables)
            jax.block_until_ready(done)
        return (time.perf_counter() - start) / BLOCK * 1e3


def ratio(times: list[float], plain: list[float]) -> dict[str, Any]:
    """The middle of the ratios within rounds."""
    logs = np.log(np.array(times) / np.array(plain))
    low, high = pairs.interval(np.exp(pairs.resampled_medians([logs])[:, 0]))
    return {"step_ms": median(times), "ratio": float(np.exp(np.median(logs))), "95 %": (low, high)}


if __name__ == "__main__":
    main()
