"""The right results of a few rows and keys, where all of them would be too much to compute.

Rows of the output, the LSE and dq need only their own query. A row of dk or dv needs every query of
its kv head, so few kv heads are looked at, and their queries are gone through in blocks.

P (batch, head) pairs are chosen; in a small problem made of them, they are the batch.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from assay.attention import baseline, reference
from assay.attention.budget import Allowance, allowances
from assay.attention.precision import PLAIN, Precision
from assay.attention.reference import Result
from assay.instruments.out_of_memory import ran_out
from assay.subjects import device_reference
from assay.subjects.contract import Index
from assay.subjects.device_reference import DeviceDisagrees
from assay.workloads.workload import Workload

_PAIRS = 6
_ROWS = 16
_KEY_PAIRS = 2
_KEYS = 32
_MANY_SCORES = 1 << 26  # of one kv head; beyond it, one head must do
_BLOCK_SCORES = 1 << 21


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """Results of the chosen places, shaped [P, 1, rows, D], their budgets, and where they are."""

    result: Result
    allowed: dict[str, Allowance]
    index: dict[str, Index]


def sample(workload: Workload, *, device: str = "cpu", precision: Precision = PLAIN) -> Sampled:
    """Some rows of out, LSE and dq, and some keys of dk and dv; which ones the seed decides."""
    by_row = sample_rows(workload, precision=precision)
    by_key = _few_keys(workload, device, precision=precision)
    return Sampled(
        result=Result(
            out=by_row.result.out,
            lse=by_row.result.lse,
            dq=by_row.result.dq,
            dk=by_key.result.dk,
            dv=by_key.result.dv,
        ),
        allowed=by_row.allowed | by_key.allowed,
        index=by_row.index | by_key.index,
    )


def sample_rows(
    workload: Workload, *, pairs: int = _PAIRS, rows: int = _ROWS, precision: Precision = PLAIN
) -> Sampled:
    """Some rows of out, LSE and dq."""
    spec = workload.spec
    generator = np.random.default_rng((spec.seed, 1))
    batch, head = _chosen_pairs(generator, spec.batch, spec.heads, pairs)
    row = np.stack([_chosen(generator, spec.query_length, rows) for _ in batch])
    kv_head = head // (spec.heads // spec.kv_heads)
    arrays = {
        "q": workload.q[batch[:, None], head[:, None], row][:, None],
        "k": workload.k[batch, kv_head][:, None],
        "v": workload.v[batch, kv_head][:, None],
        "grad_out": workload.grad_out[batch[:, None], head[:, None], row][:, None],
    }
    visible = np.stack(
        [workload.visible_block(b, rows=r)[None] for b, r in zip(batch.tolist(), row, strict=True)]
    )
    setting = {"causal": spec.causal, "scale": spec.scale, "visible": visible}
    index = (batch[:, None, None], head[:, None, None], row[:, None])
    wanted = {name: index for name in ("out", "lse", "dq")}
    return _held(arrays, setting, spec.dtype, wanted, precision=precision)


def _few_keys(workload: Workload, device: str, *, precision: Precision) -> Sampled:
    """Some rows of dk and dv, of one or two kv heads."""
    spec = workload.spec
    group = spec.heads // spec.kv_heads
    generator = np.random.default_rng((spec.seed, 2))
    scores = group * spec.query_length * spec.key_length
    count = _KEY_PAIRS if scores <= _MANY_SCORES else 1
    batch, kv_head = _chosen_pairs(generator, spec.batch, spec.kv_heads, count)
    key = np.stack([_chosen(generator, spec.key_length, _KEYS) for _ in batch])
    return sample_keys(workload, batch, kv_head, key, device=device, precision=precision)


def sample_keys(
    workload: Workload,
    batch: np.ndarray,
    kv_head: np.ndarray,
    key: np.ndarray,
    *,
    device: str = "cpu",
    precision: Precision = PLAIN,
) -> Sampled:
    """The rows `key`, [P, keys], of dk and dv in P pairs of batch row and kv head."""
    spec = workload.spec
    group = spec.heads // spec.kv_heads
    heads = kv_head[:, None] * group + np.arange(group)
    arrays = {
        "q": workload.q[batch[:, None], heads],
        "k": workload.k[batch[:, None], kv_head[:, None], key][:, None],
        "v": workload.v[batch[:, None], kv_head[:, None], key][:, None],
        "grad_out": workload.grad_out[batch[:, None], heads],
    }
    visible = np.stack(
        [
            workload.visible_block(b, columns=c)[None]
            for b, c in zip(batch.tolist(), key, strict=True)
        ]
    )
    pairs = zip(batch.tolist(), kv_head.tolist(), strict=True)
    known = [_over_all_keys(workload, b, g, device) for b, g in pairs]
    setting = {
        "causal": spec.causal,
        "scale": spec.scale,
        "visible": visible,
        "known": Result(
            out=np.stack([head.out for head in known]), lse=np.stack([head.lse for head in known])
        ),
    }
    index = (batch[:, None, None], kv_head[:, None, None], key[:, None])
    wanted = {name: index for name in ("dk", "dv")}
    return _held(arrays, setting, spec.dtype, wanted, keys=spec.key_length, precision=precision)


def _over_all_keys(workload: Workload, batch: int, kv_head: int, device: str) -> Result:
    """Output and LSE of all queries that read one kv head, [group, M, D] and [group, M]; on the
    device where it has the memory and agrees with the reference."""
    spec = workload.spec
    if device_reference.can_run(device):
        try:
            return device_reference.over_all_keys(workload, batch, kv_head, device)
        except Exception as error:
            if not (isinstance(error, DeviceDisagrees) or ran_out(error)):
                raise
            print(f"the reference is computed on the CPU: {type(error).__name__}: {error}")
    group = spec.heads // spec.kv_heads
    own = slice(kv_head * group, (kv_head + 1) * group)
    k, v = (a[batch : batch + 1, kv_head : kv_head + 1] for a in (workload.k, workload.v))
    size = max(1, _BLOCK_SCORES // (group * spec.key_length))

    def block(first: int) -> Result:
        rows = np.arange(first, min(first + size, spec.query_length))
        q = workload.q[batch : batch + 1, own, rows[0] : rows[-1] + 1]
        visible = workload.visible_block(batch, rows=rows)[None, None]
        return reference.attention(q, k, v, causal=spec.causal, scale=spec.scale, visible=visible)

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        blocks = list(threads.map(block, range(0, spec.query_length, size)))
    return Result(
        out=np.concatenate([block.out[0] for block in blocks], axis=1),
        lse=np.concatenate([block.lse[0] for block in blocks], axis=1),
    )


def _held(
    arrays: dict[str, np.ndarray],
    setting: dict,
    dtype: str,
    index: dict[str, Index],
    keys: int | None = None,
    *,
    precision: Precision,
) -> Sampled:
    right = reference.attention(**arrays, **setting)
    with np.errstate(invalid="ignore", over="ignore"):  # the baseline may overflow, as its dtype
        plain = baseline.attention(**arrays, **setting, dtype=dtype, precision=precision)
        plainly = {name: value for name, value in setting.items() if name != "known"}
        allowed = allowances(
            right, plain, **arrays, **plainly, dtype=dtype, keys=keys, precision=precision
        )
    return Sampled(result=right, allowed={name: allowed[name] for name in index}, index=index)


def _chosen_pairs(
    generator: np.random.Generator, batch: int, heads: int, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """The last pair of batch row and head, where offsets are largest, the first, and others."""
    chosen = _chosen(generator, batch * heads, count)
    return chosen // heads, chosen % heads


def _chosen(generator: np.random.Generator, total: int, count: int) -> np.ndarray:
    """Distinct numbers below `total`: the last, the first and others, as many as there are."""
    ends = [total - 1, 0][: min(count, total)]
    inner = generator.choice(total, size=min(count, total), replace=False)
    rows = dict.fromkeys([*ends, *inner.tolist()])
    return np.sort(np.array(list(rows)[: min(count, total)]))
