"""How many parts torch's flash kernel divides the keys into, where there are few queries.

Each part has an output and an LSE of its own in float32 until they are put together; the rule is
set_params_splitkv in torch's flash_api.cpp.
"""

import math

from assay.workloads.spec import WorkloadSpec

_QUERY_BLOCK = 64
_MOST = 128
_FULL = 0.8  # of the places for blocks, from where keys are not divided
_GOOD = 0.85  # of the best share of places in use, from where fewer parts are better


def splits(spec: WorkloadSpec, *, multiprocessors: int) -> int:
    """On a device with so many multiprocessors, each with two blocks at a time."""
    heads, rows = spec.heads, spec.query_length
    if rows == 1 and spec.head_dim % 8 == 0:  # queries of one kv head are taken for a sequence
        heads, rows = spec.kv_heads, spec.heads // spec.kv_heads
    key_block = 256 if spec.head_dim <= 64 else 128 if spec.head_dim <= 128 else 64
    key_blocks = math.ceil(spec.key_length / key_block)
    blocks, places = spec.batch * heads * math.ceil(rows / _QUERY_BLOCK), 2 * multiprocessors
    if blocks >= _FULL * places:
        return 1
    used = {}
    for parts in range(1, min(_MOST, places, key_blocks) + 1):
        longest = math.ceil(key_blocks / parts)
        if parts == 1 or longest != math.ceil(key_blocks / (parts - 1)):
            waves = blocks * parts / places
            used[parts] = waves / math.ceil(waves)
    return min(parts for parts, share in used.items() if share >= _GOOD * max(used.values()))
