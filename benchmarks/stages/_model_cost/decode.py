"""The cell `decode`: one token through a cache that is full but for it.

Weights and cache are bfloat16. What is timed is the replay of a CUDA graph, so that the device and
not Python is measured; the same step without a graph is a metric of its own.
"""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch

from _model_cost import kernels, passes, right, rounds, subjects, telling
from _model_cost.outcomes import recorded
from _model_cost.right import Wrong
from _model_cost.subjects import Shape
from _model_cost.work import Machine, Operation, counted
from assay.records.schema import Measurement
from assay.subjects.outcome import Begin

_CHECKED = 2  # sequences


def run(
    names: tuple[str, ...], shape: Shape, machine: Machine, plan: dict[str, Any]
) -> Iterator[Begin | Measurement]:
    """Each subject checked, then all of them side by side for each batch."""
    models: dict[str, Any] = {}
    for name in names:
        yield Begin(name)
        failed: list[Measurement] = []
        with recorded("decode", name, failed):
            model = subjects.made(name, shape).eval()
            low = copy.deepcopy(model).bfloat16()
            few = subjects.tokens(shape, _CHECKED, plan["length"])
            share = right.check_decode(model, low, few)
            models[name] = low
            yield telling.value("decode_of_budget", name, share, "ratio", right.DECODE)
            del model
        yield from failed
    for batch in plan["batches"]:
        yield from _batch(batch, models, shape, machine, plan)


def _batch(
    batch: int,
    models: dict[str, Any],
    shape: Shape,
    machine: Machine,
    plan: dict[str, Any],
) -> Iterator[Begin | Measurement]:
    metric = f"decode_b{batch}"
    idx = subjects.tokens(shape, batch, plan["length"])
    eager: dict[str, Callable] = {}
    graphs: dict[str, Callable] = {}
    work: dict[str, list[Operation]] = {}
    needed: dict[str, int] = {}
    for name, model in models.items():
        yield Begin(name, metric)
        failed: list[Measurement] = []
        with recorded(metric, name, failed):
            cache = passes.filled(model, idx[:, :-1])
            eager[name] = passes.decode(model, cache, idx[:, -1:])
            work[name] = counted(eager[name])
            needed[name] = _weight_bytes(model) + cache.nbytes
            yield _cache_bytes(metric, name, cache, batch)
            graphs[name] = _graph(eager[name], cache, shape.device)
        yield from failed
    how = {"device": shape.device, **plan["how"]}
    yield Begin(subjects.BASELINE, metric)
    samples, source = rounds.device_ms(graphs, **how)
    told = source if shape.device == "cpu" else f"{source}; replays of a CUDA graph"
    timed = {
        name: telling.Timed(samples=ms, work=work[name], needed_bytes=needed[name])
        for name, ms in samples.items()
    }
    yield from telling.measurements(metric, timed, machine, told)
    samples, source = rounds.host_ms(eager, **how)
    yield from telling.eager(metric, samples, source)
    if shape.device != "cpu":
        yield from kernels.measurements(metric, graphs, budget_s=plan["profiled_s"])


def _graph(call: Callable[[], torch.Tensor], cache: Any, device: str) -> Callable[[], torch.Tensor]:
    """The call as a graph that gives the same; on a CPU, which has none, the call itself."""
    if device == "cpu":
        return call
    states = [state.clone() for layer in cache.layers for state in layer.states.values()]
    _restore(cache, states)
    wanted = call().clone()
    replay = passes.captured(call)
    _restore(cache, states)
    off = right.error(replay(), wanted)
    if not off <= right.GRAPH:
        raise Wrong(f"the CUDA graph is off by {off:.2g} from the same step without it")
    return replay


def _restore(cache: Any, states: list[torch.Tensor]) -> None:
    """Put back what a cache keeps of whole sequences, which every step changes."""
    there = [state for layer in cache.layers for state in layer.states.values()]
    for state, before in zip(there, states, strict=True):
        state.copy_(before)


def _cache_bytes(metric: str, name: str, cache: Any, batch: int) -> Measurement:
    source = f"tensors of the cache, {cache.length} tokens of {batch} sequences"
    return telling.value(f"{metric}_cache_bytes", name, cache.nbytes, "B", source)


def _weight_bytes(model: Any) -> int:
    """Of what every token needs: all weights but the position embedding, one row of which is read.

    The token embedding is the head too.
    """
    used = (p for name, p in model.named_parameters() if name != "wpe.weight")
    return sum(parameter.numel() * parameter.element_size() for parameter in used)
