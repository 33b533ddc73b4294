"""A cache for models of transformers that keeps keys and values in an encoding of ours.

Every token is encoded, kept, decoded and only then read, in the first pass too. With the attention
function `assay_decode` (attention.py) kernels read what is kept as it is, where one is to be used.
Layers with a sliding window are kept as transformers keeps them, whole: they hold few tokens.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicLayer, DynamicSlidingWindowLayer

from assay.attention.decoders import AUTO, named
from assay.errors import BadInput
from assay.integrations.transformers.decoding import KernelReader, carrying
from assay.integrations.transformers.key_bias import PositionWatch, key_biases
from assay.kv import contract
from assay.kv.encoded import EncodedLayer, allocated_bytes
from assay.kv.encoding import Encoding, Kept, encodings

_FULL, _WINDOWED = "full_attention", "sliding_attention"


class LayoutCache(Cache):
    """A cache for a model of transformers. `layout` is one of kv/layouts or one for each layer; the
    newest `residual` tokens are kept whole; `scales` are by layer, for layouts that want them."""

    def __init__(
        self,
        model: Any,
        layout: Kept | Sequence[Kept] = "k16v8",
        *,
        residual: int = 0,
        scales: Sequence[Any] | None = None,
        decoder: str = AUTO,
        capacity: int | None = None,
    ) -> None:
        """`decoder` is the kernel that reads it in a step, by its name, `auto` or `torch`. Buffers
        have room for `capacity` tokens from the first one on; without it they grow."""
        if not hasattr(getattr(model, "config", None), "get_text_config"):
            raise BadInput(
                f"a cache is made from a model of transformers; given is a {type(model).__name__}"
            )
        if capacity is not None and capacity < 1:
            raise BadInput(f"a cache with room for {capacity} tokens; wanted 1 or more, or None")
        if getattr(model.config, "is_encoder_decoder", False):
            raise BadInput(
                f"{model.config.model_type} is an encoder with a decoder, and keeps keys and "
                "values of both; wanted a decoder alone"
            )
        config = model.config.get_text_config(decoder=True)
        kinds = _layer_kinds(config)
        biases = key_biases(model) if wants_bias(layout) else None
        chosen = encodings(layout, len(kinds), residual=residual, scales=scales, key_biases=biases)
        watch = PositionWatch(model) if biases else None
        reader = KernelReader(model, named(decoder))
        self.kernels = reader.kernels  # calls of each, by name
        super().__init__(
            layers=[
                (
                    EncodedCacheLayer(encoding, watch, reader=reader, capacity=capacity)
                    if kind == _FULL
                    else DynamicSlidingWindowLayer(sliding_window=config.sliding_window)
                )
                for kind, encoding in zip(kinds, chosen, strict=True)
            ]
        )

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        layer_idx: int,
        *args: Any,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return keys and values of all tokens of a layer, decoded."""
        if layer_idx >= len(self.layers):
            raise BadInput(
                f"the cache was made for a model of {len(self.layers)} layers, and layer "
                f"{layer_idx} writes into it; make one from this model"
            )
        return super().update(key_states, value_states, layer_idx, *args, **kwargs)

    def tensors(self) -> Iterator[torch.Tensor]:
        """Tensors that are kept."""
        for layer in self.layers:
            if isinstance(layer, EncodedCacheLayer):
                yield from layer.encoded.tensors()
            elif layer.is_initialized:
                yield from (layer.keys, layer.values)

    @property
    def nbytes(self) -> int:
        """Bytes of what is kept; buffers have room for more (`allocated_bytes`)."""
        return sum(tensor.nbytes for tensor in self.tensors())

    @property
    def allocated_bytes(self) -> int:
        """Bytes of the memory that is held for it."""
        encoded = [layer.encoded for layer in self.layers if isinstance(layer, EncodedCacheLayer)]
        whole = [layer for layer in self.layers if not isinstance(layer, EncodedCacheLayer)]
        own = (t for layer in whole if layer.is_initialized for t in (layer.keys, layer.values))
        return sum(layer.allocated_bytes for layer in encoded) + allocated_bytes(own)

    @property
    def reads(self) -> Counter[str]:
        """Bytes that were decoded, by stream, of all layers that encode."""
        encoded = (layer for layer in self.layers if isinstance(layer, EncodedCacheLayer))
        return sum((layer.encoded.reads for layer in encoded), Counter())


class EncodedCacheLayer(DynamicLayer):
    """A layer of transformers' cache whose tensors are those of an encoding."""

    def __init__(
        self,
        encoding: Encoding,
        watch: PositionWatch | None = None,
        *,
        reader: KernelReader | None = None,
        capacity: int | None = None,
    ) -> None:
        super().__init__()
        self.encoding, self.capacity = encoding, capacity
        self.encoded = EncodedLayer(encoding, capacity=capacity)
        self.reader = reader
        self.watch = watch if encoding.key_bias else None

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.dtype, self.device = key_states.dtype, key_states.device
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return keys and values of all tokens, decoded, [batch, heads, tokens, width]; those of
        the new tokens, where the attention function reads the cache itself."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        if self.watch:
            self.watch.refuse_other_than(self.encoded.length, key_states.shape[-2])
        self.encoded.write({"k": key_states, "v": value_states})
        self.encoded.commit()
        if self.reader and self.reader.reads(self.encoded):
            # The attention function reads what is kept; keys bring it there.
            return carrying(key_states, self.encoded, self.reader), value_states
        read = self.encoded.read()
        return read["k"], read["v"]

    def get_seq_length(self) -> int:
        return self.encoded.length

    def reset(self) -> None:
        self.encoded = EncodedLayer(self.encoding, capacity=self.capacity)
        self.is_initialized = False

    def crop(self, tokens_to_remove: int) -> None:
        """Take tokens off: so many where it is negative; else down to that length, as older
        versions of transformers call it."""
        length = self.encoded.length
        self.encoded.crop(
            max(0, length + tokens_to_remove)
            if tokens_to_remove < 0
            else tokens_to_remove or length
        )

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        self.batch_select_indices(beam_idx)

    def batch_repeat_interleave(self, repeats: int) -> None:
        self.encoded.select(lambda tensor: tensor.repeat_interleave(repeats, dim=0))

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        self.encoded.select(lambda tensor: tensor[indices.to(tensor.device)])

    def offload(self) -> None:
        self.encoded.select(lambda tensor: tensor.to("cpu", non_blocking=True))

    def prefetch(self) -> None:
        if self.is_initialized:
            self.encoded.select(lambda tensor: tensor.to(self.device, non_blocking=True))


def _layer_kinds(config: Any) -> list[str]:
    """The kind of every layer; kinds that keep something else than keys and values are refused."""
    layers = config.num_hidden_layers
    window = getattr(config, "sliding_window", None)
    window = window if getattr(config, "use_sliding_window", True) else None
    kinds = getattr(config, "layer_types", None) or [_WINDOWED if window else _FULL] * layers
    if unknown := sorted(set(kinds) - {_FULL, _WINDOWED}):
        raise BadInput(
            f"{config.model_type} has layers of {', '.join(unknown)}; wanted {_FULL} or {_WINDOWED}"
        )
    return list(kinds)


def wants_bias(layout: Kept | Sequence[Kept]) -> bool:
    """True where one of the layouts keeps keys without their bias."""
    listed = [layout] if isinstance(layout, Kept) else layout or ()
    loaded = [contract.load(entry) if isinstance(entry, str) else entry for entry in listed]
    return any(getattr(entry, "key_bias", False) is True for entry in loaded)
