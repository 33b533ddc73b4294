"""A small store of captures, made without a model: attention computed by the reference."""

from pathlib import Path

import numpy as np

from assay.attention import reference
from assay.captures import tensor_files
from assay.captures.manifest import CaptureRecord, CaptureRun, Key, TensorEntry
from assay.captures.store import Store
from assay.captures.tensor import Tensor, tensor_of
from assay.workloads.values import rounded


def as_dtype(values: np.ndarray, dtype: str) -> Tensor:
    """Values of a workload's dtype, rounded to it."""
    held = rounded(values.astype(np.float32), dtype)
    if dtype == "bfloat16":
        return Tensor(dtype, (held.view(np.uint32) >> np.uint32(16)).astype(np.uint16))
    return tensor_of(held.astype(dtype))


def inputs(
    *, batch=2, heads=4, kv_heads=2, queries=9, keys=9, dim=16, dtype="float32", seed=0
) -> dict[str, Tensor]:
    """q, k and v."""
    generator = np.random.default_rng(seed)
    shapes = {
        "q": (batch, heads, queries, dim),
        "k": (batch, kv_heads, keys, dim),
        "v": (batch, kv_heads, keys, dim),
    }
    return {n: as_dtype(generator.standard_normal(s), dtype) for n, s in shapes.items()}


def with_output(tensors: dict[str, Tensor], *, seen: np.ndarray, scale: float) -> dict[str, Tensor]:
    """The tensors and what attention makes of them."""
    q, k, v = (tensors[name].numbers() for name in "qkv")
    out = reference.attention(q, k, v, causal=False, scale=scale, visible=seen).out
    return {**tensors, "out": as_dtype(out, tensors["q"].dtype)}


def add(
    store: Store, tensors: dict[str, Tensor], *, run="made", step=0, layer=0, mode="full",
    implementation=None, versions=None, **scalars,
) -> CaptureRecord:  # fmt: skip
    """One record, in a run of its own rank so that folders never meet."""
    key = Key(run=run, step=step, layer=layer, site=f"layers.{layer}.attn")
    folder = store.path / "records" / f"{run}.r0"
    if not folder.exists():
        store.claim(run, 0)
        told = {
            "time": "2026-01-01T00:00:00Z", "model": {}, "config": {}, "host": "", "options": {},
            "pid": 1, "versions": versions or {},
        }  # fmt: skip
        store.append([CaptureRun(run=run, rank=0, **told)])
    file = folder / f"{key.name}.safetensors"
    checksum, size = tensor_files.write(file, tensors)
    dim = tensors["q"].shape[-1]
    record = CaptureRecord(
        key=key,
        phase="prefill",
        mode=mode,
        framework="torch",
        device="cpu",
        implementation=implementation,
        tensors={n: TensorEntry(dtype=t.dtype, shape=t.shape) for n, t in tensors.items()},
        scalars={"causal": True, "alignment": "bottom-right", "scale": dim**-0.5, **scalars},
        time="2026-01-01T00:00:00Z",
        file=str(file.relative_to(store.path)),
        checksum=checksum,
        bytes=size,
    )
    store.append([record])
    return record


def made(path: Path) -> Store:
    return Store.create(path)
