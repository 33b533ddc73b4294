"""Output and LSE of every query of one kv head, in float64 on a GPU.

A row of dk or dv needs them all. NumPy takes 80 s for 65,536 queries on 16 cores, an H200 below
1 s. The arithmetic is torch's, so some rows are held against NumPy's reference, and the result
counts only where they agree.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from assay.attention import reference
from assay.attention.reference import Result
from assay.plugins import installed
from assay.workloads.workload import Workload

_BLOCK_SCORES = 1 << 25  # 256 MiB; a few arrays of that size are there at once
_ROWS = 8  # held against NumPy's
_TOLERANCE = 1e-10  # of the largest value


class DeviceDisagrees(Exception):
    """Rows that the device computed are not those of the reference."""


def can_run(device: str) -> bool:
    """Tell whether torch computes on the device."""
    if device == "cpu" or not installed("torch"):
        return False
    import torch

    return torch.cuda.is_available()


def over_all_keys(workload: Workload, batch: int, kv_head: int, device: str) -> Result:
    """Output [group, M, D] and LSE [group, M] of all queries that read one kv head."""
    blocks = list(_blocks(workload, batch, kv_head, device))
    result = Result(
        out=np.concatenate([out for out, _ in blocks], axis=1),
        lse=np.concatenate([lse for _, lse in blocks], axis=1),
    )
    _hold_rows(result, workload, batch, kv_head)
    return result


def _blocks(
    workload: Workload, batch: int, kv_head: int, device: str
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    import torch

    spec = workload.spec
    group = spec.heads // spec.kv_heads
    arrays = (
        workload.q[batch, kv_head * group : (kv_head + 1) * group],
        workload.k[batch, kv_head],
        workload.v[batch, kv_head],
    )
    q, k, v = (torch.as_tensor(a, device=device, dtype=torch.float64) for a in arrays)
    size = max(1, _BLOCK_SCORES // (group * spec.key_length))
    for first in range(0, spec.query_length, size):
        last = min(first + size, spec.query_length)
        scores = spec.scale * (q[:, first:last] @ k.mT)  # [group, rows, N]
        scores.masked_fill_(_hidden(workload, batch, first, last, device), -torch.inf)
        row_max = scores.amax(-1, keepdim=True)
        row_max.masked_fill_(row_max.isneginf(), 0.0)  # a row that sees nothing
        weights = scores.sub_(row_max).exp_()
        row_sum = weights.sum(-1, keepdim=True)
        out = (weights @ v) / row_sum.masked_fill(row_sum == 0.0, 1.0)
        lse = (row_max + row_sum.log())[..., 0]
        yield out.cpu().numpy(), lse.cpu().numpy()


def _hidden(workload: Workload, batch: int, first: int, last: int, device: str) -> Any:
    """Keys that the queries from `first` to `last` may not see, as a tensor on the device."""
    import torch

    spec = workload.spec
    if workload.lengths is not None or workload.mask is not None or workload.cu_seqlens:
        visible = workload.visible_block(batch, rows=np.arange(first, last))
        return torch.as_tensor(~visible, device=device)
    rows = torch.arange(first, last, device=device)[:, None]
    ahead = torch.arange(spec.key_length, device=device) - (
        rows + spec.key_length - spec.query_length
    )
    hidden = ahead > 0 if spec.causal else torch.zeros_like(ahead, dtype=torch.bool)
    return hidden | (ahead.abs() >= spec.window) if spec.window else hidden


def _hold_rows(result: Result, workload: Workload, batch: int, kv_head: int) -> None:
    spec = workload.spec
    group = spec.heads // spec.kv_heads
    rows = np.unique(np.linspace(0, spec.query_length - 1, _ROWS).astype(int))
    own = slice(kv_head * group, (kv_head + 1) * group)
    right = reference.attention(
        workload.q[batch : batch + 1, own][:, :, rows],
        workload.k[batch : batch + 1, kv_head : kv_head + 1],
        workload.v[batch : batch + 1, kv_head : kv_head + 1],
        causal=spec.causal,
        scale=spec.scale,
        visible=workload.visible_block(batch, rows=rows)[None, None],
    )
    for tensor, wanted in (("out", right.out[0]), ("lse", right.lse[0])):
        actual = getattr(result, tensor)[:, rows]
        allowed = _TOLERANCE * np.abs(wanted[np.isfinite(wanted)]).max(initial=1.0)
        if not np.allclose(actual, wanted, rtol=0.0, atol=allowed):  # infinities must be alike
            raise DeviceDisagrees(f"{tensor} of {len(rows)} rows differs by more than {allowed:g}")
