"""Stores of captured calls made without a model, with what is planted in them known."""

from pathlib import Path

import numpy as np

from assay.attention import reference
from assay.captures import tensor_files
from assay.captures.manifest import CaptureRecord, CaptureRun, Key, RunSummary, TensorEntry
from assay.captures.statistics import statistics
from assay.captures.store import Store
from assay.captures.tensor import Tensor, tensor_of
from assay.workloads.values import rounded

RUN = "20260101T000000.000Z-made"
OUTLIER_LAYER, OUTLIER_HEAD, OUTLIER_CHANNELS = 1, 1, (17, 29)
SINK_LAYER, SINK_HEAD = 2, 3


def as_dtype(values: np.ndarray, dtype: str) -> Tensor:
    """Values rounded to a dtype."""
    held = rounded(np.asarray(values, dtype=np.float32), dtype)
    if dtype == "bfloat16":
        return Tensor(dtype, (held.view(np.uint32) >> np.uint32(16)).astype(np.uint16))
    return tensor_of(held.astype(dtype))


def add(
    store: Store,
    tensors: dict[str, Tensor],
    *,
    step: int = 0,
    layer: int = 0,
    phase: str = "prefill",
    mode: str = "full",
    run: str = RUN,
    site: str | None = None,
    implementation: str | None = "sdpa",
    versions: dict[str, str] | None = None,
    **scalars: object,
) -> CaptureRecord:
    """One record of a store; its run is listed with the first."""
    key = Key(run=run, step=step, layer=layer, site=site or f"layers.{layer}.attn")
    folder = store.path / "records" / f"{run}.r0"
    if not folder.exists():
        store.claim(run, 0)
        facts = {"model": {"name": "made"}, "config": {}, "options": {}, "host": "here", "pid": 1}
        facts |= {"versions": versions or {"numpy": "2"}, "time": "2026-01-01T00:00:00Z"}
        store.append([CaptureRun(run=run, rank=0, **facts)])
    entries, stored = {}, {}
    for name, tensor in tensors.items():
        stats = statistics(tensor, heads_axis=1) if mode == "stats" else None
        entries[name] = TensorEntry(dtype=tensor.dtype, shape=tensor.shape, stats=stats)
    if mode == "full":
        file = folder / f"{key.name}.safetensors"
        checksum, size = tensor_files.write(file, tensors, sync=False)
        name = str(file.relative_to(store.path))
        stored = {"file": name, "checksum": checksum, "bytes": size}
    record = CaptureRecord(
        key=key,
        phase=phase,
        mode=mode,
        framework="torch",
        device="cpu",
        implementation=implementation,
        tensors=entries,
        scalars={"causal": True, "alignment": "bottom-right", "scale": 0.25, **scalars},
        time="2026-01-01T00:00:00Z",
        **stored,
    )
    store.append([record])
    return record


def call(
    *, batch=1, heads=4, kv_heads=2, queries=24, keys=24, dim=32, dtype="bfloat16", seed=0,
    plant=None,
) -> dict[str, Tensor]:  # fmt: skip
    """q, k, v and out of normal numbers, changed by `plant` before they are rounded."""
    generator = np.random.default_rng(seed)
    of_queries, of_keys = (batch, heads, queries, dim), (batch, kv_heads, keys, dim)
    shapes = {"q": of_queries, "k": of_keys, "v": of_keys, "out": of_queries}
    values = {name: generator.standard_normal(shape) for name, shape in shapes.items()}
    if plant:
        plant(values)
    return {name: as_dtype(value, dtype) for name, value in values.items()}


def inputs(*, queries=9, keys=9, dtype="float32", **choices) -> dict[str, Tensor]:
    """q, k and v of two rows, sixteen dims and so a scale of 1/4."""
    sizes = {"batch": 2, "dim": 16, **choices}
    tensors = call(queries=queries, keys=keys, dtype=dtype, **sizes)
    return {name: tensors[name] for name in "qkv"}


def with_output(tensors: dict[str, Tensor], *, visible: np.ndarray) -> dict[str, Tensor]:
    """The tensors and what attention of scale 1/4 makes of them."""
    q, k, v = (tensors[name].numbers() for name in "qkv")
    out = reference.attention(q, k, v, causal=False, scale=0.25, visible=visible).out
    return {**tensors, "out": as_dtype(out, tensors["q"].dtype)}


def plant_outliers(values: dict[str, np.ndarray]) -> None:
    """Two channels of one head of k, 40 and 20 times as large as the others."""
    for channel, times in zip(OUTLIER_CHANNELS, (40, 20), strict=True):
        values["k"][:, OUTLIER_HEAD, :, channel] *= times


def plant_sink(values: dict[str, np.ndarray]) -> None:
    """The first key lies along a direction that all queries of one head share."""
    values["k"][:, :, :, 5] = 0
    values["k"][:, :, 0, 5] = 4
    values["q"][:, SINK_HEAD, :, 5] = 16


def planted(path: Path, *, steps: int = 3, dtype: str = "bfloat16", mode: str = "full") -> Store:
    """Three layers: plain, with outlier channels of k, with a sink; a prefill and decode steps."""
    store = Store.create(path)
    plants = {OUTLIER_LAYER: plant_outliers, SINK_LAYER: plant_sink}
    for step in range(steps):
        queries, keys = (24, 24) if step == 0 else (1, 24 + step)
        for layer in range(3):
            tensors = call(
                queries=queries, keys=keys, dtype=dtype, seed=layer, plant=plants.get(layer)
            )
            phase = "decode" if step else "prefill"
            add(store, tensors, step=step, layer=layer, phase=phase, mode=mode)
    store.append([RunSummary(run=RUN, rank=0, records=3 * steps, bytes=1, dropped={})])
    return store
