"""FP8 with scales that are known before the first token, of a tensor or of each of its heads.

They were calibrated, and never move: what is kept of a token depends on that token and on them.
Numbers beyond what they cover are clipped. Encoding goes straight into the caller's memory, such as
that of a serialized chunk.
"""

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from types import FunctionType

import numpy as np
import torch

from assay.errors import BadInput, CannotRunHere
from assay.kv.formats import Format, Part

# In float32 between the steps, for each thread: 512 KiB, in the cache of a core, and few calls.
_SCRATCH_NUMBERS = 1 << 17
_compilations = count()


@dataclass(frozen=True, eq=False)
class FrozenFloat8(Format):
    """FP8 with a float32 scale [] for all heads, or [H, 1, 1].

    `fused` encodes in one pass that torch.compile makes, once for each shape: seconds for the first
    call, and a C++ compiler is needed. Both ways give the same bits, but for the sign of NaN.
    """

    dtype: str
    scale: torch.Tensor
    fused: bool = False
    _inverse: torch.Tensor = field(init=False, repr=False)

    def __post_init__(self) -> None:
        scale = self.scale.detach().float()
        if scale.dim() and (scale.dim() != 3 or scale.shape[1:] != (1, 1)):
            raise BadInput(f"scales are {list(scale.shape)}; wanted [] or [heads, 1, 1]")
        inverse = scale.reciprocal()
        if not ((scale > 0) & scale.isfinite() & (inverse > 0) & inverse.isfinite()).all():
            raise BadInput(
                f"scales from {scale.min():g} to {scale.max():g}; wanted numbers above 0 that have "
                "an inverse in float32"
            )
        object.__setattr__(self, "scale", scale.clone())  # the caller's may change
        object.__setattr__(self, "_inverse", inverse)

    @property
    def description(self) -> str:
        """Text for the SCALES of a layout: another one wherever a scale is another."""
        content = self.scale.cpu().numpy().tobytes()
        return f"frozen {hashlib.blake2b(content, digest_size=16).hexdigest()}"

    def parts(self, width: int) -> dict[str, Part]:
        return {"": Part(self.dtype, width)}

    def encode(self, vectors: torch.Tensor) -> dict[str, torch.Tensor]:
        kind = getattr(torch, self.dtype)
        numbers = torch.empty(vectors.shape, dtype=kind, device=vectors.device)
        self.encode_into(numbers, vectors)
        return {"": numbers}

    def encode_into(self, numbers: torch.Tensor, vectors: torch.Tensor) -> None:
        """Write what is kept of vectors [..., H, T, D] into `numbers`, of the same shape."""
        if numbers.shape != vectors.shape or numbers.dtype != getattr(torch, self.dtype):
            raise BadInput(
                f"there is room for {numbers.dtype} {list(numbers.shape)}; "
                f"wanted {self.dtype} {list(vectors.shape)}"
            )
        if self.scale.dim() and vectors.shape[-3:-2] != self.scale.shape[:1]:
            raise BadInput(f"vectors {list(vectors.shape)} for scales of {len(self.scale)} heads")
        largest = torch.finfo(numbers.dtype).max
        encode = _compiled(vectors.shape, vectors.dtype) if self.fused else _encode_by_rows
        encode(numbers, vectors.detach(), self._inverse.to(vectors.device), largest)

    def decode(self, kept: dict[str, torch.Tensor]) -> torch.Tensor:
        return kept[""].float() * self.scale.to(kept[""].device)


def _encode(
    numbers: torch.Tensor, vectors: torch.Tensor, inverse: torch.Tensor, largest: float
) -> None:
    # Clamped: torch 2.13 saturates in its cast, and no version promises to.
    numbers.copy_((vectors.float() * inverse).clamp(-largest, largest))


def _encode_by_rows(
    numbers: torch.Tensor, vectors: torch.Tensor, inverse: torch.Tensor, largest: float
) -> None:
    """The same in pieces that stay in the cache from step to step."""
    numbers, vectors = torch.atleast_2d(numbers), torch.atleast_2d(vectors)
    *leading, rows, width = vectors.shape
    step = max(1, _SCRATCH_NUMBERS * torch.get_num_threads() // width)
    scratch = torch.empty(min(rows, step), width, device=vectors.device)
    inverse = inverse.expand(*leading, 1, 1)
    for head in np.ndindex(*leading):
        by_head = inverse[head].squeeze()
        pieces = zip(numbers[head].split(step), vectors[head].split(step), strict=True)
        for target, piece in pieces:  # [step, D]
            wide = scratch[: len(piece)].copy_(piece)
            target.copy_(wide.mul_(by_head).clamp_(-largest, largest))


@lru_cache(maxsize=64)
def _compiled(shape: torch.Size, dtype: torch.dtype) -> Callable[..., None]:
    """`_encode` in one pass. Its code object is its own: torch counts recompilations of each, and
    beyond a limit refuses."""
    if not any(shutil.which(compiler) for compiler in ("g++", "clang++", "c++")):
        raise CannotRunHere(
            "fused encoding needs a C++ compiler, and there is none on the PATH; "
            "leave out fused=True: the bits are the same"
        )
    code = _encode.__code__.replace(co_name=f"_encode_{next(_compilations)}")
    alone = FunctionType(code, _encode.__globals__)
    return torch.compile(alone, fullgraph=True, dynamic=False)
