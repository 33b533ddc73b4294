"""One record being built: inputs and outputs of a module and of the attention inside it.

Whatever is added is copied, summarised or only described at once: nothing that the model may
overwrite is kept. Axes: B batch, H heads, S positions, D head dimension.
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from assay.captures.manifest import HEADED, Key, Phase, TensorEntry
from assay.captures.recording.captured_call import CapturedCall
from assay.captures.recording.cuts import OF_WHOLE_LAYER, cut
from assay.captures.recording.options import CaptureOptions
from assay.captures.torch.sites import Scalars, Tensors
from assay.captures.torch.step_statistics import StepStatistics
from assay.captures.torch.transfer import HostTransfer, dtype_name, storable

_LAYOUTS = {"cache.k": "BKSD", "cache.v": "BKSD"}
_WITH_STATISTICS = (*HEADED, "x", "layer_out")
_NO_STATISTICS = "statistics are of floating-point activations"


class RecordBuilder:
    """Begins with a key and ends as a CapturedCall."""

    def __init__(self, key: Key, options: CaptureOptions, statistics: StepStatistics) -> None:
        self.has_call = False  # q, k and v were added
        self.cached = False
        self.past: int | None = None  # positions in the cache before the call
        self._key = key
        self._options = options
        self._statistics = statistics
        self._transfer = HostTransfer()
        self._entries: dict[str, TensorEntry] = {}
        self._scalars: dict[str, Any] = {}
        self._cut: dict[str, str] = {}
        self._device = "cpu"
        self._lengths = (0, 0)  # queries and keys of the call
        self._visibility: dict[str, Any] = {}
        self._call: Tensors = {}

    def add_layer(self, tensors: Tensors) -> None:
        """Add inputs or outputs of the site's module."""
        for tensor in tensors.values():
            self._device = str(tensor.device)
        if self._options.heads is not None or self._options.positions is not None:
            for name, tensor in tensors.items():
                self.leave_out(name, tensor, OF_WHOLE_LAYER)
            return
        self._add_cut(tensors, causal=False, alignment="bottom-right")

    def add_call(self, tensors: Tensors, scalars: Scalars, why: Mapping[str, str]) -> None:
        """Add the arguments of the attention function, before it runs; `why` others are absent."""
        self.has_call = True
        self._scalars |= scalars
        for name, reason in why.items():
            self._entries[name] = TensorEntry(dtype="bool", shape=(), why=reason)
        tensors = _in_four_axes(tensors)
        self._lengths = tensors["q"].shape[2], tensors["k"].shape[2]
        self._device = str(tensors["q"].device)
        self._visibility = {
            "causal": bool(scalars.get("causal")),
            "alignment": str(scalars.get("alignment", "bottom-right")),
        }
        alignment = self._add_cut(tensors, **self._visibility)
        if "alignment" in scalars:
            self._scalars["alignment"] = alignment
        # For a cut of the output, which needs their shapes; gone when the call is over.
        self._call = {name: tensors[name] for name in ("q", "k")}

    def add_out(self, out: Tensor) -> None:
        """Add the result of the attention function, cut as the call was."""
        self._add_cut(_in_four_axes({**self._call, "out": out}), only="out", **self._visibility)
        self._call.clear()

    def leave_out(self, name: str, tensor: Tensor, why: str) -> None:
        """Describe a tensor that is not kept."""
        self._entries[name] = TensorEntry(
            dtype=dtype_name(tensor), shape=tuple(tensor.shape), why=why
        )

    def build(self, *, training: bool) -> CapturedCall:
        """The record, ready to be put; copies from devices are on their way."""
        self._transfer.send()
        implementation = self._scalars.pop("implementation", None)
        return CapturedCall(
            key=self._key,
            phase=self._phase(training=training),
            framework="torch",
            device=self._device,
            implementation=implementation,
            scalars=self._scalars,
            shapes=self._entries,
            nbytes=self._transfer.nbytes,
            load=self._transfer.load,
            release=self._transfer.release,
            layouts=_LAYOUTS,
            cut=self._cut,
        )

    def _phase(self, *, training: bool) -> Phase:
        """The model's phase, as far as this call shows it."""
        if training:
            return "train"
        queries, keys = self._lengths
        if self.cached:
            begun = self.past > 0 if self.past is not None else queries == 1
            return "decode" if begun else "prefill"
        return "decode" if queries == 1 < keys else "eval"

    def _add_cut(
        self, tensors: Tensors, *, causal: bool, alignment: str, only: str | None = None
    ) -> str:
        """Add what the options leave of them; the alignment of queries and keys after the cut."""
        if not self._options.cuts:
            for name in tensors if only is None else (only,):
                self._add(name, tensors[name])
            return alignment
        kept = cut(tensors, self._options, causal=causal, alignment=alignment, layouts=_LAYOUTS)
        self._cut |= kept.cut
        for name, tensor in tensors.items():
            if only not in (None, name):
                continue
            if name in kept.why:
                self.leave_out(name, tensor, kept.why[name])
            else:
                self._add(name, kept.tensors[name])
        return kept.alignment

    def _add(self, name: str, tensor: Tensor) -> None:
        if not storable(tensor):
            self.leave_out(name, tensor, f"a store has no {dtype_name(tensor)}")
            return
        if name == "mask":
            tensor = _without_repeats(tensor)
        mode = self._options.mode
        has_statistics = name.partition(".")[0] in _WITH_STATISTICS and tensor.is_floating_point()
        self._entries[name] = TensorEntry(
            dtype=dtype_name(tensor),
            shape=tuple(tensor.shape),
            order=_memory_order(tensor) if name in HEADED and tensor.dim() == 4 else None,
            why=_NO_STATISTICS if mode == "stats" and not has_statistics else None,
        )
        if mode == "full":
            self._transfer.add(name, tensor)
        elif mode == "stats" and has_statistics and tensor.numel():
            self._statistics.add(name, tensor, self._transfer)


def _in_four_axes(tensors: Tensors) -> Tensors:
    """q, k, v and out as [B, H, S, D], and a mask that still fits them."""
    lacks_heads = any(tensors[name].dim() == 3 for name in HEADED if name in tensors)
    reshaped = {}
    for name, tensor in tensors.items():
        if tensor.dim() == 3 and (name in HEADED or (name == "mask" and lacks_heads)):
            tensor = tensor.unsqueeze(1)
        elif tensor.dim() > 4 and name in HEADED:
            tensor = tensor.flatten(0, -4)  # all batch axes as one
        reshaped[name] = tensor
    return reshaped


def _memory_order(tensor_BHSD: Tensor) -> str:
    """Order of the axes in memory."""
    heads, positions = tensor_BHSD.stride(1), tensor_BHSD.stride(2)
    both_long = tensor_BHSD.shape[1] > 1 and tensor_BHSD.shape[2] > 1
    return "BSHD" if both_long and heads < positions else "BHSD"


def _without_repeats(mask: Tensor) -> Tensor:
    """The same mask with axes along which it only repeats itself (stride 0) of length 1."""
    for axis in range(mask.dim()):
        if mask.stride(axis) == 0 and mask.shape[axis] > 1:
            mask = mask.narrow(axis, 0, 1)
    return mask
