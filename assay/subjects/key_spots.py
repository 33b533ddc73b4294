"""The right dk and dv of a few keys of a timed call, whose inputs were changed for its round.

A row of dk or dv needs every query of its kv head. That takes many times as long as the rows of
spots.py, so it is done of fewer calls, and of a single kv head.
"""

from dataclasses import replace
from functools import lru_cache

import numpy as np

from assay.attention.budget import Allowance
from assay.attention.precision import PLAIN, Precision
from assay.instruments.blas_threads import single_thread
from assay.subjects import sampling
from assay.subjects.change import InputChange
from assay.subjects.contract import Expected, Index
from assay.subjects.spots import SLACK
from assay.workloads.workload import Workload

_KEYS = 8
_MOST_SCORES = 1 << 23  # of the queries that read one kv head: beyond it, a look takes seconds


def key_places(workload: Workload, change: InputChange) -> dict[str, Index]:
    """Places of a few rows of dk and dv, [1, 1, keys]; none where a look would take too long."""
    spec, generator = workload.spec, change.places
    if spec.heads // spec.kv_heads * spec.query_length * spec.key_length > _MOST_SCORES:
        return {}
    batch, kv_head = divmod(int(generator.integers(spec.batch * spec.kv_heads)), spec.kv_heads)
    count = min(_KEYS, spec.key_length)
    key = generator.choice(spec.key_length, size=(1, 1, count), replace=False)
    index = (np.full((1, 1, 1), batch), np.full((1, 1, 1), kv_head), key)
    return {"dk": index, "dv": index}


@lru_cache(maxsize=2)
def key_spots(workload: Workload, change: InputChange, precision: Precision = PLAIN) -> Expected:
    """The right values at `key_places`, where there are some."""
    index = key_places(workload, change)
    batch, kv_head, key = (axis.ravel() for axis in index["dk"])
    with single_thread():  # blocks of queries have a thread each
        some = sampling.sample_keys(
            _one_head(workload, int(batch[0]), int(kv_head[0]), change),
            np.zeros(1, dtype=int),
            np.zeros(1, dtype=int),
            key[None],
            precision=precision,
        )
    allowed = {
        name: Allowance(largest=SLACK * allowance.largest, mean=np.inf)
        for name, allowance in some.allowed.items()
    }
    return Expected(result=some.result, allowed=allowed, index=index)


def _one_head(workload: Workload, batch: int, kv_head: int, change: InputChange) -> Workload:
    """One kv head of one batch row and the query heads that read it, with changed inputs."""
    spec = workload.spec
    group = spec.heads // spec.kv_heads
    times = change.multipliers(spec, values_width=workload.v.shape[-1])
    row, head = slice(batch, batch + 1), slice(kv_head, kv_head + 1)
    queries = slice(kv_head * group, (kv_head + 1) * group)
    return replace(
        workload,
        spec=replace(spec, batch=1, heads=group, kv_heads=1),
        q=workload.q[row, queries] * times["q"],
        k=workload.k[row, head] * times["k"],
        v=workload.v[row, head] * times["v"],
        grad_out=workload.grad_out[row, queries],
        lengths=None if workload.lengths is None else workload.lengths[row],
        mask=None if workload.mask is None else workload.mask[row],
        captured=None,
    )
