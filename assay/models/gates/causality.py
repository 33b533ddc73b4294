"""Changed tokens move no logits before them and none of another sequence, in train and eval mode.

Catches scores transposed after the mask, averages over all tokens, attention without a mask and
statistics of a whole batch. Five published mechanisms read the future; one of them in training
only. Weights are awake and in float64, for a gate near zero hid one of the five.
"""

from collections.abc import Iterator

import torch

from assay.models.awake import Awake
from assay.models.finding import Finding
from assay.models.gates._comparison import Comparison, difference, mode, verdict
from assay.models.model_calls import call
from assay.models.subject import Subject

ORDER = 3
DEBUG = (
    "Change the last token and print the first position that moves after each block: the first "
    "block in which an earlier one moves has the leak. Look for a transpose after masking, a mean, "
    "norm or softmax over time or batch, and branches on self.training."
)
MODES = ("train", "eval")


def examine(subject: Subject) -> Finding:
    """All cuts at once in one wide batch, then in pairs of calls with one and two sequences."""
    seen: list[Comparison] = []
    for sign in (1.0, -1.0):
        awake = subject.awake(sign)
        for name in MODES:
            with mode(awake.model, name):
                seen += _all_cuts(subject, awake, f"in {name} mode")
                if sign > 0:
                    seen += _pairs(subject, awake, f"in {name} mode")
                    seen += _shortened(subject, awake, f"in {name} mode")
    dtype = str(subject.awake().dtype).removeprefix("torch.")
    return verdict(seen, held=f"nothing moves ahead of a change, in {dtype}, train and eval mode")


def _all_cuts(subject: Subject, awake: Awake, when: str) -> Iterator[Comparison]:
    """Row 0 as it is; for every t a row changed from t on, and a row changed only at t."""
    rows = changed_rows(subject)
    logits = call(awake.model, rows).logits.detach()
    last = subject.length - 1
    moved = (logits - logits[:1]).abs().amax(dim=-1) / logits[:1].abs().max()  # [rows, T]
    moved = torch.where(moved.isfinite(), moved, torch.inf)
    moved[~logits.isfinite().all(dim=-1)] = torch.inf
    ahead = rows == rows[:1]
    ahead = ahead.cumprod(dim=1).bool()  # positions before the first change of a row
    worst, place = (moved * ahead).nan_to_num(posinf=torch.inf).flatten().max(dim=0)
    row, position = divmod(int(place), subject.length)
    cut = int(ahead[row].sum())
    yield Comparison(
        moved=float(worst),
        allowed=awake.other,
        words=f"logits at position {position} move by {float(worst):.2g} when tokens from {cut} "
        f"on change, {when}",
    )
    yield _reaches(moved[1 + last :], when)


def _reaches(moved: torch.Tensor, when: str) -> Comparison:
    """A model that reads nothing cannot leak: its own token and some earlier one must count."""
    own = moved.diagonal(offset=1).min()  # token t + 1 at position t + 1
    earlier = moved[:-1, -1].max()
    blind = "its own token" if own == 0 else "any token before it"
    return Comparison(
        moved=0.0 if own > 0 and earlier > 0 else float("inf"),
        allowed=0.0,
        words=f"the logits of a position do not depend on {blind}, {when}",
    )


def changed_rows(subject: Subject) -> torch.Tensor:
    """[1 + 2 (T - 1), T]: the base, suffixes changed from 1, 2, ..., single changes at 1, 2, ..."""
    base = subject.tokens(1, seed=2)
    length = base.shape[1]
    other = (base + 1 + subject.tokens(1, seed=3) % (subject.config.vocab_size - 1)) % (
        subject.config.vocab_size
    )
    cuts = torch.arange(1, length)[:, None]
    places = torch.arange(length)[None]
    return torch.cat(
        [base, torch.where(places >= cuts, other, base), torch.where(places == cuts, other, base)]
    )


def _pairs(subject: Subject, awake: Awake, when: str) -> Iterator[Comparison]:
    """One and two sequences a call, with targets and without."""
    rows, length = changed_rows(subject), subject.length
    targets = subject.tokens(2, seed=4)
    for told in (False, True):
        words = f"with{'' if told else 'out'} targets, {when}"
        for cut in (length - 1,) if subject.fast else (length - 1, length // 2):
            one = _logits(awake, rows[:1], targets[:1] if told else None)
            new = _logits(awake, rows[cut : cut + 1], (targets[1:] if told else None))
            apart = difference(new[:, :cut], one[:, :cut])
            yield Comparison(
                moved=apart,
                allowed=awake.same,
                words=f"of one sequence, logits before {cut} move by {apart:.2g} when tokens from "
                f"there on change, {words}",
            )
        two = torch.cat([rows[:1], subject.tokens(1, seed=5)])
        one = _logits(awake, two, targets if told else None)
        for changed in (0, 1):
            new_two = two.clone()
            new_two[changed] = subject.tokens(1, seed=6)[0]
            new = _logits(awake, new_two, targets if told else None)
            apart = difference(new[1 - changed], one[1 - changed])
            yield Comparison(
                moved=apart,
                allowed=awake.same,
                words=f"logits of sequence {1 - changed} move by {apart:.2g} when sequence "
                f"{changed} changes, {words}",
            )


def _shortened(subject: Subject, awake: Awake, when: str) -> Iterator[Comparison]:
    """What follows a position does not exist for it: not its content, and not how long it is."""
    idx = subject.tokens(2, seed=7)
    full = _logits(awake, idx)
    for length in (1, 6) if subject.fast else (1, 6, subject.length - 1):
        apart = difference(_logits(awake, idx[:, :length]), full[:, :length])
        yield Comparison(
            moved=apart,
            allowed=awake.other,
            words=f"the first {length} logits move by {apart:.2g} when tokens follow, {when}",
        )


def _logits(awake: Awake, idx: torch.Tensor, targets: torch.Tensor | None = None) -> torch.Tensor:
    return call(awake.model, idx, targets).logits.detach()
