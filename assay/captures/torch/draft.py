"""One record in the making: what a site was given, what its attention was given, what came out.

Whatever is added is copied, summed up or only described at once: nothing that the model may write
over is kept.
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from assay.captures.manifest import Key, Phase, TensorEntry
from assay.captures.recording.captured_call import CapturedCall
from assay.captures.recording.cuts import cut
from assay.captures.recording.options import CaptureOptions
from assay.captures.torch import call as torch_call
from assay.captures.torch.call import Scalars, Tensors
from assay.captures.torch.copies import Copies, dtype_name, storable
from assay.captures.torch.summing import Summing

_GROWING = {"k": 2, "v": 2, "cache.k": 2, "cache.v": 2}  # axes along which a cache grows
_LAYOUTS = {"cache.k": "BKSD", "cache.v": "BKSD"}
_BHSD = ("q", "k", "v", "out")
_SUMMED = (*_BHSD, "x", "layer_out")
_CUT = "it belongs to all heads and positions of the layer, of which some were left out"
_NOT_SUMMED = "statistics are of floating-point activations"


class Draft:
    """Begins with a key and ends as a CapturedCall."""

    def __init__(self, key: Key, options: CaptureOptions, summing: Summing) -> None:
        self.key = key
        self.called = False  # whether q, k and v are there
        self.cached = False
        self.past: int | None = None  # positions in the cache before the call
        self._options = options
        self._summing = summing
        self._copies = Copies()
        self._entries: dict[str, TensorEntry] = {}
        self._scalars: dict[str, Any] = {}
        self._cut: dict[str, str] = {}
        self._device = "cpu"
        self._lengths = (0, 0)  # queries and keys of the call
        self._seeing: dict[str, Any] = {}
        self._call: Tensors = {}

    def add_layer(self, tensors: Tensors) -> None:
        """What the module of the site was given, or gave."""
        for tensor in tensors.values():
            self._device = str(tensor.device)
        if self._options.heads is not None or self._options.positions is not None:
            for name, tensor in tensors.items():
                self.leave_out(name, tensor, _CUT)
            return
        self._add_cut(tensors, causal=False, alignment="bottom-right")

    def add_call(self, tensors: Tensors, scalars: Scalars, why: Mapping[str, str]) -> None:
        """What the attention function is about to be given."""
        self.called = True
        self._scalars |= scalars
        for name, reason in why.items():
            self._entries[name] = TensorEntry(dtype="bool", shape=(), why=reason)
        tensors = in_four_axes(tensors)
        self._lengths = tensors["q"].shape[2], tensors["k"].shape[2]
        self._device = str(tensors["q"].device)
        self._seeing = {
            "causal": bool(scalars.get("causal")),
            "alignment": str(scalars.get("alignment", "bottom-right")),
        }
        alignment = self._add_cut(tensors, **self._seeing)
        if "alignment" in scalars:
            self._scalars["alignment"] = alignment
        # For a cut of the output, which asks for their shapes; gone when the call is over.
        self._call = {name: tensors[name] for name in ("q", "k")}

    def add_out(self, out: Tensor) -> None:
        """What the attention function gave, cut as the call was."""
        self._add_cut(in_four_axes({**self._call, "out": out}), only="out", **self._seeing)
        self._call.clear()

    def leave_out(self, name: str, tensor: Tensor, why: str) -> None:
        """Say that a tensor was there, and why it is not kept."""
        self._entries[name] = TensorEntry(
            dtype=dtype_name(tensor), shape=tuple(tensor.shape), why=why
        )

    def phase(self, *, training: bool) -> Phase:
        """What the model was doing, as far as this call shows it."""
        if training:
            return "train"
        queries, keys = self._lengths
        if self.cached:
            begun = self.past > 0 if self.past is not None else queries == 1
            return "decode" if begun else "prefill"
        return "decode" if queries == 1 < keys else "eval"

    def taken(self, *, training: bool) -> CapturedCall:
        """Ready to be put; copies from devices are on their way."""
        self._copies.send()
        implementation = self._scalars.pop("implementation", None)
        return CapturedCall(
            key=self.key,
            phase=self.phase(training=training),
            framework="torch",
            device=self._device,
            implementation=implementation,
            scalars=self._scalars,
            shapes=self._entries,
            nbytes=self._copies.nbytes,
            load=self._copies.load,
            release=self._copies.release,
            axes={name: axis for name, axis in _GROWING.items() if name in self._entries},
            cut=self._cut,
        )

    def _add_cut(
        self, tensors: Tensors, *, causal: bool, alignment: str, only: str | None = None
    ) -> str:
        """Add what the options leave of them; how queries and keys are aligned then."""
        if not self._options.cuts:
            for name in tensors if only is None else (only,):
                self._add(name, tensors[name])
            return alignment
        found = cut(tensors, self._options, causal=causal, alignment=alignment, layouts=_LAYOUTS)
        self._cut |= found.cut
        for name, tensor in tensors.items():
            if only not in (None, name):
                continue
            if name in found.why:
                self.leave_out(name, tensor, found.why[name])
            else:
                self._add(name, found.tensors[name])
        return found.alignment

    def _add(self, name: str, tensor: Tensor) -> None:
        if not storable(tensor):
            self.leave_out(name, tensor, f"a store has no {dtype_name(tensor)}")
            return
        if name == "mask":
            tensor = _unrepeated(tensor)
        mode = self._options.mode
        summed = name.partition(".")[0] in _SUMMED and tensor.is_floating_point()
        self._entries[name] = TensorEntry(
            dtype=dtype_name(tensor),
            shape=tuple(tensor.shape),
            order=torch_call.order(tensor) if name in _BHSD and tensor.dim() == 4 else None,
            why=_NOT_SUMMED if mode == "stats" and not summed else None,
        )
        if mode == "full":
            self._copies.take(name, tensor)
        elif mode == "stats" and summed and tensor.numel():
            self._summing.sum_up(name, tensor, self._copies)


def in_four_axes(tensors: Tensors) -> Tensors:
    """q, k, v and out as [B, H, S, D], and a mask that still fits them."""
    lacks_heads = any(tensors[name].dim() == 3 for name in _BHSD if name in tensors)
    found = {}
    for name, tensor in tensors.items():
        if name in _BHSD:
            tensor = torch_call.as_BHSD(tensor)
        elif name == "mask" and lacks_heads and tensor.dim() == 3:
            tensor = tensor.unsqueeze(1)
        found[name] = tensor
    return found


def _unrepeated(mask: Tensor) -> Tensor:
    """Axes along which a mask only repeats itself, one place long: the same mask, without copies
    of itself."""
    for axis in range(mask.dim()):
        if mask.stride(axis) == 0 and mask.shape[axis] > 1:
            mask = mask.narrow(axis, 0, 1)
    return mask
