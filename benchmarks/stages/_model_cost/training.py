"""The cell `training`: forward, and forward with backward, of whole batches.

Weights are float32 and autocast computes in bfloat16, as a trainer does it that keeps its weights
exact; so the conversions of weights are part of every pass, in the baseline and in the others. What
is timed is the replay of a CUDA graph, so that the device and not Python is measured; the same pass
without a graph is a metric of its own.
"""

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

PASSES: dict[str, Callable[..., Callable[[], Any]]] = {
    "forward": passes.forward,
    "training": passes.training,
}
_CHECKED = 2  # sequences: the check's float32 passes are long


def run(
    names: tuple[str, ...], shape: Shape, machine: Machine, plan: dict[str, Any]
) -> Iterator[Begin | Measurement]:
    """Each subject checked and counted, then all of them side by side."""
    idx = subjects.tokens(shape, plan["batch"], plan["length"] + 1)
    eager: dict[str, dict[str, Callable]] = {metric: {} for metric in PASSES}
    graphs: dict[str, dict[str, Callable]] = {metric: {} for metric in PASSES}
    pool = None if shape.device == "cpu" else torch.cuda.graph_pool_handle()
    work: dict[tuple[str, str], list[Operation]] = {}
    for name in names:
        yield Begin(name)
        failed: list[Measurement] = []
        with recorded("training", name, failed):
            model = subjects.made(name, shape)
            few = idx[:_CHECKED]
            share = right.check_loss(model, few, passes.forward(model, few))
            passes.training(model, few, keep=True)()
            right.check_gradients(model)
            model.zero_grad(set_to_none=True)
            mine = {metric: make(model, idx) for metric, make in PASSES.items()}
            for metric, call in mine.items():
                work[metric, name] = counted(call)
            for metric, call in mine.items():
                replay = _graph(call, pool, shape.device)
                eager[metric][name], graphs[metric][name] = call, replay
            yield telling.value("loss_of_budget", name, share, "ratio", right.LOSS)
            yield telling.value("parameters", name, _count(model), "count", "of the model")
        yield from failed
    for metric in PASSES:
        yield Begin(subjects.BASELINE, metric)
        how = {"device": shape.device, **plan["how"]}
        samples, source = rounds.device_ms(graphs[metric], **how)
        told = source if shape.device == "cpu" else f"{source}; replays of a CUDA graph"
        timed = {
            name: telling.Timed(samples=ms, work=work[metric, name]) for name, ms in samples.items()
        }
        yield from telling.measurements(metric, timed, machine, told)
        samples, source = rounds.host_ms(eager[metric], **how)
        yield from telling.eager(metric, samples, source)
        if shape.device != "cpu":
            yield from kernels.measurements(metric, graphs[metric], budget_s=plan["profiled_s"])


def _graph(call: Callable[[], torch.Tensor], pool: Any, device: str) -> Callable[[], torch.Tensor]:
    """The pass as a graph that gives the same loss; on a CPU, which has none, the pass itself."""
    if device == "cpu":
        return call
    wanted = float(call())
    replay = passes.captured(call, pool)
    off = abs(float(replay()) - wanted) / abs(wanted)
    if not off <= right.GRAPH:
        raise Wrong(
            f"the CUDA graph's loss is off by {off:.2g} from that of the same pass without it"
        )
    return replay


def _count(model: Any) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
