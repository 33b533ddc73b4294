"""Split-KV decoding in Triton: one kernel for all formats of keys and values, one for latents.

Without a GPU the kernels run in Triton's interpreter, which is slow and for correctness only.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass

import torch

# Triton decides when a kernel is defined whether it is compiled or interpreted, so this is set
# before the kernels are imported. TRITON_INTERPRET=0 keeps them for compiling ahead of time.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

from assay.attention.decode._split_kv.configs import DecodeConfig
from assay.attention.decode._split_kv.launch import Scratch, SharedScratch, plan, plan_latent
from assay.attention.decode._split_kv.refusals import WIDEST_LATENT, WIDEST_ROW, unreadable
from assay.errors import BadInput

Decoded = torch.Tensor | tuple[torch.Tensor, torch.Tensor]

__all__ = ["DecodeConfig", "LatentReader", "RowReader", "Scratch", "SharedScratch"]


@dataclass(frozen=True, kw_only=True)
class RowReader:
    """The two functions of a layout whose keys and values are of some formats (unpack.py)."""

    keys: str
    values: str

    def decode(
        self,
        q: torch.Tensor,
        streams: Mapping[str, torch.Tensor],
        *,
        scale: float,
        lengths: torch.Tensor | None = None,
        pages: torch.Tensor | None = None,
        lse: bool = False,
        config: DecodeConfig | None = None,
        splits: int | None = None,
        scratch: Scratch | SharedScratch | None = None,
    ) -> Decoded:
        """See the folder. `config` and `splits` are chosen where they are not given; `scratch` is
        kept by callers that decode often, and saves a launch."""
        planned = plan(
            q, streams, keys=self.keys, values=self.values, scale=scale, lengths=lengths,
            pages=pages, config=config, splits=splits, scratch=scratch,
        )  # fmt: skip
        planned.run()
        return (planned.out, planned.lse) if lse else planned.out

    def supports(self, *, head_dim: int, dtype: str, device: str) -> str | None:
        """The reason why vectors so wide in a dtype cannot be read on a kind of device."""
        forms = {self.keys, self.values}
        return unreadable(forms, head_dim, dtype=dtype, device=device, widest=WIDEST_ROW)


class LatentReader:
    """The two functions of a layout that keeps one row of a token, `latent`, for all heads."""

    def decode(
        self,
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
        scratch: Scratch | SharedScratch | None = None,
    ) -> Decoded:
        """Averages [batch, heads, new tokens, value_width] of the first numbers of rows."""
        if "latent" not in streams:
            raise BadInput(f"there is no stream latent; given are {sorted(streams)}")
        planned = plan_latent(
            q, streams["latent"], value_width=value_width, scale=scale, lengths=lengths,
            pages=pages, config=config, splits=splits, scratch=scratch,
        )  # fmt: skip
        planned.run()
        return (planned.out, planned.lse) if lse else planned.out

    def supports(self, *, head_dim: int, dtype: str, device: str) -> str | None:
        """The reason why rows so wide in a dtype cannot be read on a kind of device."""
        return unreadable({"whole"}, head_dim, dtype=dtype, device=device, widest=WIDEST_LATENT)
