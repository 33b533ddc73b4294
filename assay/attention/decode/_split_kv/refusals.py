"""Arguments that the decode kernels cannot read, refused in words before a launch."""

from collections.abc import Mapping

import torch
import triton
import triton.language as tl

from assay.attention import interpreted
from assay.errors import BadInput

GROUP = 32  # numbers that share a scale in whole numbers of 8 and 4 bits
GROUPED = {"int8", "int4"}
STORED = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "int8": torch.int8,
          "int4": torch.uint8}  # fmt: skip
WIDEST_ROW, WIDEST_LATENT = 256, 1024


def unreadable(forms: set[str], width: int, *, dtype: str, device: str, widest: int) -> str | None:
    """The reason why vectors of `width` numbers in some formats cannot be read, or None."""
    if device == "cpu" and dtype == interpreted.WRONG_DTYPE:
        return f"{dtype} without a GPU: {interpreted.REFUSAL}"
    if not 16 <= width <= widest or width % 4:
        return f"vectors of {width} numbers; wanted 16 to {widest}, a multiple of 4"
    if forms & GROUPED and (width % GROUP or (width // GROUP) & (width // GROUP - 1)):
        return f"groups of {GROUP} of {width} numbers; wanted 32, 64, 128 or 256"
    return None


def refuse(
    q: torch.Tensor,
    stored: Mapping[str, tuple[torch.Tensor, str]],
    *,
    scale: float,
    lengths: torch.Tensor | None,
    pages: torch.Tensor | None,
    widest: int = WIDEST_ROW,
) -> None:
    """Refuse what the kernels cannot read, in words."""
    width, forms = q.shape[-1], {form for _, form in stored.values()}
    dtype = str(q.dtype).removeprefix("torch.")
    if reason := unreadable(forms, width, dtype=dtype, device=q.device.type, widest=widest):
        raise BadInput(reason)
    if q.device.type == "cpu" and isinstance(tl.max, triton.runtime.JITFunction):
        raise BadInput(
            "tensors are on a CPU, and Triton was imported before anything could say that it is to "
            "interpret; set TRITON_INTERPRET=1 in the environment"
        )
    if not scale > 0:
        raise BadInput(f"scale is {scale}; wanted a number above 0")
    for name, (tensor, form) in stored.items():
        wanted = (STORED.get(form, q.dtype), width // 2 if form == "int4" else width)
        if (tensor.dtype, tensor.shape[-1]) != wanted:
            raise BadInput(
                f"{name} is {tensor.dtype} of width {tensor.shape[-1]}; wanted {wanted[0]} of "
                f"width {wanted[1]} for queries of {q.dtype} and width {width}"
            )
        if tensor.stride(-1) != 1 or (form != "whole" and any(s % 2 for s in tensor.stride()[:-1])):
            raise BadInput(f"{name} has strides {tensor.stride()}; wanted rows without gaps")
        if q.shape[1] % tensor.shape[1]:
            raise BadInput(
                f"{q.shape[1]} query heads for {tensor.shape[1]} kv heads; wanted a multiple"
            )
        if pages is None and tensor.shape[0] != q.shape[0]:
            raise BadInput(f"{name} has {tensor.shape[0]} sequences, queries {q.shape[0]}")
    if q.stride(-1) != 1:
        raise BadInput(f"queries have strides {q.stride()}; wanted vectors without gaps")
    for what, tensor, dims in (("lengths", lengths, 1), ("pages", pages, 2)):
        if tensor is None:
            continue
        if (tensor.dtype, tensor.dim(), tensor.shape[0]) != (torch.int32, dims, q.shape[0]):
            raise BadInput(
                f"{what} is {tensor.dtype} {list(tensor.shape)}; wanted int32 with {q.shape[0]} "
                "sequences first"
            )
    if pages is not None and lengths is None:
        raise BadInput("pages are given without lengths, which say how much of them is written")


def numbers_of(
    streams: Mapping[str, torch.Tensor], forms: Mapping[str, str], *, width: int
) -> dict[str, tuple[torch.Tensor, str]]:
    """The numbers of keys and values with their formats; refuses streams without their scales."""
    for name, form in forms.items():
        wanted = {name: None}
        if form != "whole":
            wanted[f"{name}_scale"] = width // GROUP if form in GROUPED else 1
        if absent := sorted(wanted.keys() - streams.keys()):
            raise BadInput(f"there is no stream {', '.join(absent)}; given are {sorted(streams)}")
        scale = streams.get(f"{name}_scale") if form != "whole" else None
        shape = (*streams[name].shape[:-1], wanted.get(f"{name}_scale"))
        if scale is not None and (scale.dtype, tuple(scale.shape)) != (torch.bfloat16, shape):
            raise BadInput(
                f"{name}_scale is {scale.dtype} {list(scale.shape)}; wanted bfloat16 {list(shape)}"
            )
    return {name: (streams[name], form) for name, form in forms.items()}
