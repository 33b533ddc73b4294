"""The way a cache keeps keys and values in the place of its layer's own: a layout, the newest
tokens whole or not, and what was settled before the first token: scales, the bias of keys."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.errors import BadInput
from assay.kv import contract
from assay.kv.contract import KVSpec, Layout, sealed_tokens
from assay.kv.key_bias import KeyBias

_PROBE = KVSpec(dtype="float32", head_dim=128, key_heads=1, value_heads=1)


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """A layout for one layer. Tokens older than the newest `residual` ones are encoded, in whole
    blocks; until then they are kept as they are."""

    layout: Layout
    residual: int = 0
    scales: Any = None  # of a layout whose scales are frozen: the first codec
    key_bias: KeyBias | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.residual, int) or self.residual < 0:
            raise BadInput(f"a window of {self.residual!r} tokens; wanted a whole number from 0 on")
        if "v" not in {stream.name for stream in self.layout.streams(_PROBE)}:
            raise BadInput(
                f"layout {self.layout.name} keeps no keys and values, but latents; choose one that "
                "does, such as k16v8"
            )
        if self.layout.frozen and self.scales is None:
            raise BadInput(
                f"layout {self.layout.name} keeps numbers by scales that are settled before the "
                "first token; give them (assay.kv.calibration), or choose one with scales of its "
                "own, such as k16v8"
            )
        if self.layout.key_bias and self.key_bias is None:
            raise BadInput(
                f"layout {self.layout.name} keeps keys without their bias, and none is given: make "
                "the cache from the model, whose key projection must have one, or choose k16v8"
            )

    @property
    def codecs(self) -> Sequence[Any]:
        return () if self.scales is None else (self.scales,)

    @property
    def is_by_token(self) -> bool:
        """Every token is encoded when it comes, so a pass reads what steps read."""
        return not self.residual and self.layout.block == 1

    @property
    def is_read_as_kept(self) -> bool:
        """A kernel can read what is kept as it is: every token is encoded by itself, with a scale
        of its own, and nothing is put back on it."""
        return self.is_by_token and self.scales is None and self.key_bias is None

    def encode(self, values: Mapping[str, Any], first: int) -> dict[str, Any]:
        """Return what is kept of the tokens from the position `first` on, k and v (and q),
        [..., heads, tokens, width]."""
        if self.key_bias and "k" in values:
            keys = values["k"].float()
            values = {**values, "k": keys - self.key_bias.rotated(first, keys.shape[-2])}
        return self.layout.encode(values, self.codecs)

    def decode(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        """Return the tokens from position 0 on again, in float32 what has fewer bits."""
        values = self.layout.decode(stored, self.codecs)
        if self.key_bias and "k" in values:
            keys = values["k"]
            values["k"] = keys + self.key_bias.rotated(0, keys.shape[-2])
        return values

    def sealed(self, tokens: int) -> int:
        """Return how many of so many tokens are encoded."""
        return sealed_tokens(tokens, residual=self.residual, block=self.layout.block)


Kept = str | Layout | Encoding


def encodings(
    kept: Kept | Sequence[Kept],
    layers: int,
    *,
    residual: int = 0,
    scales: Sequence[Any] | None = None,
    key_biases: Sequence[KeyBias | None] | None = None,
) -> list[Encoding]:
    """Return the encoding of each layer: one for all or one for each is given, and by layer what
    layouts may ask for."""
    if not isinstance(kept, Kept | Sequence):
        raise BadInput(f"a layout is {kept!r}; wanted a name such as k16v8, or one for each layer")
    listed = [kept] * layers if isinstance(kept, Kept) else list(kept)
    for what, given in (("layouts", listed), ("scales", scales), ("key biases", key_biases)):
        if given is not None and len(given) != layers:
            raise BadInput(
                f"{len(given)} {what} for {layers} layers; give one for each, or one layout for all"
            )
    settled = zip(scales or [None] * layers, key_biases or [None] * layers, strict=True)
    return [
        _encoding(entry, residual, *by_layer)
        for entry, by_layer in zip(listed, settled, strict=True)
    ]


def _encoding(kept: Kept, residual: int, scales: Any, key_bias: KeyBias | None) -> Encoding:
    if isinstance(kept, Encoding):
        return kept
    layout = contract.load(kept) if isinstance(kept, str) else kept
    return Encoding(
        layout=layout,
        residual=residual,
        scales=scales if layout.frozen else None,
        key_bias=key_bias if layout.key_bias else None,
    )
