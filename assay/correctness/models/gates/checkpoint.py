"""A trained model's state, stored and loaded into a newly made one, gives the same logits.

Catches state in plain attributes, random tables that are no buffers, and weights that are made
while a model runs: a checkpoint leaves them out, and what is loaded is another model.
"""

import torch
from torch import nn

from assay.correctness.models.finding import Finding, failed, unsupported
from assay.correctness.models.gates._comparison import Comparison, difference, mode, verdict
from assay.correctness.models.model_calls import call
from assay.correctness.models.subject import Subject

ORDER = 13
DEBUG = (
    "Compare the attributes of the two models that are tensors or numbers with state_dict(): what "
    "forward uses and state_dict() lacks belongs into register_buffer or nn.Parameter."
)


def examine(subject: Subject) -> Finding:
    """Through safetensors in memory, into a model of another seed; bit for bit."""
    try:
        from safetensors import torch as safetensors
    except ImportError:
        return unsupported("safetensors is not installed, which checkpoints are stored with")
    trained = subject.training.model
    state = trained.state_dict()
    odd = [name for name, value in state.items() if not isinstance(value, torch.Tensor)]
    if odd:
        return failed(f"state_dict() has what is no tensor and cannot be stored: {', '.join(odd)}")
    # Copies: weights that are tied lie in one place, which the format refuses.
    stored = safetensors.save({name: value.detach().clone() for name, value in state.items()})
    fresh = subject.make(9)
    try:
        fresh.load_state_dict(safetensors.load(stored), strict=True)
    except RuntimeError as error:
        return failed(f"its state does not fit a newly made model: {' '.join(str(error).split())}")
    seen = [_compare(subject, trained, fresh)]
    return verdict(seen, held=f"{len(state)} tensors give the same logits bit for bit in float32")


def _compare(subject: Subject, trained: nn.Module, fresh: nn.Module) -> Comparison:
    idx = subject.tokens(2, seed=27)
    with mode(trained, "eval"), mode(fresh, "eval"):
        right = call(trained, idx).logits
        if subject.foreign:  # what is kept of a first call is kept of this
            call(fresh, subject.tokens(3, 5, seed=28))
        apart = difference(call(fresh, idx).logits, right)
    words = (
        f"after loading, logits differ by {apart:.2g}: some state is not in state_dict(), or is "
        "kept from the first call"
    )
    if not right.isfinite().all():
        words = "nothing can be compared: after a few steps its logits are not finite"
    return Comparison(moved=apart, allowed=0.0, words=words)
