"""Hand-written backward passes of a model, held against differences of their forward passes.

Each torch.autograd.Function in the graph is called again with what the model gave it, in float64,
and its slope along a random direction compared with that of its forward. A function whose output
does not follow its input smoothly, or is its input, has another slope on purpose: rounding with a
straight-through gradient, a gradient that is reversed or scaled.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from torch.autograd.function import BackwardCFunction, Function

_STEP = 1e-6  # of the largest input
_TOLERANCE = 1e-4  # of the gradient's norm
_SMOOTH = 1e-3  # agreement of two steps, of which one is four times the other
_CALLS = 4  # of each function that are compared


@dataclass(frozen=True, kw_only=True)
class WrongSlope:
    """A function whose backward does not give the slope of its forward, in one of its inputs."""

    function: str
    argument: int
    given: float  # along a direction, by backward
    measured: float  # by differences


def functions_in(loss: torch.Tensor) -> set[type[Function]]:
    """Classes of user code in the graph of a loss."""
    return {
        node._forward_cls
        for node in graph_nodes(loss)
        if isinstance(node, BackwardCFunction)
        and node._forward_cls.__module__.split(".")[0] != "torch"
    }


def graph_nodes(loss: torch.Tensor) -> Iterator[Any]:
    """Nodes of an autograd graph, each once."""
    pending, visited = [loss.grad_fn], set()
    while pending:
        node = pending.pop()
        if node is None or node in visited:
            continue
        visited.add(node)
        yield node
        pending += [following for following, _ in node.next_functions]


def wrong_slopes(functions: set[type[Function]], call: Callable[[], Any]) -> Iterator[WrongSlope]:
    """Compare the first calls that `call` makes of each function."""
    calls: list[tuple[type[Function], tuple]] = []
    with ExitStack() as stack:
        for function in functions:
            stack.enter_context(_recorded(function, calls))
        call()
    for function in functions:
        given = [arguments for called, arguments in calls if called is function]
        for arguments in given[:_CALLS]:
            try:
                yield from _compare(function, arguments)
            except (RuntimeError, TypeError, ValueError):  # it does not run in float64
                break


@contextmanager
def _recorded(
    function: type[Function], calls: list[tuple[type[Function], tuple]]
) -> Iterator[None]:
    """Note copies of the arguments of each forward; `apply` may be held elsewhere under a name."""
    original = function.forward

    def forward(*args: Any) -> Any:
        is_context = bool(args) and isinstance(args[0], BackwardCFunction)
        needs = args[0].needs_input_grad if is_context else None
        inputs = args[1:] if is_context else args
        calls.append((function, tuple(_copy(value, i, needs) for i, value in enumerate(inputs))))
        return original(*args)

    with mock.patch.object(function, "forward", staticmethod(forward)):
        yield


def _copy(value: Any, index: int, needs: Sequence[bool] | None) -> Any:
    """A copy in float64, which asks for a gradient where the model needs one."""
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value.clone() if isinstance(value, torch.Tensor) else value
    wanted = value.requires_grad if needs is None else needs[index]
    return value.detach().to(torch.float64, copy=True).requires_grad_(wanted)


def _compare(function: type[Function], arguments: tuple) -> Iterator[WrongSlope]:
    """Wrong slopes of one call; none where it is not smooth, or passes its input on."""
    places = [n for n, a in enumerate(arguments) if getattr(a, "requires_grad", False)]
    outputs = _outputs(function, arguments)
    if any(torch.equal(out, arguments[place]) for out in outputs for place in places):
        return
    generator = torch.Generator().manual_seed(29)
    # Outputs that no gradient flows back from, such as sums kept for later, weigh nothing.
    weights = [out.requires_grad * _noise(out, generator) for out in outputs]
    wanted = [arguments[place] for place in places]
    gradients = torch.autograd.grad(_weighted(outputs, weights), wanted, allow_unused=True)
    wrong: list[WrongSlope] = []
    for place, gradient in zip(places, gradients, strict=True):
        direction = _noise(arguments[place], generator)
        measured, coarser = (
            _measured_slope(function, arguments, place, direction, weights, step)
            for step in (_STEP, 4 * _STEP)
        )
        given = 0.0 if gradient is None else float((gradient * direction).sum())
        norm = max(abs(measured), 0.0 if gradient is None else float(gradient.norm()))
        if abs(measured - coarser) > _SMOOTH * norm or (given and not measured):
            return
        if abs(measured - given) > _TOLERANCE * norm:
            name = function.__name__
            wrong.append(WrongSlope(function=name, argument=place, given=given, measured=measured))
    yield from wrong


def _measured_slope(
    function: type[Function],
    arguments: tuple,
    place: int,
    direction: torch.Tensor,
    weights: list[torch.Tensor],
    step: float,
) -> float:
    """Central difference of the weighted outputs when one argument moves along a direction."""
    value = arguments[place].detach()
    step *= max(float(value.abs().max()), 1e-3)
    sums = []
    for sign in (1, -1):
        moved = (value + sign * step * direction).requires_grad_()
        outputs = _outputs(function, (*arguments[:place], moved, *arguments[place + 1 :]))
        sums.append(float(_weighted(outputs, weights).detach()))
    return (sums[0] - sums[1]) / (2 * step)


def _outputs(function: type[Function], arguments: tuple) -> list[torch.Tensor]:
    """Outputs of real numbers, of a call with copies: a function may write into its inputs."""
    copies = [v.clone() if isinstance(v, torch.Tensor) else v for v in arguments]
    outputs = function.apply(*copies)
    outputs = outputs if isinstance(outputs, tuple | list) else (outputs,)
    return [o for o in outputs if isinstance(o, torch.Tensor) and o.is_floating_point()]


def _weighted(outputs: list[torch.Tensor], weights: list[torch.Tensor]) -> torch.Tensor:
    return sum((out * w).sum() for out, w in zip(outputs, weights, strict=True))


def _noise(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(like.shape, generator=generator, dtype=torch.float64)
