"""Changed tokens move no logits before them and none of another sequence, in train and eval mode.

Catches scores transposed after the mask, averages over all tokens, attention without a mask and
statistics of a whole batch. Five published mechanisms read the future; one of them in training
only. Weights are perturbed and in float64, for a gate near zero hid one of the five.
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace

import torch

from assay.correctness.models.examined_model import ExaminedModel
from assay.correctness.models.finding import Comparison, Finding, compare, requirement, summarize
from assay.correctness.models.first_difference import ComparedCall, first_difference
from assay.correctness.models.forward import forward, in_mode
from assay.correctness.models.perturbation import PerturbedModel, dtype_name, signs_flipped

ORDER = 4
COMPARES_CALLS = True
DEBUG = (
    "The leak is in the code of the module that is first to differ. Look there for a transpose "
    "after masking, a mean, norm or softmax over time or batch, and branches on self.training."
)
_Call = tuple[torch.Tensor, ...]  # tokens, and targets or not
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
        plain = _Setting(perturbed=perturbed, mode=mode)
        crowded = plain.logits(rows)
        comparisons += _all_cuts(rows, crowded, plain)
        graphs = replace(plain, graphs=mode == "train")
        comparisons += _one_sequence(subject, crowded[:1], graphs)
        comparisons += _two_sequences(subject, graphs)
    flipped = _Setting(perturbed=perturbed, mode="train", flipped=True)
    comparisons += _all_cuts(rows, flipped.logits(rows), flipped)
    if subject.larger is not None and all(comparison.holds for comparison in comparisons):
        with subject.larger.size_in_errors():
            comparisons += _larger(subject.larger)
    dtype = dtype_name(perturbed.dtype)
    success = f"nothing moves ahead of a change, in {dtype}, train and eval mode"
    return summarize(comparisons, success=success)


@dataclass(frozen=True, kw_only=True)
class _Setting:
    """Manner of calling a model: its mode, whether graphs are built, with which signs."""

    perturbed: PerturbedModel
    mode: str
    graphs: bool = False
    flipped: bool = False
    size: str = ""

    @property
    def where(self) -> str:
        return f"in {self.mode} mode{self.size}"

    def logits(self, idx: torch.Tensor, targets: torch.Tensor | None = None) -> torch.Tensor:
        model = self.perturbed.model
        signs = signs_flipped(self.perturbed) if self.flipped else nullcontext()
        with in_mode(model, self.mode, graphs=self.graphs), signs:
            return forward(model, idx, targets).logits.detach()

    def locating(
        self, base: _Call, changed: _Call, *, sequence: int = 0, until: int | None = None
    ) -> Callable[[], str | None]:
        """Function that names the first module that differs between two calls, in one of their
        sequences and before a position."""

        def traced(call: _Call) -> ComparedCall:
            return ComparedCall(
                call=lambda: self.logits(*call),
                shape=(call[0].shape[0], call[0].shape[1]),
                sequence=sequence,
                end=until,
            )

        model, tolerance = self.perturbed.model, self.perturbed.same_shape_tolerance
        return lambda: first_difference(model, traced(base), traced(changed), tolerance=tolerance)


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


def _all_cuts(rows: torch.Tensor, logits: torch.Tensor, setting: _Setting) -> Iterator[Comparison]:
    """Compare row 0 with every changed row, before its first change."""
    length, perturbed = rows.shape[1], setting.perturbed
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
        f"on change, {setting.where}",
        locate=setting.locating((_unchanged(rows, row),), (rows,), sequence=row, until=cut),
    )
    yield _reads(moved[length:] > min(perturbed.new_shape_tolerance, _UNREAD), setting.where)


def _unchanged(rows: torch.Tensor, row: int) -> torch.Tensor:
    """The same rows with the base in one place."""
    rows = rows.clone()
    rows[row] = rows[0]
    return rows


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


def _one_sequence(
    subject: ExaminedModel, crowded: torch.Tensor, setting: _Setting
) -> Iterator[Comparison]:
    """Compare a sequence alone in its batch: last token changed, last ones left out, unchanged."""
    rows, last = changed_rows(subject), subject.length - 1
    tolerance, where = setting.perturbed.new_shape_tolerance, setting.where
    alone, changed = rows[:1], rows[last : last + 1]
    base = setting.logits(alone)
    locate = setting.locating((alone,), (changed,), until=last)
    yield _before(last, setting.logits(changed), base, setting, f"alone, {where}", locate)
    for length in _SHORT_LENGTHS[setting.mode]:
        which = "the first position" if length == 1 else f"the first {length} positions"
        message = f"logits of {which} move by %.2g when later ones follow, {where}"
        short = rows[:1, :length]
        locate = setting.locating((short,), (alone,), until=length)
        actual = setting.logits(short)
        yield compare(actual, base[:, :length], tolerance, message, locate=locate)
    message = f"logits of a sequence move by %.2g when others are in its batch, {where}"
    locate = setting.locating((alone,), (rows,))
    yield compare(crowded, base, tolerance, message, topic="batch", locate=locate)


def _two_sequences(subject: ExaminedModel, setting: _Setting) -> Iterator[Comparison]:
    """Change, with targets, the second half of one sequence, then all of the other."""
    rows, cut = changed_rows(subject), subject.length // 2
    first, second = rows[:1], subject.tokens(1, seed=5)
    targets, other_targets = subject.tokens(2, seed=4), subject.tokens(2, seed=6)
    base = (torch.cat([first, second]), targets)
    half = (torch.cat([rows[cut : cut + 1], second]), other_targets)
    other = (torch.cat([first, subject.tokens(1, seed=7)]), targets)
    logits, of_half, of_other = (setting.logits(*call) for call in (base, half, other))
    where, locate = f"with targets, {setting.where}", setting.locating(base, half, until=cut)
    yield _before(cut, of_half[:1], logits[:1], setting, where, locate)
    for number, call, changed in ((1, half, of_half), (0, other, of_other)):
        message = f"logits of sequence {number} move by %.2g when the other one changes, {where}"
        yield compare(
            changed[number],
            logits[number],
            setting.perturbed.same_shape_tolerance,
            message,
            topic="batch",
            locate=setting.locating(base, call, sequence=number),
        )


def _larger(larger: ExaminedModel) -> Iterator[Comparison]:
    """Change tokens of the larger model from two places on."""
    perturbed, base, other = larger.perturbed, larger.tokens(1, seed=2), larger.tokens(1, seed=3)
    cuts = [int(share * larger.length) for share in _FAR_CUTS]
    rows = torch.cat([base, *(torch.cat([base[:, :cut], other[:, cut:]], 1) for cut in cuts)])
    for mode in MODES:
        setting = _Setting(perturbed=perturbed, mode=mode, size=f", {larger.size_text}")
        logits = setting.logits(rows)
        for row, cut in enumerate(cuts, start=1):
            calls = (_unchanged(rows, row),), (rows,)
            locate = setting.locating(*calls, sequence=row, until=cut)
            changed = logits[row : row + 1]
            yield _before(cut, changed, logits[:1], setting, setting.where, locate)


def _before(
    cut: int,
    changed: torch.Tensor,
    base: torch.Tensor,
    setting: _Setting,
    where: str,
    locate: Callable[[], str | None],
) -> Comparison:
    message = f"logits before {cut} move by %.2g when tokens from there on change, {where}"
    tolerance = setting.perturbed.same_shape_tolerance
    return compare(changed[:, :cut], base[:, :cut], tolerance, message, locate=locate)
