"""Launches of the decode kernels: the shapes that follow from arguments, outputs and scratch."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl

from assay.attention.decode._split_kv.configs import (
    DecodeConfig,
    choose,
    choose_latent,
    choose_splits,
)
from assay.attention.decode._split_kv.kernel import decode_kernel
from assay.attention.decode._split_kv.latent import latent_kernel
from assay.attention.decode._split_kv.refusals import (
    GROUP,
    GROUPED,
    WIDEST_LATENT,
    numbers_of,
    refuse,
)
from assay.attention.decode._split_kv.unpack import PACK
from assay.errors import BadInput

_ROWS = 64  # of queries in a program, at most


@dataclass(frozen=True, kw_only=True)
class Scratch:
    """Memory for parts that are not merged yet. `arrivals` is zero between launches, so that one
    Scratch serves any number of them, one after another."""

    partial: torch.Tensor  # float32
    partial_lse: torch.Tensor  # float32
    arrivals: torch.Tensor  # int32

    @classmethod
    def make(cls, *, blocks: int, splits: int, rows: int, width: int, device: Any) -> "Scratch":
        """Room for `blocks` blocks of rows, each in `splits` parts."""
        parts = blocks * splits * rows
        return cls(
            partial=torch.empty(parts * width, dtype=torch.float32, device=device),
            partial_lse=torch.empty(parts, dtype=torch.float32, device=device),
            arrivals=torch.zeros(blocks, dtype=torch.int32, device=device),
        )


class SharedScratch:
    """Scratch that grows to what the largest launch needs, for launches one after another."""

    def __init__(self) -> None:
        self._held: Scratch | None = None
        self._size = dict.fromkeys(("blocks", "parts", "numbers"), 0)

    def fit(self, *, blocks: int, splits: int, rows: int, width: int, device: Any) -> Scratch:
        parts = blocks * splits * rows
        wanted = {"blocks": blocks, "parts": parts, "numbers": parts * width}
        if self._held is None or any(wanted[name] > self._size[name] for name in wanted):
            self._size = {name: max(wanted[name], self._size[name]) for name in wanted}
            self._held = Scratch(
                partial=torch.empty(self._size["numbers"], dtype=torch.float32, device=device),
                partial_lse=torch.empty(self._size["parts"], dtype=torch.float32, device=device),
                arrivals=torch.zeros(self._size["blocks"], dtype=torch.int32, device=device),
            )
        return self._held


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One launch, ready to run: the same for a GPU, the interpreter and compiling ahead."""

    kernel: Any
    grid: tuple[int, int]
    arguments: tuple[Any, ...]
    constants: dict[str, Any]
    config: DecodeConfig
    splits: int
    out: torch.Tensor
    lse: torch.Tensor

    def run(self) -> None:
        self.kernel[self.grid](
            *self.arguments,
            **self.constants,
            num_warps=self.config.warps,
            num_stages=self.config.stages,
            maxnreg=self.config.registers,
        )


def plan(
    q: torch.Tensor,
    streams: Mapping[str, torch.Tensor],
    *,
    keys: str,
    values: str,
    scale: float,
    lengths: torch.Tensor | None = None,
    pages: torch.Tensor | None = None,
    config: DecodeConfig | None = None,
    splits: int | None = None,
    scratch: Scratch | SharedScratch | None = None,
    processors: int | None = None,
) -> Launch:
    """The launch for q [B, H, T, D] and streams k, v (and k_scale, v_scale) in two formats."""
    stored = numbers_of(streams, {"k": keys, "v": values}, width=q.shape[-1])
    refuse(q, stored, scale=scale, lengths=lengths, pages=pages)
    batch, heads, new, dim = q.shape
    kv_heads, page = streams["k"].shape[1], streams["k"].shape[2]
    group, slots = heads // kv_heads, batch * kv_heads
    groups = dim // GROUP if GROUPED & {keys, values} else 1
    rows = _rows(new * group, groups=groups, whole_side=not {keys, values} <= GROUPED)
    blocks = triton.cdiv(new * group, rows)
    length = page * (pages.shape[1] if pages is not None else 1)
    config = config or choose(
        keys=keys, values=values, head_dim=dim, element_bytes=q.element_size(), slots=slots,
        columns=rows * groups,
    )  # fmt: skip
    splits = splits or choose_splits(
        config, slots=slots * blocks, keys=length, processors=processors or _processors(q.device)
    )
    out, lse, scratch = _outputs(q, dim, slots * blocks, splits, rows, scratch)
    words, scales = {}, {}
    for name, (tensor, form) in stored.items():
        words[name] = tensor if PACK[form] == 1 else tensor.view(torch.int16)
        scales[name] = None if form == "whole" else streams[f"{name}_scale"].view(torch.int16)
    arguments = (
        q, words["k"], scales["k"], words["v"], scales["v"], out, lse, scratch.partial,
        scratch.partial_lse, scratch.arrivals, lengths, pages, scale, length, new, kv_heads, splits,
        0 if pages is None else pages.stride(0), *q.stride()[:3], *_strides(words["k"]),
        *_strides(scales["k"]), *_strides(words["v"]), *_strides(scales["v"]),
    )  # fmt: skip
    constants = {
        "K_FORMAT": keys,
        "V_FORMAT": values,
        "K_PACK": PACK[keys],
        "V_PACK": PACK[values],
        "GROUP": GROUP,
        "GROUPS": groups,
        "HEADS": group,
        "HEAD_DIM": dim,
        "PAGE": 0 if pages is None else page,
        "SPLIT": splits > 1,
        "ROWS": rows,
        "BLOCK_N": config.block_n,
        "K_WORDS": max(16, triton.next_power_of_2(dim // PACK[keys])),
        "V_WORDS": max(16, triton.next_power_of_2(dim // PACK[values])),
        **_merging(rows, dim, config, splits),
        "PLAIN": not _is_nvidia(q) or q.dtype == torch.float32,
        "NUMBERS": tl.float32 if q.dtype == torch.float32 else tl.float16,
        "EXACT": "ieee",
    }
    return Launch(
        kernel=decode_kernel, grid=(slots * splits, blocks), arguments=arguments,
        constants=constants, config=config, splits=splits, out=out, lse=lse,
    )  # fmt: skip


def plan_latent(
    q: torch.Tensor,
    latents: torch.Tensor,
    *,
    value_width: int,
    scale: float,
    lengths: torch.Tensor | None = None,
    pages: torch.Tensor | None = None,
    config: DecodeConfig | None = None,
    splits: int | None = None,
    scratch: Scratch | SharedScratch | None = None,
    processors: int | None = None,
) -> Launch:
    """The launch for q [B, H, T, W] and rows of latents [B, keys, W], or pages [pages, size, W]."""
    refuse(q, {"latent": (latents[:, None], "whole")}, scale=scale, lengths=lengths, pages=pages,
            widest=WIDEST_LATENT)  # fmt: skip
    batch, heads, new, width = q.shape
    if not 16 <= value_width <= width:
        raise BadInput(f"{value_width} numbers of rows of {width} are values; wanted 16 to {width}")
    rows = min(_ROWS, max(16, triton.next_power_of_2(new * heads)))
    blocks = triton.cdiv(new * heads, rows)
    page = latents.shape[1]
    length = page * (pages.shape[1] if pages is not None else 1)
    config = config or choose_latent(width=value_width, element_bytes=q.element_size(), rows=rows)
    splits = splits or choose_splits(
        config, slots=batch * blocks, keys=length, processors=processors or _processors(q.device)
    )
    out, lse, scratch = _outputs(q, value_width, batch * blocks, splits, rows, scratch)
    arguments = (
        q, latents, out, lse, scratch.partial, scratch.partial_lse, scratch.arrivals, lengths,
        pages, scale, length, new, splits, 0 if pages is None else pages.stride(0),
        *q.stride()[:3], *latents.stride()[:2],
    )  # fmt: skip
    constants = {
        "HEADS": heads,
        "WIDTH": value_width,
        "ROPE": width - value_width,
        "PAGE": 0 if pages is None else page,
        "SPLIT": splits > 1,
        "BLOCK_M": rows,
        "BLOCK_N": config.block_n,
        "BLOCK_R": triton.next_power_of_2(value_width),
        "BLOCK_ROPE": triton.next_power_of_2(max(16, width - value_width)),
        **_merging(rows, value_width, config, splits),
        "EXACT": "ieee",
    }
    return Launch(
        kernel=latent_kernel, grid=(batch * splits, blocks), arguments=arguments,
        constants=constants, config=config, splits=splits, out=out, lse=lse,
    )  # fmt: skip


def _rows(queries: int, *, groups: int, whole_side: bool) -> int:
    """Queries of a program: a power of two, and 8 columns at least in every product."""
    least = 8 if whole_side else max(1, 8 // groups)
    return max(least, min(_ROWS // groups, triton.next_power_of_2(queries)))


def _outputs(
    q: torch.Tensor,
    width: int,
    blocks: int,
    splits: int,
    rows: int,
    scratch: Scratch | SharedScratch | None,
) -> tuple[torch.Tensor, torch.Tensor, Scratch]:
    out = torch.empty(*q.shape[:3], width, dtype=q.dtype, device=q.device)
    lse = torch.empty(*q.shape[:3], dtype=torch.float32, device=q.device)
    size = {"blocks": blocks, "splits": splits, "rows": rows, "width": width}
    if splits == 1:
        size = dict.fromkeys(size, 1)
    if scratch is None:
        scratch = Scratch.make(**size, device=q.device)
    if isinstance(scratch, SharedScratch):
        scratch = scratch.fit(**size, device=q.device)
    parts = size["blocks"] * size["splits"] * size["rows"]
    room = (scratch.partial.numel(), scratch.partial_lse.numel(), scratch.arrivals.numel())
    wanted = (parts * size["width"], parts, size["blocks"])
    if any(has < wants for has, wants in zip(room, wanted, strict=True)):
        raise BadInput(f"scratch has room for {room}; wanted {wanted}: Scratch.make(**{size})")
    return out, lse, scratch


def _merging(rows: int, width: int, config: DecodeConfig, splits: int) -> dict[str, int]:
    """Columns of the output that a program merges at once, 32 numbers of a thread or fewer, and
    from how many parts it loads them at once: 64 numbers of a thread."""
    threads = 32 * config.warps
    columns = min(triton.next_power_of_2(width), max(16, 32 * threads // rows))
    at_once = max(1, 64 * threads // (rows * columns))
    return {"COLUMNS": columns, "AT_ONCE": min(8, at_once, triton.next_power_of_2(splits))}


def _strides(tensor: torch.Tensor | None) -> tuple[int, int, int]:
    return (0, 0, 0) if tensor is None else tensor.stride()[:3]


def _is_nvidia(q: torch.Tensor) -> bool:
    return q.is_cuda and torch.version.hip is None


@cache
def _processors(device: torch.device) -> int:
    """Multiprocessors of a GPU; 1 where there is none."""
    if device.type != "cuda":
        return 1
    return torch.cuda.get_device_properties(device).multi_processor_count
