"""A trained model's state, stored and loaded into a newly built one, gives the same logits.

Catches state in plain attributes, random tables that are no buffers, and weights that are made
while a model runs: a checkpoint leaves them out, and the loaded model is another one.
"""

import torch
from torch import nn

from assay.correctness.models.examined_model import ExaminedModel
from assay.correctness.models.finding import (
    Comparison,
    Finding,
    compare,
    failed,
    not_examined,
    summarize,
)
from assay.correctness.models.forward import forward, in_mode

ORDER = 14
DEBUG = (
    "Compare the attributes of the two models that are tensors or numbers with state_dict(): what "
    "forward uses and state_dict() lacks belongs in register_buffer or nn.Parameter."
)


def examine(subject: ExaminedModel) -> Finding:
    """Load the state through safetensors in memory into a model of another seed; bit for bit."""
    try:
        from safetensors import torch as safetensors
    except ImportError:
        return not_examined("safetensors is not installed, which checkpoints are stored with")
    trained = subject.training.model
    state = trained.state_dict()
    odd = [name for name, value in state.items() if not isinstance(value, torch.Tensor)]
    if odd:
        return failed(f"state_dict() holds values that are not tensors: {', '.join(odd)}")
    # Contiguous copies: the format refuses shared memory of tied weights, and transposed ones.
    stored = safetensors.save(
        {
            name: value.detach().clone(memory_format=torch.contiguous_format)
            for name, value in state.items()
        }
    )
    loaded = subject.make(9)
    try:
        loaded.load_state_dict(safetensors.load(stored), strict=True)
    except RuntimeError as error:
        return failed(f"its state does not fit a newly made model: {' '.join(str(error).split())}")
    return summarize(
        [_compare(subject, trained, loaded)],
        success=f"{len(state)} tensors give the same logits bit for bit in float32",
    )


def _compare(subject: ExaminedModel, trained: nn.Module, loaded: nn.Module) -> Comparison:
    idx = subject.tokens(2, seed=27)
    with in_mode(trained, "eval"), in_mode(loaded, "eval"):
        expected = forward(trained, idx).logits
        if subject.has_user_code:  # so that tables kept from a first call are of other tokens
            forward(loaded, subject.tokens(3, 5, seed=28))
        actual = forward(loaded, idx).logits
    if not expected.isfinite().all():
        message = "nothing can be compared: after a few steps its logits are not finite"
    else:
        message = (
            "after loading, logits differ by %.2g: some state is not in state_dict(), "
            "or is kept from the first call"
        )
    return compare(actual, expected, 0.0, message)
