"""FlashInfer's batch decode over pages of keys and values (package flashinfer-python).

A cache in one piece is seen as pages of at most 16 keys, without a copy. What FlashInfer plans on
the host is not part of a timed call: lengths and page tables are read from the GPU, keys are shared
out among programs, the table is copied and, at first, kernels are compiled. A plan is kept for a
combination of shapes, scale, lengths and tables, the latter two by their tensor and torch's count
of writes to it; a call with others plans anew and waits for the GPU. A CUDA graph repeats the plan
of its capture: it does not see lengths that change, nor may it outlive PLANS newer plans.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch
from torch.nn.functional import pad

from assay.errors import BadInput

LAYOUT = "dense"
ACCEPTS = ("lengths", "pages")
REQUIRES = ("flashinfer",)
KERNELS = {"cuda": "Batch(Decode|Prefill)WithPagedKVCache"}

DTYPES = ("float16", "bfloat16")
HEAD_DIMS = (64, 128, 256)
ALIGNMENT_BYTES = 16  # of the loads of its kernels
PAGE_SIZES = (16, 8, 4, 2, 1)  # keys, for a cache in one piece; parts are made of whole pages
TENSOR_CORES_FROM = 4  # query heads of a kv head; below, its kernels without tensor cores
PLANS = 16  # each holds 8 MiB on the GPU and 8 MiB of pinned memory
WORKSPACE_BYTES = 256 * 2**20  # partial sums of long sequences; its documentation gives half


def decode(
    q: torch.Tensor,
    streams: Mapping[str, torch.Tensor],
    *,
    scale: float,
    lengths: torch.Tensor | None = None,
    pages: torch.Tensor | None = None,
) -> torch.Tensor:
    k, v = streams["k"], streams["v"]
    _refuse(q, k, v, lengths, pages)
    if pages is None:
        capacity = k.shape[2]
        size, stride = _page_of(k)
        k, v = (_in_pages(tensor, size, stride) for tensor in (k, v))
    else:
        size, stride = k.shape[2], 0
        capacity = size * pages.shape[1]
    wrapper, empty = _planned(
        q.shape, k.shape[1], size, stride, capacity, q.dtype, q.device, scale,
        lengths, _writes(lengths), pages, _writes(pages),
    )  # fmt: skip
    out = wrapper.run(q[:, :, 0], (k, v))[:, :, None]  # [B, H, 1, D]
    return out if empty is None else out.masked_fill(empty, 0)


def supports(*, head_dim: int, dtype: str, device: str) -> str | None:
    if device != "cuda":
        return "FlashInfer has kernels for NVIDIA GPUs only"
    if dtype not in DTYPES:
        return f"dtype {dtype} is not one of {', '.join(DTYPES)}"
    if head_dim not in HEAD_DIMS:
        return f"head_dim {head_dim} is not one of {', '.join(map(str, HEAD_DIMS))}"
    return None


def _refuse(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    lengths: torch.Tensor | None,
    pages: torch.Tensor | None,
) -> None:
    """Refuse what its kernels cannot read, in words."""
    dtype = str(q.dtype).removeprefix("torch.")
    if reason := supports(head_dim=q.shape[3], dtype=dtype, device=q.device.type):
        raise BadInput(reason)
    if q.shape[2] != 1:
        raise BadInput(f"{q.shape[2]} new tokens; FlashInfer's batch decode takes 1: use dense")
    if pages is not None and lengths is None:
        raise BadInput("pages without lengths; give the number of keys of each sequence")
    if (k.shape, k.stride(), k.dtype) != (v.shape, v.stride(), v.dtype) or k.dtype != q.dtype:
        raise BadInput(
            f"k is {k.dtype} {tuple(k.shape)} with strides {k.stride()}, v {v.dtype} "
            f"{tuple(v.shape)} with {v.stride()}; wanted both alike, in the queries' {q.dtype}"
        )
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        used = [s for s, n in zip(tensor.stride(), tensor.shape, strict=True) if n > 1]
        steps = (tensor.data_ptr(), *(s * tensor.element_size() for s in used[:-1]))
        if tensor.stride(-1) != 1 or any(step % ALIGNMENT_BYTES for step in steps):
            raise BadInput(
                f"{name} has strides {tensor.stride()}; wanted rows without gaps that begin at "
                f"multiples of {ALIGNMENT_BYTES} bytes"
            )


def _page_of(k: torch.Tensor) -> tuple[int, int]:
    """Keys of a page of k [B, G, S, D], and the pages from a sequence to the next."""
    batch, _, total, _ = k.shape
    row, sequence = k.stride(2), k.stride(0) if batch > 1 else 0
    for size in PAGE_SIZES if total and row else ():
        if total % size == 0 and sequence % (size * row) == 0:
            return size, sequence // (size * row)
    raise BadInput(
        f"a cache of shape {tuple(k.shape)} with strides {k.stride()} cannot be seen as pages "
        "without a copy; wanted sequences that begin a whole number of keys apart"
    )


def _in_pages(tensor: torch.Tensor, size: int, stride: int) -> torch.Tensor:
    """A view [pages, G, size, D] of [B, G, S, D], page p beginning p x size keys from the first.

    Pages overlap where heads lie behind each other: page p of kv head 1 may be a later page of kv
    head 0. Those of sequence b are `stride` x b and the S / size - 1 that follow.
    """
    batch, heads, total, width = tensor.shape
    _, head, row, _ = tensor.stride()
    count = (batch - 1) * stride + total // size
    return tensor.as_strided((count, heads, size, width), (size * row, head, row, 1))


def _writes(tensor: torch.Tensor | None) -> int:
    """torch's count of writes to a tensor, by which a plan that is out of date is noticed."""
    if tensor is None:
        return 0
    if tensor.is_inference():
        raise BadInput(
            "lengths or pages were made in torch.inference_mode(), where torch does not count "
            "writes; make them outside of it, or every call would have to be planned"
        )
    return tensor._version


@lru_cache(maxsize=PLANS)
def _planned(
    q_shape: torch.Size,
    kv_heads: int,
    size: int,
    stride: int,
    capacity: int,
    dtype: torch.dtype,
    device: torch.device,
    scale: float,
    lengths: torch.Tensor | None,
    lengths_writes: int,
    pages: torch.Tensor | None,
    pages_writes: int,
) -> tuple[Any, torch.Tensor | None]:
    """FlashInfer's wrapper, planned, and the sequences without a key [B, 1, 1, 1] if there are any.

    Tensors are told apart by identity, which is how torch hashes them. An empty sequence is planned
    with a key and its output is zeroed later.
    """
    from flashinfer import BatchDecodeWithPagedKVCacheWrapper

    if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        raise BadInput("FlashInfer plans on the host; call once before capturing a CUDA graph")
    batch, heads, _, width = q_shape
    counts = torch.full((batch,), capacity) if lengths is None else lengths.cpu().clamp(0, capacity)
    wrapper = BatchDecodeWithPagedKVCacheWrapper(
        _workspace(device), "HND", use_tensor_cores=heads // kv_heads >= TENSOR_CORES_FROM
    )
    wrapper.plan(
        *_page_lists(counts, size=size, stride=stride, pages=pages),
        heads,
        kv_heads,
        width,
        size,
        q_data_type=dtype,
        kv_data_type=dtype,
        sm_scale=scale,
    )
    empty = counts == 0
    return wrapper, empty.to(device)[:, None, None, None] if empty.any() else None


def _page_lists(
    counts: torch.Tensor, *, size: int, stride: int, pages: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """First pages of each sequence [B + 1], the numbers of all in order, and the keys of each
    last page [B], all int32 on the CPU; `counts` [B] are keys, of which an empty sequence gets one.
    """
    held = counts.clamp(min=1)
    needed = (held + (size - 1)) // size  # pages
    places = torch.arange(int(needed.max()))
    if pages is None:
        tables = torch.arange(len(counts))[:, None] * stride + places  # [B, most]
    else:
        tables = pages.cpu()[:, : len(places)]
    tables = tables.masked_fill((counts == 0)[:, None], 0)
    numbers = tables[places < needed[:, None]]
    begins = pad(needed.cumsum(0), (1, 0))
    return begins.int(), numbers.int(), ((held - 1) % size + 1).int()


@lru_cache(maxsize=1)
def _workspace(device: torch.device) -> torch.Tensor:
    """Scratch memory that all plans share, zeros at first; calls run one after another."""
    return torch.zeros(WORKSPACE_BYTES, dtype=torch.uint8, device=device)
