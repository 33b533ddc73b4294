"""Inputs of a workload, wherever they come from: drawn from its seed, or captured from a model.

captured:captures/smollm2                     every record that has q, k and v
captured:captures/smollm2#layer=3;phase=decode    some of them, as Store.find takes it
captured:captures/flax#scale=1.0              with the scale of those that do not say theirs
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from assay.captures.manifest import CaptureRecord, CaptureRun
from assay.captures.mask import captured_mask, captured_visibility
from assay.captures.store import Store
from assay.captures.tensor import Tensor
from assay.errors import BadInput
from assay.workloads import synthetic
from assay.workloads.spec import DTYPES, WorkloadSpec
from assay.workloads.workload import Captured, Workload

PREFIX = "captured:"
SCALE = "scale="
_NEEDED = ("q", "k", "v")


def make(spec: WorkloadSpec) -> Workload:
    """Return the arrays of a workload: the same bits whenever and wherever it is called."""
    return _load(spec) if spec.captured else synthetic.draw(spec)


def captured_specs(entry: str, *, seed: int = 0) -> list[WorkloadSpec]:
    """Return the workloads that an entry of WORKLOADS stands for; `seed` draws their gradients."""
    wanted, scale = _without_scale(entry.partition("#")[2])
    store = Store.open(store_path(entry))
    records = store.find(wanted) if wanted else store.manifest().records
    usable = [record for record in records if not _obstacle(record)]
    if not usable:
        why = _obstacle(records[0]) if records else "it has no records"
        raise BadInput(f"{entry}: none of {len(records)} records is a workload: {why}")
    return [_spec(store, record, seed, scale) for record in usable]


def _without_scale(wanted: str) -> tuple[str, float | None]:
    """The records that an entry wants, and the scale that it gives those that have none."""
    words = wanted.split(";")
    scales = [word.removeprefix(SCALE) for word in words if word.startswith(SCALE)]
    return ";".join(w for w in words if not w.startswith(SCALE)), (
        _number(scales) if scales else None
    )


def _number(scales: list[str]) -> float:
    try:
        (scale,) = map(float, scales)
    except ValueError:
        scale = 0.0
    if not 0 < scale < float("inf"):
        raise BadInput(f"the scale is {','.join(scales)!r}; wanted one number above 0, such as 1.0")
    return scale


def workload_entry(path: Path, records: str | None = None, scale: float | None = None) -> str:
    """Return the entry of WORKLOADS that stands for some records of a store, or for all; `scale` is
    of those that do not say theirs."""
    if path.is_file():
        raise BadInput(
            f"{path} is a file, wanted a store; `assay capture import {path} --to DIR` makes one"
        )
    Store.open(path)
    words = [
        *([records.replace(",", ";")] if records else []),
        *([f"{SCALE}{scale}"] if scale is not None else []),
    ]
    return f"{PREFIX}{path}#{';'.join(words)}" if words else f"{PREFIX}{path}"


def store_path(entry: str) -> Path:
    """Return the path of the store that an entry names."""
    return Path(entry.removeprefix(PREFIX).partition("#")[0])


def _obstacle(record: CaptureRecord) -> str | None:
    """Say why a record cannot be a workload; None where it can."""
    missing = [name for name in _NEEDED if name not in record.tensors]
    if record.mode != "full" or missing:
        what = f"has no {', '.join(missing)}" if missing else f"was captured as {record.mode}"
        return f"{record.name} {what}"
    q, k, v = (record.tensors[name] for name in _NEEDED)
    if absent := [entry.why for entry in (q, k, v) if entry.why]:
        return f"{record.name}: {absent[0]}"
    if {q.dtype, k.dtype, v.dtype} != {q.dtype} or q.dtype not in DTYPES:
        return (
            f"{record.name} is {q.dtype}, {k.dtype}, {v.dtype}; wanted one of {', '.join(DTYPES)}"
        )
    if k.shape != v.shape or len(q.shape) != 4 or q.shape[3] != k.shape[3]:
        return f"{record.name} has shapes {q.shape}, {k.shape}, {v.shape}; k and v must be alike"
    return None


def _spec(store: Store, record: CaptureRecord, seed: int, given: float | None) -> WorkloadSpec:
    q, k = record.tensors["q"], record.tensors["k"]
    tensors = store.read(record) if "mask" in record.tensors else {}
    visibility = captured_visibility(record, tensors)
    batch, heads, queries, dim = q.shape
    scale = record.scalars.get("scale", given)
    if not isinstance(scale, float | int):
        raise BadInput(
            f"{record.name} does not say what its scores are multiplied with: give that number, "
            "as in `assay replay STORE --scale 1.0` (1 where q is scaled before, "
            f"{dim**-0.5:.6g} for one over the root of {dim})"
        )
    return WorkloadSpec(
        batch=batch,
        heads=heads,
        kv_heads=k.shape[1],
        query_length=queries,
        key_length=k.shape[2],
        head_dim=dim,
        dtype=q.dtype,
        causal=visibility.causal,
        seed=seed,
        padded=visibility.lengths is not None,
        masked=visibility.masked,
        exact_scale=None if scale == dim**-0.5 else float(scale),
        captured=f"{store.path}#{record.name}",
        content=_content(record),
    )


def _load(spec: WorkloadSpec) -> Workload:
    """Read the arrays of a captured workload, verified against the store's manifest."""
    path, _, name = spec.captured.partition("#")
    store = Store.open(Path(path))
    record = store.find(name)[0]
    if _content(record) != spec.content:
        raise BadInput(f"{spec.captured} is not the record it was when this was planned; plan anew")
    tensors = store.read(record)
    visibility = captured_visibility(record, tensors)
    q, k, v = (tensors[name].numbers().astype(np.float32) for name in _NEEDED)
    drawn = replace(spec, captured="", content="", padded=False, masked=False)
    workload = Workload(
        spec=spec,
        q=q,
        k=k,
        v=v,
        grad_out=synthetic.draw(drawn).grad_out,
        lengths=visibility.lengths,
        mask=captured_mask(record, tensors) if visibility.masked else None,
    )
    return replace(workload, captured=_model_output(store, record, tensors, workload))


def _model_output(
    store: Store, record: CaptureRecord, tensors: dict[str, Tensor], workload: Workload
) -> Captured | None:
    """Return what the model computed, where that was stored and can be repeated."""
    if "out" not in tensors or record.scalars.get("dropout"):
        return None
    implementation = record.implementation
    if implementation and record.scalars.get("kv_repeated"):
        implementation += " on repeated kv heads"  # for which torch may choose another kernel
    orders = {record.tensors[name].order for name in _NEEDED}
    return Captured(
        out=tensors["out"].numbers().astype(np.float32),
        implementation=implementation,
        device=record.device,
        versions=_run(store, record).versions,
        order=orders.pop() if len(orders) == 1 else None,
        rows=workload.visible.any(axis=-1),
    )


def _run(store: Store, record: CaptureRecord) -> CaptureRun:
    for run in store.manifest().runs:
        if (run.run, run.rank) == (record.key.run, record.key.rank):
            return run
    raise BadInput(f"{store.path}: its manifest does not say what run {record.key.run} was")


def _content(record: CaptureRecord) -> str:
    """Return the checksums of a record's files, which change with any of its tensors."""
    shared = [entry.checksum or "" for entry in record.tensors.values()]
    return "+".join(filter(None, [record.checksum or "", *shared]))
