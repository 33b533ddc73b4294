"""Whole keys and values for each head, and queries where later tokens read them."""

from collections.abc import Mapping, Sequence
from typing import Any

from assay.kv.contract import KVSpec, Stream


def streams(spec: KVSpec) -> tuple[Stream, ...]:
    heads = {"k": spec.key_heads, "q": spec.query_heads, "v": spec.value_heads}
    return tuple(
        Stream(name=name, width=spec.head_dim, heads=count, dtype=spec.dtype)
        for name, count in heads.items()
        if count
    )


def encode(values: Mapping[str, Any], codecs: Sequence[Any] = ()) -> dict[str, Any]:
    return dict(values)


def decode(stored: Mapping[str, Any], codecs: Sequence[Any] = ()) -> dict[str, Any]:
    return dict(stored)
