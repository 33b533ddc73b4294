"""Each wrapper against attention in NumPy float64, independent of the check.

    python gallery/compare.py [NAME ...]        prints what is wrong, case by case, and keeps it

A row of a tensor is wrong where its error is above a fixed share of its size, TOLERANCE, which is
far beyond rounding: this is about mistakes, and the check's budget about precision.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from assay import host, plugins
from assay.attention import contract
from assay.attention.contract import Implementation
from assay.host import Host
from assay.workloads.spec import WorkloadSpec

HERE = Path(__file__).parent
COMPARED = HERE / "compared.json"
TOLERANCE = {"float32": 1e-3, "float16": 3e-2, "bfloat16": 2e-1}
SHOWN = 6  # cases of an outcome
SMALLEST = 0.2  # size of a row, below which its error is measured against this
# Queries, keys, heads, kv heads, head dimension.
SHAPES = (
    (1, 1, 1, 1, 32), (4, 8, 2, 2, 32), (8, 4, 2, 2, 32), (33, 33, 2, 2, 32), (48, 48, 1, 1, 32),
    (64, 64, 2, 2, 64), (7, 64, 2, 2, 32), (65, 33, 2, 2, 32), (64, 64, 6, 2, 32),
    (96, 96, 1, 1, 80), (128, 128, 2, 2, 64), (128, 256, 1, 1, 64), (256, 128, 1, 1, 64),
)  # fmt: skip
LONG = (1025, 1025, 1, 1, 32)  # in float32 alone


def main(names: list[str]) -> None:
    """Compare each wrapper in a process of its own, for one may end it."""
    if unknown := set(names) - set(wrappers()):
        sys.exit(f"no wrapper is called {', '.join(sorted(unknown))}: {', '.join(wrappers())}")
    for name in names or sorted(wrappers()):
        ended = subprocess.run([sys.executable, __file__, "--one", name]).returncode
        if ended < 0:
            _keep(name, {f"raises signal {-ended}, which ends the process": ["one"]})


def compare(name: str) -> None:
    """Run all cases of a wrapper; print and keep each outcome with the cases that have it."""
    implementation = contract.load(name, [HERE])
    outcomes: dict[str, list[str]] = {}
    for spec in cases():
        outcomes.setdefault(outcome(implementation, spec), []).append(_short(spec))
    outcomes.pop("refused", None)
    if not outcomes:
        sys.exit(f"{name} refuses every case, so nothing is kept: are its checkouts there?")
    _keep(name, outcomes)


def _keep(name: str, outcomes: dict[str, list[str]]) -> None:
    for words, specs in sorted(outcomes.items(), key=lambda item: len(item[1])):
        print(f"{name}: {len(specs)} {words}: {', '.join(specs[:SHOWN])}", flush=True)
    kept = json.loads(COMPARED.read_text()) if COMPARED.is_file() else {}
    kept[name] = {w: {"cases": len(s), "such as": s[:SHOWN]} for w, s in outcomes.items()}
    COMPARED.write_text(json.dumps(dict(sorted(kept.items())), indent=1) + "\n")


def wrappers() -> list[str]:
    """Names of the files here that wrap an implementation."""
    listed = plugins.listing("sequence", [HERE])
    return [name for name, plugin in listed.items() if plugin.path.parent == HERE]


def cases() -> Iterator[WorkloadSpec]:
    """Each shape, full and causal, in each dtype."""
    grid = [*product(SHAPES, TOLERANCE), (LONG, "float32")]
    for ((m, n, heads, kv_heads, dim), dtype), causal in product(grid, (False, True)):
        yield WorkloadSpec(
            batch=1, heads=heads, kv_heads=kv_heads, query_length=m, key_length=n, head_dim=dim,
            dtype=dtype, causal=causal, seed=m + n,
        )  # fmt: skip


def outcome(implementation: Implementation, spec: WorkloadSpec) -> str:
    """Run a case and name its outcome: refused, right, raising, or wrong in which tensors."""
    if implementation.refusal(spec, _cpu()):
        return "refused"
    q, k, v, grad = _arrays(spec)
    own = (lambda x: x.swapaxes(1, 2)) if implementation.layout == "BSHD" else (lambda x: x)
    run = _torch if implementation.framework == "torch" else _jax
    try:
        call = implementation.for_workload(spec)
        given = [np.ascontiguousarray(own(x)) for x in (q, k, v, grad)]
        results = run(call, given, spec, backward=bool(implementation.backward))
    except Exception as error:
        text = str(error).strip().splitlines()
        return f"raises {type(error).__name__}: {(text or [''])[-1][:90]}"
    right = _reference(q, k, v, grad, causal=spec.causal, scale=spec.scale)
    dtype, results = results[0], results[1:]
    problems = [f"out is {dtype}"] if dtype != spec.dtype else []
    for tensor, actual, wanted in zip(("out", "dq", "dk", "dv"), results, right, strict=False):
        if problem := _problem(own(actual), wanted, TOLERANCE[spec.dtype]):
            problems.append(f"{tensor} {problem}")
    return "wrong: " + ", ".join(problems) if problems else "right"


@cache
def _cpu() -> Host:
    here = host.inspect(commit=False)
    return replace(here, devices=tuple(d for d in here.devices if d.label == "cpu"))


def _problem(actual: np.ndarray, right: np.ndarray, tolerance: float) -> str:
    if not np.isfinite(actual).all():
        return "not finite"
    error = np.linalg.norm(actual - right, axis=-1)
    size = np.linalg.norm(right, axis=-1)
    worst = (error / np.maximum(size, max(np.median(size), SMALLEST))).max()
    return "off" if worst > tolerance else ""


def _arrays(spec: WorkloadSpec) -> list[np.ndarray]:
    """q, k, v and dO as float64, each value one that the dtype holds."""
    draw = np.random.default_rng(spec.seed)
    wide = (spec.batch, spec.heads, spec.query_length, spec.head_dim)
    narrow = (spec.batch, spec.kv_heads, spec.key_length, spec.head_dim)
    arrays = [draw.standard_normal(shape) for shape in (wide, narrow, narrow, wide)]
    return [np.round(array * 64) / 64 for array in arrays]  # seven bits after the point


def _reference(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, grad: np.ndarray, *, causal: bool, scale: float
) -> list[np.ndarray]:
    """Output and gradients; the mask is aligned bottom-right, rows without a key are zeros."""
    group = q.shape[1] // k.shape[1]
    keys, values = (np.repeat(x, group, axis=1) for x in (k, v))
    m, n = q.shape[2], k.shape[2]
    visible = np.tril(np.ones((m, n), bool), n - m) if causal else np.ones((m, n), bool)
    scores = np.where(visible, scale * q @ keys.swapaxes(-1, -2), -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isneginf(top), 0, top))
    total = weights.sum(axis=-1, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    out = weights @ values
    grad_p = grad @ values.swapaxes(-1, -2)
    grad_s = scale * weights * (grad_p - (grad * out).sum(axis=-1, keepdims=True))
    grouped = (k.shape[0], k.shape[1], group, n, k.shape[3])
    dk = (grad_s.swapaxes(-1, -2) @ q).reshape(grouped).sum(axis=2)
    dv = (weights.swapaxes(-1, -2) @ grad).reshape(grouped).sum(axis=2)
    return [out, grad_s @ keys, dk, dv]


def _torch(call: Any, arrays: list[np.ndarray], spec: WorkloadSpec, *, backward: bool) -> list:
    """The dtype of the output, then output and gradients as float64."""
    import torch

    dtype = getattr(torch, spec.dtype)
    q, k, v, grad = (torch.from_numpy(array).to(dtype) for array in arrays)
    inputs = [x.requires_grad_(backward) for x in (q, k, v)]
    out = call(*inputs, causal=spec.causal, scale=spec.scale)
    if backward:
        out.backward(grad.to(out.dtype))
    results = [out, *(x.grad for x in inputs)] if backward else [out]
    dtype = str(out.dtype).removeprefix("torch.")
    return [dtype, *(x.detach().double().numpy() for x in results)]


def _jax(call: Any, arrays: list[np.ndarray], spec: WorkloadSpec, *, backward: bool) -> list:
    import jax
    import jax.numpy as jnp

    q, k, v, grad = (jnp.asarray(array, spec.dtype) for array in arrays)

    def run(*inputs: Any) -> Any:
        return call(*inputs, causal=spec.causal, scale=spec.scale)

    if not backward:
        out = run(q, k, v)
        return [str(out.dtype), np.asarray(out, np.float64)]
    out, pull = jax.vjp(run, q, k, v)
    results = (out, *pull(grad.astype(out.dtype)))
    return [str(out.dtype), *(np.asarray(x, np.float64) for x in results)]


def _short(spec: WorkloadSpec) -> str:
    mask = "causal" if spec.causal else "full"
    heads = f"{spec.heads}/{spec.kv_heads}" if spec.heads != spec.kv_heads else ""
    return (
        f"{spec.query_length}x{spec.key_length}{'h' + heads if heads else ''}-{mask}-{spec.dtype}"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        compare(sys.argv[2])
    else:
        main(sys.argv[1:])
