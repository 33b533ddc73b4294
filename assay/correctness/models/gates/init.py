"""Values that a module puts into its weights are still there when the whole model is built.

Catches `self.apply(init)` of a model that overwrites what its parts had set on purpose: orthogonal
codecs became noise with a tenth of their gain, outputs that were to start at zero did not. Also a
start that shrinks with the depth twice, or in projections out of the residual stream.
"""

import re
from collections import defaultdict
from statistics import median

import torch
from torch import nn

from assay.correctness.models.examined_model import ExaminedModel
from assay.correctness.models.finding import Finding, failed, passed

ORDER = 13
DEBUG = (
    "Let the model initialise first and its parts after it, or mark the parts that initialise "
    "themselves and leave them out of apply(). Let the depth scale what is added to the residual "
    "stream, once, and nothing else."
)
UNIT = "tensors overwritten"
_DEPTHS = (4, 8)
# Factors at twice the depth: below the first none, from the others on that of a root, and twice.
_STEADY, _ONCE, _TWICE = 1.1, 1.3, 1.75


def examine(subject: ExaminedModel) -> Finding:
    """Record the construction of a model; values may be scaled, or drawn again in the same way."""
    constructed = subject.constructed
    if constructed.unfilled:
        return failed(f"{', '.join(constructed.unfilled[:4])}: memory that nothing was put into")
    if lost := constructed.overwritten:
        names = "; ".join(f"{name}, which {owner}" for name, owner in list(lost.items())[:3])
        more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
        return failed(f"overwritten: {names}{more}", value=len(lost), unit=UNIT)
    if subject.has_user_code and (fault := _scaled_by_depth(subject)):
        return failed(fault)
    reason = f"what parts set in {constructed.deliberate_count} tensors is still there"
    return passed(reason, value=0.0, unit=UNIT)


def _scaled_by_depth(subject: ExaminedModel) -> str | None:
    """A start that depth shrinks twice, or in the wrong place, in words.

    GPT-2 divides the start of what is added to the residual stream by the root of twice the layers.
    Rules that divide by the layers themselves begin far above the spread of the other weights.
    """
    few, many = (_spreads(subject, layers) for layers in _DEPTHS)
    shrunk = {kind: few[kind] / many[kind] for kind in many if kind in few}
    steady = [kind for kind, factor in shrunk.items() if factor < _STEADY]
    usual, width = median([many[kind] for kind in steady] or [0.0]), subject.config.n_embd
    is_single = sum(out == given == width for _, out, given in many) == 1
    added = [name for name, out, given in steady if out == width < given + is_single]
    for (name, out, given), factor in shrunk.items():
        spread = many[name, out, given]
        start = f"{name} starts with a spread of {spread:.2g} in {_DEPTHS[1]} layers"
        if factor > _TWICE and spread * _DEPTHS[1] < usual:
            return f"{start}, {usual:.2g} is usual: scaled down twice by the root of the depth"
        if factor > _ONCE and out > given == width and added:
            return f"{start}: scaled down by the depth, and {added[0]}, which is added, is not"
    return None


def _spreads(subject: ExaminedModel, layers: int) -> dict[tuple[str, int, int], float]:
    """Spreads of the matrices in layers, by name, outputs and inputs; 0 where no linear layer."""
    field = "n_layers" if hasattr(subject.config, "n_layers") else "n_layer"
    model = subject.make(10, **{field: layers})
    linear = {id(m.weight): tuple(m.weight.shape) for m in model.modules() if type(m) is nn.Linear}
    starts: dict[tuple[str, int, int], list[torch.Tensor]] = defaultdict(list)
    for name, weight in model.named_parameters():
        if weight.ndim >= 2 and re.search(r"\d", name):
            kind = (re.sub(r"\d+", "*", name), *linear.get(id(weight), (0, 0)))
            starts[kind].append(weight.detach().flatten())
    spreads = {kind: float(torch.cat(weights).std()) for kind, weights in starts.items()}
    return {kind: spread for kind, spread in spreads.items() if spread}
