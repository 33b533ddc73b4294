"""Tiles, warps and stages of the decode kernels, and into how many parts the keys are divided.

The choice is a table and a rule, measured on an H200 (docs/kernels/decode.md), not a search: the
same shapes give the same sums on every run. Tiles are given for vectors of 128 numbers; others have
as many bytes.
"""

from dataclasses import dataclass, replace

# Sequences x kv heads from which on they fill a GPU by themselves; two programs of whole numbers
# would not fit a processor where one has all that it can read.
_MANY_SLOTS, _MANY_WHOLE_SLOTS = 64, 192


@dataclass(frozen=True, kw_only=True)
class DecodeConfig:
    """Tiles of `block_n` keys. `resident` programs fit a processor at once, and `enough` of them,
    all where it is None, keep its memory busy; parts are so many that programs fill the share
    `full` of the places in the last of their waves, but have `least_keys`, below which merging
    costs more than another processor gains. A thread has at most `registers`, so that so many
    programs fit; the compiler decides where it is None."""

    block_n: int
    warps: int
    stages: int
    resident: int
    enough: int | None = None
    full: float = 0.95
    least_keys: int = 512
    registers: int | None = None

    @property
    def name(self) -> str:
        return f"n{self.block_n}_w{self.warps}_s{self.stages}"


_WIDE = {
    ("whole", "whole"): DecodeConfig(block_n=128, warps=8, stages=3, resident=1),
    ("whole", "8"): DecodeConfig(block_n=128, warps=8, stages=3, resident=2),
    ("8", "whole"): DecodeConfig(block_n=128, warps=8, stages=3, resident=2),
    ("8", "8"): DecodeConfig(block_n=128, warps=8, stages=3, resident=3),
    ("int8", "int8"): DecodeConfig(block_n=128, warps=4, stages=3, resident=2),
    ("int4", "int4"): DecodeConfig(block_n=128, warps=4, stages=3, resident=2, least_keys=256),
}
_MANY = {
    ("whole", "whole"): DecodeConfig(block_n=64, warps=4, stages=3, resident=3, enough=2),
    ("whole", "8"): DecodeConfig(block_n=64, warps=4, stages=3, resident=4),
    ("8", "whole"): DecodeConfig(block_n=64, warps=4, stages=3, resident=4),
    ("8", "8"): DecodeConfig(block_n=64, warps=2, stages=3, resident=6),
    # One warp: nothing waits for another.
    ("int8", "int8"): DecodeConfig(block_n=32, warps=1, stages=3, resident=8),
    ("int4", "int4"): DecodeConfig(block_n=32, warps=1, stages=3, resident=12, registers=168),
}
_KIND = {"e4m3": "8", "e5m2": "8"}  # that share their configurations
_FEW_COLUMNS = 16  # of queries: more sums need smaller tiles, or they do not fit the registers


def choose(
    *, keys: str, values: str, head_dim: int, element_bytes: int, slots: int, columns: int
) -> DecodeConfig:
    """The configuration for formats, a width, `slots` sequences x kv heads and columns of sums."""
    kinds = (_KIND.get(keys, keys), _KIND.get(values, values))
    many = _MANY_WHOLE_SLOTS if kinds == ("whole", "whole") else _MANY_SLOTS
    table = _MANY if slots >= many else _WIDE
    config = table.get(kinds, table["whole", "whole"])
    most = 128
    if columns > _FEW_COLUMNS:
        config, most = replace(_WIDE.get(kinds, config), block_n=64, stages=2), 64
    return _of_width(config, head_dim * (2 if element_bytes == 4 else 1), most=most)


def choose_latent(*, width: int, element_bytes: int, rows: int) -> DecodeConfig:
    """The configuration for rows of `width` numbers and so many rows of queries in a program."""
    if rows > 16:
        chosen = DecodeConfig(block_n=64, warps=8, stages=2, resident=1, least_keys=128)
    elif width > 256:
        chosen = DecodeConfig(block_n=32, warps=4, stages=3, resident=2, least_keys=128)
    elif width > 128:
        chosen = DecodeConfig(block_n=128, warps=8, stages=3, resident=1, least_keys=128)
    else:
        chosen = DecodeConfig(block_n=128, warps=4, stages=3, resident=1, least_keys=128)
    if element_bytes == 4:
        chosen = replace(chosen, block_n=16, stages=2)
    return chosen


def choose_splits(config: DecodeConfig, *, slots: int, keys: int, processors: int) -> int:
    """Parts of the keys of a sequence: the fewest that fill their last wave of programs."""
    most = max(1, keys // config.least_keys)
    for splits in range(1, most + 1):
        if _filled(config, slots * splits, processors) >= config.full:
            return splits
    return most


def _filled(config: DecodeConfig, programs: int, processors: int) -> float:
    """Share of the places in their waves that so many programs take. Within the first wave they
    need only be alike on all processors, as long as each has enough."""
    wave = config.resident * processors
    enough = (config.enough or config.resident) * processors
    unit = processors if config.full * enough <= programs <= wave else wave
    return programs / (unit * -(-programs // unit))


def _of_width(config: DecodeConfig, head_dim: int, *, most: int) -> DecodeConfig:
    """Tiles with as many bytes as for 128 numbers, of 16 to `most` keys."""
    dims = 1 << (head_dim - 1).bit_length()
    return replace(config, block_n=min(most, max(16, config.block_n * 128 // dims)))
