"""Work of a torch call, counted in torch's dispatcher: floating-point operations, and bytes read
and written.

Each operator reads its inputs and writes its outputs once; views cost nothing, and a lookup reads
what it gives. Products and attention count as in torch.utils.flop_counter, except that a causal
attention does only the part that it may see. What an operator does inside stays inside.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from assay.frameworks.torch.dispatch import OperatorWatch


@dataclass(frozen=True, kw_only=True)
class CountedOperator:
    """One operator that ran."""

    name: str
    flops: int
    bytes: int


def counted(call: Callable[[], Any]) -> list[CountedOperator]:
    """Return the operators of one call, also of its backward pass, without those that are free."""
    with _Counter() as counter:
        call()
    return counter.operators


class _Counter(OperatorWatch):
    def __init__(self) -> None:
        super().__init__()
        self.operators: list[CountedOperator] = []

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = function(*args, **kwargs)
        name = function.overloadpacket.__name__
        if not _is_free(function, name, (args, kwargs), result):
            arguments = dict(zip((a.name for a in function._schema.arguments), args, strict=False))
            arguments |= kwargs
            self.operators.append(
                CountedOperator(
                    name=name,
                    flops=_flops(function, args, kwargs, arguments, result),
                    bytes=_read(name, arguments, result) + _bytes(result),
                )
            )
        return result


def _is_free(function: Any, name: str, arguments: Any, result: Any) -> bool:
    """True where no byte moves: a view, memory that is only reserved, a property of a tensor."""
    outputs = _tensors(result)
    if not outputs or name.removeprefix("new_").startswith("empty"):
        return True
    if function._schema.is_mutable:
        return False
    inputs = {tensor.untyped_storage()._cdata for tensor in _tensors(arguments)}
    return all(tensor.untyped_storage()._cdata in inputs for tensor in outputs)


# Operators that do not read one of their arguments, or only as much of it as they return.
_WRITTEN = ("copy_", "fill_", "zero_", "normal_", "uniform_", "index_put_", "scatter_")
_LOOKUPS = {"embedding": "weight", "index_select": "self", "index": "self", "gather": "self"}
_BARELY_READ = {"nll_loss_forward": "self", "nll_loss_backward": "self"}


def _read(name: str, arguments: dict[str, Any], result: Any) -> int:
    skipped = {"out", _BARELY_READ.get(name), "self" if name in _WRITTEN else None}
    lookup = _LOOKUPS.get(name)
    read = _bytes([value for key, value in arguments.items() if key not in skipped | {lookup}])
    return read + (_bytes(result) if lookup else 0)


def _flops(function: Any, args: tuple, kwargs: dict, arguments: dict[str, Any], result: Any) -> int:
    packet = function.overloadpacket
    if "attention" in packet.__name__ and "query" in arguments:
        return _attention_flops(arguments, backward="backward" in packet.__name__)
    if packet in flop_registry:
        return int(flop_registry[packet](*args, **kwargs, out_val=result))
    return 0


def _attention_flops(arguments: dict[str, Any], *, backward: bool) -> int:
    """FLOPs of two products forward, of five backward: one of these recomputes the scores."""
    (batch, heads, new, width), keys = arguments["query"].shape, arguments["key"].shape[-2]
    value_width = arguments["value"].shape[-1]
    per_score = 3 * width + 2 * value_width if backward else width + value_width
    scores = new * keys
    if arguments.get("is_causal"):
        scores = sum(min(row + 1, keys) for row in range(new))
    return 2 * batch * heads * scores * per_score


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _bytes(tree: Any) -> int:
    """Bytes in memory; an expanded dimension (stride 0) counts once."""
    return sum(
        prod(n for n, stride in zip(t.shape, t.stride(), strict=True) if stride) * t.element_size()
        for t in {id(t): t for t in _tensors(tree)}.values()
        if t.numel()
    )
