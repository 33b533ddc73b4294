"""A cache of a workload: tensors of its layout on a device, and what is given back of them.

B sequences, G kv heads, S keys, T new tokens, D head dimension. Latent layouts keep one row of D
numbers for a token, key of all heads; its first numbers are the value. Right answers are of what is
given back: it is decoded in float32, which holds every number of a layout exactly.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.errors import BadInput
from assay.kv.contract import KVSpec, Layout
from assay.subjects.outcome import Unsupported
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload

if TYPE_CHECKING:
    import torch

_ENCODED_AT_ONCE = 1 << 27  # numbers; what is encoded takes several times its room for a moment
_WHOLE_KEYS = 1 << 22  # numbers of keys; of more, only the rows that are asked for are decoded
NOTHING = 0xFF  # the byte behind a length: NaN in every float, and a scale of NaN for the others


def refusal(spec: WorkloadSpec, layout: Layout) -> str | None:
    """The reason why a workload is no step of decoding through this layout, or None."""
    new, keys = spec.query_length, spec.key_length
    if spec.extras - {"lengths"}:
        return f"decoding takes no {', '.join(sorted(spec.extras - {'lengths'}))}"
    if spec.layout != "plain":
        return f"a cache does not lie in memory as {spec.layout}"
    if new > keys:
        return f"{new} new tokens of {keys} keys; the new tokens are the last of the keys"
    if new > 1 and not spec.causal:
        return f"{new} new tokens see each other causally; give a causal workload"
    if layout.frozen or layout.key_bias:
        return f"{layout.name} needs what is calibrated on a model"
    if keys % layout.block:
        return f"{keys} keys are no whole blocks of {layout.block}, which {layout.name} encodes"
    try:
        latent = is_latent(spec, layout)
    except BadInput as error:
        return str(error)
    if latent and spec.kv_heads > 1:
        return f"{layout.name} keeps one row for all heads; give a workload with kv_heads 1"
    return None


def is_latent(spec: WorkloadSpec, layout: Layout) -> bool:
    """True where a layout keeps a row for all heads, and nothing for one."""
    return not any(stream.heads for stream in layout.streams(_of_heads(spec)))


def kv_spec(spec: WorkloadSpec, layout: Layout) -> KVSpec:
    """The attention layer of a workload as the accounts of caches see it."""
    if not is_latent(spec, layout):
        return _of_heads(spec)
    width = value_width(spec, layout)
    beside = spec.head_dim - width
    sizes = {"latents": (width,), "codes": (width,), "rope_dims": beside}
    return KVSpec(dtype=spec.dtype, head_dim=spec.head_dim, **sizes)


def _of_heads(spec: WorkloadSpec) -> KVSpec:
    heads = {"key_heads": spec.kv_heads, "value_heads": spec.kv_heads}
    return KVSpec(dtype=spec.dtype, head_dim=spec.head_dim, **heads)


def value_width(spec: WorkloadSpec, layout: Layout) -> int:
    """Numbers of a value: all, or of a row the largest power of two in it (576 is 512 and 64 that
    are rotated)."""
    if not is_latent(spec, layout):
        return spec.head_dim
    return 1 << (spec.head_dim.bit_length() - 1)


@dataclass(frozen=True, kw_only=True, eq=False)
class HeldCache:
    """The cache of a workload on a device. `values` are what it was made of."""

    layout: Layout
    latent: bool
    values: Mapping[str, "torch.Tensor"]
    streams: Mapping[str, "torch.Tensor"]
    lengths: "torch.Tensor | None"  # [B] of int32

    def renewed(self, factor: float) -> dict[str, "torch.Tensor"]:
        """Streams of new values, times a power of two of either sign: those of a latent, or v."""
        times = {n: t * factor for n, t in self.values.items() if self.latent or n == "v"}
        return {**self.streams, **_written(self.layout, times, self.lengths)}

    def written_again(self) -> dict[str, "torch.Tensor"]:
        """Streams as they were at first, in other memory."""
        return _written(self.layout, self.values, self.lengths)

    def given_back(self, workload: Workload) -> Workload:
        """The workload with keys and values as the cache gives them back, and its visibility."""
        lengths, spec = workload.lengths, replace(workload.spec, padded=False)
        width = value_width(workload.spec, self.layout)
        arrays = {"k": DecodedArray(self, "k"), "v": DecodedArray(self, "v", width)}
        if workload.k.size <= _WHOLE_KEYS:
            arrays = {name: array.whole() for name, array in arrays.items()}
        marks: dict[str, Any] = {"lengths": None}
        if lengths is not None:
            marks["mask"], spec = _visible(spec, lengths), replace(spec, causal=False)
        nothing = np.zeros((*workload.q.shape[:3], width), np.float32)
        return replace(workload, spec=spec, grad_out=nothing, **arrays, **marks)


@dataclass(frozen=True, eq=False)
class DecodedArray:
    """Keys or values of a cache in float32, decoded where they are asked for."""

    cache: HeldCache
    name: str
    width: int | None = None

    def __getitem__(self, index: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """Rows [P, S, D] of some sequences and kv heads."""
        import torch

        batch, head = (torch.from_numpy(np.asarray(i)) for i in index)
        made = _encoded(
            self.cache.layout, {n: _taken(t, batch, head) for n, t in self.cache.values.items()}
        )
        return self._decoded(made)[:, 0]

    def whole(self) -> np.ndarray:
        """All of them, [B, G, S, D]."""
        return self._decoded(_encoded(self.cache.layout, self.cache.values))

    def _decoded(self, streams: Mapping[str, "torch.Tensor"]) -> np.ndarray:
        values = self.cache.layout.decode(streams, ())
        tensor = values["latent"][:, None] if self.cache.latent else values[self.name]
        return tensor[..., : self.width].float().cpu().numpy()


def hold(layout: Layout, workload: Workload, arrays: Mapping[str, "torch.Tensor"]) -> HeldCache:
    """Encode k and v [B, G, S, D] that are on a device; NaN lies behind every length."""
    import torch

    spec, latent = workload.spec, is_latent(workload.spec, layout)
    values = dict(arrays)
    if latent:
        width = value_width(spec, layout)
        row, beside = arrays["k"][:, 0].tensor_split((width,), dim=-1)  # [B, S, ...]
        values = {"latent": row} | ({"rope": beside} if beside.shape[-1] else {})
    lengths = None
    if workload.lengths is not None:
        lengths = torch.from_numpy(workload.lengths).to(arrays["k"].device, torch.int32)
    streams = _written(layout, values, lengths)
    return HeldCache(layout=layout, latent=latent, values=values, streams=streams, lengths=lengths)


def cache_bytes(workload: Workload, layout: Layout) -> int:
    """Bytes of the tokens that a cache holds, by the layout's streams."""
    spec = workload.spec
    tokens = spec.batch * spec.key_length
    if workload.lengths is not None:
        tokens = int(workload.lengths.sum())
    return int(tokens * layout.bytes_per_token(kv_spec(spec, layout)))


def _visible(spec: WorkloadSpec, lengths: np.ndarray) -> np.ndarray:
    """True where new token i of T sees a key, up to length - T + i: [B, 1, T, S]."""
    token = np.arange(spec.query_length)[:, None]
    seen = lengths[:, None, None] - spec.query_length + token + 1
    return (np.arange(spec.key_length) < seen)[:, None]


def _written(
    layout: Layout, values: Mapping[str, "torch.Tensor"], lengths: "torch.Tensor | None"
) -> dict[str, "torch.Tensor"]:
    """Streams of values, in memory of their own, with NaN behind the lengths."""
    import torch

    first = next(iter(values.values()))
    step = max(1, _ENCODED_AT_ONCE // first[0].numel())
    pieces: dict[str, list[torch.Tensor]] = {}
    kinds: dict[str, torch.dtype] = {}
    for start in range(0, len(first), step):
        some = {name: tensor[start : start + step] for name, tensor in values.items()}
        for name, tensor in _encoded(layout, some).items():
            kinds[name] = tensor.dtype
            pieces.setdefault(name, []).append(tensor.contiguous().view(torch.uint8))
    streams = {name: torch.cat(parts) for name, parts in pieces.items()}
    for sequence, length in enumerate([] if lengths is None else lengths.tolist()):
        for tensor in streams.values():
            per_row = first.shape[-2] // tensor.shape[-2]  # tokens that share a row
            tensor[sequence, ..., -(-length // per_row) :, :] = NOTHING
    return {name: tensor.view(kinds[name]) for name, tensor in streams.items()}


def _encoded(layout: Layout, values: Mapping[str, "torch.Tensor"]) -> dict[str, "torch.Tensor"]:
    try:
        return layout.encode(values, ())
    except BadInput as error:
        raise Unsupported(str(error)) from error


def _taken(tensor: "torch.Tensor", batch: "torch.Tensor", head: "torch.Tensor") -> "torch.Tensor":
    """Some sequences and heads as a batch with one head; of latents, the rows of all heads."""
    if tensor.dim() == 3:
        return tensor[batch.to(tensor.device)]
    return tensor[batch.to(tensor.device), head.to(tensor.device)][:, None]
