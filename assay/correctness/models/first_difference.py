"""The first module that differs between two calls of a model that should agree.

Forward hooks keep what every module was given and returned, in the order in which calls end, so
that the innermost comes first. Where one was given something else already, the fault is in the
module around it, before that call. B sequences, T tokens.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import nn

from assay.correctness.models.finding import relative_difference

_OWN_FORWARD = "the model's own forward"
_GIVEN, _RETURNED = 0, 1


@dataclass(frozen=True, kw_only=True)
class ComparedCall:
    """A call of a model with tokens [B, T], and the part of its outputs that is compared."""

    call: Callable[[], Any]
    shape: tuple[int, int]  # B and T
    sequence: int | None = None  # all where it is None
    first: int = 0  # position, and the one behind the last
    end: int | None = None


class _Passed(NamedTuple):
    """Tensors of real numbers that one call of a module was given, and returned."""

    given: list[torch.Tensor]
    returned: list[torch.Tensor]


def first_difference(
    model: nn.Module, expected: ComparedCall, actual: ComparedCall, *, tolerance: float
) -> str | None:
    """The first module that differs in words; None where none does.

    Modules that only one of the two calls uses are left out, and tensors without tokens.
    """
    reference, trace = _trace(model, expected), _trace(model, actual)

    def differ(call: tuple[str, int], which: int) -> bool:
        pairs = zip(trace[call][which], reference[call][which], strict=False)
        return any(_differ(_parts(a, actual), _parts(e, expected), tolerance) for a, e in pairs)

    common = [call for call in trace if call in reference]
    first = next((call for call in common if differ(call, _RETURNED)), None)
    if first is None:
        return None
    guilty, inner = first, None
    while guilty[0] and differ(guilty, _GIVEN):
        guilty, inner = _around(guilty[0], common), guilty[0]
    name = guilty[0]
    text = f"{name} ({type(model.get_submodule(name)).__name__})" if name else _OWN_FORWARD
    return f"{text}, before its call of {inner.removeprefix(f'{name}.')}" if inner else text


def _around(name: str, calls: list[tuple[str, int]]) -> tuple[str, int]:
    """The first call of the nearest module above another; lists of modules are not called."""
    called = dict(reversed(calls))
    while name:
        name = name.rpartition(".")[0]
        if name in called:
            break
    return name, called.get(name, 0)


def _parts(tensor: torch.Tensor, traced: ComparedCall) -> dict[str, torch.Tensor]:
    """The compared part of a tensor, for each axis that may be that of the tokens."""
    batch, tokens = traced.shape
    sequences = slice(None) if traced.sequence is None else [traced.sequence]
    positions = slice(traced.first, traced.end)
    shape, parts = tensor.shape, {}
    if len(shape) > 1 and shape[0] == batch:
        for axis in (axis for axis in range(1, len(shape)) if shape[axis] == tokens):
            parts[f"axis {axis}"] = tensor.movedim(axis, 1)[sequences, positions]
    if len(shape) > 2 and shape[:2] == (tokens, batch) and batch != tokens:
        parts["tokens first"] = tensor.movedim(0, 1)[sequences, positions]
    if len(shape) > 1 and shape[0] == batch * tokens:
        parts["flat"] = tensor.unflatten(0, (batch, tokens))[sequences, positions]
    return parts


def _differ(
    actual: dict[str, torch.Tensor], expected: dict[str, torch.Tensor], tolerance: float
) -> bool:
    """Return True where every reading that both tensors allow differs: of a square one a reading is
    wrong, and differs for that."""
    common = [
        name for name in actual if name in expected and actual[name].shape == expected[name].shape
    ]
    return bool(common) and all(
        relative_difference(_finite(actual[name]), _finite(expected[name])) > tolerance
        for name in common
    )


def _finite(tensor: torch.Tensor) -> torch.Tensor:
    """Hidden scores are infinite in both."""
    return tensor.double().nan_to_num(nan=1e9, posinf=1e6, neginf=-1e6)


def _trace(model: nn.Module, traced: ComparedCall) -> dict[tuple[str, int], _Passed]:
    """All calls of modules in order, by the path of a module and the number of its call."""
    trace: dict[tuple[str, int], _Passed] = {}
    counts: Counter[str] = Counter()

    def keeping(name: str) -> Callable[..., None]:
        def keep(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            trace[name, counts[name]] = _Passed(_tensors((args, kwargs)), _tensors(output))
            counts[name] += 1

        return keep

    with ExitStack() as stack:
        for name, module in model.named_modules():
            hook = module.register_forward_hook(keeping(name), with_kwargs=True)
            stack.callback(hook.remove)
        traced.call()
    return trace


def _tensors(value: Any) -> list[torch.Tensor]:
    """Copies of all tensors of real numbers in tuples, lists and dicts."""
    if isinstance(value, torch.Tensor):
        return [value.detach().clone()] if value.is_floating_point() else []
    members = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | tuple | list):
        return []
    return [tensor for member in members for tensor in _tensors(member)]
