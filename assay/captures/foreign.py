"""Calls out of npz files that other programs wrote: q, k and v, with mask, output and scalars."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from assay.captures import formats, tensor_files
from assay.captures.exchange import ImportedCall, unknown_run
from assay.captures.manifest import (
    ALIGNMENTS,
    HEADED,
    ORDERS,
    CaptureRecord,
    Key,
    Phase,
    Scalar,
    TensorEntry,
)
from assay.captures.store import new_run_name
from assay.captures.tensor import FLOATS, STORED_AS, Tensor, tensor_of
from assay.errors import BadInput
from assay.records.run import now

_ARRAYS = (*HEADED, "mask")
_SCALARS = ("scale", "causal")


@dataclass(frozen=True, kw_only=True)
class ForeignSettings:
    """Settings that such a file does not say itself. Without scale it is 1 / sqrt(head_dim),
    without causal every query sees every key: as torch's scaled_dot_product_attention takes it."""

    order: str = "BHSD"
    dtype: str | None = None  # of arrays that hold bits, such as uint16 for bfloat16
    scale: float | None = None
    causal: bool | None = None
    alignment: str | None = None
    phase: Phase = "eval"

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("order", self.order, ORDERS),
            ("alignment", self.alignment, (None, *ALIGNMENTS)),
            ("dtype", self.dtype, (None, *FLOATS)),
        ):
            if value not in allowed:
                raise BadInput(f"{name} {value!r} is not one of {', '.join(filter(None, allowed))}")


def reader(settings: ForeignSettings) -> Callable[[Path], ImportedCall]:
    """Return a function that reads foreign files, each as the next step of one new run."""
    run, steps = new_run_name(), count()

    return lambda path: read_foreign(path, run=run, step=next(steps), settings=settings)


def read_foreign(path: Path, *, run: str, step: int, settings: ForeignSettings) -> ImportedCall:
    """Read the one call of a file; arrays in it that mean nothing here are ignored."""
    arrays = formats.npz_arrays(path, tensor_files.read_bytes(path))
    missing = [name for name in "qkv" if name not in arrays]
    if missing:
        raise BadInput(
            f"{path} has no {', '.join(missing)}; it has {', '.join(arrays) or 'nothing'}; wanted "
            "q [B, H, Sq, D], k and v [B, Hkv, Sk, D], and mask, out, scale, causal where known"
        )
    tensors = {n: _tensor(path, n, arrays[n], settings) for n in _ARRAYS if n in arrays}
    _check_shapes(path, tensors)
    key, time = Key(run=run, step=step, layer=-1, site=path.stem), now()
    record = CaptureRecord(
        key=key,
        phase=settings.phase,
        mode="full",
        framework="unknown",
        device="unknown",
        implementation=None,
        tensors={
            name: TensorEntry(
                dtype=tensor.dtype,
                shape=tensor.shape,
                order=settings.order if name in HEADED else None,
            )
            for name, tensor in tensors.items()
        },
        scalars=_scalars(path, arrays, tensors, settings),
        time=time,
    )
    origin = unknown_run(key, time, imported="foreign npz")
    ignored = tuple(name for name in arrays if name not in (*_ARRAYS, *_SCALARS))
    return ImportedCall(record=record, tensors=tensors, run=origin, ignored=ignored)


def _tensor(path: Path, name: str, array: np.ndarray, settings: ForeignSettings) -> Tensor:
    if name in HEADED and array.ndim != 4:
        raise BadInput(
            f"{path}: {name} has shape {array.shape}; wanted four axes, {settings.order}"
        )
    if name in HEADED and settings.order == "BSHD":
        array = np.ascontiguousarray(array.swapaxes(1, 2))
    if name in HEADED and settings.dtype and _holds_bits(array, settings.dtype):
        return Tensor(settings.dtype, array.view(STORED_AS[settings.dtype]))
    allowed = FLOATS if name in HEADED else (*FLOATS, "bool")
    if array.dtype.name not in allowed or not array.dtype.isnative:
        raise BadInput(
            f"{path}: {name} is {array.dtype}; wanted one of {', '.join(allowed)}. For bits of "
            "a dtype that NumPy lacks, say which: --dtype bfloat16"
        )
    return tensor_of(array)


def _holds_bits(array: np.ndarray, dtype: str) -> bool:
    """Tell whether these are bits of `dtype`, also where NumPy lost the dtype's name (|V2)."""
    same = array.dtype.itemsize == np.dtype(STORED_AS[dtype]).itemsize
    return same and array.dtype.kind in "uV"


def _check_shapes(path: Path, tensors: dict[str, Tensor]) -> None:
    q, k, v = (tensors[name].shape for name in "qkv")
    alike = q[0] == k[0] == v[0] and k[1:3] == v[1:3] and q[3] == k[3]
    if not alike or 0 in (*q, *k, *v) or q[1] % k[1]:
        raise BadInput(
            f"{path}: q {q}, k {k}, v {v} are no call of attention; wanted [B, H, Sq, D], "
            "[B, Hkv, Sk, D] twice, and H a multiple of Hkv. Other axes: --order BSHD"
        )
    if len({tensors[name].dtype for name in "qkv"}) > 1:
        raise BadInput(f"{path}: q, k and v have different dtypes; wanted one")
    out = (*q[:3], v[3])
    if "out" in tensors and tensors["out"].shape != out:
        raise BadInput(f"{path}: out has shape {tensors['out'].shape}, q and v make {out}")
    if "mask" in tensors:
        mask, scores = tensors["mask"].shape, (*q[:3], k[2])
        fits = len(mask) <= 4 and all(
            m in (1, s) for m, s in zip(mask[::-1], scores[::-1], strict=False)
        )
        if not fits:
            raise BadInput(f"{path}: mask {mask} does not broadcast to {scores}")


def _scalars(
    path: Path,
    arrays: dict[str, np.ndarray],
    tensors: dict[str, Tensor],
    settings: ForeignSettings,
) -> dict[str, Scalar]:
    q, k = tensors["q"].shape, tensors["k"].shape
    scale = settings.scale if settings.scale is not None else _scalar(path, arrays, "scale")
    scale = q[3] ** -0.5 if scale is None else float(scale)
    causal = settings.causal if settings.causal is not None else _scalar(path, arrays, "causal")
    if not math.isfinite(scale):
        raise BadInput(f"{path}: scale {scale} is not a finite number")
    scalars: dict[str, Scalar] = {"scale": scale, "causal": bool(causal)}
    if causal:
        if q[2] != k[2] and settings.alignment is None:
            raise BadInput(
                f"{path} is causal with {q[2]} queries and {k[2]} keys: say whether the last of "
                "each stand together (--alignment bottom-right) or the first (top-left)"
            )
        scalars["alignment"] = settings.alignment or "bottom-right"
    return scalars


def _scalar(path: Path, arrays: dict[str, np.ndarray], name: str) -> Any:
    if name not in arrays:
        return None
    array = arrays[name]
    if array.size != 1 or array.dtype.kind not in "bfiu":
        raise BadInput(f"{path}: {name} is {array.dtype} {array.shape}; wanted one number")
    return array.reshape(()).item()
