"""Tiles, warps and stages of the decode kernels, and into how many parts the keys are divided.

The choice is a table and a rule, measured on an H200 (docs/kernels/decode.md), not a search: the
same shapes give the same sums on every run. Tiles are given for vectors of 128 numbers; others have
as many bytes.
"""

from dataclasses import dataclass, replace

# Parts are so many that programs fill this share of the last of their waves.
_FULL = 0.85
_LEAST_KEYS = 512  # of a part: below, merging costs more than another processor gains
_MANY_SLOTS = 64  # sequences x kv heads from which on they fill a GPU by themselves


@dataclass(frozen=True, kw_only=True)
class DecodeConfig:
    """Tiles of `block_n` keys; `resident` programs of a processor keep its memory busy. A thread
    has at most `registers`, so that so many fit; the compiler decides where it is None."""

    block_n: int
    warps: int
    stages: int
    resident: int
    registers: int | None = None

    @property
    def name(self) -> str:
        return f"n{self.block_n}_w{self.warps}_s{self.stages}"


_WIDE = {
    ("whole", "whole"): DecodeConfig(block_n=128, warps=4, stages=3, resident=1),
    ("whole", "8"): DecodeConfig(block_n=128, warps=4, stages=3, resident=2),
    ("8", "whole"): DecodeConfig(block_n=128, warps=4, stages=3, resident=2),
    ("8", "8"): DecodeConfig(block_n=128, warps=4, stages=3, resident=3),
    ("grouped", "grouped"): DecodeConfig(block_n=128, warps=4, stages=3, resident=2),
}
_MANY = {
    ("whole", "whole"): DecodeConfig(block_n=64, warps=4, stages=3, resident=3),
    ("whole", "8"): DecodeConfig(block_n=64, warps=4, stages=3, resident=3),
    ("8", "whole"): DecodeConfig(block_n=64, warps=4, stages=3, resident=3),
    ("8", "8"): DecodeConfig(block_n=128, warps=4, stages=3, resident=3),
    # One warp: nothing waits for another.
    ("grouped", "grouped"): DecodeConfig(block_n=32, warps=1, stages=3, resident=8),
}
_KIND = {"whole": "whole", "e4m3": "8", "e5m2": "8", "int8": "grouped", "int4": "grouped"}
_FEW_COLUMNS = 16  # of queries: more sums need smaller tiles, or they do not fit the registers


def choose(
    *, keys: str, values: str, head_dim: int, element_bytes: int, slots: int, columns: int
) -> DecodeConfig:
    """The configuration for formats, a width, `slots` sequences x kv heads and columns of sums."""
    kinds = (_KIND[keys], _KIND[values])
    table = _MANY if slots >= _MANY_SLOTS else _WIDE
    config = table.get(kinds, table["whole", "whole"])
    most = 128
    if columns > _FEW_COLUMNS:
        config, most = replace(_WIDE.get(kinds, config), block_n=64, stages=2), 64
    return _of_width(config, head_dim * (2 if element_bytes == 4 else 1), most=most)


def choose_latent(*, width: int, element_bytes: int, rows: int) -> DecodeConfig:
    """The configuration for rows of `width` numbers and so many rows of queries in a program."""
    if rows > 16:
        chosen = DecodeConfig(block_n=64, warps=8, stages=2, resident=1)
    elif width > 256:
        chosen = DecodeConfig(block_n=32, warps=4, stages=3, resident=2)
    else:
        chosen = DecodeConfig(block_n=64 if width > 128 else 128, warps=4, stages=3, resident=1)
    if element_bytes == 4:
        chosen = replace(chosen, block_n=16, stages=2)
    return chosen


def choose_splits(config: DecodeConfig, *, slots: int, keys: int, processors: int) -> int:
    """Parts of the keys of a sequence: the fewest that fill their last wave of programs."""
    wave = config.resident * processors
    most = max(1, keys // _LEAST_KEYS)
    for splits in range(1, most + 1):
        waves = slots * splits / wave
        if waves / -(-slots * splits // wave) >= _FULL:
            return splits
    return most


def _of_width(config: DecodeConfig, head_dim: int, *, most: int) -> DecodeConfig:
    """Tiles with as many bytes as for 128 numbers, of 16 to `most` keys."""
    dims = 1 << (head_dim - 1).bit_length()
    return replace(config, block_n=min(most, max(16, config.block_n * 128 // dims)))
