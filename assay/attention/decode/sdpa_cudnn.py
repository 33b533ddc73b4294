"""cuDNN's attention over keys and values as they are: the strongest 16-bit decode of a GPU."""

from collections.abc import Mapping

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from assay.attention.decode._whole_cache import attend
from assay.errors import BadInput

LAYOUT = "dense"
DETERMINISTIC = False  # torch 2.11 on an H200, from 32 sequences of 8,192 keys on
KERNELS = {"cuda": "cudnn"}


def decode(
    q: torch.Tensor,
    streams: Mapping[str, torch.Tensor],
    *,
    scale: float,
    lengths: torch.Tensor | None = None,
    pages: torch.Tensor | None = None,
) -> torch.Tensor:
    if not q.is_cuda:
        raise BadInput("cuDNN's attention runs on an NVIDIA GPU only; use decode/sdpa here")
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        return attend(q, streams["k"], streams["v"], scale=scale, lengths=lengths, pages=pages)


def supports(*, head_dim: int, dtype: str, device: str) -> str | None:
    if device != "cuda":
        return "cuDNN's attention runs on an NVIDIA GPU only"
    return "cuDNN's attention has no float32" if dtype == "float32" else None
