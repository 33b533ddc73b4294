"""Shards for tests that begin with tokens."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from assay.train.shards import SHARD_TOKENS, ShardEntry, ShardWriter


def write(
    folder: Path,
    split: str,
    tokens: Iterable[np.ndarray],
    dtype: str,
    shard_tokens: int = SHARD_TOKENS,
) -> list[ShardEntry]:
    """Write arrays of tokens as shards of `shard_tokens` each; the last may be shorter."""
    writer = ShardWriter(folder, split, dtype=dtype, shard_tokens=shard_tokens)
    try:
        for part in tokens:
            writer.append(part)
        return writer.close()
    finally:
        writer.discard()
