"""Changed tokens move no logits before them and none of another sequence, in train and eval mode.

Catches scores transposed after the mask, averages over all tokens, attention without a mask and
statistics of a whole batch. Five published mechanisms read the future; one of them in training
only. Weights are awake and in float64, for a gate near zero hid one of the five.
"""

from collections.abc import Iterator

import torch

from assay.correctness.models.awake import Awake, turned
from assay.correctness.models.finding import Finding
from assay.correctness.models.gates._comparison import Comparison, difference, mode, verdict
from assay.correctness.models.model_calls import call
from assay.correctness.models.subject import Subject

ORDER = 3
DEBUG = (
    "Change the last token and print the first position that moves after each block: the first "
    "block in which an earlier one moves has the leak. Look for a transpose after masking, a mean, "
    "norm or softmax over time or batch, and branches on self.training."
)
MODES = ("train", "eval")
_BLIND = 1e-4  # of the largest logit: what moves by less has not been read, whatever the dtype
_SHORT = {"train": (6,), "eval": (6, 1)}  # tokens of shorter calls
_FAR = (0.55, 0.97)  # of the longest sequence: where tokens of the larger model change


def examine(subject: Subject) -> Finding:
    """All cuts at once in one wide batch, then pairs of calls with one and two sequences; those
    in train mode build graphs, as training does."""
    awake = subject.awake
    rows = changed_rows(subject)
    seen: list[Comparison] = []
    for name in MODES:
        with mode(awake.model, name):
            crowded = _logits(awake, rows)
            seen += _all_cuts(rows, crowded, awake, f"in {name} mode")
        with mode(awake.model, name, graphs=name == "train"):
            seen += _one_sequence(subject, awake, crowded[:1], name)
            seen += _two_sequences(subject, awake, f"in {name} mode")
    with mode(awake.model, "train"), turned(awake):
        seen += _all_cuts(rows, _logits(awake, rows), awake, "in train mode")
    if subject.large is not None and all(one.holds for one in seen):
        with subject.large.told():
            seen += _far(subject.large)
    dtype = str(awake.dtype).removeprefix("torch.")
    return verdict(seen, held=f"nothing moves ahead of a change, in {dtype}, train and eval mode")


def _all_cuts(
    rows: torch.Tensor, logits: torch.Tensor, awake: Awake, when: str
) -> Iterator[Comparison]:
    """Row 0 as it is; for every t a row changed from t on, and a row changed only at t."""
    length = rows.shape[1]
    moved = (logits - logits[:1]).abs().amax(dim=-1) / logits[:1].abs().max()  # [rows, T]
    moved = torch.where(moved.isfinite(), moved, torch.inf)
    moved[~logits.isfinite().all(dim=-1)] = torch.inf
    ahead = rows == rows[:1]
    ahead = ahead.cumprod(dim=1).bool()  # positions before the first change of a row
    worst, place = (moved * ahead).nan_to_num(posinf=torch.inf).flatten().max(dim=0)
    row, position = divmod(int(place), length)
    cut = int(ahead[row].sum())
    yield Comparison(
        moved=float(worst),
        allowed=awake.same,
        words=f"logits at position {position} move by {float(worst):.2g} when tokens from {cut} "
        f"on change, {when}",
    )
    yield _reaches(moved[length:] > min(awake.other, _BLIND), when)


def _reaches(moved: torch.Tensor, when: str) -> Comparison:
    """A model that reads nothing cannot leak: its own token and some earlier one must count.

    Row t of `moved` [T - 1, T] says which positions moved when token t + 1 changed.
    """
    own = bool(moved.diagonal(offset=1).all())
    earlier = bool(moved[:-1, -1].any())
    blind = "any token before it" if own else "its own token"
    return Comparison(
        moved=0.0 if own and earlier else float("inf"),
        allowed=0.0,
        words=f"the logits of a position do not depend on {blind}, {when}",
    )


def changed_rows(subject: Subject) -> torch.Tensor:
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


def _one_sequence(
    subject: Subject, awake: Awake, crowded: torch.Tensor, name: str
) -> Iterator[Comparison]:
    """Alone in its batch: the last token changed, the last ones left out, and as it is."""
    rows, last, when = changed_rows(subject), subject.length - 1, f"in {name} mode"
    base = _logits(awake, rows[:1])
    yield _before(last, _logits(awake, rows[last : last + 1]), base, awake.same, f"alone, {when}")
    for length in _SHORT[name]:
        apart = difference(_logits(awake, rows[:1, :length]), base[:, :length])
        which = "the first position" if length == 1 else f"the first {length} positions"
        words = f"logits of {which} move by {apart:.2g} when later ones follow"
        yield Comparison(moved=apart, allowed=awake.other, words=f"{words}, {when}")
    apart = difference(crowded, base)
    words = f"logits of a sequence move by {apart:.2g} when others are in its batch, {when}"
    yield Comparison(moved=apart, allowed=awake.other, words=words, about="batch")


def _far(large: Subject) -> Iterator[Comparison]:
    """The larger model, changed from two places on."""
    awake, base, other = large.awake, large.tokens(1, seed=2), large.tokens(1, seed=3)
    cuts = [int(share * large.length) for share in _FAR]
    rows = torch.cat([base, *(torch.cat([base[:, :cut], other[:, cut:]], 1) for cut in cuts)])
    for name in MODES:
        with mode(awake.model, name):
            logits = _logits(awake, rows)
        for row, cut in enumerate(cuts, start=1):
            words = f"in {name} mode, {large.size}"
            yield _before(cut, logits[row : row + 1], logits[:1], awake.same, words)


def _two_sequences(subject: Subject, awake: Awake, when: str) -> Iterator[Comparison]:
    """With targets: the second half of one changed, then all of the other."""
    rows, cut = changed_rows(subject), subject.length // 2
    words = f"with targets, {when}"
    first, second = rows[:1], subject.tokens(1, seed=5)
    targets, others = subject.tokens(2, seed=4), subject.tokens(2, seed=6)
    base = _logits(awake, torch.cat([first, second]), targets)
    new = _logits(awake, torch.cat([rows[cut : cut + 1], second]), others)
    yield _before(cut, new[:1], base[:1], awake.same, words)
    yield _other(1, new, base, awake.same, words)
    new = _logits(awake, torch.cat([first, subject.tokens(1, seed=7)]), targets)
    yield _other(0, new, base, awake.same, words)


def _before(
    cut: int, new: torch.Tensor, base: torch.Tensor, allowed: float, words: str
) -> Comparison:
    apart = difference(new[:, :cut], base[:, :cut])
    told = f"logits before {cut} move by {apart:.2g} when tokens from there on change, {words}"
    return Comparison(moved=apart, allowed=allowed, words=told)


def _other(
    number: int, new: torch.Tensor, base: torch.Tensor, allowed: float, words: str
) -> Comparison:
    apart = difference(new[number], base[number])
    told = f"logits of sequence {number} move by {apart:.2g} when the other one changes, {words}"
    return Comparison(moved=apart, allowed=allowed, words=told, about="batch")


def _logits(awake: Awake, idx: torch.Tensor, targets: torch.Tensor | None = None) -> torch.Tensor:
    return call(awake.model, idx, targets).logits.detach()
