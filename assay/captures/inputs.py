"""Inputs of a workload, wherever they come from: drawn from its seed, or captured from a model.

captured:captures/smollm2                     every record that has q, k and v
captured:captures/smollm2#layer=3;phase=decode    some of them, as Store.find takes it
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from assay.captures import mask
from assay.captures.manifest import CaptureRecord, CaptureRun
from assay.captures.store import Store
from assay.captures.tensor import Tensor
from assay.errors import BadInput
from assay.workloads import synthetic
from assay.workloads.spec import DTYPES, WorkloadSpec
from assay.workloads.workload import Captured, Workload

PREFIX = "captured:"
_NEEDED = ("q", "k", "v")


def make(spec: WorkloadSpec) -> Workload:
    """Return the arrays of a workload: the same bits whenever and wherever it is called."""
    return load(spec) if spec.captured else synthetic.draw(spec)


def captured_specs(entry: str, *, seed: int = 0) -> list[WorkloadSpec]:
    """The workloads that an entry of a study's list stands for; `seed` draws their gradients."""
    wanted = entry.partition("#")[2]
    store = Store.open(store_path(entry))
    records = store.find(wanted) if wanted else store.manifest().records
    usable = [record for record in records if not unusable(record)]
    if not usable:
        why = unusable(records[0]) if records else "it has no records"
        raise BadInput(f"{entry}: none of {len(records)} records is a workload: {why}")
    return [_spec(store, record, seed) for record in usable]


def workload_entry(path: Path, records: str | None = None) -> str:
    """The entry of a study's list that stands for some records of a store, or for all."""
    if path.is_file():
        raise BadInput(
            f"{path} is a file, wanted a store; `assay capture import {path} --to DIR` makes one"
        )
    Store.open(path)
    chosen = f"#{records.replace(',', ';')}" if records else ""
    return f"{PREFIX}{path}{chosen}"


def store_path(entry: str) -> Path:
    """The store that an entry names."""
    return Path(entry.removeprefix(PREFIX).partition("#")[0])


def unusable(record: CaptureRecord) -> str | None:
    """Why a record is no workload; None where it is one."""
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


def load(spec: WorkloadSpec) -> Workload:
    """The arrays of a captured workload, verified against the store's manifest."""
    path, _, name = spec.captured.partition("#")
    store = Store.open(Path(path))
    record = store.find(name)[0]
    if _content(record) != spec.content:
        raise BadInput(f"{spec.captured} is not the record it was when this was planned; plan anew")
    tensors = store.read(record)
    seen = mask.understood(record, tensors)
    q, k, v = (tensors[name].numbers().astype(np.float32) for name in _NEEDED)
    grad_out = synthetic.draw(_gaussian(spec)).grad_out
    workload = Workload(
        spec=spec, q=q, k=k, v=v, grad_out=grad_out, lengths=seen.lengths, mask=seen.mask
    )
    return replace(workload, captured=_captured(store, record, tensors, workload))


def _spec(store: Store, record: CaptureRecord, seed: int) -> WorkloadSpec:
    q, k = record.tensors["q"], record.tensors["k"]
    tensors = store.read(record) if "mask" in record.tensors else {}
    seen = mask.understood(record, tensors)
    batch, heads, queries, dim = q.shape
    scale = record.scalars.get("scale")
    if not isinstance(scale, float | int):
        raise BadInput(f"{record.name} does not say its scale; wanted a number among its scalars")
    return WorkloadSpec(
        batch=batch,
        heads=heads,
        kv_heads=k.shape[1],
        query_length=queries,
        key_length=k.shape[2],
        head_dim=dim,
        dtype=q.dtype,
        causal=seen.causal,
        seed=seed,
        padded=seen.lengths is not None,
        masked=seen.mask is not None,
        exact_scale=None if scale == dim**-0.5 else float(scale),
        captured=f"{store.path}#{record.name}",
        content=_content(record),
    )


def _captured(
    store: Store, record: CaptureRecord, tensors: dict[str, Tensor], workload: Workload
) -> Captured | None:
    """What the model computed, where that was stored."""
    if "out" not in tensors or record.scalars.get("dropout"):
        return None
    return Captured(
        out=tensors["out"].numbers().astype(np.float32),
        implementation=_computed_by(record),
        device=record.device,
        versions=_run(store, record).versions,
        order=_order(record),
        rows=workload.visible.any(axis=-1),
    )


def _computed_by(record: CaptureRecord) -> str | None:
    """The implementation; another one where kv heads were repeated before it was called, since
    torch may choose another kernel then."""
    if record.implementation and record.scalars.get("kv_repeated"):
        return f"{record.implementation} on repeated kv heads"
    return record.implementation


def _order(record: CaptureRecord) -> str | None:
    orders = {record.tensors[name].order for name in _NEEDED}
    return orders.pop() if len(orders) == 1 else None


def _run(store: Store, record: CaptureRecord) -> CaptureRun:
    for run in store.manifest().runs:
        if (run.run, run.rank) == (record.key.run, record.key.rank):
            return run
    raise BadInput(f"{store.path}: its manifest does not say what run {record.key.run} was")


def _gaussian(spec: WorkloadSpec) -> WorkloadSpec:
    """The drawn workload of the same shapes and dtype."""
    return replace(spec, captured="", content="", padded=False, masked=False)


def _content(record: CaptureRecord) -> str:
    """Changes with any tensor of a record."""
    shared = [entry.checksum or "" for entry in record.tensors.values()]
    return "+".join(filter(None, [record.checksum or "", *shared]))
