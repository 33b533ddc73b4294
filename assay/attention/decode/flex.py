"""torch's FlexAttention over keys and values as they are.

On a GPU it is compiled, once for each combination of shapes, strides, dtype and scale: with few
queries torch takes its decoding kernel, which splits the keys into parts. On a CPU nothing is
generated and the whole score matrix is computed: right, not fast. Blocks of keys behind a length
are not read. Values behind it are zeroed in a copy, in every call with lengths, for 0 x NaN is NaN.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache

import torch

from assay.attention.sequence._torch_compile import with_own_code
from assay.errors import BadInput

LAYOUT = "dense"
KERNELS = {"cuda": "triton_tem|flex"}

SMALLEST_GPU_HEAD_DIM = 16  # of Triton's tl.dot; others are padded to a power of two within it
BLOCK = 128  # keys in a block of the mask, torch's default
MOST_ROWS = 64  # queries of a kv head that the decoding kernel holds at once; beyond, torch's other
FLOAT32_TILE = 32  # keys, half of torch's choice: two tiles of 64 x 256 in float32 are too much


def decode(
    q: torch.Tensor,
    streams: Mapping[str, torch.Tensor],
    *,
    scale: float,
    lengths: torch.Tensor | None = None,
    pages: torch.Tensor | None = None,
) -> torch.Tensor:
    if pages is not None:
        raise BadInput("FlexAttention is given no pages here; give keys and values in one piece")
    k, v = streams["k"], streams["v"]
    sizes = tuple((tensor.shape, tensor.stride()) for tensor in (q, k, v))
    kind = counts = None
    if lengths is not None:
        # Not compiled with the rest: torch 2.11's kernel steps from sequence to sequence by the
        # stride of an axis of one, which its compiler is free to choose.
        reached = (lengths.clamp(0, k.shape[2]) + (BLOCK - 1)) // BLOCK
        kind, counts = lengths.dtype, reached.to(torch.int32)[:, None, None]  # [B, 1, 1]
    return _compiled(sizes, q.dtype, q.device, scale, kind)(q, k, v, lengths, counts)


def supports(*, head_dim: int, dtype: str, device: str) -> str | None:
    if device == "cuda" and head_dim < SMALLEST_GPU_HEAD_DIM:
        return f"head_dim {head_dim} is below {SMALLEST_GPU_HEAD_DIM}, FlexAttention's least"
    return None


@lru_cache(maxsize=128)
def _compiled(
    sizes: tuple[tuple[torch.Size, tuple[int, ...]], ...],
    dtype: torch.dtype,
    device: torch.device,
    scale: float,
    lengths_dtype: torch.dtype | None,
) -> Callable[..., torch.Tensor]:
    """`call(q, k, v, lengths, counts)` for tensors of these shapes and strides; compiled when it is
    first called.

    Each has a code object of its own, for torch counts recompilations by code object and beyond a
    limit would run what was not compiled.
    """
    # Imported here because it loads torch's compiler.
    from torch.nn.attention.flex_attention import flex_attention

    (batch, heads, new, _), (_, kv_heads, total, _) = (shape for shape, _ in sizes[:2])
    group = heads // kv_heads
    options = _kernel_options(group, new, dtype) if device.type == "cuda" else None
    mask_of = _masks(batch, new, total, device)

    def call(
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        lengths: torch.Tensor | None,
        counts: torch.Tensor | None,
    ) -> torch.Tensor:
        if lengths is not None:
            keys = torch.arange(total, device=device)
            behind = (keys >= lengths[:, None])[:, None, :, None]  # [B, 1, S, 1]
            v = v.masked_fill(behind, 0)
        return flex_attention(
            q, k, v, block_mask=mask_of(lengths, counts), scale=scale, enable_gqa=group > 1,
            kernel_options=options,
        )  # fmt: skip

    backend = "inductor" if device.type == "cuda" else "eager"
    alone = with_own_code(call, "flex_decode")
    return torch.compile(alone, backend=backend, fullgraph=True, dynamic=False)


def _kernel_options(group: int, new: int, dtype: torch.dtype) -> dict[str, object]:
    """Options of torch's kernels: which of the two, and the size of its tiles in float32."""
    if group & (group - 1) or group * new > MOST_ROWS:
        return {"FORCE_USE_FLEX_ATTENTION": True}
    return {"BLOCK_N": FLOAT32_TILE} if dtype == torch.float32 else {}


def _masks(
    batch: int, new: int, total: int, device: torch.device
) -> Callable[[torch.Tensor | None, torch.Tensor | None], object]:
    """The function that gives the block mask for `lengths` [batch] and the number of blocks that
    each sequence reaches, or for whole sequences.

    Whole sequences have a mask too. Without one, torch 2.11 and 2.13 take all keys for a single
    block of 2^30 and give each part its share of that, so the first part reads all there are.
    """
    from torch.nn.attention.flex_attention import BlockMask

    blocks = -(-total // BLOCK)
    order = torch.arange(blocks, dtype=torch.int32, device=device).repeat(batch, 1, 1, 1)
    whole = torch.full((batch, 1, 1), blocks, dtype=torch.int32, device=device)

    def mask_of(lengths: torch.Tensor | None, counts: torch.Tensor | None) -> object:
        def within_cache(
            sequence: torch.Tensor, head: torch.Tensor, token: torch.Tensor, key: torch.Tensor
        ) -> torch.Tensor:
            return key <= token + (total - new)

        def within_length(
            sequence: torch.Tensor, head: torch.Tensor, token: torch.Tensor, key: torch.Tensor
        ) -> torch.Tensor:
            return key <= token + (lengths[sequence] - new)

        # A single new token sees the whole cache, and torch itself checks where that ends.
        visible = within_cache if new > 1 else None
        if lengths is None:
            counts = whole
        else:
            visible = within_length
        return BlockMask.from_kv_blocks(
            counts,  # [B, 1, 1] blocks to read
            order,  # [B, 1, 1, blocks]
            BLOCK_SIZE=BLOCK,
            mask_mod=visible,
            seq_lengths=(new, total),
            compute_q_blocks=False,  # for a backward pass
        )

    return mask_of
