"""A cache in pages that lie in any order, as servers keep it: what no sequence wrote is NaN."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from assay.subjects.decode.cache import NOTHING

if TYPE_CHECKING:
    import torch

    from assay.subjects.decode import DecodeSubject

_SPARE = 2  # pages that no sequence has


def shuffled(subject: "DecodeSubject", *, size: int) -> "DecodeSubject":
    """The same step over pages of `size` tokens, [pages, kv heads, size, width]."""
    import torch

    spec, lengths = subject.workload.spec, subject.cache.lengths
    if lengths is None:
        lengths = torch.full((spec.batch,), spec.key_length, dtype=torch.int32)
    lengths = lengths.to(subject.device)
    most = -(-spec.key_length // size)
    generator = np.random.default_rng((spec.seed, size))
    order = generator.permutation(spec.batch * most + _SPARE)[: spec.batch * most]
    tables = torch.from_numpy(order.reshape(spec.batch, most).astype(np.int32)).to(subject.device)
    q, *tensors = subject.inputs
    pools = [_pool(tensor, tables, lengths.tolist(), size) for tensor in tensors]
    options = subject.options | {"lengths": lengths, "pages": tables}
    return replace(subject, inputs=(q, *pools), options=options)


def _pool(
    tensor: "torch.Tensor", tables: "torch.Tensor", lengths: list[int], size: int
) -> "torch.Tensor":
    """Pages of a stream whose second to last axis is tokens; no others than a sequence has."""
    import torch

    bits = tensor.view(torch.uint8)  # [B, (heads,) S, bytes]
    shape = (tables.numel() + _SPARE, *bits.shape[1:-2], size, bits.shape[-1])
    pool = torch.full(shape, NOTHING, dtype=torch.uint8, device=bits.device)
    for sequence, length in enumerate(lengths):
        for place, page in enumerate(tables[sequence].tolist()):
            end = min(size, length - place * size)
            if end > 0:
                start = place * size
                pool[page, ..., :end, :] = bits[sequence, ..., start : start + end, :]
    return pool.view(tensor.dtype)
