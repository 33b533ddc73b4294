"""Split-KV decoding in Triton: one kernel for all formats of keys and values, one for latents.

Without a GPU the kernels run in Triton's interpreter, which is slow and for correctness only.
"""

import os
from collections.abc import Callable, Mapping

import torch

# Triton decides when a kernel is defined whether it is compiled or interpreted, so this is set
# before the kernels are imported. TRITON_INTERPRET=0 keeps them for compiling ahead of time.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

from assay.attention.decode._split_kv.configs import DecodeConfig
from assay.attention.decode._split_kv.launch import Scratch, plan, plan_latent
from assay.errors import BadInput

Decoded = torch.Tensor | tuple[torch.Tensor, torch.Tensor]

__all__ = ["DecodeConfig", "Scratch", "latent_reader", "reader"]


def reader(*, keys: str, values: str) -> Callable[..., Decoded]:
    """`decode` for a layout whose keys and values are of some formats (unpack.py)."""

    def decode(
        q: torch.Tensor,
        streams: Mapping[str, torch.Tensor],
        *,
        scale: float,
        lengths: torch.Tensor | None = None,
        pages: torch.Tensor | None = None,
        lse: bool = False,
        config: DecodeConfig | None = None,
        splits: int | None = None,
        scratch: Scratch | None = None,
    ) -> Decoded:
        """See the folder. `config` and `splits` are chosen where they are not given; `scratch` is
        kept by callers that decode often, and saves a launch."""
        planned = plan(
            q, streams, keys=keys, values=values, scale=scale, lengths=lengths, pages=pages,
            config=config, splits=splits, scratch=scratch,
        )  # fmt: skip
        planned.run()
        return (planned.out, planned.lse) if lse else planned.out

    return decode


def latent_reader(stream: str) -> Callable[..., Decoded]:
    """`decode` for a layout that keeps one row of a token for all heads."""

    def decode(
        q: torch.Tensor,
        streams: Mapping[str, torch.Tensor],
        *,
        scale: float,
        value_width: int,
        lengths: torch.Tensor | None = None,
        pages: torch.Tensor | None = None,
        lse: bool = False,
        config: DecodeConfig | None = None,
        splits: int | None = None,
        scratch: Scratch | None = None,
    ) -> Decoded:
        """Averages [batch, heads, new tokens, value_width] of the first numbers of rows."""
        if stream not in streams:
            raise BadInput(f"there is no stream {stream}; given are {sorted(streams)}")
        planned = plan_latent(
            q, streams[stream], value_width=value_width, scale=scale, lengths=lengths, pages=pages,
            config=config, splits=splits, scratch=scratch,
        )  # fmt: skip
        planned.run()
        return (planned.out, planned.lse) if lse else planned.out

    return decode
