"""Calls as a model would hand them over, made without one, and whether a run accounts for them."""

import numpy as np

from assay.captures.manifest import TensorEntry
from assay.captures.recording.captured_call import CapturedCall, LoadedTensors
from assay.captures.tensor import Tensor, tensor_of

SITE = "model.layers.0.self_attn"


def call(*, values=64, seed=0) -> dict[str, Tensor]:
    """q, k and v of one head, four dims and some values each."""
    draw = np.random.default_rng(seed)
    shape = (1, 1, max(1, values // 4), 4)
    return {name: tensor_of(draw.standard_normal(shape, dtype=np.float32)) for name in "qkv"}


def captured_call(
    recording, tensors, *, step=0, layer=0, site=SITE, call=0, phase="eval", **changes
):
    """One call as a model puts it; `changes` replace any of its fields."""
    fields = {
        "key": recording.key(step=step, layer=layer, site=site, call=call),
        "phase": phase,
        "framework": "numpy",
        "device": "cpu",
        "implementation": None,
        "scalars": {"causal": True, "scale": 0.5},
        "shapes": {n: TensorEntry(dtype=t.dtype, shape=t.shape) for n, t in tensors.items()},
        "nbytes": sum(tensor.nbytes for tensor in tensors.values()),
        "load": lambda: LoadedTensors(tensors=tensors),
    }
    return CapturedCall(**(fields | changes))


def equal(tensors: dict[str, Tensor], wanted: dict[str, Tensor]) -> bool:
    """The same names, dtypes, shapes and bits."""
    return tensors.keys() == wanted.keys() and all(
        tensors[name].digest() == tensor.digest() for name, tensor in wanted.items()
    )


def put_all(recording, count, **changes):
    """Put so many calls; True for each that was accepted."""
    tensors = call()
    return [
        recording.put(captured_call(recording, tensors, step=n, **changes)) for n in range(count)
    ]


def check_counts(recording, store, puts):
    """Kept, dropped and duplicates make up what was offered; the manifest says the same."""
    report, manifest = recording.report(), store.manifest()
    assert report.records + sum(report.dropped.values()) + report.duplicates == puts
    assert len(manifest.records) == report.records
    assert sum(r.bytes for r in manifest.records) <= report.bytes
    (end,) = manifest.ends
    assert (end.records, end.bytes, end.dropped, end.duplicates) == (
        report.records,
        report.bytes,
        report.dropped,
        report.duplicates,
    )
    return report
