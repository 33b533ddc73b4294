"""torch's scaled_dot_product_attention, flash kernel only: FlashAttention-2, on a CPU torch's own.

On a GPU float16 and bfloat16 with head dimensions up to 256; dq is added up with atomics. The CPU
kernel of torch 2.13 adds up dv of half-precision inputs in half precision, 64 queries at a time,
which takes up to 0.6 of the accuracy budget at 512 queries and more.
"""

import math
from functools import partial

import torch
from torch.nn.attention import SDPBackend

from assay.attention.sequence._sdpa import attend, refusal
from assay.attention.tensor_bytes import (
    FLOAT32_BYTES,
    Held,
    largest,
    repeated_kv_bytes,
    row_statistic_bytes,
    tiled_bytes,
)
from assay.host import Host
from assay.workloads.spec import WorkloadSpec
from assay.workloads.work import query_bytes

FRAMEWORK = "torch"
DETERMINISTIC_BACKWARD = False
KERNELS = {"cuda": "flash_fwd", "cpu": "flash_attention"}

# set_params_splitkv in torch's flash_api.cpp
_SPLIT_QUERY_BLOCK = 64
_MOST_SPLITS = 128
_FULL_OCCUPANCY = 0.8  # from where keys are not split
_GOOD_EFFICIENCY = 0.85  # of the best, from where fewer splits are better

attention = partial(attend, backend=SDPBackend.FLASH_ATTENTION)


def supports(spec: WorkloadSpec, host: Host) -> str | None:
    """torch's own refusal, and one for a limit that its check does not know."""
    elements = spec.batch * spec.heads * spec.query_length * spec.head_dim
    if host.accelerators and elements >= 2**31:
        return "torch 2.11's flash kernel reads out of bounds in tensors of 2^31 elements and more"
    return refusal(spec, host, backend=SDPBackend.FLASH_ATTENTION)


def memory(spec: WorkloadSpec, *, training: bool, device: str) -> Held:
    """Bytes above the inputs. With few queries a GPU works on parts of the keys, each with an
    output. Its backward turns out and dO to [B, M, H, D], adds up dq in float32 with rows and head
    dimensions rounded up, and dk and dv for each query head (torch's flash_api.cpp). On a CPU what
    its threads need is not among the parts."""
    if device == "cpu":
        return tiled_bytes(spec, training=training)
    dim = -(-spec.head_dim // 32) * 32 if spec.head_dim <= 192 else 256
    forward = tiled_bytes(spec, training=False) | _split_bytes(spec, dim=dim, device=device)
    if not training:
        return forward
    rows = spec.batch * spec.heads * (-(-spec.query_length // 128) * 128)
    turned = query_bytes(spec) if min(spec.heads, spec.query_length) > 1 else 0
    backward = tiled_bytes(spec, training=True) | {
        "turned_out": 0 if spec.layout == "transposed" else turned,
        "turned_grad_out": turned,
        "wide_dq": FLOAT32_BYTES * rows * dim,
        "delta": FLOAT32_BYTES * rows,
        "dk_and_dv_of_each_head": 2 * repeated_kv_bytes(spec),
    }
    return largest(forward, backward)


def _split_bytes(spec: WorkloadSpec, *, dim: int, device: str) -> Held:
    """Output and LSE of each split of the keys, in float32 until they are put together."""
    if device != "cuda" or not torch.cuda.is_available():
        return {}
    gpu = torch.cuda.get_device_properties(torch.cuda.current_device())
    splits = key_splits(spec, multiprocessors=gpu.multi_processor_count)
    lse = splits * row_statistic_bytes(spec)
    return {"out_of_parts": lse * dim, "lse_of_parts": lse} if splits > 1 else {}


def key_splits(spec: WorkloadSpec, *, multiprocessors: int) -> int:
    """Number of parts that torch splits the keys into, where there are few queries.

    Each multiprocessor runs two blocks at a time. Of all numbers of parts whose last wave of
    blocks is nearly full, the least.
    """
    heads, rows = spec.heads, spec.query_length
    if rows == 1 and spec.head_dim % 8 == 0:  # queries of one kv head are taken for a sequence
        heads, rows = spec.kv_heads, spec.heads // spec.kv_heads
    key_block = 256 if spec.head_dim <= 64 else 128 if spec.head_dim <= 128 else 64
    key_blocks = math.ceil(spec.key_length / key_block)
    blocks = spec.batch * heads * math.ceil(rows / _SPLIT_QUERY_BLOCK)
    slots = 2 * multiprocessors
    if blocks >= _FULL_OCCUPANCY * slots:
        return 1
    efficiency = {}
    for splits in range(1, min(_MOST_SPLITS, slots, key_blocks) + 1):
        longest = math.ceil(key_blocks / splits)
        if splits == 1 or longest != math.ceil(key_blocks / (splits - 1)):
            waves = blocks * splits / slots
            efficiency[splits] = waves / math.ceil(waves)
    good = _GOOD_EFFICIENCY * max(efficiency.values())
    return min(splits for splits, share in efficiency.items() if share >= good)
