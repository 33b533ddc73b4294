"""A call leaves nothing behind: not other tokens, a backward pass, eval(), or weights of before.

Catches context that a block stores and reads again at the next call, where it is that of the batch
before and a second backward fails; running statistics; masks and tables kept for one length;
weights merged or rounded for evaluation that outlive an optimizer step, or are merged twice.
"""

from collections.abc import Iterator

import torch
from torch import nn

from assay.correctness.models.examined_model import ExaminedModel
from assay.correctness.models.finding import (
    Comparison,
    Finding,
    compare,
    failed,
    relative_difference,
    requirement,
    summarize,
)
from assay.correctness.models.forward import forward, in_mode
from assay.correctness.models.perturbation import perturbed_model

ORDER = 3
DEBUG = (
    "Look for assignments to self within forward: pass such tensors on as arguments and return "
    "values instead, so that the loop over the blocks owns them. What is worked out from weights "
    "once must be dropped in train(), and eval() must do nothing where it was called before."
)

_NAMED = 3  # buffers that a reason lists
_ROUNDING = 1e-6  # weights may be merged in eval mode and separated again
_STEP, _STEP_SIZE = "an optimizer step", 0.05  # of AdamW, for every element of a weight
_EVENTS = {
    "a call": "train",
    "a second eval()": "eval",
    "a second train()": "train",
    _STEP: "train",
}
_AS_BEFORE = 10.0  # a difference is new where it is so many times the first one
_SAME_TOKENS = "the same tokens give logits that differ by %.2g after other calls, "


def examine(subject: ExaminedModel) -> Finding:
    """Repeat a call after others, of other sizes, with backward passes and decoding."""
    model = subject.decoder.model
    try:
        comparisons = [*_compare(subject), *_compare_over_time(subject)]
    except RuntimeError as error:
        if "backward" not in str(error) and "graph" not in str(error):
            raise
        return failed(f"a second backward pass fails: {str(error).partition('.')[0]}")
    finally:
        model.zero_grad(set_to_none=True)
    success = "the same tokens give the same logits whatever came before"
    return summarize(comparisons, success=success)


def _compare(subject: ExaminedModel) -> Iterator[Comparison]:
    model = subject.decoder.model
    idx, targets = subject.tokens(2, seed=20), subject.tokens(2, seed=21)
    start = _buffers(model)
    with in_mode(model, "eval"):
        evaluated = forward(model, idx).logits
    with in_mode(model, "train", graphs=True):
        first = forward(model, idx, targets)
        first.loss.backward()
        _call_others(subject)
        second = forward(model, idx, targets)
    buffers = _buffers(model)
    with in_mode(model, "eval"):
        if subject.has_cache:
            subject.decode(model, subject.tokens(1, 4, seed=26), past=3)
        if subject.has_user_code:
            yield requirement(
                not torch.equal(forward(model, targets).logits, evaluated),
                "other tokens in as many places give the same logits: those of a call before",
            )
        again = forward(model, idx).logits
    tolerance = min(subject.decoder.same_shape_tolerance, _ROUNDING)
    moved = _changed(start, buffers)
    which = f", which moved the buffer {', '.join(moved[:_NAMED])}" if moved else ""
    for mode, actual, expected in (
        ("train", second.logits, first.logits),
        ("eval", again, evaluated),
    ):
        message = f"{_SAME_TOKENS}in {mode} mode{which}"
        yield compare(actual, expected, tolerance, message, topic=mode)
    after = _buffers(model)
    for name in _changed(buffers, after):
        message = f"calls in eval mode change the buffer {name}"
        yield compare(after[name].double(), buffers[name].double(), 0.0, message)


def _compare_over_time(subject: ExaminedModel) -> Iterator[Comparison]:
    """Repeat eval() and train() and take an optimizer step, with a model of this gate alone."""
    dtype, idx, first = subject.decoder.dtype, subject.tokens(2, seed=20), {}
    perturbed = perturbed_model(subject.make, subject.tokens(2), seed=1, widest=dtype)
    model = perturbed.model
    for event, mode in _EVENTS.items():
        getattr(model, mode)()
        getattr(model, mode)()
        if event == _STEP:
            with torch.enable_grad():
                forward(model, idx, subject.tokens(2, seed=21)).loss.backward()
            torch.optim.AdamW(model.parameters(), lr=_STEP_SIZE).step()
        with in_mode(model, "eval"):
            logits = {"in eval mode": forward(model, idx).logits}
            if subject.has_cache:
                logits["in cached decode"] = subject.decode(model, idx, past=subject.length - 1)
        with in_mode(model, "train"):
            logits["in train mode"] = forward(model, idx).logits
        if event == _STEP or not first:
            expected = logits["in train mode"]
        for where, actual in logits.items() if expected.isfinite().all() else ():
            difference = relative_difference(actual, expected[:, -actual.shape[1] :])
            before = first.setdefault(where, difference)
            text = f"{difference:.2g} from those in train mode, before it by {before:.2g}"
            same = Comparison(
                difference=difference,
                tolerance=max(perturbed.new_shape_tolerance, _AS_BEFORE * before),
                message=f"after {event} logits {where} differ by {text}",
            )
            yield same
            if not same.holds:
                return


def _call_others(subject: ExaminedModel) -> None:
    """Call with other tokens and sizes, with a backward pass, and without a graph."""
    model, other = subject.decoder.model, subject.tokens(2, seed=24)
    forward(model, other, other).loss.backward()
    with torch.no_grad():
        forward(model, subject.tokens(3, 7, seed=22))


def _buffers(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: buffer.clone() for name, buffer in model.named_buffers()}


def _changed(before: dict[str, torch.Tensor], after: dict[str, torch.Tensor]) -> list[str]:
    """Names of buffers that have changed; a new or longer one is a table."""
    return [
        name
        for name, old in before.items()
        if name in after and after[name].shape == old.shape and not torch.equal(after[name], old)
    ]
