"""In bfloat16 a model computes the function that it computes in float32 with the same weights.

Catches branches on a dtype: a path for half precision that lacks the mask or the scale of the
other one, and that no run in float32 ever takes.
"""

import torch
from torch import nn

from assay.correctness.models.examined_model import ExaminedModel
from assay.correctness.models.finding import Finding, failed, not_examined, passed
from assay.correctness.models.forward import forward, in_mode
from assay.correctness.models.perturbation import perturb, to_dtype

ORDER = 12
COMPARES_CALLS = True
DEBUG = (
    "Search the model for comparisons of a dtype, for .half() and .bfloat16(), and for kernels "
    "that are chosen by dtype; call both paths with the same numbers and compare layer by layer."
)
UNIT = "of the logits, root mean square"
# Four layers of sound models differ by 0.03 at most, where a token changes its expert the most.
_TOLERANCE = 0.06
_SEEDS = (40, 41, 42)  # of noise on the weights; a branch shows with each, an expert's change not


def examine(subject: ExaminedModel) -> Finding:
    """Round the weights of a noisy model to bfloat16, and compute with them in both dtypes."""
    modes = ("eval", "train") if subject.has_user_code else ("eval",)
    largest = 0.0
    for mode in modes:
        differences = []
        for seed in _SEEDS:
            model = _noisy_model(subject, seed)
            try:
                rounded = _logits(subject, to_dtype(model, torch.bfloat16), mode)
            except Exception as error:
                return not_examined(f"does not run in bfloat16: {type(error).__name__}: {error}")
            expected = _logits(subject, to_dtype(model, torch.float32), mode)
            differences.append(float((rounded - expected).norm() / expected.norm()))
            if differences[-1] <= _TOLERANCE:
                break
        else:
            least = min(differences)
            reason = f"logits in bfloat16 differ by {least:.2g} from float32 with the same weights"
            return failed(f"{reason}, in {mode} mode: another function", value=least, unit=UNIT)
        largest = max(largest, differences[-1])
    return passed("bfloat16 differs from float32 by rounding", value=largest, unit=UNIT)


def _noisy_model(subject: ExaminedModel, seed: int) -> nn.Module:
    """A new model; of the family, whose state is all in its tensors, a copy of the shared one."""
    if not subject.has_user_code and seed == _SEEDS[0]:
        model = subject.scratch()
        model.load_state_dict(subject.perturbed.model.state_dict())
        return model
    model = subject.make(seed)
    perturb(model, seed=seed)
    return model


def _logits(subject: ExaminedModel, model: nn.Module, mode: str) -> torch.Tensor:
    idx = subject.tokens(4 if subject.has_user_code else 1, seed=30)
    model.train(mode == "eval")  # a change of mode drops what was worked out in another dtype
    with in_mode(model, mode):
        return forward(model, idx).logits.float()
