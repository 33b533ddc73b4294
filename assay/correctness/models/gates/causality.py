"""Changed tokens move no logits before them and none of another sequence, in train and eval mode.

Catches scores transposed after the mask, averages over all tokens, attention without a mask and
statistics of a whole batch. Five published mechanisms read the future; one of them in training
only. Weights are perturbed and in float64, for a gate near zero hid one of the five.
"""

from collections.abc import Iterator

import torch

from assay.correctness.models.examined_model import ExaminedModel
from assay.correctness.models.finding import Comparison, Finding, compare, requirement, summarize
from assay.correctness.models.forward import forward, in_mode
from assay.correctness.models.perturbation import PerturbedModel, dtype_name, signs_flipped

ORDER = 4
COMPARES_CALLS = True
DEBUG = (
    "Change the last token and print the first position that moves after each block: the first "
    "block in which an earlier one moves has the leak. Look for a transpose after masking, a mean, "
    "norm or softmax over time or batch, and branches on self.training."
)
MODES = ("train", "eval")
_UNREAD = 1e-4  # of the largest logit: a token that moves less was not read, whatever the dtype
_SHORT_LENGTHS = {"train": (6,), "eval": (6, 1)}
_FAR_CUTS = (0.55, 0.97)  # of the longest sequence: where tokens of the larger model change


def examine(subject: ExaminedModel) -> Finding:
    """Change tokens at all cuts in one wide batch, then in calls with one and two sequences.

    Calls of one and two sequences in train mode build graphs, as training does.
    """
    perturbed = subject.perturbed
    rows = changed_rows(subject)
    comparisons: list[Comparison] = []
    for mode in MODES:
        where = f"in {mode} mode"
        with in_mode(perturbed.model, mode):
            crowded = _logits(perturbed, rows)
            comparisons += _all_cuts(rows, crowded, perturbed, where)
        with in_mode(perturbed.model, mode, graphs=mode == "train"):
            comparisons += _one_sequence(subject, crowded[:1], mode)
            comparisons += _two_sequences(subject, where)
    with in_mode(perturbed.model, "train"), signs_flipped(perturbed):
        comparisons += _all_cuts(rows, _logits(perturbed, rows), perturbed, "in train mode")
    if subject.larger is not None and all(comparison.holds for comparison in comparisons):
        with subject.larger.size_in_errors():
            comparisons += _larger(subject.larger)
    dtype = dtype_name(perturbed.dtype)
    success = f"nothing moves ahead of a change, in {dtype}, train and eval mode"
    return summarize(comparisons, success=success)


def changed_rows(subject: ExaminedModel) -> torch.Tensor:
    """[1 + 2 (T - 1), T]: the base, suffixes changed from 1, 2, ..., single changes at 1, 2, ..."""
    base = subject.tokens(1, seed=2)
    length, words = base.shape[1], subject.config.vocab_size
    other = subject.tokens(1, seed=3)
    other = torch.where(other == base, (base + 1) % words, other)
    cuts = torch.arange(1, length)[:, None]
    places = torch.arange(length)[None]
    return torch.cat(
        [base, torch.where(places >= cuts, other, base), torch.where(places == cuts, other, base)]
    )


def _all_cuts(
    rows: torch.Tensor, logits: torch.Tensor, perturbed: PerturbedModel, where: str
) -> Iterator[Comparison]:
    """Compare row 0 with every changed row, before its first change."""
    length = rows.shape[1]
    moved = (logits - logits[:1]).abs().amax(dim=-1) / logits[:1].abs().max()  # [rows, T]
    moved = torch.where(moved.isfinite(), moved, torch.inf)
    moved[~logits.isfinite().all(dim=-1)] = torch.inf
    before = (rows == rows[:1]).cumprod(dim=1).bool()  # [rows, T]: before a row's first change
    worst, place = (moved * before).nan_to_num(posinf=torch.inf).flatten().max(dim=0)
    row, position = divmod(int(place), length)
    cut = int(before[row].sum())
    yield Comparison(
        difference=float(worst),
        tolerance=perturbed.same_shape_tolerance,
        message=f"logits at position {position} move by {float(worst):.2g} when tokens from {cut} "
        f"on change, {where}",
    )
    yield _reads(moved[length:] > min(perturbed.new_shape_tolerance, _UNREAD), where)


def _reads(moved: torch.Tensor, where: str) -> Comparison:
    """Require that logits depend on their own and on earlier tokens: a blind model cannot leak.

    Row t of `moved` [T - 1, T] says which positions moved when token t + 1 changed.
    """
    own = bool(moved.diagonal(offset=1).all())
    earlier = bool(moved[:-1, -1].any())
    unread = "any token before it" if own else "its own token"
    return requirement(
        own and earlier, f"the logits of a position do not depend on {unread}, {where}"
    )


def _one_sequence(subject: ExaminedModel, crowded: torch.Tensor, mode: str) -> Iterator[Comparison]:
    """Compare a sequence alone in its batch: last token changed, last ones left out, unchanged."""
    perturbed, rows, last = subject.perturbed, changed_rows(subject), subject.length - 1
    where = f"in {mode} mode"
    base = _logits(perturbed, rows[:1])
    changed = _logits(perturbed, rows[last : last + 1])
    yield _before(last, changed, base, perturbed, f"alone, {where}")
    for length in _SHORT_LENGTHS[mode]:
        which = "the first position" if length == 1 else f"the first {length} positions"
        message = f"logits of {which} move by %.2g when later ones follow, {where}"
        short = _logits(perturbed, rows[:1, :length])
        yield compare(short, base[:, :length], perturbed.new_shape_tolerance, message)
    message = f"logits of a sequence move by %.2g when others are in its batch, {where}"
    yield compare(crowded, base, perturbed.new_shape_tolerance, message, topic="batch")


def _two_sequences(subject: ExaminedModel, where: str) -> Iterator[Comparison]:
    """Change, with targets, the second half of one sequence, then all of the other."""
    perturbed, rows, cut = subject.perturbed, changed_rows(subject), subject.length // 2
    where = f"with targets, {where}"
    first, second = rows[:1], subject.tokens(1, seed=5)
    targets, other_targets = subject.tokens(2, seed=4), subject.tokens(2, seed=6)
    base = _logits(perturbed, torch.cat([first, second]), targets)
    changed = _logits(perturbed, torch.cat([rows[cut : cut + 1], second]), other_targets)
    yield _before(cut, changed[:1], base[:1], perturbed, where)
    yield _other_sequence(1, changed, base, perturbed, where)
    changed = _logits(perturbed, torch.cat([first, subject.tokens(1, seed=7)]), targets)
    yield _other_sequence(0, changed, base, perturbed, where)


def _larger(larger: ExaminedModel) -> Iterator[Comparison]:
    """Change tokens of the larger model from two places on."""
    perturbed, base, other = larger.perturbed, larger.tokens(1, seed=2), larger.tokens(1, seed=3)
    cuts = [int(share * larger.length) for share in _FAR_CUTS]
    rows = torch.cat([base, *(torch.cat([base[:, :cut], other[:, cut:]], 1) for cut in cuts)])
    for mode in MODES:
        with in_mode(perturbed.model, mode):
            logits = _logits(perturbed, rows)
        where = f"in {mode} mode, {larger.size_text}"
        for row, cut in enumerate(cuts, start=1):
            yield _before(cut, logits[row : row + 1], logits[:1], perturbed, where)


def _before(
    cut: int, changed: torch.Tensor, base: torch.Tensor, perturbed: PerturbedModel, where: str
) -> Comparison:
    message = f"logits before {cut} move by %.2g when tokens from there on change, {where}"
    return compare(changed[:, :cut], base[:, :cut], perturbed.same_shape_tolerance, message)


def _other_sequence(
    number: int, changed: torch.Tensor, base: torch.Tensor, perturbed: PerturbedModel, where: str
) -> Comparison:
    message = f"logits of sequence {number} move by %.2g when the other one changes, {where}"
    tolerance = perturbed.same_shape_tolerance
    return compare(changed[number], base[number], tolerance, message, topic="batch")


def _logits(
    perturbed: PerturbedModel, idx: torch.Tensor, targets: torch.Tensor | None = None
) -> torch.Tensor:
    return forward(perturbed.model, idx, targets).logits.detach()
