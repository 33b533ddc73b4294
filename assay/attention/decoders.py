"""Decode kernels, loaded by name, and the one that `auto` means for a cache here.

`auto` is what was measured to be the fastest on this machine (thresholds.py). Where nothing was
measured it is the kernel that reads the layout as it is kept, on a GPU; elsewhere, and for keys and
values that are kept whole (but of a single kv head, whose keys torch's kernels do not divide), it
is torch's own attention, over what is decoded whole before.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import torch

from assay import plugins
from assay.attention.contract import switch
from assay.attention.decode._declared import accepted
from assay.attention.thresholds import measured_core
from assay.errors import BadInput

KIND = "decode"
AUTO = "auto"
TORCH = "torch"  # no kernel: torch's own attention, over what is decoded whole before
ANY = "any"  # layout of files that read all with keys and values
DENSE = "dense"
MOST_NEW = 16  # tokens that kernels are made for
_LIKE_TORCH = ("sdpa", "dequantised")  # files that do what TORCH means


@dataclass(frozen=True, kw_only=True)
class DecodeKernel:
    """A file of decode/, loaded. `supports(head_dim, dtype, device)` gives the reason why not."""

    name: str
    layout: str
    dequantises: bool
    decode: Callable[..., Any]
    supports: Callable[..., str | None]
    accepts: frozenset[str]
    deterministic: bool
    kernels: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class DecodeSizes:
    """Sizes that a choice depends on. `head_dim` of a latent is the width of its row."""

    heads: int
    kv_heads: int
    head_dim: int
    dtype: str
    device: str  # type of the device: cpu or cuda
    batch: int
    keys: int

    @classmethod
    def of(cls, q: torch.Tensor, kv_heads: int, keys: int) -> "DecodeSizes":
        return cls(
            heads=q.shape[1], kv_heads=kv_heads, head_dim=q.shape[3],
            dtype=str(q.dtype).removeprefix("torch."), device=q.device.type, batch=q.shape[0],
            keys=keys,
        )  # fmt: skip


@cache
def load(name: str, folders: tuple[Path, ...] = ()) -> DecodeKernel:
    """The decode kernel called `name`, or in the file `name`; imports its framework."""
    plugin = plugins.find(KIND, name, folders)
    if plugin.missing:
        absent = ", ".join(plugin.missing)
        raise BadInput(
            f"decode/{plugin.name} needs {absent}: {plugins.how_to_install(plugin.missing)}"
        )
    module = plugins.load(plugin)
    if not callable(module.decode):
        raise BadInput(f"{plugin.path}: decode is a {type(module.decode).__name__}, not a function")
    return DecodeKernel(
        name=plugin.name,
        layout=plugin.literals["LAYOUT"],
        dequantises=plugin.literals["DEQUANTISES"],
        decode=module.decode,
        supports=getattr(module, "supports", lambda **_: None),
        accepts=accepted(plugin),
        deterministic=switch(
            "DETERMINISTIC", plugin.literals["DETERMINISTIC"], place=str(plugin.path)
        ),
        kernels=plugin.literals["KERNELS"],
    )


def named(decoder: str) -> str:
    """The name of a decoder as decode/NAME and LAYOUT:NAME write it too; refuses unknown ones."""
    name = decoder.removeprefix(f"{KIND}/").rpartition(":")[2]
    if name not in (AUTO, TORCH):
        plugins.find(KIND, name)
    return name


@cache
def readers(layout: str) -> tuple[str, ...]:
    """Files that read a layout and whose packages are installed here, `dequantised` last."""
    known = plugins.listing(KIND)
    named = [n for n, p in known.items() if p.literals["LAYOUT"] == layout and not p.missing]
    return (*named, *(n for n, p in known.items() if p.literals["LAYOUT"] == ANY))


def for_step(
    layout: str, sizes: DecodeSizes, *, new: int, name: str, by_lengths: bool
) -> DecodeKernel | None:
    """The kernel for `new` tokens behind a cache, or None, as `choose` gives it; by `auto` none for
    many. A step `by_lengths` is given whole buffers, of which only kernels read what counts: raises
    BadInput where there is none."""
    if by_lengths and name == AUTO:
        name = layout
    if new > MOST_NEW and name == AUTO:
        return None
    kernel = choose(layout, sizes, name=name)
    if kernel is None and by_lengths:
        raise BadInput(f"a step that is replayed reads {layout} by a kernel, not by {name}: {AUTO}")
    return kernel


@lru_cache(maxsize=4096)  # a cache grows by a key with every step
def choose(layout: str, sizes: DecodeSizes, *, name: str = AUTO) -> DecodeKernel | None:
    """The decoder that `name` means for a layout and these sizes; None where a caller does best
    with torch's own attention, over what it decodes whole where it is not. Raises BadInput where a
    name is given that does not read the layout, or not at these sizes."""
    if name == TORCH:
        return None
    usable = [other for other in readers(layout) if not _refusal(load(other), layout, sizes)]
    if name != AUTO:
        chosen = load(name)
        if refusal := _refusal(chosen, layout, sizes):
            others = ", ".join([AUTO, TORCH, *usable])
            raise BadInput(f"decode/{name} cannot be used here: {refusal}; wanted one of {others}")
        return chosen
    measured = measured_core(
        level="kernel", layer=layout, heads=sizes.heads, kv_heads=sizes.kv_heads,
        head_dim=sizes.head_dim, dtype=sizes.dtype, keys=sizes.keys, batch=sizes.batch,
        usable=usable,
    )  # fmt: skip
    if measured is None and sizes.device != "cpu" and (layout != DENSE or sizes.kv_heads == 1):
        measured = layout if layout in usable else None
    return None if measured in (None, *_LIKE_TORCH) else load(measured)


def shared_scratch(device: torch.device) -> Any:
    """Memory that kernels which accept `scratch` share, launch after launch; None without a GPU,
    where nothing is saved by it."""
    if device.type == "cpu" or not plugins.installed("triton"):
        return None
    from assay.attention.decode._split_kv import SharedScratch

    return SharedScratch()


def _refusal(decoder: DecodeKernel, layout: str, sizes: DecodeSizes) -> str | None:
    if decoder.layout not in (layout, ANY):
        return f"it reads {decoder.layout}, not {layout}"
    return decoder.supports(head_dim=sizes.head_dim, dtype=sizes.dtype, device=sizes.device)
